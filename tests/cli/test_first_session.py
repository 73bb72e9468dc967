# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The first session over IPMI goes as the page about the command line says, word by word."""

import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from tests.pages import path_of

PORT = '8450'
SECONDS = 60


def blocks(page, language):
    """The blocks of code of a page."""
    text = path_of(page).read_text(encoding='utf-8')
    found = re.findall(rf'^\.\. code-block:: {language}\n\n((?:(?: +.*)?\n)+)', text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def one(found, word):
    """The block that has a word."""
    (block,) = (block for block in found if word in block)
    return block


def free_port():
    """One that no BMC has, for TCP and UDP."""
    with socket.create_server(('127.0.0.1', 0)) as bound:
        return str(bound.getsockname()[1])


def test_the_first_session_over_ipmi_goes_as_the_page_says(tree, tmp_path):
    """Emulate, look, build two images, plan, apply, verify: with the documents of the pages, and the exit codes of this one."""
    page = (tree / 'doc' / 'source' / 'reference' / 'cli.rst').read_text(encoding='utf-8')
    port = free_port()
    session = page.partition('**Over IPMI** it goes')[2].partition('\nTargets\n')[0].replace(PORT, port)
    emulate, make, password, look, new, old, plan, apply, verify = re.findall(r'^    \$ (.*)$', session, re.MULTILINE)
    path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
    environ = {'PATH': path, 'HOME': str(tmp_path), 'XDG_STATE_HOME': str(tmp_path / 'state'), 'COLUMNS': '200'}

    def say(words):
        done = subprocess.run(
            words, shell=True, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return done.returncode, done.stdout

    process = subprocess.Popen(emulate.split(), cwd=tmp_path, env=environ, stdout=subprocess.DEVNULL)
    try:
        end = time.monotonic() + SECONDS
        while not (tmp_path / 'ready.json').exists():
            assert process.poll() is None, 'emulate has ended'
            assert time.monotonic() < end
            time.sleep(0.05)
        assert [0, 0] == [say(words)[0] for words in (make, password)]
        assert (0, True) == ((found := say(look))[0], 'FPGA1_FW 2.00' in found[1])
        said = [say(words)[1] for words in (new, old)]
        digests = [re.findall('sha256:[0-9a-f]{64}', text)[0] for text in said]
        bmcs = textwrap.dedent(session.partition('.. code-block:: yaml\n')[2].partition('\n``baseline.toml``')[0])
        (tmp_path / 'bmcs.yaml').write_text(bmcs)
        rule = one(blocks('baseline', 'toml'), 'fpga-over-ipmi')
        (tmp_path / 'baseline.toml').write_text(f'format = 1\n{rule}')
        image = one(blocks('catalogue', 'toml'), 'fpga-2.1.hpm')
        assert [digests[0]] == re.findall('sha256:[0-9a-f]{64}', image)
        assert all('size 65800, ' in text for text in said)
        back = image.replace('fpga-2.0', 'none').replace('fpga-2.1', 'fpga-2.0').replace('2.01', '2.00').replace(*digests)
        (tmp_path / 'catalogue.toml').write_text(f'format = 1\n{image}{back}')
        assert [3, 0, 0] == [say(words)[0] for words in (plan, apply, verify)]
        assert 'FPGA1_FW 2.01' in say(look)[1]
    finally:
        process.terminate()
        assert 0 == process.wait(20)
