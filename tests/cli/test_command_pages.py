# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the reference of the command line, and of the page of the emulator, do what these pages say."""

import json
import shutil
from pathlib import Path

import pytest
import requests
import yaml

from tests.operator_folder import write_operator_folder
from tests.page_runs import run_on
from tests.terminal import Terminal


@pytest.fixture(scope='module')
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's operator folder."""
    return write_operator_folder(tmp_path_factory.mktemp('demo'))


def test_the_commands_of_the_page_of_the_emulator(tmp_path):
    """Emulate a server and a tray; images have the digests that the page shows; a write of a tenant is refused."""
    emulate, package, send, door, build, write, upgrade = run_on('emulator')
    terminal = Terminal(tmp_path, {'NO_PROXY': '*'})
    with terminal.emulating(emulate.words):
        said = (tmp_path / 'running.out').read_text().splitlines()
        assert [line.partition(' ')[0] for line in emulate.output.splitlines()] == [line.partition(' ')[0] for line in said]
        terminal.must(build.words)
        host = json.loads((tmp_path / 'ready.json').read_text())['bmcs']['host']
        with requests.Session() as client:
            client.trust_env = False
            client.auth, client.verify = (host['username'], host['password']), host['verify_ca']
            trusted = f'{host["address"]}/redfish/v1/Chassis/HGX_ERoT_GPU_0'
            tag = client.get(trusted).headers['ETag']
            body = {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False}}}
            assert client.patch(trusted, json=body, headers={'If-Match': tag}).ok
        refused = json.loads(terminal.must(f'{door.words}\n{write.words}'))
        assert json.loads(write.output) == refused
    assert upgrade.output == terminal.must(upgrade.words).rstrip()
    (tmp_path / 'ready.json').unlink()
    terminal.must(package.words)
    with terminal.emulating('baremetal-acc emulate hgx-tray --ready-file ready.json --flash-seconds 0.2'):
        bmc = json.loads((tmp_path / 'ready.json').read_text())['bmcs']['host']
        terminal.environ |= {'BMC': bmc['address'], 'CA': bmc['verify_ca'], 'PASSWORD': bmc['password']}
        assert '#Task.' in json.loads(terminal.must(send.words))['@odata.type']


def test_the_commands_of_the_reference(tmp_path, folder):
    """A list on standard input, a fleet into a file, the same command again, a backup of the database while it is used."""
    listed, streamed, fleet, apply, backup = run_on('cli')
    terminal = Terminal(tmp_path, {'PW': ''})
    del terminal.environ['XDG_STATE_HOME']
    with terminal.emulating(
        'baremetal-acc emulate acc-server --flash-seconds 0.2 --ready-file ready.json --bmcs-file fleet.yaml'
    ):
        targets = yaml.safe_load((tmp_path / 'fleet.yaml').read_text())['targets']
        bmcs = targets['acc-server']['bmcs']
        shown = json.loads(listed.output)
        assert {'target', 'bmcs'} == shown.keys()
        line = json.dumps(shown | {'bmcs': {'host': {key: bmcs['host'][key] for key in ('address', 'username', 'verify_ca')}}})
        terminal.environ['PW'] = bmcs['host']['password']
        (tmp_path / 'bin').mkdir()
        program = tmp_path / 'bin' / 'your-inventory'
        given = json.loads(line)
        given['bmcs']['host']['password_env'] = shown['bmcs']['host']['password_env']
        program.write_text(f"#!/bin/sh\necho '{json.dumps(given)}'\n")
        program.chmod(0o755)
        terminal.environ['PATH'] = f'{program.parent}:{terminal.environ["PATH"]}'
        assert given == json.loads(terminal.must(listed.words))
        assert 'rack1-node7' == json.loads(terminal.must(streamed.words))['target']
        terminal.must(fleet.words)
        [row] = [json.loads(text) for text in (tmp_path / 'fleet.jsonl').read_text().splitlines()]
        assert ('acc-server', 4) == (row['target'], len(row['accelerators']))
        (tmp_path / 'bmcs.yaml').write_text((tmp_path / 'fleet.yaml').read_text().replace('acc-server:', 'rack1-node7:'))
        (tmp_path / 'bmcs.yaml').chmod(0o600)
        shutil.copy(folder / 'baremetal_acc.conf', tmp_path)
        terminal.must(apply.words)
        if shutil.which('sqlite3'):
            (tmp_path / 'backup').mkdir()
            terminal.must(backup.words.replace('/backup', str(tmp_path / 'backup')))
            assert (tmp_path / 'backup' / 'state.sqlite').read_bytes().startswith(b'SQLite format 3')
