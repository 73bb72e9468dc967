# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a job met that it did not make is told from what its host and its cards show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.model.action import Engage, Flash, Release, Reset, ResetPurpose
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.interference import HeldOff, InterferenceKind
from baremetal_acc.model.inventory import HostReading, PowerState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning import interference
from baremetal_acc.planning.job_transitions import begin
from tests.unit.planning import values as v

OTHER = AcceleratorId('uuid:gpu-1')
SETTLES = timedelta(seconds=10)
LATER = v.NOW + timedelta(minutes=1)
OFF = HostReading(power=PowerState.OFF, last_reset='monday')


def reset(purpose: ResetPurpose) -> Reset:
    """Of the host."""
    return Reset(system=v.SYSTEM, purpose=purpose, kind=ResetKind.NONE, why=())


def job(*states: ItemState, shut: frozenset[AcceleratorId] = frozenset(), released: bool = False) -> Job:
    """One that holds the host, engages a lock of each of two cards, and gives the host back."""
    locks = [
        Engage(accelerator=card, mechanism='rot', ref=v.ref('Chassis/RoT_0'), field='x', blocks=v.HOST_DEVICE)
        for card in (v.GPU, OTHER)
    ]
    opens = Release(accelerator=OTHER, mechanism='rot', ref=v.ref('Chassis/RoT_0'), field='x', expects='1')
    actions = (reset(ResetPurpose.HOLD), *([opens] if released else []), *locks, reset(ResetPurpose.RESUME))
    begun = begin(
        Plan(target='node-1', actions=actions),
        identity='1',
        node='n',
        flow=Flow.CLEAN,
        step='x',
        lifecycle=1,
        now=v.NOW,
        timeout=timedelta(hours=1),
    )
    found = {0: states[0] if states else ItemState.DONE, len(actions) - 1: states[1] if len(states) > 1 else ItemState.PLANNED}
    items = tuple(replace(item, state=found.get(n, item.state)) for n, item in enumerate(begun.items))
    return replace(begun, items=items, shut=shut)


def watched(of: Job, seen: HostReading, at: Any = LATER) -> Job:
    """The job after a read of its host."""
    return interference.watched(of, {v.SYSTEM: seen}, at, SETTLES)


def held(**how: Any) -> Job:
    """It has seen the host off."""
    found = watched(job(**how), OFF, v.NOW)
    assert (HeldOff(system=v.SYSTEM, at=v.NOW, last_reset='monday'),) == found.held_off
    assert () == found.interferences
    return found


@pytest.mark.parametrize('power', PowerState)
def test_every_power_state_but_off_and_unknown_is_one_of_a_host_that_runs(power: PowerState) -> None:
    """The table is total, and a state that tells nothing is neither."""
    found = watched(held(), HostReading(power=power, last_reset='monday'))
    runs = power not in (PowerState.OFF, PowerState.UNKNOWN)
    assert ([InterferenceKind.HOST_ON] if runs else []) == [one.kind for one in found.interferences]
    assert (frozenset({v.GPU, OTHER}) if runs else frozenset()) == found.suspect
    assert runs == bool(found.reasons)
    assert ((v.SYSTEM,) if runs else ()) == interference.running(found, {v.SYSTEM: HostReading(power=power)})


@pytest.mark.parametrize(
    ('last_reset', 'seconds', 'kinds'),
    [
        ('monday', 60, []),
        ('tuesday', 60, [InterferenceKind.HOST_RESET]),
        (None, 60, [InterferenceKind.HOST_RESET]),
        ('tuesday', 5, []),
    ],
)
def test_a_host_that_was_on_between_two_reads_is_told_by_its_last_reset(
    last_reset: str | None, seconds: int, kinds: list[InterferenceKind]
) -> None:
    """Right after it was switched off, that may be what has changed the time."""
    seen = HostReading(power=PowerState.OFF, last_reset=last_reset)
    found = watched(held(), seen, v.NOW + timedelta(seconds=seconds))
    assert kinds == [one.kind for one in found.interferences]
    assert last_reset == found.held_off[0].last_reset
    again = watched(found, seen, v.NOW + timedelta(minutes=5))
    assert found.interferences == again.interferences, 'it is told once'


def test_a_host_whose_bmc_shows_no_last_reset_is_told_by_its_power_alone() -> None:
    """And a job that was stored before marks were kept begins with the first read."""
    first = watched(job(), HostReading(power=PowerState.OFF), v.NOW)
    assert () == watched(first, HostReading(power=PowerState.OFF, last_reset='tuesday')).interferences
    assert [InterferenceKind.HOST_ON] == [i.kind for i in watched(job(), HostReading(power=PowerState.ON)).interferences]


@pytest.mark.parametrize('state', [ItemState.SENT, ItemState.RUNNING, ItemState.DONE])
def test_a_host_that_was_given_back_may_run(state: ItemState) -> None:
    """One that was not, because the locks do not hold, may not."""
    given = job(ItemState.DONE, state)
    assert () == watched(given, HostReading(power=PowerState.ON)).interferences
    assert () == interference.holding(given)
    assert (v.SYSTEM,) == interference.holding(job(ItemState.DONE, ItemState.FAILED))
    assert () == interference.holding(job(ItemState.RUNNING))


def test_a_card_that_is_known_to_be_closed_is_not_suspect() -> None:
    """Unless the job opens it itself."""
    on = HostReading(power=PowerState.ON)
    assert {v.GPU} == watched(held(shut=frozenset({OTHER})), on).suspect
    assert {v.GPU, OTHER} == watched(held(shut=frozenset({OTHER}), released=True), on).suspect


def test_a_card_that_is_found_open_after_the_host_has_run_was_open_to_it() -> None:
    """A restart of the BMC may have opened it before."""
    rules = v.baseline()
    open_one = v.inventory(v.gpu(locks=(v.reading(LockState.UNLOCKED),)))
    closed_one = v.inventory(v.gpu(locks=(v.reading(LockState.LOCKED_REPORTED),)))
    assert {v.GPU} == interference.closed(closed_one, rules, v.NODE)
    assert frozenset() == interference.closed(open_one, rules, v.NODE)
    shut = watched(held(shut=frozenset({v.GPU})), HostReading(power=PowerState.ON))
    assert {OTHER} == shut.suspect
    looked = interference.looked(shut, open_one, rules, v.NODE, LATER, SETTLES)
    assert {OTHER, v.GPU} == looked.suspect
    off = replace(open_one, bmcs=tuple(replace(b, power=PowerState.OFF, last_reset='monday') for b in open_one.bmcs))
    quiet = interference.looked(held(shut=frozenset({v.GPU})), off, rules, v.NODE, v.NOW, SETTLES)
    assert (frozenset(), frozenset()) == (quiet.shut, quiet.suspect)


@pytest.mark.parametrize(
    ('facts', 'suspect'),
    [
        ({}, frozenset[AcceleratorId]()),
        ({'boot_progress': 'None', 'bmc_reset': 'sunday', 'power_on_hours': 60, 'log_mark': '1'}, frozenset[AcceleratorId]()),
        ({'last_reset': 'tuesday'}, frozenset({v.GPU})),
        ({'power': PowerState.ON}, frozenset({v.GPU})),
        ({'power': PowerState.UNKNOWN}, frozenset({v.GPU})),
    ],
)
def test_a_lock_that_does_not_hold_was_open_unless_the_host_is_as_it_was_left(
    facts: dict[str, Any], suspect: frozenset[AcceleratorId]
) -> None:
    """Off, with the same last reset; what a look says beside that is no other host."""
    seen = v.inventory(v.gpu())
    seen = replace(
        seen, bmcs=tuple(replace(b, **({'power': PowerState.OFF, 'last_reset': 'monday'} | facts)) for b in seen.bmcs)
    )
    unmet = Finding(
        accelerator=v.GPU,
        label='gpu',
        subject=Subject.from_text('lock host-device'),
        fact=FindingText(expected='locked-verified', found='unlocked'),
        met=Met.NO,
        rule='r',
        state=LockState.UNLOCKED,
    )
    found = interference.lost_locks(held(), seen, Verdict(target='node-1', findings=(unmet,)), LATER)
    assert suspect == found.suspect


def test_another_version_than_was_planned_with_makes_a_card_suspect() -> None:
    """The write that meets it fails by it."""
    action = Flash(accelerator=v.GPU, component='x', ref=v.ref('x'), image='i', version=v.NEW, expects=v.OLD)
    found = interference.another_version(job(), action, v.NEW, LATER)
    assert [(InterferenceKind.FIRMWARE, frozenset({v.GPU}), v.OLD, v.NEW)] == [
        (i.kind, i.accelerators, i.expected, i.found) for i in found.interferences
    ]
    assert () == found.reasons
    assert found == decode(Job, encode(found))
    assert 'has version' in str(found.interferences[0])
