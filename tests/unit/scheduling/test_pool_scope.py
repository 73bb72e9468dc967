# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Only the machines that the pool file is about are programmed for a demand that waits."""

from datetime import UTC, datetime

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.pool_plan import plan
from baremetal_acc.scheduling.pools import Demand, Pool, PoolMachine, PoolRegion, Pools

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
WAITING = [Demand(id='a boot of another project', function='aes', at=NOW)]


def machine(name: str, owner: str, function: str = 'gzip') -> PoolMachine:
    takes = frozenset({'gzip', 'aes'})
    region = PoolRegion(provider=name, accelerator=AcceleratorId('uuid:fpga'), slot_id='Slot0', function=function, takes=takes)
    return PoolMachine(uuid=name, name=name, regions=(region,), owner=owner)


OURS, THEIRS = machine('ours', 'cloud'), machine('theirs', 'project-q')


def moved(pools: tuple[Pool, ...], *machines: PoolMachine) -> list[str]:
    return [m.machine for m in plan(machines, Pools(pools=pools), WAITING, NOW).moves]


def test_no_machine_is_programmed_that_no_pool_is_about():
    """Whoever waits, and whatever he named: a machine of another project is not ours to change."""
    pool = Pool(name='ours', function='gzip', free=0, owner='cloud')
    assert ['ours'] == moved((pool,), THEIRS, OURS)
    assert [] == moved((pool,), THEIRS)
    made = plan([THEIRS], Pools(pools=(pool,)), WAITING, NOW)
    assert [('1 request waiting for aes', 1)] == [(s.who, s.missing) for s in made.short]


def test_a_file_without_pools_is_about_all():
    """Then there is nothing that would tell them apart."""
    assert ['ours'] == moved((), THEIRS, OURS)
    assert ['theirs'] == moved((), THEIRS)


def test_what_lies_ready_elsewhere_will_do():
    """Nothing has to be programmed for it, whoever owns it."""
    pool = Pool(name='ours', function='gzip', free=0, owner='cloud')
    assert [] == moved((pool,), machine('theirs', 'project-q', 'aes'), OURS)
