# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions of the tutorial about the command line go as the page says, word by word."""

import json
import os
import re
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from baremetal_acc.demo import documents
from baremetal_acc.emulator.tls import write_private
from tests.pages import path_of

PORT = '8450'
MODELS = {'gpu': 'h100', 'fpga': 'd5005', 'slot': 'd5005', 'nic': 'bluefield3'}
"""Models of the cards of an acc-server, by the part that an image is for."""
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


class Session:
    """A terminal in a folder, next to another one in which an emulated machine runs."""

    def __init__(self, folder, emulate):
        path = f'{Path(sys.executable).parent}:{os.environ["PATH"]}'
        self._environ = {'PATH': path, 'HOME': str(folder), 'XDG_STATE_HOME': str(folder / 'state'), 'COLUMNS': '200'}
        self._folder, self._emulate = folder, emulate

    def __enter__(self):
        self._process = subprocess.Popen(self._emulate.split(), cwd=self._folder, env=self._environ, stdout=subprocess.DEVNULL)
        end = time.monotonic() + SECONDS
        while not (self._folder / 'ready.json').exists():
            assert self._process.poll() is None, 'emulate has ended'
            assert time.monotonic() < end
            time.sleep(0.05)
        return self._say

    def __exit__(self, *_):
        self._process.terminate()
        assert 0 == self._process.wait(20)

    def _say(self, words):
        done = subprocess.run(
            words, shell=True, cwd=self._folder, env=self._environ, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return done.returncode, done.stdout


def test_the_first_session_goes_as_the_page_says(tmp_path):
    """Emulate, inventory, plan, apply, verify, a tenant's write, certificate, unlock: on the folder that the demo leaves."""
    folder = tmp_path / 'operator'
    documents.write_conf(folder)
    documents.write_trust(folder)
    documents.write_baseline(folder)
    documents.write_catalogue(folder, documents.CATALOGUE, documents.write_images(folder, documents.CATALOGUE, MODELS))
    documents.write_images(folder / 'tenant', documents.TENANTS, MODELS)
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(tmp_path / 'certificate.pem', key)
    session = path_of('command_line').read_text(encoding='utf-8').partition('\nOver IPMI\n')[0]
    demo, path, enter, emulate, *words = re.findall(r'^    \$ (.*)$', session, re.MULTILINE)
    assert ("make demo DEMO_ARGS='--state /tmp/acc'", 'cd /tmp/acc/operator') == (demo, enter)
    assert path.startswith('export PATH=')
    with Session(folder, emulate) as say:
        inventory, plan, apply, verify, door, write, issue, check, unlock, again = words
        assert (0, 4) == ((found := say(inventory))[0], found[1].count('unlocked'))
        assert [3, 0, 0] == [say(line)[0] for line in (plan, apply, verify)]
        assert (0, 4) == ((found := say(inventory))[0], found[1].count('locked') - found[1].count('unlocked'))
        code, refused = say(f'{door}\n{write}')
        assert (0, False, 'locked') == (code, json.loads(refused)['written'], json.loads(refused)['code'])
        assert [0, 0, 0, 3] == [say(line)[0] for line in (issue, check, unlock, again)]
        assert 4 == say(inventory)[1].count('unlocked')


def test_the_session_over_ipmi_goes_as_the_page_says(tmp_path):
    """Emulate, inventory, build two images, plan, apply, verify: with the documents and exit codes of the pages."""
    session = path_of('command_line').read_text(encoding='utf-8').partition('\nOver IPMI\n')[2].replace(PORT, free_port())
    emulate, make, password, look, new, old, plan, apply, verify = re.findall(r'^    \$ (.*)$', session, re.MULTILINE)
    with Session(tmp_path, emulate) as say:
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
