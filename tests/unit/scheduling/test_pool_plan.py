# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A pool is filled from free regions that nobody needs, a machine is taken seldom, and nothing that is claimed is touched."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.pool_plan import alive, plan
from baremetal_acc.scheduling.pools import (
    DEMAND_LASTS,
    REST,
    Demand,
    Pool,
    PoolMachine,
    PoolPlan,
    PoolRegion,
    Pools,
    RegionChange,
    RegionMove,
    Short,
)

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
ALL = frozenset({'gzip', 'aes', 'zip'})


def region(machine: str, number: int, function: str | None = None, **changes) -> PoolRegion:
    values = {'takes': ALL} | changes
    return PoolRegion(
        provider=f'{machine}-{number}',
        accelerator=AcceleratorId('uuid:fpga'),
        slot_id=f'Slot{number}',
        function=function,
        **values,
    )


def machine(name: str, *functions: str | None, busy: str | None = None, **changes) -> PoolMachine:
    """Its regions hold these functions."""
    regions = tuple(region(name, n, function) for n, function in enumerate(functions))
    return PoolMachine(uuid=name, name=name, regions=regions, busy=busy, **changes)


def pools(*wanted: Pool, **changes) -> Pools:
    return Pools(pools=wanted, **changes)


def pool(function: str, free: int, **changes) -> Pool:
    return Pool(**({'name': function, 'function': function, 'free': free} | changes))


def waiting(function: str, count: int = 1, *, at: datetime = NOW, **changes) -> list[Demand]:
    return [Demand(id=f'{function}-{n}', function=function, at=at, **changes) for n in range(count)]


def given_to(made: PoolPlan) -> dict[str, str]:
    return {c.provider: c.function for m in made.moves for c in m.changes}


def after(machines, made: PoolPlan, when: datetime = NOW) -> list[PoolMachine]:
    """The fleet when a plan was done."""
    given_now = given_to(made)

    def now(r: PoolRegion) -> PoolRegion:
        return replace(r, function=given_now[r.provider], changed=when) if r.provider in given_now else r

    return [replace(m, regions=tuple(now(r) for r in m.regions)) for m in machines]


# -------------------------------------------------------------------------------------------------------------------- plan


def test_an_empty_region_is_given_what_a_pool_lacks():
    """The plan says which region of which machine, what it held, and which pool it is for."""
    change = RegionChange(
        provider='n1-1', accelerator=AcceleratorId('uuid:fpga'), slot_id='Slot1', was=None, function='gzip', why='pool gzip'
    )
    assert PoolPlan(moves=(RegionMove(machine='n1', name='n1', changes=(change,)),)) == plan(
        [machine('n1', 'gzip', None)], pools(pool('gzip', 2)), (), NOW
    )


def test_what_has_its_goal_is_left_alone():
    """What is free already counts, and what is on its way."""
    assert PoolPlan() == plan([machine('n1', 'gzip', None)], pools(pool('gzip', 1)), (), NOW)
    coming = replace(machine('n1', None, busy='is cleaned'), regions=(region('n1', 0, coming='gzip'),))
    assert PoolPlan() == plan([coming, machine('n2', None)], pools(pool('gzip', 1)), (), NOW)


def test_what_is_claimed_is_not_free_and_is_not_touched():
    """Nothing of a machine is, of which anything is claimed."""
    made = plan([machine('n1', 'gzip', None, busy='instance'), machine('n2', 'aes')], pools(pool('gzip', 1)), (), NOW)
    assert {'n2-0': 'gzip'} == given_to(made)
    made = plan([machine('n1', 'gzip', None, busy='instance')], pools(pool('gzip', 1)), (), NOW)
    assert (
        PoolPlan(short=(Short(who='pool gzip', function='gzip', missing=1, why='every suitable node is claimed or busy'),))
        == made
    )


def test_what_a_region_cannot_be_given_it_is_not_given():
    """The short line says so."""
    only = replace(machine('n1'), regions=(region('n1', 0, 'aes', takes=frozenset({'aes'})),))
    assert PoolPlan(
        short=(Short(who='pool gzip', function='gzip', missing=3, why='no other region can be given gzip'),)
    ) == plan([only], pools(pool('gzip', 3)), (), NOW)


@pytest.mark.parametrize(('spare', 'moved'), [(0, {'n1-0': 'gzip'}), (1, {}), (2, {})])
def test_a_pool_gives_what_it_has_beyond_its_goal_and_margin(spare, moved):
    """The margin keeps two pools from handing one region to and fro."""
    found = plan([machine('n1', 'aes', 'aes')], pools(pool('gzip', 2), pool('aes', 1, spare=spare)), (), NOW)
    assert moved == given_to(found)
    (short,) = found.short
    why = 'every suitable region holds a function that a pool needs'
    assert (2 - len(moved), why) == (short.missing, short.why)


def test_who_waits_takes_the_margin_and_not_the_goal():
    """And is served before any pool."""
    fleet = [machine('n1', 'aes', 'aes', 'aes')]
    made = plan(fleet, pools(pool('zip', 1), pool('aes', 1, spare=1)), waiting('gzip', 2), NOW)
    assert {'gzip': 2} == Counter(given_to(made).values())
    assert [('pool zip', 1)] == [(s.who, s.missing) for s in made.short]


def test_a_region_that_was_changed_is_left_alone_for_a_while():
    """Whoever asks. After that it is not."""
    changed = replace(machine('n1'), regions=(region('n1', 0, 'aes', changed=NOW - REST + timedelta(seconds=1)),))
    made = plan([changed], pools(), waiting('gzip'), NOW)
    assert (
        PoolPlan(
            short=(
                Short(
                    who='1 request waiting for gzip',
                    function='gzip',
                    missing=1,
                    why='every suitable region was changed within rest_seconds',
                ),
            )
        )
        == made
    )
    assert {'n1-0': 'gzip'} == given_to(plan([changed], pools(), waiting('gzip', at=NOW), NOW + timedelta(seconds=1)))


def test_few_machines_are_off_the_shelf_at_a_time():
    """Those that are under way count; a machine that is taken anyway has all its regions done."""
    fleet = [machine(f'n{n}', None, None) for n in range(9)]
    made = plan(fleet, pools(pool('gzip', 18), at_a_time=3), (), NOW)
    assert ['n0', 'n1', 'n2'] == [m.machine for m in made.moves]
    assert 6 == len(given_to(made))
    assert (Short(who='pool gzip', function='gzip', missing=12, why='machines_at_a_time = 3 is reached'),) == made.short
    busy = [replace(m, busy='is cleaned', regions=(region(m.uuid, 0, coming='aes'),)) for m in fleet[:2]]
    assert ['n2'] == [m.machine for m in plan([*busy, *fleet[2:]], pools(pool('gzip', 18), at_a_time=3), (), NOW).moves]


def test_a_pool_may_have_a_limit_of_its_own():
    """What is under way for it counts; others go on, and a machine that is taken anyway is made use of."""
    fleet = [machine(f'n{n}', None, None) for n in range(6)]
    made = plan(fleet, pools(pool('gzip', 12, at_a_time=1), pool('aes', 2), at_a_time=3), (), NOW)
    assert ['n0', 'n1'] == [m.machine for m in made.moves]
    assert {'gzip': 1, 'aes': 2} == Counter(given_to(made).values())
    assert [Short(who='pool gzip', function='gzip', missing=11, why='machines_at_a_time = 1 is reached')] == list(made.short)
    coming = replace(fleet[0], busy='is cleaned', regions=(region('n0', 0, coming='gzip'), region('n0', 1, coming='gzip')))
    made = plan([coming, *fleet[1:]], pools(pool('gzip', 12, at_a_time=1), at_a_time=3), (), NOW)
    assert ((), 10) == (made.moves, made.short[0].missing)
    made = plan([coming, *fleet[1:]], pools(pool('gzip', 12, at_a_time=2), at_a_time=3), (), NOW)
    assert ['n1'] == [m.machine for m in made.moves]
    made = plan([coming, *fleet[1:]], pools(pool('gzip', 12, resource_class='x', at_a_time=1), pool('aes', 2)), (), NOW)
    assert ['n1'] == [m.machine for m in made.moves], 'what comes for others does not count'
    made = plan(fleet, pools(pool('gzip', 12, at_a_time=9), at_a_time=2), (), NOW)
    assert (2, 'machines_at_a_time = 2 is reached') == (len(made.moves), made.short[0].why)


def test_what_is_busy_for_a_moment_counts_and_is_not_taken():
    """A conductor looks at each machine now and then: its pool is not filled from others for that."""
    fleet = [machine('n1', 'gzip', busy='held for a moment', passing=True), machine('n2', None)]
    assert PoolPlan() == plan(fleet, pools(pool('gzip', 1)), (), NOW)
    assert {'n2-0': 'gzip'} == given_to(plan(fleet, pools(pool('gzip', 2)), (), NOW))
    assert {'n2-0': 'aes'} == given_to(plan(fleet, pools(pool('aes', 1)), (), NOW))


def test_a_stamp_of_the_far_future_keeps_no_region_for_ever():
    """One of the near future was made by a clock that goes a little wrong."""
    for ahead, expected in ((REST - timedelta(seconds=1), {}), (REST, {'n1-0': 'gzip'})):
        fleet = [replace(machine('n1'), regions=(region('n1', 0, 'aes', changed=NOW + ahead),))]
        assert expected == given_to(plan(fleet, pools(), waiting('gzip'), NOW))


def test_the_machine_is_taken_that_is_missed_least():
    """One that holds nothing anybody wants, and of which nothing goes off the shelf with it that somebody wants."""
    wanted = pools(pool('gzip', 1), pool('aes', 1))
    fleet = [machine('n1', None, 'aes'), machine('n2', 'zip', 'aes'), machine('n3', 'zip', 'zip'), machine('n4', 'aes', 'aes')]
    assert {'n3-0': 'gzip'} == given_to(plan(fleet, wanted, (), NOW))


def test_nobody_is_served_whole_while_another_has_nothing():
    """Each time the one that is furthest from its goal comes next."""
    fleet = [machine(f'n{n}', None) for n in range(4)]
    made = plan(fleet, pools(pool('gzip', 8), pool('aes', 2)), (), NOW)
    assert {'gzip': 3, 'aes': 1} == Counter(given_to(made).values())
    assert {'gzip': 2, 'aes': 2} == Counter(given_to(plan(fleet, pools(pool('gzip', 2), pool('aes', 2)), (), NOW)).values())


def test_who_is_furthest_from_the_goal_comes_first():
    """Eight of eight are missing to the one, one of two to the other."""
    fleet = [machine('n1', None), machine('n2', 'aes', busy=None)]
    made = plan(fleet, pools(pool('gzip', 8), pool('aes', 2)), (), NOW)
    assert {'n1-0': 'gzip'} == given_to(made)
    assert [('pool gzip', 7), ('pool aes', 1)] == [(s.who, s.missing) for s in made.short]


def test_a_region_is_given_once():
    """Who comes too late is told so; those who wait for machines of a class are told apart."""
    fleet = [machine('n1', None, resource_class='gold')]
    made = plan(fleet, pools(), [*waiting('gzip', resource_class='Gold'), *waiting('zip')], NOW)
    assert ['1 request waiting for gzip of class gold'] == [c.why for m in made.moves for c in m.changes]
    assert (
        Short(
            who='1 request waiting for zip',
            function='zip',
            missing=1,
            why='every suitable region is already planned for others',
        ),
    ) == made.short


def test_a_machine_that_is_off_the_shelf_anyway_is_made_use_of():
    """Though a region of another one is empty."""
    fleet = [machine('n1', None, 'aes'), machine('n2', None)]
    assert {'n1-0': 'gzip', 'n1-1': 'gzip'} == given_to(plan(fleet, pools(pool('gzip', 2)), (), NOW))


def test_only_machines_that_a_pool_is_for_count_and_are_taken():
    """By patterns, without case; a machine of which it is not known is none."""
    fleet = [
        machine('n1', None),
        machine('n2', 'gzip', resource_class='silver'),
        machine('n3', None, resource_class='GOLD', owner='p1'),
    ]
    assert {'n3-0': 'gzip'} == given_to(plan(fleet, pools(pool('gzip', 1, resource_class='go*')), (), NOW))
    assert {'n3-0': 'gzip'} == given_to(plan(fleet, pools(pool('gzip', 1, owner='P1')), (), NOW))
    assert {'n3-0': 'gzip'} == given_to(plan(fleet, pools(), waiting('gzip', resource_class='Gold'), NOW))
    assert {} == given_to(plan(fleet, pools(), waiting('gzip', resource_class='go*'), NOW))


# ------------------------------------------------------------------------------------------------------------------ demand


def test_a_demand_is_forgotten_when_it_is_old():
    """And counts once, however often it was told; one of the future counts."""
    at = [NOW - DEMAND_LASTS, NOW - DEMAND_LASTS + timedelta(seconds=1), NOW, NOW + timedelta(days=1)]
    told = [Demand(id=str(n), function='gzip', at=when) for n, when in enumerate(at)]
    assert told[1:] == list(alive([*told, *told], NOW, DEMAND_LASTS))
    assert told[2:3] == list(alive([told[2], replace(told[2], at=NOW + timedelta(seconds=5))], NOW, DEMAND_LASTS))


def test_what_is_free_serves_who_waits():
    """Nothing is programmed for somebody who only has to ask again."""
    assert PoolPlan() == plan([machine('n1', 'gzip', None)], pools(), waiting('gzip'), NOW)


def test_a_free_region_is_there_for_one_of_those_who_wait():
    """Whoever has fewer machines to choose from has it; the other one is given another region."""
    fleet = [
        machine('n1', 'gzip', resource_class='gold'),
        machine('n2', 'aes'),
        machine('n3', 'gzip', 'gzip', resource_class='iron'),
    ]
    any_of_them = [Demand(id=f'any-{n}', function='gzip', at=NOW) for n in range(3)]
    for order in (1, -1):
        told = [*any_of_them, *waiting('gzip', resource_class='Gold')][::order]
        made = plan(fleet, pools(), told, NOW)
        assert ({'n2-0': 'gzip'}, ()) == (given_to(made), made.short)
    assert {} == given_to(plan(fleet, pools(), told[1:], NOW)), 'two of iron and one of gold are three'


def test_a_class_is_one_however_it_is_said():
    """In Ironic's words and in placement's: both wait for the same machines. One that no machine has is told as it was said."""
    fleet = [machine('n1', 'gzip', resource_class='gold'), machine('n2', 'aes', resource_class='gold')]
    said = [*waiting('gzip', resource_class='gold'), replace(waiting('gzip')[0], id='b', resource_class='CUSTOM_GOLD')]
    assert {'n2-0': 'gzip'} == given_to(plan(fleet, pools(), said, NOW))
    nowhere = [replace(waiting('gzip')[0], id=name, resource_class=name) for name in ('tin', 'lead')]
    made = plan(fleet, pools(), nowhere, NOW)
    assert ['1 request waiting for gzip of class lead', '1 request waiting for gzip of class tin'] == sorted(
        s.who for s in made.short
    )


def test_what_serves_a_demand_is_not_changed_for_another_one():
    """An empty region is, or one that nobody waits for; where there is none it is said."""
    both = [*waiting('aes'), *waiting('gzip')]
    assert {'m1-1': 'gzip'} == given_to(plan([machine('m1', 'aes', 'zip')], pools(), both, NOW))
    assert {'m2-0': 'gzip'} == given_to(plan([machine('m1', 'aes'), machine('m2', None, None)], pools(), both, NOW))
    why = 'every suitable region serves another demand'
    assert PoolPlan(short=(Short(who='1 request waiting for gzip', function='gzip', missing=1, why=why),)) == plan(
        [machine('m1', 'aes')], pools(), both, NOW
    )


def test_what_serves_a_demand_is_not_changed_for_a_pool():
    """Though the pool has nothing: who waits comes first."""
    asked = waiting('aes')
    assert {'m1-1': 'gzip'} == given_to(plan([machine('m1', 'aes', 'zip')], pools(pool('gzip', 1)), asked, NOW))
    why = 'every suitable region serves another demand'
    assert PoolPlan(short=(Short(who='pool gzip', function='gzip', missing=1, why=why),)) == plan(
        [machine('m1', 'aes')], pools(pool('gzip', 1)), asked, NOW
    )


def test_the_very_region_that_is_held_is_not_changed():
    """Not another one of its function; of those nobody holds any may go."""
    for held in ('m1-0', 'm1-1', 'm2-0'):
        asked = [replace(waiting('aes')[0], held=held), *waiting('gzip', 2)]
        made = plan([machine('m1', 'aes', 'aes'), machine('m2', 'aes')], pools(), asked, NOW)
        assert {'m1-0', 'm1-1', 'm2-0'} - {held} == given_to(made).keys()


def test_what_is_held_counts_as_long_as_it_is_held():
    """Which may be longer than somebody is taken to wait: it was schedulable late."""
    late = NOW + DEMAND_LASTS
    asked = [replace(waiting('aes')[0], held='m1-0'), *waiting('gzip', at=late)]
    assert {} == given_to(plan([machine('m1', 'aes')], pools(), asked, late))
    gone = [replace(asked[0], held=None), asked[1]]
    assert {'m1-0': 'gzip'} == given_to(plan([machine('m1', 'aes')], pools(), gone, late))


def test_what_is_held_and_is_no_longer_there_is_another_demand_like_any():
    """The region was claimed since, or holds something else; nobody has two of one region."""
    asked = [replace(waiting('aes')[0], held='m1-0')]
    for there in (machine('m1', 'aes', busy='claimed'), machine('m1', 'gzip', busy='claimed'), machine('m3')):
        assert {'m2-0': 'aes'} == given_to(plan([there, machine('m2', None)], pools(), asked, NOW))
    two = [replace(d, held='m1-0') for d in waiting('aes', 2)]
    assert {'m2-0': 'aes'} == given_to(plan([machine('m1', 'aes'), machine('m2', None)], pools(), two, NOW))


def test_the_machine_is_spared_of_which_something_serves_somebody():
    """It would be off the shelf for a while; and an empty region comes before one that holds something."""
    fleet = [machine('m1', 'aes', None), machine('m2', 'zip', 'zip'), machine('m3', 'zip', None)]
    assert {'m3-1': 'gzip'} == given_to(plan(fleet, pools(), [*waiting('aes'), *waiting('gzip')], NOW))
    assert {'m2-0': 'gzip'} == given_to(plan(fleet[:2], pools(), [*waiting('aes'), *waiting('gzip')], NOW))


# ---------------------------------------------------------------------------------------------------------------- together


def several(name: str, *functions: str, **changes) -> list[Demand]:
    """One request for several functions of one machine."""
    return [
        Demand(id=f'{name}/{n + 1}', function=function, at=NOW, of=len(functions), **changes)
        for n, function in enumerate(functions)
    ]


def test_several_functions_come_to_one_machine():
    """To the one of which fewest regions are to be changed; both functions are there, on two machines, which is of no use."""
    fleet = [machine('m0', 'zip', 'zip'), machine('m1', 'aes', 'zip'), machine('m2', 'gzip', None)]
    made = plan(fleet, pools(), several('r', 'aes', 'gzip'), NOW)
    assert {'m1-1': 'gzip'} == given_to(made)
    assert ['1 request waiting for aes, gzip on one node'] == [c.why for m in made.moves for c in m.changes]
    assert {'m0-0': 'aes', 'm0-1': 'gzip'} == given_to(plan(fleet[:1], pools(), several('r', 'aes', 'gzip'), NOW))
    assert PoolPlan() == plan([machine('m1', 'aes', 'gzip')], pools(), several('r', 'aes', 'gzip'), NOW)
    coming = replace(machine('m1'), busy='x', regions=(region('m1', 0, 'aes'), region('m1', 1, coming='gzip')))
    assert PoolPlan() == plan([fleet[0], coming, fleet[2]], pools(), several('r', 'aes', 'gzip'), NOW)


def test_several_functions_come_to_one_machine_or_nothing_is_changed():
    """The short line says why: each machine has one region too few, or one that can be given nothing, or is not to be had."""
    aes_only = replace(machine('m2'), regions=tuple(region('m2', n, 'zip', takes=frozenset({'aes'})) for n in range(2)))
    rests = replace(machine('m1'), regions=(region('m1', 0, 'aes'), region('m1', 1, 'zip', changed=NOW)))
    who = '1 request waiting for aes, gzip on one node'
    for fleet, wanted, why in (
        ([], pools(), 'no node can be given all of the functions'),
        ([machine('m1', 'aes'), machine('m3', 'gzip')], pools(), 'no node can be given all of the functions'),
        ([aes_only, machine('m3', 'gzip')], pools(), 'no node can be given all of the functions'),
        ([machine('m1', 'aes', 'zip', busy='claimed')], pools(), 'every suitable node is claimed or busy'),
        ([rests], pools(), 'every suitable node has regions that were changed within rest_seconds, or that others need'),
        (
            [machine('m1', 'aes', 'zip')],
            pools(pool('zip', 1)),
            'every suitable node has regions that were changed within rest_seconds, or that others need',
        ),
    ):
        made = plan(fleet, wanted, several('r', 'aes', 'gzip'), NOW)
        assert PoolPlan(short=(Short(who=who, function='aes, gzip', missing=1, why=why),)) == made
    few = plan([machine(f'm{n}', None, None) for n in range(2)], pools(at_a_time=1), [
        *several('r', 'aes', 'gzip', resource_class=None), *several('s', 'aes', 'gzip'),
    ], NOW)  # fmt: skip
    assert ({'m0-0': 'aes', 'm0-1': 'gzip'}, 'machines_at_a_time = 1 is reached') == (given_to(few), few.short[0].why)
    assert 1 == few.short[0].missing


def test_each_request_that_is_served_counts():
    """As many machines as there are, one for each; who is left is told."""
    asked = [d for name in 'rstu' for d in several(name, 'aes', 'gzip')]
    made = plan([machine(f'm{n}', None, None) for n in range(3)], pools(), asked, NOW)
    assert (['m0', 'm1', 'm2'], [1]) == ([m.machine for m in made.moves], [s.missing for s in made.short])


def test_a_region_steps_aside_for_another_function():
    """The second region takes aes alone, so that the one that holds it is given gzip."""
    fleet = [
        replace(machine('m1'), regions=(region('m1', 0, 'aes'), region('m1', 1, None, takes=frozenset({'aes'})))),
    ]
    assert {'m1-0': 'gzip', 'm1-1': 'aes'} == given_to(plan(fleet, pools(), several('r', 'aes', 'gzip'), NOW))


def test_a_pool_spares_several_regions_of_one_machine_one_by_one():
    """It has one more than its goal: that one goes, and no second one."""
    two = [machine('m1', 'zip', 'zip'), machine('m2', 'zip')]
    assert {} == given_to(plan(two, pools(pool('zip', 2)), several('r', 'aes', 'gzip'), NOW))
    assert {'m1-0': 'aes', 'm1-1': 'gzip'} == given_to(plan(two, pools(pool('zip', 1)), several('r', 'aes', 'gzip'), NOW))


def test_what_serves_a_request_is_not_changed():
    """Neither what is held for it nor what its machine holds already while the rest of it is programmed."""
    held = [replace(d, held=f'm1-{n}') for n, d in enumerate(several('r', 'aes', 'gzip'))]
    assert {'m2-0': 'zip'} == given_to(
        plan([machine('m1', 'aes', 'gzip'), machine('m2', None)], pools(), [*held, *waiting('zip')], NOW)
    )
    asked = [*several('r', 'aes', 'gzip'), *waiting('zip', 9)]
    assert {'m1-1': 'gzip'} == given_to(plan([machine('m1', 'aes', None)], pools(), asked, NOW))
    apart = [replace(d, held=f'm{n + 1}-0') for n, d in enumerate(several('r', 'aes', 'gzip'))]
    made = plan([machine('m1', 'aes'), machine('m2', 'gzip'), machine('m3', None, None)], pools(), apart, NOW)
    assert {'m3-0': 'aes', 'm3-1': 'gzip'} == given_to(made), 'what lies on two machines serves nobody'


def test_a_request_takes_nothing_that_serves_another_one():
    """Neither changes it nor counts it as its own."""
    why = 'every suitable node has regions that were changed within rest_seconds, or that others need'
    for functions in (('gzip', 'zip'), ('aes', 'gzip')):
        asked = [*waiting('aes'), *several('r', *functions)]
        made = plan([machine('m1', 'aes', None)], pools(), asked, NOW)
        assert ((), [why]) == (made.moves, [s.why for s in made.short])
        made = plan([machine('m1', 'aes', None, None)], pools(), asked, NOW)
        assert {'m1-1': functions[0], 'm1-2': functions[1]} == given_to(made)
    first = plan([machine('m1', None, None, None)], pools(), [*several('r', 'aes', 'gzip'), *several('s', 'aes', 'zip')], NOW)
    assert (2, ['1 request waiting for aes, zip on one node']) == (len(given_to(first)), [s.who for s in first.short])


def test_thousands_who_wait_for_several_functions_are_quickly_planned_for():
    """The time grows with their kinds and with the machines, not with those who wait."""
    functions = sorted(ALL)
    asked = [d for n in range(1333) for d in several(str(n), *(functions[(n + k) % 3] for k in range(3)))]
    fleet = [machine(f'm{n:04}', None, None, None) for n in range(2000)]
    begun = time.monotonic()
    made = plan(fleet, pools(at_a_time=10), asked, NOW)
    assert time.monotonic() - begun < 10
    assert (10, 1323) == (len(made.moves), made.short[0].missing)


# ------------------------------------------------------------------------------------------------------------------- flood


def test_a_flood_changes_nothing_that_serves_somebody():
    """Twenty regions hold aes, ten wait for it, five lie on the shelf of a pool, a thousand want gzip: five can be given it."""
    fleet = [machine(f'n{n}', 'aes', 'aes') for n in range(10)]
    when = NOW
    changes: Counter[str] = Counter()
    for _ in range(14):
        asked = [*waiting('aes', 10), *waiting('gzip', 1000)]
        made = plan(fleet, pools(pool('aes', 15)), asked, when)
        changes.update(given_to(made).keys())
        fleet = after(fleet, made, when)
        when += timedelta(minutes=1)
    assert (5, {1}) == (len(changes), set(changes.values()))
    held = {f'n{n}-{k}' for n in range(5) for k in range(2)}
    assert not held & changes.keys()


def test_a_flood_changes_each_region_at_most_once():
    """A thousand ask for twenty regions, for one function and then another, round after round within the time of rest."""
    fleet = [machine(f'n{n:02}', 'aes', 'aes') for n in range(10)]
    changes: Counter[str] = Counter()
    when = NOW
    for n in range(40):
        asked = waiting(('gzip', 'zip')[n % 2], 1000, at=when)
        made = plan(fleet, pools(pool('aes', 0)), asked, when)
        changes.update(given_to(made).keys())
        fleet = after(fleet, made, when)
        when += timedelta(minutes=1)
    assert 20 == len(changes)
    assert {1} == set(changes.values())


@st.composite
def floods(draw):
    """A thousand demands, told in the first minutes, for a few functions."""
    names = draw(st.lists(st.sampled_from(['gzip', 'zip', 'aes']), min_size=1, max_size=3))
    spread = draw(st.integers(0, 14))
    return [
        Demand(id=f'{n}', function=names[n % len(names)], at=NOW + timedelta(seconds=n * spread * 60 / 1000))
        for n in range(1000)
    ]


@settings(max_examples=15, deadline=None)
@given(floods(), st.integers(0, 20), st.integers(1, 10), st.integers(1, 6), st.randoms(use_true_random=False))
def test_a_flood_is_over_after_as_many_changes_as_there_are_regions(asked, goal, at_a_time, takes_rounds, chance):
    """A thousand demands for a pool of twenty regions, minute after minute for two hours: moves take their time, somebody
    claims what is free and leaves again, and nobody's machine is touched."""
    fleet = {f'n{n:02}': machine(f'n{n:02}', 'aes', 'aes') for n in range(10)}
    wanted = pools(pool('aes', goal), at_a_time=at_a_time)
    under_way: dict[str, tuple[int, tuple[RegionChange, ...]]] = {}
    tenants: dict[str, int] = {}
    changed: list[tuple[int, str]] = []
    for minute in range(120):
        when = NOW + timedelta(minutes=minute)
        for name in [n for n, (end, _) in under_way.items() if end <= minute]:
            _, changes = under_way.pop(name)
            new = {c.provider: c.function for c in changes}
            was = fleet[name]
            given_now = tuple(
                replace(
                    r, function=new.get(r.provider, r.function), changed=when if r.provider in new else r.changed, coming=None
                )
                for r in was.regions
            )
            fleet[name] = replace(was, busy=None, regions=given_now)
        for name in [n for n, end in tenants.items() if end <= minute]:
            del tenants[name]
            fleet[name] = replace(fleet[name], busy=None)
        free = [n for n, m in fleet.items() if m.busy is None]
        if free and chance.random() < 0.2:
            name = chance.choice(free)
            tenants[name] = minute + chance.randint(1, 30)
            fleet[name] = replace(fleet[name], busy='claimed')
        told = [d for d in asked if d.at <= when]
        made = plan(list(fleet.values()), wanted, told, when)
        for move in made.moves:
            assert move.machine not in tenants
            assert move.machine not in under_way
            new = {c.provider: c.function for c in move.changes}
            coming = tuple(replace(r, coming=new.get(r.provider)) for r in fleet[move.machine].regions)
            fleet[move.machine] = replace(fleet[move.machine], busy='under way', regions=coming)
            under_way[move.machine] = (minute + takes_rounds, move.changes)
            changed += [(minute, provider) for provider in new]
        assert len(under_way) <= at_a_time
    # What was told for the flood; the pool takes back what it lacks when those who waited are gone and all has rested.
    during = [provider for minute, provider in changed if minute < 60]
    assert len(during) <= 20
    assert len(set(during)) == len(during), 'no region twice within its rest'
    assert max(Counter(p for _, p in changed).values(), default=0) <= 2


FUNCTIONS = st.sampled_from([None, 'gzip', 'aes', 'zip'])


@st.composite
def fleets(draw):
    made = []
    for n in range(draw(st.integers(0, 6))):
        regions = tuple(
            region(
                f'n{n}', k, draw(FUNCTIONS), takes=draw(st.frozensets(st.sampled_from(sorted(ALL)))),
                changed=draw(st.sampled_from([None, NOW - REST / 2, NOW - REST])),
            )
            for k in range(draw(st.integers(0, 3)))
        )  # fmt: skip
        made.append(
            PoolMachine(uuid=f'n{n}', name=f'n{n}', regions=regions, busy=draw(st.sampled_from([None, None, 'claimed'])))
        )
    return made


wishes = st.lists(
    st.tuples(st.sampled_from(sorted(ALL)), st.integers(0, 5), st.integers(0, 2)), max_size=3, unique_by=lambda w: w[0]
)


requests = st.lists(st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=3), max_size=5)


def served(fleet, demands, which: Callable[[Demand], bool]) -> int:
    """How many of some demands have a region each, whoever else waits."""
    there = Counter(r.function for m in fleet if m.busy is None for r in m.regions)
    return sum((Counter(d.function for d in demands if which(d)) & there).values())


@given(fleets(), wishes, requests, st.integers(1, 4), st.randoms(use_true_random=False))
def test_whatever_the_fleet_a_plan_keeps_its_rules(fleet, wished, asked, at_a_time, chance):
    """Only free, rested regions, to what they take, few machines at a time; no pool that had its goal falls below it; what
    serves a demand is not changed; and a request has all of its functions on one machine, or nothing is changed for it."""
    wanted = pools(*(pool(f, free, spare=spare) for f, free, spare in wished), at_a_time=at_a_time)
    demands = [
        d
        for n, functions in enumerate(asked)
        for d in (several(str(n), *functions) if len(functions) > 1 else [Demand(id=str(n), function=functions[0], at=NOW)])
    ]
    there = [r for m in fleet if m.busy is None for r in m.regions]
    chance.shuffle(there)
    held: dict[str, str] = {}
    for demand in demands:
        at = next((r.provider for r in there if demand.of == 1 and r.function == demand.function), None)
        if at is not None and at not in held.values() and chance.random() < 0.5:
            held[demand.id] = at
    demands = [replace(d, held=held.get(d.id)) for d in demands]
    made = plan(fleet, wanted, demands, NOW)
    changed = given_to(made)
    assert not changed.keys() & set(held.values())
    if all(d.of == 1 for d in demands):
        assert served(after(fleet, made), demands, lambda _: True) >= served(fleet, demands, lambda _: True)
    on_one = Counter(c.why for m in made.moves for c in m.changes if 'on one machine' in c.why)
    for why in on_one:
        functions = Counter(why.partition(' waiting for ')[2].partition(' on one node')[0].split(', '))
        good = [m for m in after(fleet, made) if not functions - Counter(r.function for r in m.regions)]
        assert {m.machine for m in made.moves if any(c.why == why for c in m.changes)} <= {m.uuid for m in good}
    known = {r.provider: (m, r) for m in fleet for r in m.regions}
    assert len(made.moves) <= at_a_time
    assert all(move.changes for move in made.moves)
    for move in made.moves:
        for change in move.changes:
            of, was = known[change.provider]
            assert (move.machine, change.was, None) == (of.uuid, was.function, of.busy)
            assert change.function in was.takes
            assert change.function != was.function
            assert was.changed is None or NOW - was.changed >= REST
    for one in wanted.pools:
        before, then = (
            sum(r.function == one.function for m in now if m.busy is None for r in m.regions)
            for now in (fleet, after(fleet, made))
        )
        assert then >= min(before, one.free)


@given(fleets(), wishes)
def test_without_anybody_asking_a_fleet_comes_to_rest(fleet, wished):
    """Plan after plan, however little rest there is: nothing is handed to and fro."""
    wanted = pools(*(pool(f, free, spare=spare) for f, free, spare in wished), rest=timedelta(0), at_a_time=6)
    for _ in range(20):
        made = plan(fleet, wanted, (), NOW)
        if not made.moves:
            break
        fleet = after(fleet, made)
    assert () == made.moves
