# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A function that a pool file spells in its own way is the one of the catalogue, as it is for a demand."""

from dataclasses import replace

import pytest

from baremetal_acc.scheduling import demand
from baremetal_acc.scheduling.pool_plan import plan
from baremetal_acc.scheduling.pools import PoolMachine, PoolPlan
from tests.unit.scheduling.test_pool_plan import NOW, machine, pool, pools, region

GCM = 'AES-256 (GCM)'


def able(name: str, *holds: str | None, takes: frozenset[str] = frozenset({GCM, 'gzip'})) -> PoolMachine:
    """A machine whose regions take functions that are spelled as a catalogue may spell them."""
    made = machine(name, *holds)
    return replace(made, regions=tuple(replace(r, takes=takes) for r in made.regions))


@pytest.mark.parametrize('spelled', [GCM, 'aes-256 (gcm)', 'AES 256 GCM', 'aes_256_gcm', 'CUSTOM_ACC_FN_AES_256_GCM'])
def test_a_pool_is_filled_however_its_function_is_spelled(spelled: str) -> None:
    """The regions are given it as they call it, once."""
    fleet = [able('n1', 'gzip', None)]
    wanted = pools(pool(spelled, 1))
    [move] = plan(fleet, wanted, (), NOW).moves
    assert [(None, GCM)] == [(c.was, c.function) for c in move.changes]
    assert PoolPlan() == plan([able('n1', 'gzip', GCM)], wanted, (), NOW)


def test_what_a_pool_keeps_is_kept_however_it_is_spelled() -> None:
    """Another pool does not get what is its goal."""
    found = plan([able('n1', 'gzip')], pools(pool('GZIP', 1), pool(GCM, 1)), (), NOW)
    assert () == found.moves
    assert ['every suitable region holds a function that a pool needs'] == [s.why for s in found.short]


def test_one_that_is_spelled_as_it_is_known_is_taken_before_all_others() -> None:
    """A fleet may know both."""
    fleet = [able('n1', None, takes=frozenset({'AES', 'aes'}))]
    for spelled in ('AES', 'aes'):
        [move] = plan(fleet, pools(pool(spelled, 1)), (), NOW).moves
        assert spelled == move.changes[0].function


@pytest.mark.parametrize('unknown', ['aes', 'AES-512 (GCM)', '--', ''])
def test_one_that_nobody_knows_is_said_as_it_was_written(unknown: str) -> None:
    """Nothing is programmed in its place, not where a name has neither letter nor digit, either."""
    found = plan([able('n1', None, takes=frozenset({GCM, '++'}))], pools(pool(unknown, 1)), (), NOW)
    assert ((), [f'no other region can be given {unknown}']) == (found.moves, [s.why for s in found.short])


@pytest.mark.parametrize(
    ('name', 'function'),
    [('aes 256 gcm', GCM), ('Aes_256_gcm', GCM), ('++', '++'), ('--', None), ('', None), ('aes', None)],
)
def test_a_demand_is_named_with_other_punctuation(name: str, function: str | None) -> None:
    """What placement has one name for is one function; what it can have no name for is nothing but itself."""
    assert function == demand.of_name(name, (GCM, '++'))


def test_a_region_says_how_it_is_spelled_by_what_it_holds() -> None:
    """Also one that takes nothing any more."""
    fleet = [replace(machine('n1'), regions=(region('n1', 0, 'Gzip', takes=frozenset()),))]
    assert PoolPlan() == plan(fleet, pools(pool('gzip', 1)), (), NOW)
