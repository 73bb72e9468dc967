# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send each harmless write that a lock mechanism declares from the host: it is done when open and refused when locked.

    python -m tests.emulator_ipmi.refused_writes [--only MECHANISM] [--lie] [--write]

The machines are emulated, one for each mechanism. The host speaks IPMI at the system interface, with the protocol that QEMU has
for it, and Redfish over HTTPS at the host interface. Our code locks and unlocks the machine from outside. The operator reads
the effect of a write from outside, too. ``--lie`` lets each BMC show its lock as closed while it is open: every path that is
tried has to be found wrong then. ``--write`` records the outcomes in ``doc/source/refused.json``. Exit code 1 if any differs.
"""
# ruff: noqa: T201

import argparse
import platform
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import requests

from baremetal_acc.emulator.hw import build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from baremetal_acc.emulator.pytest_plugin import EmulatedMachine
from baremetal_acc.emulator.remote import Remote
from baremetal_acc.emulator.server import Emulator, EmulatorThread, Serving
from baremetal_acc.locks.harmless_write import HarmlessWrite, IpmiRequest, SystemProperty
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.job import Done
from baremetal_acc.model.lock import WritePath
from baremetal_acc.planning.plan import Part
from doc.refused import RESULTS, Outcome, RefusedWrite, Run, described, written
from tests.cli.desk import Desk
from tests.emulator_ipmi.attacks import OK, REFUSED
from tests.emulator_ipmi.guest import desk_for
from tests.emulator_ipmi.programs import Ipmitool
from tests.faults.test_platform_locks import Deploy
from tests.unit.emulator.ipmi.test_system import Host

FIREWALL = 'ipmi_firmware_firewall'
VIRTUAL_NIC = 'hpe_virtual_nic'
HOST_PATHS = (WritePath.HOST_BMC_IPMI, WritePath.HOST_BMC_REDFISH)

SILENT_SECONDS = 1.0
"""How long the host waits for an answer. The operator reads the same BMC right before and after, so it is not merely busy."""

_UNAUTHORIZED, _NOT_FOUND, _ERRORS = 401, 404, 500


class Site(Protocol):
    """A machine whose lock an operator closes and opens from outside."""

    machine: Any

    def lock(self) -> None:
        """Close it, and prove that it reads closed."""

    def unlock(self) -> None:
        """Open it, and have the host on."""


class RedfishSite:
    """A machine that the operator locks over Redfish, with one mechanism, so that no other lock refuses a write.

    :param lies: the BMC shows every lock as closed, and none of them is: nothing out of band tells it from an honest BMC.
    """

    def __init__(self, machine: Any, mechanism: str, *, lies: bool) -> None:
        self.machine = machine
        self._desk = Deploy(machine, mechanism)
        self._lies = lies

    def lock(self) -> None:
        """Engage it as a deploy does."""
        outcome = self._desk.do(Part.LOCK)
        assert isinstance(outcome, Done), outcome
        if self._lies:
            self.machine.fault('lock-reports-locked')
        assert self._desk.holds(), 'the lock does not read as closed'

    def unlock(self) -> None:
        """Release it."""
        self.machine.clear_faults()
        outcome = self._desk.do(Part.UNLOCK)
        assert isinstance(outcome, Done), outcome
        assert not self._desk.holds(), 'the lock reads as closed'


class IpmiSite:
    """A machine that the operator locks over IPMI, with the commands of the command line.

    :param lies: the BMC shows the command of the harmless write as disabled, and executes it.
    """

    def __init__(self, machine: Any, folder: Path, *, lies: bool) -> None:
        self.machine = machine
        self._lies = lies
        self._desk: Desk = desk_for(folder, machine.bmcs['host'])

    def _run(self, *words: str, code: int = 0) -> None:
        done = self._desk.run(*words, *self._desk.options)
        assert code == done.code, (words, done)

    def lock(self) -> None:
        """``baremetal-acc lock``, and ``verify``."""
        self._run('lock', '--execute')
        if self._lies:
            self.machine.fault('lock-reports-locked', uri='06/40', method='06/61')
        self._run('verify')

    def unlock(self) -> None:
        """``baremetal-acc unlock``, which powers the host off; it is powered on again."""
        self.machine.clear_faults()
        self._run('unlock', '--execute')
        self.machine.power('On')


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One path of one machine, with its harmless write."""

    machine: Any
    folder: Path
    mechanism: str
    write: HarmlessWrite

    def outcome(self) -> Outcome:
        """Send the write once, and undo it."""
        before = self._seen()
        said = self._sent()
        after = self._seen()
        if after != before:
            self._restore()
        if said is None or (before is not None and (after != before) is not said):
            return Outcome.CONTRADICTORY
        return Outcome.DONE if said else Outcome.REFUSED

    @property
    def _bmc(self) -> Any:
        return self.machine.bmcs['host']

    def _sent(self) -> bool | None:
        """Whether the host was told that it is done; None: neither that nor that it is refused."""
        match self.write.request:
            case IpmiRequest() as request:
                return self._sent_by_ipmi(request)
            case SystemProperty() as change:
                return self._sent_by_redfish(change)

    def _sent_by_ipmi(self, request: IpmiRequest) -> bool | None:
        with socket.create_connection(('127.0.0.1', self._bmc.system_interface_port), 10) as connected:
            host = Host(connected)
            host.frame()
            connected.settimeout(SILENT_SECONDS)
            try:
                code = host.ask(request.netfn, request.command, request.data)[0]
            except TimeoutError:
                return False
        return {OK: True, REFUSED: False}.get(code)

    def _sent_by_redfish(self, change: SystemProperty) -> bool | None:
        network = self._bmc.host_interfaces['vnic' if self.mechanism == VIRTUAL_NIC else 'redfish']
        uri, value = network + self._bmc.system, change.value
        with self._redfish() as http:
            try:
                if value is None:
                    value = http.get(uri, timeout=10).json()[change.name]
                status = http.patch(uri, json={change.name: value}, timeout=10).status_code
            except requests.ConnectionError:
                return False
        if status < requests.codes.bad_request:
            return True
        return None if status in (_UNAUTHORIZED, _NOT_FOUND) or status >= _ERRORS else False

    def _redfish(self) -> requests.Session:
        http = requests.Session()
        http.trust_env = False
        http.auth, http.verify = (self._bmc.username, self._bmc.password), self._bmc.verify_ca
        return http

    def _ipmi(self, request: IpmiRequest) -> bytes:
        operator = Ipmitool(self._bmc.ipmi_port, self.folder, user=self._bmc.username, password=self._bmc.password)
        said = operator.right('raw', *(f'{byte:#04x}' for byte in (request.netfn, request.command, *request.data)))
        return bytes.fromhex(said.out)

    def _seen(self) -> object:
        """What the operator sees of the write; None: it has no effect."""
        match self.write.request:
            case IpmiRequest():
                shown = self.write.shown
                return None if shown is None else self._ipmi(shown.request)[shown.position] & shown.mask
            case SystemProperty(value=None):
                return None
            case SystemProperty(name=name):
                with self._redfish() as http:
                    return http.get(self._bmc.address + self._bmc.system, timeout=10).json()[name]

    def _restore(self) -> None:
        match self.write.restores:
            case IpmiRequest() as request:
                self._ipmi(request)
            case SystemProperty(name=name, value=value):
                with self._redfish() as http:
                    answer = http.patch(self._bmc.address + self._bmc.system, json={name: value}, timeout=10)
                    answer.raise_for_status()
            case None:
                pass


MachineFactory = Callable[..., Any]
"""As the fixture ``emulated_machine``."""


def site_of(start: MachineFactory, mechanism: str, folder: Path, *, lies: bool) -> Site:
    """A machine that has the mechanism, and its operator."""
    if mechanism == FIREWALL:
        return IpmiSite(start('fpga-server', ipmi=IpmiOptions(), reset_seconds=0.1), folder, lies=lies)
    features = frozenset() if mechanism == 'host_interface' else frozenset({mechanism.replace('_', '-')})
    machine = start('lock-server', features=features, gpus=1, ipmi=IpmiOptions(), host_interfaces=True, virtual_clock=True)
    return RedfishSite(machine, mechanism, lies=lies)


def paths(mechanism: Mechanism) -> tuple[WritePath, ...]:
    """The paths from the host to its BMC that it blocks."""
    return tuple(path for path in HOST_PATHS if path in mechanism.about.blocks)


def tried(start: MachineFactory, mechanism: Mechanism, folder: Path, *, lies: bool = False) -> Iterator[RefusedWrite]:
    """Try each path of one mechanism three times: open, locked, and open again."""
    writes = {one.path: one for one in mechanism.about.harmless}
    trials: dict[WritePath, Trial] = {}
    outcomes: dict[WritePath, list[Outcome]] = {path: [] for path in writes}
    if writes:
        site = site_of(start, mechanism.name, folder, lies=lies)
        trials = {
            path: Trial(machine=site.machine, folder=folder, mechanism=mechanism.name, write=one)
            for path, one in writes.items()
        }
        for change in (lambda: None, site.lock, site.unlock):
            change()
            for path, trial in trials.items():
                outcomes[path].append(trial.outcome())
    for path in paths(mechanism):
        before, locked, after = outcomes.get(path) or [Outcome.NOT_TRIED] * 3
        write = described(writes[path]) if path in writes else ''
        yield RefusedWrite(mechanism=mechanism.name, path=path, write=write, before=before, locked=locked, after=after)


@contextmanager
def machines() -> Iterator[MachineFactory]:
    """Starts machines; all of them are stopped in the end."""
    running: list[EmulatorThread] = []

    def start(product: str, *, tls: bool = True, ipmi: IpmiOptions, host_interfaces: bool = False, **other: Any) -> Any:
        serving = Serving(tls=tls, ipmi=ipmi, host_interfaces=host_interfaces)
        running.append(EmulatorThread(Emulator(serving, product=build(product, Parameters(**other)))))
        running[-1].start()
        emulator = running[-1].emulator
        return EmulatedMachine(running[-1], Remote(emulator.door, emulator.control))

    try:
        yield start
    finally:
        for thread in running:
            thread.stop()


def wrong(rows: Iterable[RefusedWrite], *, lies: bool) -> list[RefusedWrite]:
    """The rows that are not as they have to be; with a lie, each path that is tried has to be found done while locked."""
    lied = (Outcome.DONE, Outcome.DONE, Outcome.DONE)
    return [row for row in rows if not (lied == (row.before, row.locked, row.after) if lies and row.write else row.is_right)]


def _git(*words: str) -> str:
    return subprocess.run(['git', *words], capture_output=True, text=True, check=True).stdout.strip()


def _record(rows: Sequence[RefusedWrite]) -> None:
    others = _git('status', '--porcelain', '--', '.', f':(exclude){RESULTS.name}')
    commit = _git('rev-parse', '--short=8', 'HEAD') + ('+' if others else '')
    system = platform.uname()
    machine = f'{system.system} {system.release}, {system.machine}'
    RESULTS.write_text(
        written(Run(commit=commit, date=datetime.now(UTC).date().isoformat(), machine=machine, rows=tuple(rows))),
        encoding='utf-8',
    )


def main() -> int:
    """Try all mechanisms."""
    parser = argparse.ArgumentParser(prog='python -m tests.emulator_ipmi.refused_writes', description=__doc__)
    parser.add_argument('--only', action='append', metavar='MECHANISM', help='try this mechanism; can be repeated')
    parser.add_argument('--lie', action='store_true', help='let each BMC show an open lock as closed: this has to be found')
    parser.add_argument('--write', action='store_true', help=f'record the outcomes in {RESULTS.name}')
    arguments = parser.parse_args()
    if arguments.write and (arguments.only or arguments.lie):
        parser.error('--write: cannot be used with --only or --lie')
    chosen = [one for one in mechanisms() if paths(one) and (not arguments.only or one.name in arguments.only)]
    rows = []
    for mechanism in chosen:
        with tempfile.TemporaryDirectory() as folder, machines() as start:
            for row in tried(start, mechanism, Path(folder), lies=arguments.lie):
                print(
                    f'{row.mechanism:26} {row.path:18} {row.before:10} {row.locked:10} {row.after:10} {row.write}', flush=True
                )
                rows.append(row)
    if arguments.write:
        _record(rows)
    found = wrong(rows, lies=arguments.lie)
    print(f'{len(rows)} paths, {len(found)} not as they have to be{" for BMCs that lie" if arguments.lie else ""}')
    return 1 if found or not rows else 0


if __name__ == '__main__':
    sys.exit(main())
