# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each region is held for a demand that waits, and several functions are found on one machine."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.demand import AskedFunctions
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand, counting, progress
from baremetal_acc.scheduling.pools import Demand, PoolMachine, PoolRegion

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def machine(
    name: str, *holds: str | None, busy: str | None = None, coming: str | None = None, kind: str = 'gold'
) -> PoolMachine:
    """A machine whose regions hold these functions; its first one may be on its way to another one."""
    regions = tuple(
        PoolRegion(
            provider=f'{name}-{n}',
            accelerator=AcceleratorId('uuid:1'),
            slot_id=f'Slot{n}',
            function=function,
            coming=coming if n == 0 else None,
        )
        for n, function in enumerate(holds)
    )
    return PoolMachine(uuid=name, name=name, regions=regions, resource_class=kind, busy=busy)


def told(name: str = 'a', function: str = 'aes', at: datetime = NOW, resource_class: str | None = None) -> StoredDemand:
    """Somebody who waits."""
    return StoredDemand(
        demand=Demand(id=name, function=function, at=at, resource_class=resource_class), source='http', since=at
    )


def states(found: tuple[StoredDemand, ...]) -> dict[str, tuple[str, str | None]]:
    """How far it has come, by id."""
    return {t.demand.id: (str(t.progress), t.provider) for t in found}


def test_who_waits_is_served_by_a_free_region():
    """A region that holds the function and is on offer; what it took is told."""
    (found,) = progress([told()], [machine('m', 'gzip', 'aes')], NOW + 90 * SECOND)
    assert (
        replace(told(), progress=DemandProgress.SCHEDULABLE, since=NOW + 90 * SECOND, provider='m-1', took=90 * SECOND) == found
    )


@pytest.mark.parametrize(
    'there',
    [
        machine('m', 'gzip', None),
        machine('m', 'aes', busy='claimed'),
        machine('m', 'aes', kind='silver'),
    ],
)
def test_who_waits_goes_on_waiting(there):
    """While no region that he could claim holds it."""
    waits = told(resource_class='CUSTOM_GOLD')
    assert (waits,) == progress([waits], [there], NOW + SECOND)


def test_a_machine_that_is_being_programmed_is_coming():
    """Also its regions that hold the function already: all of them are withdrawn meanwhile."""
    found = progress([told('a'), told('b'), told('c')], [machine('m', 'gzip', 'aes', busy='x', coming='aes')], NOW + SECOND)
    assert {'a': ('programming', 'm-0'), 'b': ('programming', 'm-1'), 'c': ('waiting', None)} == states(found)
    assert NOW + SECOND == found[0].since


def test_when_it_is_programmed_for_long_its_beginning_stays():
    """The time is that of the change of its state."""
    before = replace(told(), progress=DemandProgress.PROGRAMMING, since=NOW + SECOND, provider='m-0')
    (found,) = progress([before], [machine('m', 'gzip', busy='x', coming='aes')], NOW + 60 * SECOND)
    assert before == found


def test_what_failed_waits_again():
    """Its region is not being given the function any more, and does not hold it: since it was told it waits."""
    before = replace(told(), progress=DemandProgress.PROGRAMMING, since=NOW + SECOND, provider='m-0')
    assert (told(),) == progress([before], [machine('m', 'gzip')], NOW + 60 * SECOND)


def test_one_region_serves_one():
    """The oldest first; in the order that they were told in they are given back."""
    young, old = told('a', at=NOW + SECOND), told('b')
    found = progress([young, old], [machine('m', 'aes')], NOW + 2 * SECOND)
    assert ['b', 'a'] == [t.demand.id for t in found]
    assert {'a': ('waiting', None), 'b': ('schedulable', 'm-0')} == states(found)


def test_who_asks_for_a_class_is_not_left_without_for_whom_any_is_good():
    """Both are served where there is one region of each class, whoever came first."""
    either = told('a')
    gold = told('b', at=NOW + SECOND, resource_class='gold')
    found = progress([either, gold], [machine('g', 'aes'), machine('s', 'aes', kind='silver')], NOW + 2 * SECOND)
    assert {'a': ('schedulable', 's-0'), 'b': ('schedulable', 'g-0')} == states(found)


def held(name: str = 'a', provider: str = 'm-0', at: datetime = NOW) -> StoredDemand:
    """Somebody whose function was schedulable ten seconds after he told."""
    return replace(
        told(name, at=at), progress=DemandProgress.SCHEDULABLE, since=at + 10 * SECOND, provider=provider, took=10 * SECOND
    )


def test_a_region_is_held_for_whom_it_was_programmed():
    """Somebody else who waits, even if he told it earlier, does not get the same one."""
    found = progress([told('old', at=NOW - SECOND), held()], [machine('m', 'aes')], NOW + 20 * SECOND)
    assert {'old': ('waiting', None), 'a': ('schedulable', 'm-0')} == states(found)
    assert held() == found[1]


@pytest.mark.parametrize(
    'there',
    [
        machine('m', 'aes', busy='claimed'),
        machine('m', 'gzip'),
        machine('m', 'aes', kind='silver'),
        machine('other', 'aes'),
        machine('m', 'aes', busy='x', coming='gzip'),
    ],
)
def test_what_was_claimed_or_is_gone_is_no_longer_held(there):
    """It was there once, which stays told; who wants it again tells it again."""
    mine = replace(held(), demand=replace(held().demand, resource_class='gold'))
    (found,) = progress([mine], [there], NOW + 20 * SECOND)
    assert replace(mine, progress=DemandProgress.TAKEN, since=NOW + 20 * SECOND) == found
    assert (found,) == progress([found], [machine('m', 'aes')], NOW + 30 * SECOND)


def test_what_nobody_holds_is_over():
    """Without its region nobody can tell whether it is there still."""
    (found,) = progress([replace(held(), provider=None)], [machine('m', 'aes')], NOW + 20 * SECOND)
    assert DemandProgress.TAKEN == found.progress


def test_it_is_held_while_another_region_of_its_machine_is_programmed():
    """It is withdrawn for a while, and comes back."""
    there = machine('m', 'gzip', 'aes', busy='x', coming='aes')
    found = progress([held(provider='m-1'), told('b')], [there], NOW + 20 * SECOND)
    assert {'a': ('schedulable', 'm-1'), 'b': ('programming', 'm-0')} == states(found)


def test_a_plan_counts_whoever_waits_and_whatever_is_held():
    """And not what somebody took: else each demand would be served again and again, until its time is over."""
    waits = told('w', resource_class='gold')
    comes = replace(told('p', resource_class='custom_gold'), progress=DemandProgress.PROGRAMMING)
    taken = replace(held('t'), progress=DemandProgress.TAKEN)
    found = counting([waits, comes, held('h'), taken])
    assert (('w', 'CUSTOM_GOLD'), ('p', 'CUSTOM_GOLD'), ('h', None)) == tuple((d.id, d.resource_class) for d in found)
    assert replace(held('h').demand, held='m-0') == found[2]


def test_a_plan_is_told_which_region_serves_whom():
    """The one that is held, or is being programmed; nobody else is given it, and it is not changed."""
    comes = replace(told('p'), progress=DemandProgress.PROGRAMMING, provider='m-1')
    waits = replace(told('w'), provider='m-2')
    assert ['m-0', 'm-1', None] == [d.held for d in counting([held('h'), comes, waits])]
    assert [None] * 3 == [t.demand.held for t in (held('h'), comes, waits)], 'it is not stored'


# ---------------------------------------------------------------------------------------------------------------- together


def request(name: str, *functions: str, at: datetime = NOW, resource_class: str | None = None) -> list[StoredDemand]:
    """Somebody who waits for several functions of one machine."""
    asked = AskedFunctions(functions=functions, resource_class=resource_class)
    return [StoredDemand(demand=d, source='http', since=at) for d in asked.demands(name, at)]


def test_several_functions_are_schedulable_on_one_machine_or_not_at_all():
    """Nova boots one machine: the two functions on two of them are of no use to it."""
    waits = request('r', 'aes', 'gzip')
    apart = [machine('m', 'aes', 'zstd'), machine('n', 'gzip', 'zstd')]
    assert tuple(waits) == progress(waits, apart, NOW + SECOND)
    found = progress(waits, [*apart, machine('o', 'zstd', 'gzip', 'aes')], NOW + SECOND)
    assert {'r/1': ('schedulable', 'o-2'), 'r/2': ('schedulable', 'o-1')} == states(found)
    twice = request('r', 'aes', 'aes')
    assert tuple(twice) == progress(twice, [machine('m', 'aes'), machine('n', 'aes')], NOW + SECOND)
    silver = request('r', 'aes', 'gzip', resource_class='silver')
    assert tuple(silver) == progress(silver, [machine('m', 'aes', 'gzip')], NOW + SECOND)


def test_several_functions_are_programmed_on_one_machine():
    """Also the one that it holds already is not there until the machine is back."""
    waits = request('r', 'aes', 'gzip')
    found = progress(waits, [machine('m', 'zstd', 'gzip', busy='x', coming='aes'), machine('n', 'aes')], NOW + SECOND)
    assert {'r/1': ('programming', 'm-0'), 'r/2': ('programming', 'm-1')} == states(found)
    found = progress(found, [machine('m', 'aes', 'gzip'), machine('n', 'aes')], NOW + 9 * SECOND)
    assert {'r/1': ('schedulable', 'm-0'), 'r/2': ('schedulable', 'm-1')} == states(found)
    assert [9 * SECOND] * 2 == [t.took for t in found]
    other = progress(waits, [machine('m', 'zstd', busy='x', coming='aes'), machine('n', 'gzip')], NOW + SECOND)
    assert tuple(waits) == other


def test_who_needs_several_of_one_machine_chooses_before_who_needs_one():
    """Both are served, though the other one came first."""
    one = told('a', at=NOW - SECOND)
    fleet = [machine('m', 'aes', 'gzip'), machine('n', 'aes')]
    found = progress([one, *request('r', 'aes', 'gzip')], fleet, NOW + SECOND)
    assert {'a': ('schedulable', 'n-0'), 'r/1': ('schedulable', 'm-0'), 'r/2': ('schedulable', 'm-1')} == states(found)


def test_requests_share_a_machine_that_has_enough_for_both():
    """And the third one waits; each as a whole."""
    fleet = [machine('m', 'aes', 'gzip', 'aes', 'gzip', 'aes'), machine('n', 'gzip')]
    found = progress([t for n in 'abc' for t in request(n, 'aes', 'gzip')], fleet, NOW + SECOND)
    assert {
        'a/1': ('schedulable', 'm-0'), 'a/2': ('schedulable', 'm-1'), 'b/1': ('schedulable', 'm-2'),
        'b/2': ('schedulable', 'm-3'), 'c/1': ('waiting', None), 'c/2': ('waiting', None),
    } == states(found)  # fmt: skip


def test_a_request_is_over_as_a_whole():
    """One of its regions was claimed, or is no longer what it was: what is left answers nobody."""
    held_both = progress(request('r', 'aes', 'gzip'), [machine('m', 'aes', 'gzip')], NOW)
    found = progress([*held_both, told('a')], [machine('m', 'aes', 'zstd')], NOW + SECOND)
    assert {'r/1': ('taken', 'm-0'), 'r/2': ('taken', 'm-1'), 'a': ('schedulable', 'm-0')} == states(found)
    assert held_both == progress(held_both, [machine('m', 'aes', 'gzip')], NOW + SECOND)


def test_one_that_was_half_told_is_served_as_a_whole_when_the_rest_is_there():
    """It is looked at in the very moment; what it holds then is not the other half's fault."""
    first, second = request('r', 'aes', 'gzip')
    half = progress([first], [machine('m', 'aes'), machine('n', 'aes', 'gzip')], NOW)
    assert {'r/1': ('schedulable', 'm-0')} == states(half)
    found = progress([*half, second], [machine('m', 'aes'), machine('n', 'aes', 'gzip')], NOW + SECOND)
    assert {'r/1': ('schedulable', 'n-0'), 'r/2': ('schedulable', 'n-1')} == states(found)


def test_what_is_busy_for_a_moment_is_held_still():
    """A conductor looks at the machine, or it was tried a short while ago: its region is there, and nobody has taken it."""
    there = replace(machine('m', 'aes', busy='locked by conductor x'), passing=True)
    assert (held(),) == progress([held()], [there], NOW + 20 * SECOND)
    assert (told(),) == progress([told()], [there], NOW + 20 * SECOND), 'nothing of it can be claimed now'
