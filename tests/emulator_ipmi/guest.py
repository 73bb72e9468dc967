# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A Linux guest under QEMU is the tenant: what its root tries over KCS is done, refused when locked, and done when unlocked.

    python -m tests.emulator_ipmi.guest [--kernel .guest] [--accel tcg] [--leave-open 0A/12]

The machine is ``baremetal-acc emulate --ipmi``, and ``baremetal-acc lock`` and ``unlock`` go there over the LAN, as they do for
an operator. Exit code 1, and what was expected, where anything differs; 2 where something is missing that it needs.
"""
# ruff: noqa: T201

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from baremetal_acc.emulator.remote import Remote
from tests.cli.desk import CONF, Desk
from tests.emulator_ipmi import initramfs
from tests.emulator_ipmi.attacks import ALLOWED, ATTACKS, Operator, Round, files, judge, try_it
from tests.emulator_ipmi.initramfs import Kernel, Missing
from tests.emulator_ipmi.tenant import ENDS_WITH_US, PROGRAM, Tenant, TenantGone, accelerator

PRODUCT = 'fpga-server'
NODE = 'node-1'
BASELINE = 'format = 1\n[[rule]]\nblock = ["host-bmc-ipmi"]\n'
SECONDS = 60

COMMANDS: Mapping[Round, tuple[tuple[tuple[str, ...], int], ...]] = {
    Round.OPEN: ((('verify',), 3),),
    Round.LOCKED: ((('lock', '--execute'), 0), (('verify',), 0)),
    Round.UNLOCKED: ((('unlock', '--execute'), 0), (('verify',), 3)),
}
"""What the operator types before each round, with the exit codes that it has to have."""


@contextmanager
def emulated(folder: Path, left_open: Iterable[str] = ()) -> Iterator[Any]:
    """The BMC, as a user starts it; gives where it is.

    :param left_open: commands that it goes on to take when it says that they are closed.
    """
    ready = folder / 'ready.json'
    command = [sys.executable, '-m', 'baremetal_acc.cli.main', 'emulate', PRODUCT, '--ipmi', '--flash-seconds', '1']
    with subprocess.Popen([*ENDS_WITH_US, *command, '--ready-file', ready], stdout=subprocess.DEVNULL) as process:
        try:
            end = time.monotonic() + SECONDS
            while not ready.exists():
                assert process.poll() is None, 'emulate has ended'
                assert time.monotonic() < end, f'emulate is not ready after {SECONDS} s'
                time.sleep(0.05)
            told = json.loads(ready.read_text())
            for one in left_open:
                Remote(told['door'], told['control']).fault('lock-reports-locked', uri=one, method='06/61')
            yield SimpleNamespace(**told['bmcs']['host'])
        finally:
            process.terminate()


def desk_for(folder: Path, bmc: Any) -> Desk:
    """What an operator has who locks that machine by IPMI."""
    desk = Desk(folder=folder)
    keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
    desk.bmcs({NODE: {'resource_class': 'gold', 'bmcs': {'host': keys}}})
    desk.write('baseline.toml', BASELINE)
    desk.write('acc.conf', CONF)
    desk.images()
    return desk


def turn(when: Round, desk: Desk) -> list[str]:
    """Lock or unlock, and ask for our own verdict on it; gives what is wrong with that."""
    wrong = []
    for words, code in COMMANDS[when]:
        done = desk.run(*words, *desk.options)
        print(f'  baremetal-acc {" ".join(words)}: exit code {done.code}', flush=True)
        if done.code != code:
            wrong.append(f'{when.value}: expected baremetal-acc {words[0]} to end with {code}: {done.out}{done.err}')
    return wrong


def give_power(when: Round, host: Tenant, operator: Operator) -> list[str]:
    """Switch the host on where it was switched off, as an operator has to; gives what is wrong with that."""
    is_off = not operator.is_on()
    if is_off:
        host.wait_off()
        operator.power_on()
        host.start()
        print('  the host is off, and QEMU has ended; the operator switches it on', flush=True)
    if is_off is not (when is Round.UNLOCKED):
        return [f'{when.value}: expected the host to be off after unlock alone, and it is {"off" if is_off else "on"}']
    return []


def attack(when: Round, host: Tenant, operator: Operator) -> list[str]:
    """Try everything once; gives what is wrong with what came of it."""
    wrong = []
    for one in ATTACKS:
        began = time.monotonic()
        found = try_it(one, list(Round).index(when) + 1, host, operator)
        print(f'  {one.command}  {one.name:44} {found.text:14} {time.monotonic() - began:4.0f} s', flush=True)
        wrong += judge(one, when, found)
    return wrong


def read(when: Round, host: Tenant) -> list[str]:
    """Ask what is left to a tenant, whatever is locked; gives what was not answered."""
    said = {words: host.ipmitool(words) for words in ALLOWED}
    failed = {words: said[words] for words, part in ALLOWED.items() if said[words].code or part not in said[words].out}
    print(f'  {len(ALLOWED) - len(failed)} of {len(ALLOWED)} reads are answered', flush=True)
    return [f'{when.value}: expected {words!r} to be answered, and it was {said}' for words, said in failed.items()]


def play(folder: Path, kernel: Kernel, accel: str, left_open: Iterable[str] = ()) -> list[str]:
    """The whole story; gives what is not as it has to be."""
    wrong = []
    disk = folder / 'initramfs'
    disk.write_bytes(initramfs.guest(kernel, files()))
    with emulated(folder, left_open) as bmc:
        desk = desk_for(folder, bmc)
        operator = Operator(folder, port=bmc.ipmi_port, user=bmc.username, password=bmc.password)
        began = time.monotonic()
        with Tenant(folder, bmc.system_interface_port, kernel.image, disk, accel) as host:
            print(f'{kernel.image.name} is up after {time.monotonic() - began:.0f} s, with {accel}', flush=True)
            before = operator.firewall()
            for when in Round:
                print(f'{when.value}:', flush=True)
                wrong += turn(when, desk) + give_power(when, host, operator)
                wrong += attack(when, host, operator) + read(when, host)
            if (after := operator.firewall()) != before:
                wrong.append(f'expected the firewall to be as it was before the lock, {before}: {after}')
    return wrong


def main() -> int:
    """The whole run."""
    parser = argparse.ArgumentParser(prog='python -m tests.emulator_ipmi.guest', description=__doc__)
    parser.add_argument('--kernel', type=Path, default=Path('.guest'), metavar='FOLDER', help='where one was unpacked')
    parser.add_argument('--accel', choices=('kvm', 'tcg'), default=accelerator(), help='how QEMU runs it (%(default)s)')
    parser.add_argument(
        '--leave-open',
        action='append',
        default=[],
        metavar='COMMAND',
        help='let the BMC lie of it, such as 0A/12: has to be seen',
    )
    arguments = parser.parse_args()
    try:
        kernel = initramfs.kernel(arguments.kernel)
        for name in (PROGRAM, ENDS_WITH_US[0], *initramfs.PROGRAMS):
            initramfs.program(name)
    except Missing as missing:
        print(missing)
        return 2
    # As with Ctrl-C: what was started is ended.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        try:
            wrong = play(Path(folder), kernel, arguments.accel, arguments.leave_open)
        except (AssertionError, TenantGone, subprocess.TimeoutExpired) as error:
            wrong = [f'it did not come to its end: {error}']
    for text in wrong:
        print(text)
    print(
        f'{len(ATTACKS)} attacks in three rounds, {len(wrong)} things not as they have to be; {time.monotonic() - began:.0f} s'
    )
    return 1 if wrong else 0


if __name__ == '__main__':
    sys.exit(main())
