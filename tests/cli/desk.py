# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An operator's files for the tests: bmcs.yaml, images and catalogue, a baseline, a state folder; and the command itself."""

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.cli.imported_once import Command

NEW_GPU = '96.00.74.00.0D'
NEW_FPGA = '2.1.4'

RECORDINGS = (
    'dell/r750-h100-bluefield2',
    'dmtf/rackmount',
    'dmtf/smartnic',
    'hpe/dl380a-gen11-2xh100nvl',
    'lenovo/sr670v2-8xl40-bluefield2',
    'nvidia/bluefield3',
    'nvidia/gh200',
    'supermicro/hgx-h100-8gpu',
)
"""Of real machines and of DMTF's mockups, in the shared folder."""

BASELINE = f"""
format = 1

[[rule]]
name = "gpus"
match = {{ kind = "GPU" }}
count = 2
firmware = {{ "HGX_FW_GPU_*" = "{NEW_GPU}" }}

[[rule]]
name = "fpgas"
match = {{ kind = "FPGA" }}
firmware = {{ FPGA1_FW = "{NEW_FPGA}" }}
functions = {{ Slot0 = "gzip", Slot1 = "aes" }}

[[rule]]
name = "all"
block = ["host-device"]
custody = "reported"
"""

CONF = """
[baremetal_acc]
poll_interval = 0.2
settle_timeout = 1.5
reset_timeout = 20
job_timeout = 60
bmc_timeout = 5
"""


@dataclass(frozen=True, kw_only=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """What it printed as JSON."""
        return json.loads(self.out)

    @property
    def errors(self) -> list[str]:
        """Its errors, each with the lines of its causes, which are indented."""
        found: list[list[str]] = []
        above = False
        for line in self.err.splitlines():
            if line.startswith('baremetal-acc: error: '):
                found.append([line])
            elif above and line.startswith('  '):
                found[-1].append(line.strip())
            above = line.startswith(('baremetal-acc: error: ', '  ')) and bool(found)
        return ['; '.join(lines) for lines in found]


@dataclass(kw_only=True)
class Desk:
    """Files in one folder, and the command run there.

    :ivar fresh: start Python for each run, where the start itself is tested; else a server that has imported the command forks.
    """

    folder: Path
    environ: dict[str, str] = field(default_factory=dict)
    fresh: bool = False

    def prepare(self, machine: Any, name: str = 'node-1', **bmc: Any) -> None:
        """All files, for one target."""
        self.bmcs({name: target_of(machine, **bmc)})
        self.images()
        self.write('baseline.toml', BASELINE)
        self.write('acc.conf', CONF)

    def write(self, name: str, text: str, mode: int = 0o600) -> Path:
        """A file."""
        path = self.folder / name
        path.write_text(text, encoding='utf-8')
        path.chmod(mode)
        return path

    def bmcs(self, targets: dict[str, Any]) -> None:
        """bmcs.yaml."""
        self.write('bmcs.yaml', yaml.safe_dump({'format': 1, 'targets': targets}, sort_keys=False))

    def images(self) -> None:
        """Images that the emulator takes, and the catalogue that describes them."""
        from baremetal_acc.emulator.image import build_image

        entries = ['format = 1']
        gpu = 'fits = [{ pci = "0x10de:0x2330" }]'
        fpga = 'fits = [{ pci = "0x8086:0x0b2b" }]'
        for name, model, component, pattern, version, fits, more in (
            ('gpu-new', 'h100', 'gpu', 'HGX_FW_GPU_*', NEW_GPU, gpu, 'apply = { reset = "power-cycle" }'),
            ('fpga-new', 'd5005', 'fpga', 'FPGA1_FW', NEW_FPGA, fpga, 'apply = { reset = "power-cycle" }'),
        ):
            image = build_image(model=model, component=component, version=version, security_version=2, size_bytes=30_000)
            entries += self._entry(name, 'firmware', image, pattern, version, fits, more, 'restore = "none"')
        for function in ('gzip', 'aes'):
            image = build_image(
                kind='function', model='d5005', component='slot', version='3.1', function=function, size_bytes=20_000
            )
            entries += self._entry(f'{function}-3', 'function', image, 'Slot*', '3.1', fpga, f'function = "{function}"')
        self.write('catalogue.toml', '\n'.join(entries) + '\n')

    def _entry(
        self, name: str, kind: str, image: bytes, component: str, version: str, fits: str, *more: str
    ) -> tuple[str, ...]:
        (self.folder / f'{name}.img').write_bytes(image)
        return (
            '',
            '[[image]]',
            f'name = "{name}"',
            f'kind = "{kind}"',
            fits,
            f'component = "{component}"',
            f'version = "{version}"',
            'security_version = 2',
            f'source = "{name}.img"',
            f'size = {len(image)}',
            f'digest = "sha256:{hashlib.sha256(image).hexdigest()}"',
            *more,
        )

    @property
    def database(self) -> Path:
        """What the command remembers of targets."""
        return self.folder / 'state' / 'baremetal-acc' / 'state.sqlite'

    def stored(self, name: str = 'node-1') -> dict[str, Any] | None:
        """What it remembers of one; None: nothing."""
        if not self.database.exists():
            return None
        with closing(sqlite3.connect(self.database, timeout=30)) as db:
            row = db.execute('SELECT state FROM target WHERE name = ?', (name,)).fetchone()
        return None if row is None else dict(json.loads(row[0]))

    def stored_items(self, name: str = 'node-1') -> list[dict[str, Any]]:
        """The items of the job that it remembers."""
        job = (self.stored(name) or {}).get('job')
        return [] if job is None else list(job['items'])

    def store(self, state: dict[str, Any], name: str = 'node-1') -> None:
        """Change what it remembers."""
        with closing(sqlite3.connect(self.database, timeout=30)) as db:
            db.execute('UPDATE target SET state = ? WHERE name = ?', (json.dumps(state).encode(), name))
            db.commit()

    def until_told(self, process: subprocess.Popen[str], name: str = 'node-1') -> None:
        """Wait until a job has stored the task of an image that it sent: who is killed before that cannot know it."""
        end = time.monotonic() + 60
        while not any(i.get('task') for i in self.stored_items(name)):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.02)

    def run(self, *arguments: str, timeout: float = 120) -> Done:
        """Run the command as an operator would, without a terminal."""
        process = self.start(*arguments)
        try:
            out, err = process.communicate(timeout=timeout)
        finally:
            process.kill()
        return Done(code=process.returncode, out=out, err=err)

    def start(self, *arguments: str, out: Any = subprocess.PIPE) -> subprocess.Popen[str]:
        """Start the command.

        :param out: where it prints to.
        """
        kept = {k: v for k, v in os.environ.items() if k in ('PATH', 'LANG', 'PYTHONPATH')}
        environ = {**kept, 'HOME': str(self.folder), 'XDG_STATE_HOME': str(self.folder / 'state'), 'COLUMNS': '200'}
        pipes: dict[str, Any] = {'stdin': subprocess.PIPE, 'stdout': out, 'stderr': subprocess.PIPE}
        if not self.fresh:
            return Command(arguments, cwd=self.folder, env=environ | self.environ, **pipes)
        command = [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments]
        return subprocess.Popen(command, cwd=self.folder, env=environ | self.environ, text=True, **pipes)

    @property
    def options(self) -> tuple[str, ...]:
        """The documents of this folder."""
        return ('--config-file', 'acc.conf', '--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml')


def target_of(machine: Any, **bmc: Any) -> dict[str, Any]:
    """A target of bmcs.yaml for an emulated machine.

    :param bmc: keys that differ for every BMC.
    """
    return {
        'resource_class': 'gold',
        'bmcs': {
            name: {
                'address': b.address,
                'username': b.username,
                'password': b.password,
                'verify_ca': b.verify_ca,
                'system': b.system,
            }
            | bmc
            for name, b in machine.bmcs.items()
        },
    }
