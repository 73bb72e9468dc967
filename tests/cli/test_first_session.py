# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of the tutorial about the command line go as the page says, word by word."""

import json
import re

from tests.operator_folder import write_operator_folder
from tests.pages import block_with, commands
from tests.terminal import Terminal, free_port

PORT = '8450'


def test_the_first_session_goes_as_the_page_says(tmp_path):
    """Emulate, inventory, plan, apply, verify, a tenant's write, certificate, unlock: on the folder that the demo leaves."""
    folder = write_operator_folder(tmp_path)
    demo, path, enter, emulate, *words = (command.words for command in commands('command_line', before='Over IPMI'))
    assert ("make demo DEMO_ARGS='--state /tmp/acc'", 'cd /tmp/acc/operator') == (demo, enter)
    assert path.startswith('export PATH=')
    terminal = Terminal(folder)
    say = terminal.say
    with terminal.emulating(emulate):
        inventory, plan, apply, verify, door, write, issue, check, unlock, again = words
        assert 4 == terminal.must(inventory).count('unlocked')
        assert [3, 0, 0] == [say(line).code for line in (plan, apply, verify)]
        found = terminal.must(inventory)
        assert 4 == found.count('locked') - found.count('unlocked')
        refused = json.loads(terminal.must(f'{door}\n{write}'))
        assert (False, 'locked') == (refused['written'], refused['code'])
        assert [0, 0, 0, 3] == [say(line).code for line in (issue, check, unlock, again)]
        assert 4 == terminal.must(inventory).count('unlocked')


def test_the_session_over_ipmi_goes_as_the_page_says(tmp_path):
    """Emulate, inventory, build two images, plan, apply, verify: with the documents and exit codes of the pages."""
    port = free_port()
    session = [command.words.replace(PORT, port) for command in commands('command_line', after='Over IPMI')]
    emulate, make, password, look, new, old, plan, apply, verify = session
    terminal = Terminal(tmp_path)
    say = terminal.say
    with terminal.emulating(emulate):
        assert [0, 0] == [say(words).code for words in (make, password)]
        assert (0, True) == ((found := say(look)).code, 'FPGA1_FW 2.00' in found.out)
        said = [say(words).out for words in (new, old)]
        digests = [re.findall('sha256:[0-9a-f]{64}', text)[0] for text in said]
        (tmp_path / 'bmcs.yaml').write_text(block_with('command_line', 'yaml', 'rack1-node9').replace(PORT, port))
        rule = block_with('baseline', 'toml', 'fpga-over-ipmi')
        (tmp_path / 'baseline.toml').write_text(f'format = 1\n{rule}')
        image = block_with('catalogue', 'toml', 'fpga-2.1.hpm')
        assert [digests[0]] == re.findall('sha256:[0-9a-f]{64}', image)
        assert all('size 65800, ' in text for text in said)
        back = image.replace('fpga-2.0', 'none').replace('fpga-2.1', 'fpga-2.0').replace('2.01', '2.00').replace(*digests)
        (tmp_path / 'catalogue.toml').write_text(f'format = 1\n{image}{back}')
        assert [3, 0, 0] == [say(words).code for words in (plan, apply, verify)]
        assert 'FPGA1_FW 2.01' in terminal.must(look)
