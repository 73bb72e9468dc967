# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The environment of the peers: one of their own, locked by requirements/bench.txt, without baremetal-acc."""

import configparser
import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.inventory.harness import TOP, WORK

ENVIRONMENT = WORK / 'venv'
PYTHON = ENVIRONMENT / 'bin' / 'python'
LOCK = TOP / 'requirements' / 'bench.txt'


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Another client.

    :ivar client: its program in ``clients/``.
    :ivar needs: what must be importable.
    :ivar named_system: it is told which System is meant.
    """

    name: str
    client: str
    needs: tuple[str, ...]
    named_system: bool = False


IRONIC = Peer(name='Ironic', client='ironic_inspection', needs=('ironic', 'sushy'), named_system=True)
PEERS = (
    Peer(name='sushy', client='sushy_plain', needs=('sushy',)),
    IRONIC,
    Peer(name='redfish_utilities', client='dmtf_utilities', needs=('redfish', 'redfish_utilities')),
    Peer(name='redfish', client='dmtf_redfish', needs=('redfish',)),
)


def requirements() -> list[str]:
    """The extra ``bench`` of setup.cfg."""
    parser = configparser.ConfigParser()
    parser.read(TOP / 'setup.cfg', encoding='utf-8')
    return [line for line in parser['options.extras_require']['bench'].split('\n') if line.strip()]


def install() -> None:
    """Make the environment from the lock file, which pip verifies. What cannot be had is missing in all of it."""
    stamp = ENVIRONMENT / '.installed'
    wanted = LOCK.read_text(encoding='utf-8')
    if stamp.exists() and stamp.read_text(encoding='utf-8') == wanted:
        return
    print('Installing the peers into .bench/venv; the first time takes about two minutes', file=sys.stderr)
    ENVIRONMENT.parent.mkdir(exist_ok=True)
    if not PYTHON.exists():
        subprocess.run([sys.executable, '-m', 'venv', str(ENVIRONMENT)], check=True)
    pip = [str(PYTHON), '-m', 'pip', '--quiet', '--disable-pip-version-check', 'install', '--require-hashes', '--requirement']
    done = subprocess.run([*pip, str(LOCK)], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f'the peers could not be installed: {done.stderr.strip()[-300:]}', file=sys.stderr)
    else:
        stamp.write_text(wanted, encoding='utf-8')


def missing(peers: Iterable[Peer] = PEERS) -> dict[str, str]:
    """Peers that cannot run, with the reason."""
    found: dict[str, str] = {}
    for peer in peers:
        if not PYTHON.exists():
            found[peer.name] = f'there is no {ENVIRONMENT.relative_to(TOP)}'
            continue
        done = subprocess.run(
            [str(PYTHON), '-c', f'import {", ".join(peer.needs)}'], capture_output=True, text=True, timeout=120, check=False
        )
        if done.returncode:
            found[peer.name] = (done.stderr.strip().splitlines() or ['it cannot be imported'])[-1]
    return found


def versions() -> dict[str, str]:
    """What is installed of what was asked for."""
    if not PYTHON.exists():
        return {}
    done = subprocess.run(
        [str(PYTHON), '-m', 'pip', 'freeze', '--disable-pip-version-check'], capture_output=True, text=True, check=False
    )
    names = {re.split(r'[<>=!~ ]', one)[0].lower() for one in requirements()}
    pairs = (line.partition('==') for line in done.stdout.splitlines())
    return {name: version for name, _, version in pairs if name.lower().replace('-', '_') in names}
