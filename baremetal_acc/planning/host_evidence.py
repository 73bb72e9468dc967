# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tell from two readings of a host by its BMC whether the host has run in between.

Each property or IPMI command by which a BMC reports on its host is a source (:class:`EvidenceSource`). A row of
:data:`SOURCES` says what a changed value shows, and what an unchanged value shows, which for most is nothing. One source that
shows that the host has run outweighs all others. That a host did not run is shown only by a source that could not have missed
it: its power, read twice within a time in which no host starts, or the time of its last reset, of a BMC that was seen to set
it at a start.

Both readings have to be of the same System. The page on the watch (doc/source/howto/watch.rst) explains the table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from types import MappingProxyType

from baremetal_acc.model.inventory import HostReading, PowerEvent, PowerState

BLIND_LIMIT = timedelta(seconds=10)
"""No host gets from power-on to code of its own, and off again, within this time: its firmware tests it first."""


class HostRan(StrEnum):
    """Whether a host has run: it has; it has not; no source tells."""

    RAN = 'ran'
    DID_NOT_RUN = 'did-not-run'
    SILENT = 'silent'


class EvidenceSource(StrEnum):
    """What a BMC reports about its host, by the fields of :class:`~baremetal_acc.model.inventory.HostReading`."""

    POWER = 'power'
    LAST_RESET = 'last_reset'
    BOOT_PROGRESS = 'boot_progress'
    BMC_RESET = 'bmc_reset'
    POWER_ON_HOURS = 'power_on_hours'
    RESTART_CAUSE = 'restart_cause'
    POWER_EVENT = 'power_event'
    LOG_MARK = 'log_mark'


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRow:
    """What one source can show.

    :ivar name: the property or command, as its specification names it.
    :ivar changed: what another value than before shows; of the power: that it was not off at one end.
    :ivar unchanged: what the same value shows at best, if the conditions of :func:`evidence` are met.
    :ivar origin: the specification that defines the value.
    """

    name: str
    changed: HostRan
    unchanged: HostRan
    origin: str


_SYSTEM, _MANAGER, _IPMI = 'DSP8010 2025.4, ComputerSystem v1_27_0', 'DSP8010 2025.4, Manager v1_24_0', 'IPMI 2.0 revision 1.1'

SOURCES: Mapping[EvidenceSource, SourceRow] = MappingProxyType(
    {
        EvidenceSource.POWER: SourceRow(
            name='ComputerSystem.PowerState, Get Chassis Status',
            changed=HostRan.RAN,
            unchanged=HostRan.DID_NOT_RUN,
            origin=f'{_SYSTEM}, PowerState; {_IPMI}, section 28.2',
        ),
        EvidenceSource.LAST_RESET: SourceRow(
            name='ComputerSystem.LastResetTime',
            changed=HostRan.RAN,
            unchanged=HostRan.DID_NOT_RUN,
            origin=f'{_SYSTEM}, LastResetTime',
        ),
        # The host's firmware reports it, and need not: a host that reports nothing leaves the value as it was.
        EvidenceSource.BOOT_PROGRESS: SourceRow(
            name='ComputerSystem.BootProgress',
            changed=HostRan.RAN,
            unchanged=HostRan.SILENT,
            origin=f'{_SYSTEM}, BootProgress',
        ),
        # The reset of the BMC itself. A BMC that restarts does not see what the host does meanwhile.
        EvidenceSource.BMC_RESET: SourceRow(
            name='Manager.LastResetTime',
            changed=HostRan.SILENT,
            unchanged=HostRan.SILENT,
            origin=f'{_MANAGER}, LastResetTime',
        ),
        # It counts in steps of one minute to some hours: a host that runs for less does not change it.
        EvidenceSource.POWER_ON_HOURS: SourceRow(
            name='Get POH Counter',
            changed=HostRan.RAN,
            unchanged=HostRan.SILENT,
            origin=f'{_IPMI}, section 28.14',
        ),
        # Two starts may have the same cause.
        EvidenceSource.RESTART_CAUSE: SourceRow(
            name='Get System Restart Cause',
            changed=HostRan.RAN,
            unchanged=HostRan.SILENT,
            origin=f'{_IPMI}, section 28.11',
        ),
        # Two changes of power may be of the same kind.
        EvidenceSource.POWER_EVENT: SourceRow(
            name='Get Chassis Status, last power event',
            changed=HostRan.RAN,
            unchanged=HostRan.SILENT,
            origin=f'{_IPMI}, section 28.2',
        ),
        # A new log entry may be about anything, and a full log takes no more.
        EvidenceSource.LOG_MARK: SourceRow(
            name='Get SEL Info',
            changed=HostRan.SILENT,
            unchanged=HostRan.SILENT,
            origin=f'{_IPMI}, section 31.2',
        ),
    }
)


class HostWitness(StrEnum):
    """What two readings show of one source.

    ``settling``: another value, but so soon after the host was first read off that this power-off itself may have changed it.
    ``absent``: at one end, or at both, the BMC does not show it.
    """

    CHANGED = 'changed'
    UNCHANGED = 'unchanged'
    SETTLING = 'settling'
    ABSENT = 'absent'


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What one source shows for an interval, and by which comparison."""

    source: EvidenceSource
    says: HostRan
    seen: HostWitness


_OFF = {
    PowerState.ON: False,
    PowerState.POWERING_ON: False,
    PowerState.POWERING_OFF: False,
    PowerState.PAUSED: False,
    PowerState.OFF: True,
    PowerState.UNKNOWN: None,
}
"""Whether a reading shows a host off; None: it does not tell."""


def host_ran(
    before: HostReading,
    after: HostReading,
    elapsed: timedelta,
    *,
    settles: timedelta = timedelta(0),
    blind_limit: timedelta = BLIND_LIMIT,
    dependable: frozenset[EvidenceSource] = frozenset(),
) -> HostRan:
    """Return whether a host has run between two readings of it; parameters as of :func:`evidence`."""
    said = {
        one.says for one in evidence(before, after, elapsed, settles=settles, blind_limit=blind_limit, dependable=dependable)
    }
    return next((word for word in (HostRan.RAN, HostRan.DID_NOT_RUN) if word in said), HostRan.SILENT)


def evidence(
    before: HostReading,
    after: HostReading,
    elapsed: timedelta,
    *,
    settles: timedelta = timedelta(0),
    blind_limit: timedelta = BLIND_LIMIT,
    dependable: frozenset[EvidenceSource] = frozenset(),
) -> tuple[Evidence, ...]:
    """Return what each source shows of whether a host has run between two readings, in the order of :data:`SOURCES`.

    An unchanged value shows that it did not run only where both readings show the host off, and

    * for its power: where no more than ``blind_limit`` lies between them;
    * for another source: where it is one of ``dependable``, and the BMC is known not to have restarted meanwhile. While it
      restarts a BMC sees nothing.

    :param elapsed: from one to the other. Where clocks went backwards an unchanged value shows nothing.
    :param settles: how long after ``before`` a change may come from the power-off that ``before`` has found; none unless
        ``before`` is the first reading that found the host off (:func:`baremetal_acc.planning.interference.tail`).
    :param blind_limit: the time within which a host that was off at both ends cannot have run.
    :param dependable: the sources that this BMC is known to change at each start; see :func:`changed_by_start`.
    """
    is_off = bool(_OFF[before.power] and _OFF[after.power])
    in_order = elapsed >= timedelta(0)
    found = []
    for source, row in SOURCES.items():
        if source is EvidenceSource.POWER:
            seen = _seen_of_power(before, after)
            shown = in_order and elapsed <= blind_limit
        else:
            seen = _seen(before, after, source)
            shown = (
                in_order and source in dependable and _seen(before, after, EvidenceSource.BMC_RESET) is HostWitness.UNCHANGED
            )
            if seen is HostWitness.CHANGED and in_order and timedelta(0) < settles and elapsed <= settles:
                seen = HostWitness.SETTLING
        match seen:
            case HostWitness.CHANGED:
                says = row.changed
            case HostWitness.UNCHANGED if is_off and shown:
                says = row.unchanged
            case _:
                says = HostRan.SILENT
        found.append(Evidence(source=source, says=says, seen=seen))
    return tuple(found)


def restarted(before: HostReading, after: HostReading) -> HostRan:
    """Return whether a host that was on at two readings was restarted between them; ``did-not-run``: it was not.

    A BMC that has restarted itself has not seen what the host did, so that counts as a restart of the host; and so does the
    loss of mains, which a host that is on does not survive. Only both times of reset together show that there was none.
    """
    changed = (EvidenceSource.LAST_RESET, EvidenceSource.BMC_RESET, EvidenceSource.RESTART_CAUSE)
    events = (before.power_event, after.power_event)
    if any(_seen(before, after, source) is HostWitness.CHANGED for source in changed) or (
        None not in events and events[0] != events[1]
    ):
        return HostRan.RAN
    times = (EvidenceSource.LAST_RESET, EvidenceSource.BMC_RESET)
    return HostRan.DID_NOT_RUN if all(_seen(before, after, s) is HostWitness.UNCHANGED for s in times) else HostRan.SILENT


def with_bmc_reset(reading: HostReading, earlier: HostReading) -> HostReading:
    """Add to a poll, which does not read the Manager, the last reset of the BMC that an earlier reading has found.

    A later reading that finds the same shows that the BMC has not restarted since the earlier one, and so not since the poll.
    """
    return reading if reading.bmc_reset is not None else replace(reading, bmc_reset=earlier.bmc_reset)


def changed_by_start(off: HostReading, on: HostReading) -> frozenset[EvidenceSource]:
    """Return the sources that a BMC has changed when its host was started, among those that may show that a host did not run.

    :param off: of the host before it was started, read when everything that its power-off changes had settled.
    :param on: of the host after it.
    """
    if not _OFF[off.power] or on.power is not PowerState.ON:
        return frozenset()
    return frozenset(
        source
        for source, row in SOURCES.items()
        if source is not EvidenceSource.POWER
        and row.unchanged is HostRan.DID_NOT_RUN
        and _seen(off, on, source) is HostWitness.CHANGED
    )


def _seen_of_power(before: HostReading, after: HostReading) -> HostWitness:
    """Compare the power: changed means that the host was not off at one end."""
    off = (_OFF[before.power], _OFF[after.power])
    if False in off:
        return HostWitness.CHANGED
    return HostWitness.ABSENT if None in off else HostWitness.UNCHANGED


def _seen(before: HostReading, after: HostReading, source: EvidenceSource) -> HostWitness:
    old, new = _value(before, source), _value(after, source)
    if old is None or new is None:
        return HostWitness.ABSENT
    return HostWitness.UNCHANGED if old == new else HostWitness.CHANGED


def _value(reading: HostReading, source: EvidenceSource) -> object:
    """Return the value of a source; of the last power event without the loss of mains, which a host that is off meets, too."""
    if source is EvidenceSource.POWER_EVENT and reading.power_event is not None:
        return reading.power_event - {PowerEvent.MAINS_LOST}
    value: object = getattr(reading, source.value)
    return value


__all__ = [
    'BLIND_LIMIT',
    'SOURCES',
    'Evidence',
    'EvidenceSource',
    'HostRan',
    'HostWitness',
    'SourceRow',
    'changed_by_start',
    'evidence',
    'host_ran',
    'restarted',
    'with_bmc_reset',
]
