# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator sees, word by word: golden transcripts of the command on the emulator.

A transcript is a file of commands (lines that begin with ``$``), what each printed on standard error and standard output, and
its exit code. Run with ``BAREMETAL_ACC_TRANSCRIPTS=write`` to write them anew, then read the difference.
"""

import os
import re
import shlex
from pathlib import Path

import pytest
import yaml

from tests.cli.desk import Desk, Done, target_of

HERE = Path(__file__).parent

SESSIONS = {
    'help': ('--help', 'apply --help', 'pool apply --help', 'pool watch --help', 'emulate --help', 'demo --help'),
    'life': (
        'inventory',
        'plan OPTIONS',
        'apply OPTIONS --execute',
        'inventory -f csv -c Kind -c Model -c Lock',
        'plan OPTIONS',
        'verify OPTIONS',
        'unlock OPTIONS --device IN15494610198 --execute',
        'verify OPTIONS --unmet -c Device -c Subject -c Expected',
        'lock OPTIONS --execute',
        'verify OPTIONS -f value -c Subject -c Met',
    ),
    'fleet': (
        'inventory --help',
        'inventory --bmcs fleet.yaml',
        'inventory --bmcs fleet.yaml node-1 -f csv',
        'inventory --bmcs typo.jsonl',
    ),
    'demand': (
        'pool demand add --help',
        'pool demand add --config-file acc.conf --catalogue catalogue.toml aes --resource-class gold --id req-1',
        'pool demand add --config-file acc.conf --catalogue catalogue.toml brotli',
        'pool demand list -c Id -c Function -c Class -c State',
        'pool demand drop req-1 req-2 -f value -c Id',
        'pool demand list -f json',
    ),
    'refused': (
        'program OPTIONS --slot Slot7=gzip',
        'program OPTIONS --slot Slot0=bzip',
        'plan OPTIONS --device nothing',
        'apply OPTIONS --execute --target nod-1',
        'publish OPTIONS',
        'reshape plan OPTIONS --class gpu',
        'reshape apply OPTIONS',
        'pool plan --pools pools.toml',
        'pool plan --pools wrong.toml',
        'pool apply',
        'pool watch --pools pools.toml',
        'pool watch --execute --pools pools.toml --interval 0',
        'inventry',
        'plan OPTIONS --exposed=tenant',
    ),
}


def normal(text: str, desk: Desk) -> str:
    """The text without what differs from run to run: folders, ports, times, processes."""
    text = text.replace(str(desk.folder), 'FOLDER')
    text = re.sub(r'127\.0\.0\.1:\d+', '127.0.0.1:PORT', text)
    text = re.sub(r'\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ', 'TIME', text)
    text = re.sub(r'process \d+', 'process PID', text)
    text = re.sub(r'\btook (\d+ min )?\d+ s\b', 'took SECONDS', text)
    return '\n'.join(line.rstrip() for line in text.splitlines())


def transcript(desk: Desk, commands: tuple[str, ...]) -> str:
    """What the commands print, one after another."""
    parts = []
    for line in commands:
        arguments = [a for word in shlex.split(line) for a in (desk.options if word == 'OPTIONS' else [word])]
        done: Done = desk.run(*arguments)
        told = [f'$ baremetal-acc {" ".join(arguments)}', normal(done.err, desk), normal(done.out, desk), f'[{done.code}]']
        parts.append('\n'.join(filter(None, told)))
    return '\n\n'.join(parts) + '\n'


@pytest.mark.parametrize('name', SESSIONS)
def test_the_command_says_what_it_said(name, tmp_path, emulated_machine):
    """The transcript of a session is the one that is stored."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    desk = Desk(folder=tmp_path)
    desk.prepare(machine)
    desk.write(
        'baseline.toml',
        'format = 1\n[[rule]]\nname = "fpga"\nmatch = { kind = "FPGA" }\nfirmware = { FPGA1_FW = "2.1.4" }\n'
        'functions = { Slot0 = "gzip" }\nblock = ["host-device"]\n',
    )
    two = {'dead': target_of(machine, address='https://127.0.0.1:9'), 'node-1': target_of(machine)}
    desk.write('fleet.yaml', yaml.safe_dump({'format': 1, 'targets': two}, sort_keys=False))
    desk.write('pools.toml', 'format = 1\n[[pool]]\nfunction = "gzip"\nfree = 2\n')
    desk.write('wrong.toml', 'format = 1\n[[pool]]\nfunction = "gzip"\nfre = 2\n')
    desk.write('typo.jsonl', '{"target": "node-1", "redfish_adress": "https://192.0.2.1"}\n')
    found = transcript(desk, SESSIONS[name])
    stored = HERE / f'{name}.txt'
    if os.environ.get('BAREMETAL_ACC_TRANSCRIPTS') == 'write':
        stored.write_text(found, encoding='utf-8')
    assert stored.read_text(encoding='utf-8') == found
