# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What emulated BMCs say of a host, over Redfish and over IPMI, shows whether it has run; the emulator knows whether it has."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.registry import for_address
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from baremetal_acc.model.inventory import HostReading, PowerEvent, PowerState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.planning.host_evidence import EvidenceSource, HostRan, HostWitness, changed_by_start, evidence, host_ran
from tests.emulator_client.test_client import connect, now

HOST = BmcName('host')
HOUR = timedelta(hours=1)
IPMI = IpmiOptions(idle_seconds=10**9)
CHANGES = {
    'redfish': {EvidenceSource.LAST_RESET, EvidenceSource.BOOT_PROGRESS},
    'ipmi': {EvidenceSource.RESTART_CAUSE, EvidenceSource.POWER_ON_HOURS, EvidenceSource.POWER_EVENT, EvidenceSource.LOG_MARK},
}
"""What a start of the host by hand, for some hours, changes."""


class Site:
    """A machine with a connection to its BMC by one protocol."""

    def __init__(self, machine: Any, protocol: str, connection: Any) -> None:
        self.machine = machine
        self.connection = connection
        self.protocol = protocol
        self.system = self.connection.look(now()).facts.system

    def whole(self) -> HostReading:
        """What a look says of the host."""
        host: HostReading = self.connection.look(now()).facts.host
        return host

    def poll(self) -> HostReading:
        """What a poll says of it."""
        host: HostReading = self.connection.host(self.system)
        return host

    def off(self) -> None:
        """By us."""
        self.connection.set_power(self.system, PowerState.OFF)
        self.machine.advance(60)
        assert PowerState.OFF is self.connection.power(self.system)

    def wakes(self, seconds: float, cause: str = 'CLOCK') -> None:
        """By itself, and goes off again."""
        for reset_type, then in (('On', seconds), ('ForceOff', 60)):
            self.machine.power(reset_type, cause=cause)
            self.machine.advance(then)


@contextmanager
def site(machine: Any, protocol: str) -> Iterator[Site]:
    """Opened, and closed again."""
    bmc = machine.bmcs['host']
    with ExitStack() as stack:
        if protocol == 'redfish':
            yield Site(machine, protocol, stack.enter_context(connect(machine)))
        else:
            address = f'ipmi://127.0.0.1:{bmc.ipmi_port}'
            where = BmcAddress(name=HOST, address=address, username=bmc.username, password=bmc.password)
            yield Site(machine, protocol, stack.enter_context(for_address(where).connect(where)))


@pytest.fixture(params=['redfish', 'ipmi'])
def host(request: pytest.FixtureRequest, emulated_machine: Callable[..., Any]) -> Iterator[Site]:
    """Each protocol to the same product."""
    with site(emulated_machine('fpga-server', ipmi=IPMI), request.param) as opened:
        yield opened


def said(before: HostReading, after: HostReading) -> dict[EvidenceSource, HostWitness]:
    """What is said at both ends, but for the power."""
    found = {one.source: one.seen for one in evidence(before, after, HOUR) if one.source is not EvidenceSource.POWER}
    return {source: seen for source, seen in found.items() if seen is not HostWitness.ABSENT}


def test_a_look_and_a_poll_say_the_same(host: Site) -> None:
    """What a poll asks for; a look asks for more."""
    for reading in (host.poll(), host.whole()):
        assert reading.power is PowerState.ON
    host.off()
    poll, whole = host.poll(), host.whole()
    assert {HostWitness.UNCHANGED} == set(said(poll, whole).values())
    assert set(said(poll, poll)) < set(said(whole, whole))


def test_a_host_that_stays_off_changes_nothing(host: Site) -> None:
    """For hours; nothing is shown by that until the BMC is known."""
    host.off()
    before = host.whole()
    host.machine.advance(7200)
    after = host.whole()
    assert {HostWitness.UNCHANGED} == set(said(before, after).values())
    assert HostRan.SILENT is host_ran(before, after, HOUR)
    assert HostRan.DID_NOT_RUN is host_ran(before, after, timedelta(seconds=10))


def test_a_host_that_wakes_for_some_hours_and_goes_off_again_has_run(host: Site) -> None:
    """Every source that can tell does; before that it was started by us."""
    host.off()
    host.connection.set_power(host.system, PowerState.ON)
    host.machine.advance(60)
    host.off()
    before, polled = host.whole(), host.poll()
    host.wakes(2 * 3600)
    after, polled_again = host.whole(), host.poll()
    changed = {source for source, seen in said(before, after).items() if seen is HostWitness.CHANGED}
    assert CHANGES[host.protocol] == changed
    assert HostRan.RAN is host_ran(before, after, HOUR)
    assert HostRan.RAN is host_ran(polled, polled_again, timedelta(seconds=5)), 'a poll tells it as well'


def test_a_host_that_wakes_for_a_moment_is_seen_by_a_poll(host: Site) -> None:
    """Shorter than any step in which hours are counted."""
    host.off()
    before = host.poll()
    host.wakes(40)
    assert HostRan.RAN is host_ran(before, host.poll(), timedelta(minutes=2))


def test_a_restart_is_seen_though_the_host_is_on_at_both_ends(host: Site) -> None:
    """It runs, and what a start changes is changed."""
    before = host.whole()
    host.connection.reset(host.system, ResetKind.SYSTEM_RESET)
    host.machine.advance(60)
    after = host.whole()
    assert PowerState.ON is after.power
    assert HostWitness.CHANGED in said(before, after).values()


def test_a_bmc_that_restarts_is_seen_by_redfish_alone(emulated_machine: Callable[..., Any]) -> None:
    """The host has not run, and nothing shows that it has: but nothing shows any more that it has not."""
    with site(emulated_machine('fpga-server'), 'redfish') as one:
        off = one.whole()
        one.off()
        before = one.whole()
        one.connection.set_power(one.system, PowerState.ON)
        one.machine.advance(60)
        known = changed_by_start(before, one.whole())
        assert {EvidenceSource.LAST_RESET} == known
        one.off()
        before = one.whole()
        one.machine.advance(3600)
        assert HostRan.DID_NOT_RUN is host_ran(before, one.whole(), HOUR, dependable=known)
        manager = Ref(
            bmc=HOST, uri=one.connection.look(now()).reader.get('/redfish/v1/Managers').body['Members'][0]['@odata.id']
        )
        one.connection.reset(manager, ResetKind.BMC_RESET)
        one.machine.advance(60)
        machine = one.machine
    with site(machine, 'redfish') as one:
        after = one.whole()
        assert {EvidenceSource.BMC_RESET} == {
            source for source, seen in said(before, after).items() if seen is HostWitness.CHANGED
        }
        assert HostRan.SILENT is host_ran(before, after, HOUR, dependable=known)
        assert off.bmc_reset == before.bmc_reset != after.bmc_reset


def test_what_ipmi_says_is_true(emulated_machine: Callable[..., Any]) -> None:
    """The cause with the channel of a command; hours in their steps; who has brought it from off to on."""
    machine = emulated_machine('fpga-server', ipmi=replace(IPMI, minutes_per_count=1))
    with site(machine, 'ipmi') as one:
        first = one.whole()
        assert ('power button', frozenset()) == (first.restart_cause, first.power_event)
        machine.advance(600)
        later = one.whole()
        assert (first.power_on_hours or 0) + 10 == later.power_on_hours
        assert first.log_mark == later.log_mark
        one.off()
        off = one.whole()
        machine.advance(600)
        assert off == one.whole()
        one.connection.set_power(one.system, PowerState.ON)
        machine.advance(60)
        on = one.whole()
        assert ('Chassis Control, channel 1h', {PowerEvent.ON_BY_COMMAND}) == (on.restart_cause, on.power_event)
        assert off.log_mark != on.log_mark


@pytest.mark.parametrize('ipmi', [replace(IPMI, host_history=False), IPMI])
def test_a_bmc_that_lacks_the_commands_says_nothing_and_is_no_fault(
    emulated_machine: Callable[..., Any], ipmi: IpmiOptions
) -> None:
    """Its power is known all the same, and so is its chassis."""
    with site(emulated_machine('fpga-server', ipmi=ipmi), 'ipmi') as one:
        host = one.whole()
        found = (host.restart_cause, host.power_on_hours, host.log_mark)
        assert (PowerState.ON, ipmi.host_history) == (host.power, found != (None, None, None))
        assert () == one.connection.look(now()).gaps
        assert PowerState.ON is one.poll().power


def test_a_bmc_without_history_says_nothing_over_redfish(emulated_machine: Callable[..., Any]) -> None:
    """As real ones that show none of it."""
    with site(emulated_machine('fpga-server', options={'*': {'host_history': False}}), 'redfish') as one:
        assert HostReading(power=PowerState.ON) == one.whole() == one.poll()


def test_a_look_over_ipmi_costs_three_commands_more_and_a_poll_one(emulated_machine: Callable[..., Any]) -> None:
    """Counted in the BMC."""
    machine = emulated_machine('fpga-server', ipmi=IPMI)
    controller = machine._thread.emulator._ipmi['host'].controller
    asked: list[tuple[int, int]] = []
    around = controller.around

    def counting(request: Any, execute: Callable[[Any], Any]) -> Any:
        asked.append((request.netfn, request.command))
        return execute(request) if around is None else around(request, execute)

    controller.around = counting
    more = [(0x00, 0x07), (0x00, 0x0F), (0x0A, 0x40)]
    with site(machine, 'ipmi') as one:
        asked.clear()
        one.whole()
        assert [1, 1, 1, 1] == [asked.count(command) for command in (*more, (0x00, 0x01))]
        asked.clear()
        one.poll()
        assert [(0x00, 0x01), (0x00, 0x07)] == asked


def test_nothing_unheard_of_starts_an_emulated_host(emulated_machine: Callable[..., Any]) -> None:
    """A word that is misspelt is no cause, and starts nothing."""
    machine = emulated_machine('fpga-server')
    with pytest.raises(ValueError, match='unknown cause; the causes are UNKNOWN, COMMAND'):
        machine.power('ForceOff', cause='CLOK')
    assert 'On' == machine.truth()['systems']['host']['power']
