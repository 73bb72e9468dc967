# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the cards that somebody else may have written while a job held the host off and locks were open.

Each power reading of a held host is compared with the first one that found it off
(:class:`~baremetal_acc.model.interference.HeldOff`). A host that is on, or whose last reset time has changed, has run unknown
code. The cards that were not known to be closed, and what the job had written to them, are suspect from then on; the job
fails, and its shell has these cards written again. Between two readings only the last reset time shows a restart: if the BMC
does not report that time, a host that was started and switched off again in between is not noticed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import Flash, Program, Release, Reset, ResetPurpose
from baremetal_acc.model.interference import HeldOff, Interference, InterferenceKind
from baremetal_acc.model.inventory import HostReading, Inventory, PowerState
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import lock_evidence
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import demands

_CLOSED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})

_RUNS = {
    PowerState.ON: True,
    PowerState.POWERING_ON: True,
    PowerState.POWERING_OFF: True,
    PowerState.PAUSED: True,
    PowerState.OFF: False,
    PowerState.UNKNOWN: None,
}
"""Whether a host that was off before runs, or has run; None: this reading does not tell."""

_ON_BY_US = frozenset({ItemState.SENT, ItemState.RUNNING, ItemState.DONE})
"""States of the item that powers a host on, in which the host may be on because of the job."""

LONGEST_TAIL = timedelta(seconds=10)
"""No host is powered on, runs code of its own, and is off again within this time: its firmware first runs its self-test."""


_WHOLE_SECONDS = timedelta(seconds=1)
"""BMCs report the last reset time in whole seconds, so it may be before the reading that found the host off."""


def tail(poll: timedelta) -> timedelta:
    """Return how long after a host was read off its last reset time may still change because of that same power-off.

    OpenBMC records the time at which the chassis changed its power, a moment after it reports the host off (bmcweb,
    redfish-core/lib/systems.hpp, getLastResetTime and getHostState).

    :param poll: the time between two readings.
    """
    return min(2 * poll, LONGEST_TAIL)


# ------------------------------------------------------------------------------------------------------------------- cards


def closed(inventory: Inventory, baseline: Baseline, node: NodeFacts) -> frozenset[AcceleratorId]:
    """Return the cards of which every path that the baseline wants blocked reads closed. A card without demand is not."""
    return frozenset(a.id for a in inventory.accelerators if _is_closed(a, demands(baseline, a, node).block))


def _is_closed(accelerator: Accelerator, paths: frozenset[WritePath]) -> bool:
    return bool(paths) and all(
        lock_evidence.weakest(lock_evidence.coverage(accelerator, path, accelerator.locks)).state in _CLOSED for path in paths
    )


def not_closed(verdict: Verdict) -> frozenset[AcceleratorId]:
    """Return the cards of which a verdict says that a demanded lock does not hold."""
    return frozenset(f.accelerator for f in verdict.unmet if f.accelerator is not None and f.state is not None)


def off_now(inventory: Inventory, now: datetime) -> tuple[HeldOff, ...]:
    """Return the Systems that an inventory read found off."""
    return tuple(
        HeldOff(system=facts.system, at=now, last_reset=facts.last_reset, once=True)
        for facts in inventory.bmcs
        if facts.system is not None and _RUNS[facts.host.power] is False
    )


def open_cards(job: Job) -> frozenset[AcceleratorId]:
    """Return the cards that are not known to be closed to the host while the job works."""
    released = {i.action.accelerator for i in job.items if isinstance(i.action, Release)}
    return job.devices - (job.shut - released)


# ------------------------------------------------------------------------------------------------------------------- hosts


def holding(job: Job) -> tuple[Ref, ...]:
    """Return the Systems that the job holds off now: it has seen them off, and has not powered them on since."""
    found: dict[Ref, bool] = {}
    for item in job.items:
        match item.action:
            case Reset(purpose=ResetPurpose.HOLD) as hold if item.state is ItemState.DONE:
                found[hold.system] = True
            case Reset(purpose=ResetPurpose.RESUME) as resume if item.state in _ON_BY_US:
                found[resume.system] = False
            case _:
                pass
    return tuple(system for system, is_held in found.items() if is_held)


def running(job: Job, hosts: Mapping[Ref, HostReading]) -> tuple[Ref, ...]:
    """Return the Systems that the job holds off and that were read on: they are powered off before anything else is done."""
    return tuple(s for s in holding(job) if s in hosts and _RUNS[hosts[s].power])


def watched(
    job: Job, hosts: Mapping[Ref, HostReading], now: datetime, settles: timedelta, systems: Iterable[Ref] | None = None
) -> Job:
    """Return the job after the hosts that it holds off were read.

    :param hosts: the readings by System; a missing one says nothing.
    :param settles: as returned by :func:`tail`.
    :param systems: the Systems that are held; None: as :func:`holding` returns.
    """
    held = holding(job) if systems is None else tuple(systems)
    given_back = _given_back(job) if systems is None else ()
    marks = {mark.system: mark for mark in job.held_off if mark.system not in given_back}
    found = []
    for system in held:
        seen = hosts.get(system)
        if seen is None:
            continue
        known = marks.get(system)
        kind = ran_since(known, seen, now, settles)
        if kind is not None:
            found.append(_met(kind, open_cards(job), system, None if known is None else known.last_reset, seen, now))
        if _RUNS[seen.power]:
            marks.pop(system, None)  # its mark is taken again once it is off
        elif _RUNS[seen.power] is False and (known is None or known.last_reset != seen.last_reset):
            at = known.at if known is not None and kind is None else now
            marks[system] = HeldOff(system=system, at=at, last_reset=seen.last_reset)
    return met(replace(job, held_off=tuple(marks.values())), found)


def ran_since(
    known: HeldOff | None, seen: HostReading, now: datetime, settles: timedelta = timedelta(0)
) -> InterferenceKind | None:
    """Return what shows that a host that should be off has run; None if nothing does.

    :param known: how it was first read off; None if that is not recorded.
    """
    match _RUNS[seen.power]:
        case True:
            return InterferenceKind.HOST_ON
        case False if known is not None and known.last_reset not in (None, seen.last_reset):
            return None if now - known.at <= settles else InterferenceKind.HOST_RESET
        case _:
            return None


def ran_unseen(mark: HeldOff, seen: HostReading, now: datetime, settles: timedelta) -> InterferenceKind | None:
    """Like :func:`ran_since`, for a host that was not read since it was left off."""
    if seen.last_reset is None or (mark.once and _by_that_power_off(mark, seen.last_reset, settles)):
        seen = replace(seen, last_reset=mark.last_reset)
    return ran_since(mark, seen, now)


def ran_meanwhile(
    left: Iterable[HeldOff],
    accelerators: frozenset[AcceleratorId],
    inventory: Inventory,
    settles: timedelta = timedelta(0),
) -> tuple[Interference, ...]:
    """Return what an inventory read shows of hosts that were left off with open locks, and not read meanwhile.

    :param accelerators: the cards that were left open.
    :param settles: as returned by :func:`tail`.
    """
    found = []
    for mark in left:
        facts = inventory.bmc(mark.system.bmc)
        seen = HostReading(power=PowerState.UNKNOWN) if facts is None or facts.system != mark.system else facts.host
        kind = ran_unseen(mark, seen, inventory.at, settles)
        if kind is not None:
            found.append(_met(kind, accelerators, mark.system, mark.last_reset, seen, inventory.at))
    return tuple(found)


def _by_that_power_off(mark: HeldOff, last_reset: str, settles: timedelta) -> bool:
    """Whether the last reset time is that of the power-off after which the host was read off."""
    try:
        at = datetime.fromisoformat(last_reset)
    except ValueError:
        return False
    since = (at if at.tzinfo is not None else at.replace(tzinfo=UTC)) - mark.at
    return -_WHOLE_SECONDS <= since <= settles


def _met(
    kind: InterferenceKind,
    accelerators: frozenset[AcceleratorId],
    system: Ref,
    before: str | None,
    seen: HostReading,
    now: datetime,
) -> Interference:
    is_on = kind is InterferenceKind.HOST_ON
    return Interference(
        kind=kind,
        accelerators=accelerators,
        at=now,
        ref=system,
        expected=PowerState.OFF if is_on else before,
        found=seen.power if is_on else seen.last_reset,
    )


def met(job: Job, found: Iterable[Interference]) -> Job:
    """Add interferences to the job, each kind and place once, and fail the job. Every lock is still engaged."""
    new = tuple(found)
    before = {(one.kind, one.ref) for one in job.interferences}
    reasons = (*job.reasons, *(str(one) for one in new if (one.kind, one.ref) not in before))
    return replace(_noted(job, new), reasons=tuple(dict.fromkeys(reasons)))


def _noted(job: Job, found: Iterable[Interference]) -> Job:
    """Add interferences to the job, whose reasons name them already, or will at its end."""
    known = {(one.kind, one.ref): one for one in job.interferences}
    for one in found:
        earlier = known.get((one.kind, one.ref))
        known[one.kind, one.ref] = (
            one if earlier is None else replace(earlier, accelerators=earlier.accelerators | one.accelerators)
        )
    return replace(job, interferences=tuple(known.values()))


# ---------------------------------------------------------------------------------------------------------- inventory reads


def looked(job: Job, inventory: Inventory, baseline: Baseline, node: NodeFacts, now: datetime, settles: timedelta) -> Job:
    """Update the job from a whole inventory read: its hosts were read, and a card found open no longer counts as closed.

    If the host has run before, that card may have been open to it then.
    """
    job = watched(job, hosts_of(job, inventory), now, settles)
    job = met(job, _restarted(job, inventory, now))
    there = {a.id for a in inventory.accelerators}
    opened = (job.shut & there) - closed(inventory, baseline, node)
    if not opened:
        return job
    missed = opened - job.suspect
    job = replace(job, shut=job.shut - opened)
    if not job.interferences or not missed:
        return job
    return met(job, [replace(job.interferences[-1], accelerators=frozenset(missed), at=now)])


def on_now(inventory: Inventory) -> tuple[tuple[Ref, str], ...]:
    """Return the Systems that an inventory read found on, with their last reset time, where it is reported."""
    return tuple(
        (facts.system, facts.last_reset)
        for facts in inventory.bmcs
        if facts.system is not None and facts.last_reset is not None and facts.host.power is PowerState.ON
    )


def _restarted(job: Job, inventory: Inventory, now: datetime) -> Iterable[Interference]:
    """Return the Systems that ran the operator's ramdisk and were reset by somebody else, not by the job itself."""
    ours = {i.action.system for i in job.items if isinstance(i.action, Reset) and i.state in _ON_BY_US}
    shown = {facts.system: facts.last_reset for facts in inventory.bmcs}
    return [
        Interference(
            kind=InterferenceKind.RAMDISK_RESET,
            accelerators=open_cards(job),
            at=now,
            ref=system,
            expected=before,
            found=shown[system],
        )
        for system, before in job.left_on
        if system not in ours and shown.get(system) not in (None, before)
    ]


def hosts_of(job: Job, inventory: Inventory) -> dict[Ref, HostReading]:
    """Return the power readings of Systems in an inventory.

    BMCs report fewer properties of a resource that is read together with its collection: a last reset time that is missing
    there says nothing, so the known one is kept.
    """
    known = {mark.system: mark.last_reset for mark in job.held_off}
    return {
        facts.system: replace(facts.host, last_reset=facts.last_reset or known.get(facts.system))
        for facts in inventory.bmcs
        if facts.system is not None
    }


def lost_locks(job: Job, inventory: Inventory, verdict: Verdict, now: datetime) -> Job:
    """Return the job after its final read, with the cards whose locks do not hold on a host that was given back, or has run.

    A lock that was lost by the very start of the host was open to what that start ran. The end of the job reports it.
    """
    if not _may_have_run(job, inventory):
        return job
    return _noted(
        job,
        [
            Interference(
                kind=InterferenceKind.LOCK,
                accelerators=frozenset({f.accelerator}),
                at=now,
                ref=accelerator.primary,
                expected=LockState.LOCKED_VERIFIED,
                found=f.state,
            )
            for f in verdict.unmet
            if f.state is not None
            and f.accelerator is not None
            and f.accelerator in job.devices - job.suspect
            and (accelerator := inventory.accelerator(f.accelerator)) is not None
        ],
    )


def _may_have_run(job: Job, inventory: Inventory) -> bool:
    """Whether a host that the job has held is not proven to have been off ever since."""
    hosts = hosts_of(job, inventory)
    return bool(_given_back(job)) or not all(_is_as_left(mark, hosts.get(mark.system)) for mark in job.held_off)


def _is_as_left(mark: HeldOff, seen: HostReading | None) -> bool:
    """Whether a System was read off, with the same last reset time as when it was first read off."""
    return seen is not None and seen.power is PowerState.OFF and seen.last_reset == mark.last_reset


def _given_back(job: Job) -> tuple[Ref, ...]:
    """Return the Systems that the job has held off and powered on again."""
    resets = {i.action.system: i.action for i in job.items if isinstance(i.action, Reset) and i.state in _ON_BY_US}
    return tuple(s for s, last in resets.items() if last.purpose is ResetPurpose.RESUME)


def another_version(job: Job, action: Flash | Program, found: str | None, now: datetime) -> Job:
    """Record at the job that a card shows another version than the planned one before a write: nobody knows whose it is.

    The write itself fails because of that, and gives the reason.
    """
    one = Interference(
        kind=InterferenceKind.FIRMWARE if isinstance(action, Flash) else InterferenceKind.FUNCTION,
        accelerators=frozenset({action.accelerator}),
        at=now,
        ref=action.ref,
        expected=action.expects,
        found=found,
    )
    return _noted(job, [one])


__all__ = [
    'another_version',
    'closed',
    'holding',
    'hosts_of',
    'looked',
    'lost_locks',
    'met',
    'not_closed',
    'off_now',
    'on_now',
    'open_cards',
    'ran_meanwhile',
    'ran_since',
    'ran_unseen',
    'running',
    'tail',
    'watched',
]
