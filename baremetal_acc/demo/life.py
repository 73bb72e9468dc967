# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the demo: start emulated BMCs, placement and Ironic, play the life of a node, and stop all services.

Exit codes of ``python -m baremetal_acc.demo [--state DIR]``: 0 every fact of the story holds, 1 one does not or a service
failed, 2 wrong arguments, 130 interrupted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import requests

from baremetal_acc.demo import documents
from baremetal_acc.demo.api import DemoIronic, DemoMachine, Placement, ServiceRefused, StateNotReached
from baremetal_acc.demo.screen import ClaimFailed, Screen
from baremetal_acc.demo.service_process import ServiceFailed, interrupt_on_signals
from baremetal_acc.demo.services import Services
from baremetal_acc.demo.story import Story
from baremetal_acc.errors import UsageError, printable

PRODUCT = 'acc-server'
FLASH_SECONDS = '1.5'
"""Seconds that an emulated flash takes: long enough to be seen, short enough to wait for."""

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the demo.

    :returns: the exit code.
    """
    parser = argparse.ArgumentParser(prog='python -m baremetal_acc.demo', description=(__doc__ or '').split('\n')[0])
    parser.add_argument(
        '--state', type=Path, metavar='DIR', help='new or empty folder for state and logs (default: a new temporary folder)'
    )
    arguments = parser.parse_args(argv)
    interrupt_on_signals()
    try:
        state = _folder(arguments.state)
    except UsageError as exc:
        print(f'baremetal-acc: error: {printable(str(exc))}', file=sys.stderr)
        return 2
    with Screen(state / 'story.txt') as screen:
        screen.say(f'State and logs: {state}')
        try:
            code = _run(state, screen)
        except KeyboardInterrupt:  # while the services were being stopped, which stop() has completed
            code = INTERRUPTED
        screen.say(f'State and logs: {state}')
    return code


def _folder(wanted: Path | None) -> Path:
    """The folder for all files of this run.

    :raises UsageError: the folder cannot be used, or is not empty.
    """
    if wanted is None:
        return Path(tempfile.mkdtemp(prefix='baremetal-acc-demo-'))
    try:
        wanted.mkdir(mode=0o700, parents=True, exist_ok=True)
        used = any(wanted.iterdir())
    except OSError as exc:
        raise UsageError(argument='--state', what=f'{wanted} cannot be used: {exc.strerror}', hint='name a new folder') from exc
    if used:
        raise UsageError(
            argument='--state', what=f'{wanted} is not empty', hint='use an empty folder: the demo begins with a new node'
        )
    return wanted.absolute()


def _run(state: Path, screen: Screen) -> int:
    services = Services(
        state=state,
        emulate=PRODUCT,
        emulator_arguments=('--flash-seconds', FLASH_SECONDS),
        ironic_conf_extra=(documents.write_conf(state / 'operator'),),
    )
    code = 1
    try:
        screen.section('Start: emulated BMCs, real placement, real Ironic')
        addresses = services.start()
        for name, log in addresses.logs.items():
            screen.say(f'{name:9} pid {addresses.pids[name]}, {getattr(addresses, name)}, log {log}')
        story = Story(
            screen=screen,
            ironic=DemoIronic(str(addresses.ironic)),
            placement=Placement(str(addresses.placement)),
            machine=DemoMachine(Path(str(addresses.emulator))),
            folder=state / 'operator',
        )
        story.tell()
        code = 0
    except KeyboardInterrupt:
        screen.failure('\nInterrupted: stopping all services.')
        code = INTERRUPTED
    except ClaimFailed as exc:
        screen.failure(f'This fact does not hold: {exc.what}\n  expected: {exc.expected}\n  found:    {exc.found}')
    except (StateNotReached, ServiceRefused, UsageError) as exc:
        screen.failure(str(exc))
    except (requests.RequestException, subprocess.CalledProcessError) as exc:
        screen.failure(f'{type(exc).__name__}: {exc}')
    except ServiceFailed as exc:
        screen.failure(f'{exc.tail}\n{exc}')
    finally:
        pids = _pids(services)
        screen.section('Stop')
        services.stop()
    left = [pid for pid in pids if _runs(pid)]
    if left:
        screen.failure(f'process groups that still run: {", ".join(map(str, left))}')
        return 1
    screen.say('All services are stopped; no process is left.')
    if code == 0:
        screen.say(f'{screen.facts} facts were checked, and all of them hold.')
    return code


def _pids(services: Services) -> tuple[int, ...]:
    try:
        return tuple(services.addresses.pids.values())
    except RuntimeError:
        return ()  # not all services had been started, and those are stopped already


def _runs(group: int) -> bool:
    """Whether any process of a service is left: each service is the leader of its own process group."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
