# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The folder that an attacker changes: an operator's folder in which all is honest, and everything in it can be changed.

The machine is an ``acc-server``: GPUs, an FPGA card, a DPU. The baseline wants new firmware and a function for the FPGA card;
the catalogue has both, the firmware that runs now as the way back, and firmware for the GPUs. What the tests assert of refusals
is worth something only because :mod:`tests.malicious.test_honest` shows that, unchanged, all of it is written.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from baremetal_acc.cli import session
from baremetal_acc.emulator.image import build_image
from baremetal_acc.execution import Target, Tools
from tests.cli.desk import Done, target_of

TREE = Path(__file__).parents[2]

OLD = '2.0.0'
NEW = '2.1.4'
"""Firmware of the FPGA card: what runs, and what is wanted."""

MAX_IMAGE = 1_000_000
"""Bytes that the BMCs take."""

FPGA = '[{ pci = "0x8086:0x0b2b" }]'
GPU = '[{ pci = "0x10de:0x2330" }]'

BASELINE = f"""
format = 1

[[rule]]
name = "fpga"
match = {{ kind = "FPGA" }}
firmware = {{ FPGA1_FW = "{NEW}" }}
functions = {{ Slot0 = "gzip" }}
"""

CONF = {
    'poll_interval': '0.1',
    'settle_timeout': '5',
    'reset_timeout': '20',
    'job_timeout': '60',
    'bmc_timeout': '5',
}

RUN_SECONDS = 40
"""A refusal takes a second; what hangs is killed and fails its test."""

Entry = dict[str, str]
"""One ``[[image]]``: key to value, as they stand in the file."""


@dataclass(frozen=True, slots=True)
class Command:
    """The command, imported once: see :mod:`tests.malicious.serve`."""

    server: 'subprocess.Popen[str]'

    @classmethod
    def start(cls) -> 'Command':
        """Import it."""
        server = subprocess.Popen(
            [sys.executable, '-m', 'tests.malicious.serve'],
            cwd=TREE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return cls(server)

    def run(self, folder: Path, arguments: tuple[str, ...]) -> Done:
        """One run, in a folder."""
        assert self.server.stdin is not None
        assert self.server.stdout is not None
        out, err = folder / '.out', folder / '.err'
        asked = {
            'arguments': arguments,
            'folder': str(folder),
            'environ': {
                'HOME': str(folder),
                'XDG_STATE_HOME': str(folder / 'state'),
                'COLUMNS': '200',
                'PATH': '/usr/bin:/bin',
            },
            'out': str(out),
            'err': str(err),
            'seconds': RUN_SECONDS,
        }
        self.server.stdin.write(json.dumps(asked) + '\n')
        self.server.stdin.flush()
        code = json.loads(self.server.stdout.readline())['code']
        return Done(code=code, out=out.read_text(), err=err.read_text())

    def stop(self) -> None:
        """No more runs."""
        assert self.server.stdin is not None
        self.server.stdin.close()
        assert 0 == self.server.wait(RUN_SECONDS)
        if self.server.stdout is not None:
            self.server.stdout.close()


def entry(path: Path, data: bytes, *, kind: str = 'firmware', fits: str = FPGA, **more: str) -> Entry:
    """An honest entry of an image that is put at a path beside the catalogue.

    :param more: further keys as they stand in the file.
    """
    path.write_bytes(data)
    return {
        'kind': f'"{kind}"',
        'fits': fits,
        'security_version': '2',
        'source': json.dumps(path.name),
        'size': str(len(data)),
        'digest': f'"sha256:{hashlib.sha256(data).hexdigest()}"',
    } | more


@dataclass(kw_only=True)
class Workshop:
    """The operator's folder. Nothing of it but the images is on disk before :meth:`lay`.

    :ivar head: lines of the catalogue before its images.
    :ivar images: its images, by name.
    :ivar tail: text behind them.
    :ivar command: how the command is run, for tests that run it.
    :ivar catalogue: by which path the command is given it.
    :ivar edit: what is done with the finished text of the catalogue.
    :ivar after: called when everything is on disk, such as to sign it, and then to change it.
    """

    folder: Path
    machine: Any
    command: Command | None = None
    head: list[str] = field(default_factory=lambda: ['format = 1'])
    images: dict[str, Entry] = field(default_factory=dict)
    tail: str = ''
    baseline: str = BASELINE
    conf: dict[str, str] = field(default_factory=lambda: dict(CONF))
    catalogue: str = 'catalogue.toml'
    edit: Callable[[str], str | bytes] = str
    after: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        def firmware(name: str, version: str, restore: str) -> Entry:
            data = build_image(model='d5005', component='fpga', version=version, security_version=2, size_bytes=20_000)
            more = {'version': f'"{version}"', 'restore': f'"{restore}"', 'apply': reset}
            return entry(self.path(f'{name}.img'), data, component='"FPGA1_FW"', **more)

        gzip = build_image(kind='function', model='d5005', component='slot', version='3.1', function='gzip', size_bytes=9_000)
        gpu = build_image(model='h100', component='gpu', version='96.00.74.00.0D', security_version=2, size_bytes=9_000)
        reset = '{ reset = "power-cycle" }'
        self.images = {
            'fpga-new': firmware('fpga-new', NEW, 'fpga-old'),
            'fpga-old': firmware('fpga-old', OLD, 'none'),
            'gzip-3': entry(
                self.path('gzip-3.img'), gzip, kind='function', component='"Slot*"', version='"3.1"', function='"gzip"'
            ),
            'gpu-new': entry(
                self.path('gpu-new.img'),
                gpu,
                fits=GPU,
                component='"HGX_FW_GPU_*"',
                version='"96.00.74.00.0D"',
                restore='"none"',
                apply=reset,
            ),
        }

    def step(self, **other: str) -> Path:
        """Let the wanted image go over 2.0.9 only, which another image brings. The file of that one.

        :param other: keys of its entry in place of the honest ones.
        """
        path = self.path('fpga-step.img')
        data = build_image(model='d5005', component='fpga', version='2.0.9', security_version=2, size_bytes=20_000)
        honest = {'component': '"FPGA1_FW"', 'version': '"2.0.9"', 'restore': '"fpga-old"'}
        self.images['fpga-step'] = entry(path, data) | honest | other
        self.new['apply'] = '{ reset = "power-cycle", via = ["2.0.9"] }'
        return path

    @property
    def new(self) -> Entry:
        """The image that is to be written."""
        return self.images['fpga-new']

    @property
    def new_file(self) -> Path:
        """Its file."""
        return self.path('fpga-new.img')

    def path(self, name: str) -> Path:
        """A file of the folder."""
        return self.folder / name

    @property
    def outside(self) -> Path:
        """A folder beside the operator's, which images may not lie in."""
        folder = self.folder.with_name('outside')
        folder.mkdir(exist_ok=True)
        return folder

    def describe(self, name: str, data: bytes) -> None:
        """Let the catalogue tell the truth about other bytes."""
        self.images[name] |= {'size': str(len(data)), 'digest': f'"sha256:{hashlib.sha256(data).hexdigest()}"'}

    def text(self) -> str:
        """The catalogue."""
        lines = list(self.head)
        for name, keys in self.images.items():
            lines += ['', '[[image]]', f'name = {json.dumps(name, ensure_ascii=False)}']
            lines += [f'{key} = {value}' for key, value in keys.items()]
        return '\n'.join(lines) + '\n' + self.tail

    def lay(self) -> None:
        """Write everything."""
        found = self.edit(self.text())
        self.path('catalogue.toml').write_bytes(found if isinstance(found, bytes) else found.encode())
        self.path('baseline.toml').write_text(self.baseline)
        lines = [f'{name} = {value}' for name, value in self.conf.items()]
        self.path('acc.conf').write_text('\n'.join(['[baremetal_acc]', *lines]) + '\n')
        target = target_of(self.machine) | {'exposure': 'none'}
        bmcs = self.path('bmcs.yaml')
        bmcs.touch(0o600)
        bmcs.write_text(yaml.safe_dump({'format': 1, 'targets': {'node-1': target}}))
        for step in self.after:
            step()

    def session(self) -> tuple[Target, Tools]:
        """What the command works with, for a test that turns the job itself."""
        parser = argparse.ArgumentParser()
        session.add_arguments(parser, writes=True)
        given = ('--bmcs', str(self.path('bmcs.yaml')), *(str(self.path(o)) if '.' in o else o for o in self.options))
        using = session.begin(parser.parse_args(given), writes=True, environ={'XDG_STATE_HOME': str(self.path('state'))})
        return using.target(using.entries[0]), using.tools()

    @property
    def options(self) -> tuple[str, ...]:
        """The documents of this folder."""
        return ('--config-file', 'acc.conf', '--baseline', 'baseline.toml', '--catalogue', self.catalogue)

    def run(self, *arguments: str) -> Done:
        """Run the command."""
        assert self.command is not None
        return self.command.run(self.folder, arguments)

    def apply(self) -> Done:
        """What the operator does."""
        return self.run('apply', '--execute', *self.options)

    def refused(self, code: int) -> str:
        """Lay it and apply it: that ends with this code, in one line, and nothing has been written to a BMC. The line."""
        self.lay()
        done = self.apply()
        assert code == done.code, done.err
        assert 1 == len(done.errors), done.err
        assert 'Traceback' not in done.err
        assert [] == reached(self.machine)
        return done.errors[0]


def unsaid(error: str, says: Iterable[str]) -> list[str]:
    """What a line does not say, and the line itself if that is anything."""
    missing = [text for text in says if text not in error]
    return [*missing, error] if missing else []


def reached(machine: Any) -> list[str]:
    """Everything that reached a BMC and was meant to change it, with the number of its bytes. Logins are left out."""
    return [f'{e["bmc"]} {e["method"]} {e["path"]}: {e["received_bytes"]} bytes' for e in machine.log()]


def pushed(machine: Any) -> list[tuple[str, int]]:
    """Digest and size of every image that reached a BMC."""
    return [(e['digest'], e['received_bytes']) for e in machine.log() if e['path'].endswith('/update-multipart')]


def asked(machine: Any) -> int:
    """How many requests of any kind all BMCs have seen."""
    return sum(bmc['total'] for bmc in machine.counters().values())


def flipped(data: bytes, position: int) -> bytes:
    """The bytes with one bit changed."""
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


def told(path: Path) -> tuple[str, int]:
    """Digest and size of a file, as :func:`pushed` tells what arrived."""
    data = path.read_bytes()
    return f'sha256:{hashlib.sha256(data).hexdigest()}', len(data)
