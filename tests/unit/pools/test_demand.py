# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each demand is reported, held and forgotten as the machines change, and a flood changes each region once."""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.errors import DemandRefused, DocumentError, UsageError
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.pools import demand as desks
from baremetal_acc.pools import sources
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.pools.spool import Spool
from baremetal_acc.scheduling.demand import AskedFunctions
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand, progress
from baremetal_acc.scheduling.pool_plan import plan
from baremetal_acc.scheduling.pools import Pool, PoolMachine, PoolRegion, Pools

NOW = datetime.now(UTC)
LASTS = timedelta(minutes=15)
MINUTE = timedelta(minutes=1)
FUNCTIONS = frozenset({'aes', 'gzip', 'dedup'})
AES = AskedFunctions(functions=('aes',))


def machine(name: str, *holds: str | None, busy: str | None = None, coming: str | None = None) -> PoolMachine:
    """A machine whose regions hold these functions, and can be given any."""
    regions = tuple(
        PoolRegion(
            provider=f'{name}-{n}', accelerator=AcceleratorId('uuid:1'), slot_id=f'Slot{n}', function=function,
            takes=FUNCTIONS, coming=coming,
        )
        for n, function in enumerate(holds)
    )  # fmt: skip
    return PoolMachine(uuid=name, name=name, regions=regions, busy=busy)


@pytest.fixture
def said() -> list[str]:
    """What was told."""
    return []


@pytest.fixture
def desk(tmp_path: Path, said: list[str], monkeypatch: pytest.MonkeyPatch) -> DemandService:
    """With an empty folder. No power fails here: a thousand files need not be on the disk."""
    monkeypatch.setattr(os, 'fsync', lambda _: None)
    return DemandService(spool=Spool(root=tmp_path / 'demands'), functions=FUNCTIONS, say=said.append)


def test_a_demand_from_its_beginning_to_its_end(desk: DemandService, said: list[str]) -> None:
    """Each change is told once, with where and how long it took; when somebody has taken it no plan counts it any more."""
    desk.tell(AES, 'req-1', NOW, source='nova')
    desk.tell(AES, 'req-1', NOW, source='nova')
    rounds = (
        (machine('m', 'gzip'), 1),
        (machine('m', 'gzip', busy='x', coming='aes'), 1),
        (machine('m', 'gzip', busy='x', coming='aes'), 1),
        (machine('m', 'aes'), 1),
        (machine('m', 'aes'), 1),
        (machine('m', 'aes', busy='claimed'), 0),
        (machine('m', 'aes'), 0),
    )
    for minutes, (there, counts) in enumerate(rounds):
        assert counts == len(desk.turn([there], NOW + minutes * MINUTE, LASTS))
    assert [
        'demand req-1 for aes: submitted (nova)',
        'demand req-1 for aes: being programmed: Slot0 of uuid:1 in m',
        'demand req-1 for aes: schedulable after 180 s: Slot0 of uuid:1 in m',
        'demand req-1 for aes: region no longer held for it: Slot0 of uuid:1 in m',
    ] == said
    assert () == desk.turn([], NOW + 30 * MINUTE, LASTS)
    assert () == desk.told()


def test_what_failed_is_told_too(desk: DemandService, said: list[str]) -> None:
    """It waits again, and counts."""
    desk.tell(AskedFunctions(functions=('aes',), resource_class='gold'), 'req-1', NOW, source='nova', asker='p')
    there = replace(machine('m', 'gzip', busy='x', coming='aes'), resource_class='gold')
    desk.turn([there], NOW, LASTS)
    [counted] = desk.turn([replace(machine('m', 'gzip'), resource_class='gold')], NOW + MINUTE, LASTS)
    assert 'CUSTOM_GOLD' == counted.resource_class
    assert 'demand req-1 for aes on nodes of class gold: waiting again' == said[-1]


def test_what_is_not_on_offer_is_not_called_schedulable(desk: DemandService, said: list[str]) -> None:
    """A region that is verified and withdrawn cannot be claimed: it waits until it is on offer."""
    desk.tell(AES, 'req-1', NOW, source='nova')
    offered: list[tuple[str, str]] = []
    desk.on_offer = lambda *asked: asked in offered
    desk.turn([machine('m', 'aes')], NOW, LASTS)
    assert ['demand req-1 for aes: submitted (nova)'] == said
    assert [DemandProgress.WAITING] == [t.progress for t in desk.told()]
    offered.append(('m', 'm-0'))
    desk.turn([machine('m', 'aes')], NOW + MINUTE, LASTS)
    assert 'demand req-1 for aes: schedulable after 60 s: Slot0 of uuid:1 in m' == said[-1]
    offered.clear()
    desk.turn([machine('m', 'aes')], NOW + 2 * MINUTE, LASTS)
    assert [DemandProgress.SCHEDULABLE] == [t.progress for t in desk.told()], 'it is asked once'


def test_a_look_changes_nothing(desk: DemandService, said: list[str]) -> None:
    """pool plan counts the same demands, reports none, and forgets none; what is over does not count."""
    desk.tell(AES, 'old', NOW - 20 * MINUTE, source='file')
    desk.tell(AES, 'new', NOW, source='file')
    before = (desk.spool.root / 'demands.sqlite').read_bytes()
    told = len(said)
    assert ['new'] == [d.id for d in desk.look([machine('m', 'aes')], NOW, LASTS)]
    assert before == (desk.spool.root / 'demands.sqlite').read_bytes()
    assert told == len(said)


def test_of_a_request_that_finds_no_room_nothing_is_kept(desk: DemandService, said: list[str]) -> None:
    """A project may ask for one gzip more, and asks for two: no region is programmed for the first of them."""
    for n in range(15):
        desk.tell(AskedFunctions(functions=('gzip',)), f'req-{n}', NOW, source='nova', asker='p')
    told = len(said)
    with pytest.raises(DemandRefused):
        desk.tell(AskedFunctions(functions=('gzip', 'gzip')), 'two', NOW, source='nova', asker='p')
    assert (15, 2, told) == (len(desk.told()), desk.spool.refused(), len(said))


def test_a_plan_does_not_count_what_is_left_of_a_request(desk: DemandService) -> None:
    """One of its files has gone, or its time is over: no region is programmed for the other alone."""
    desk.tell(AskedFunctions(functions=('aes', 'gzip')), 'req', NOW, source='nova')
    machines = [machine('m', 'dedup', 'dedup')]
    assert 2 == len(desk.look(machines, NOW, LASTS))
    first = desk.told()[0]
    desk.spool.mark(replace(first, demand=replace(first.demand, at=NOW - 20 * MINUTE)))
    assert () == desk.look(machines, NOW, LASTS)
    assert (machines, 0) == programmed(machines, desk, Pools(pools=()), NOW)


def test_somebody_who_waits_calls_but_not_all_the_time(desk: DemandService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn is called for when something was told since the last one, and that was two seconds ago."""
    clock = [100.0]
    monkeypatch.setattr(time, 'monotonic', lambda: clock[0])
    assert not desk.called()
    desk.tell(AES, 'a', NOW, source='file')
    assert desk.called()
    desk.turn([], NOW, LASTS)
    assert not desk.called()
    DemandService(spool=Spool(root=desk.spool.root)).tell(AES, 'b', NOW, source='file')
    clock[0] += desks.CALM - 0.1
    assert not desk.called()
    clock[0] += 0.1
    assert desk.called(), 'also when another process has told it'


def test_a_catalogue_that_cannot_be_read_keeps_what_was_known(desk: DemandService, said: list[str]) -> None:
    """Demands go on being taken, for what it held before; what it has got new counts from the next turn on."""
    desk.catalogue = lambda: frozenset({'aes', 'brotli'})
    desk.turn([], NOW, LASTS)
    assert 'brotli' == desk.function('BROTLI')

    def broken() -> frozenset[str]:
        raise DocumentError(path='catalogue.toml', what='is not there')

    desk.catalogue = broken
    desk.turn([], NOW, LASTS)
    assert 'brotli' == desk.function('CUSTOM_ACC_FN_BROTLI')
    assert 'catalogue cannot be read' in said[-1]
    with pytest.raises(UsageError, match=r'function: .gzip.: no such function in the catalogue \(functions: aes, brotli\)'):
        desk.function('gzip')


def programmed(
    machines: Sequence[PoolMachine], desk: DemandService, pools: Pools, now: datetime
) -> tuple[list[PoolMachine], int]:
    """The fleet after one round, all of whose moves succeed at once, and how many regions were changed."""
    made = plan(machines, pools, desk.turn(machines, now, pools.demand_lasts), now)
    changes = {c.provider: c.function for move in made.moves for c in move.changes}
    return [
        replace(
            m,
            regions=tuple(
                replace(r, function=changes[r.provider], changed=now) if r.provider in changes else r for r in m.regions
            ),
        )
        for m in machines
    ], len(changes)


@pytest.mark.parametrize('claimed', [False, True])
def test_a_thousand_demands_change_each_of_twenty_regions_once(desk: DemandService, *, claimed: bool) -> None:
    """Told within a quarter of an hour, for three functions: one reprogram for each region, claimed meanwhile or not."""
    machines = [machine(f'm-{n}', None, None) for n in range(10)]
    pools = Pools(pools=())
    changed = 0
    for minute in range(15):
        now = NOW + minute * MINUTE
        for n in range(67):
            function = sorted(FUNCTIONS)[n % 3]
            desk.tell(AskedFunctions(functions=(function,)), f'req-{minute}-{n}', now, source='nova')
        machines, more = programmed(machines, desk, pools, now)
        changed += more
        if claimed and minute == 5:
            machines = [replace(m, busy='claimed') for m in machines]
        if claimed and minute == 10:
            machines = [replace(m, busy=None) for m in machines]
    assert 20 == changed
    states = [t.progress for t in desk.told()]
    # Those whose machines were claimed are served; twenty others get the same regions, as they are, when these are free again.
    assert (40 if claimed else 20, 1005) == (sum(s is not DemandProgress.WAITING for s in states), len(states))


def test_a_flood_leaves_a_pool_its_goal(desk: DemandService) -> None:
    """Whoever asks for aes a thousand times gets what no pool has as its goal."""
    machines = [machine(f'm-{n}', 'gzip', 'gzip') for n in range(10)]
    pools = Pools(pools=(Pool(name='gzips', function='gzip', free=12),))
    for n in range(1000):
        desk.tell(AES, f'req-{n}', NOW, source='nova')
    changed = 0
    for minute in range(14):
        machines, more = programmed(machines, desk, pools, NOW + minute * MINUTE)
        changed += more
    assert 8 == changed
    assert 12 == sum(r.function == 'gzip' for m in machines for r in m.regions)


def test_a_flood_takes_nothing_from_whom_it_serves(desk: DemandService) -> None:
    """Regions that have held aes for long, ten of them held for who asked for it, a pool with some of gzip, a thousand who ask
    for gzip, and none who leaves: each region that is nobody's is changed once, and those that are held stay schedulable."""
    machines = [machine(f'm-{n}', 'aes', 'aes' if n < 8 else 'gzip') for n in range(10)]
    pools = Pools(pools=(Pool(name='aes', function='aes', free=4), Pool(name='gzips', function='gzip', free=2)))
    for n in range(10):
        desk.tell(AES, f'aes-{n}', NOW, source='nova')
    desk.turn(machines, NOW, LASTS)
    held = {t.provider for t in desk.told()}
    for n in range(1000):
        desk.tell(AskedFunctions(functions=('gzip',)), f'gzip-{n}', NOW, source='nova')
    changed = 0
    for minute in range(14):
        machines, more = programmed(machines, desk, pools, NOW + minute * MINUTE)
        changed += more
    # Of 18 with aes ten are held, which the pool counts as its own: what is beyond them is eight.
    assert (10, 8) == (len(held), changed)
    assert held == {r.provider for m in machines for r in m.regions if r.function == 'aes'}
    told = {t.demand.id: t for t in desk.told()}
    assert {DemandProgress.SCHEDULABLE} == {told[f'aes-{n}'].progress for n in range(10)}
    assert 10 == sum(t.progress is DemandProgress.SCHEDULABLE for t in told.values() if t.demand.function == 'gzip')


def test_a_request_for_two_functions_is_served_by_one_machine(desk: DemandService, said: list[str]) -> None:
    """Both functions lie on the shelf, on two machines: one of them is given what it lacks, and both are schedulable then."""
    desk.tell(AskedFunctions(functions=('aes', 'gzip')), 'req', NOW, source='nova')
    machines = [machine('m', 'aes', 'dedup'), machine('n', 'gzip', 'gzip')]
    machines, changed = programmed(machines, desk, Pools(pools=()), NOW)
    assert (1, [DemandProgress.WAITING] * 2) == (changed, [t.progress for t in desk.told()])
    machines, changed = programmed(machines, desk, Pools(pools=()), NOW + MINUTE)
    assert 0 == changed
    assert [('req/1', 'schedulable', 'm-0'), ('req/2', 'schedulable', 'm-1')] == [
        (t.demand.id, str(t.progress), t.provider) for t in desk.told()
    ]
    assert said[-2:] == [
        'demand req/1 for aes: schedulable after 60 s: Slot0 of uuid:1 in m',
        'demand req/2 for gzip: schedulable after 60 s: Slot1 of uuid:1 in m',
    ]


def test_a_request_of_which_one_region_is_not_on_offer_waits_as_a_whole(desk: DemandService) -> None:
    """The boot would not find the machine."""
    desk.tell(AskedFunctions(functions=('aes', 'gzip')), 'req', NOW, source='nova')
    offered = ['m-0']
    desk.on_offer = lambda _, provider: provider in offered
    desk.turn([machine('m', 'aes', 'gzip')], NOW, LASTS)
    assert [DemandProgress.WAITING] * 2 == [t.progress for t in desk.told()]
    offered.append('m-1')
    desk.turn([machine('m', 'aes', 'gzip')], NOW + MINUTE, LASTS)
    assert [DemandProgress.SCHEDULABLE] * 2 == [t.progress for t in desk.told()]


def test_who_got_his_region_is_not_served_again(desk: DemandService) -> None:
    """He claims it, and his demand is over: the same demand programs no second region."""
    machines = [machine('a', None), machine('b', None)]
    desk.tell(AES, 'req', NOW, source='nova')
    machines, first = programmed(machines, desk, Pools(pools=()), NOW)
    machines, again = programmed(machines, desk, Pools(pools=()), NOW + MINUTE)
    assert (1, 0) == (first, again)
    machines = [replace(m, busy='claimed' if m.regions[0].function else None) for m in machines]
    for minutes in range(2, 14):
        machines, more = programmed(machines, desk, Pools(pools=()), NOW + minutes * MINUTE)
        assert 0 == more


# ----------------------------------------------------------------------------------------------------------------- sources


def configured(path: Path, text: str) -> cfg.ConfigOpts:
    """The options of a file."""
    (path / 'acc.conf').write_text(text)
    made = cfg.ConfigOpts()
    options.register(made)
    made([], project='baremetal_acc', default_config_files=[str(path / 'acc.conf')])
    return made


def test_nothing_is_listened_to_unless_it_is_configured(desk: DemandService, tmp_path: Path) -> None:
    """No message bus, and the catalogue is not asked for."""
    desk.catalogue = lambda: pytest.fail('it was read')
    conf = configured(tmp_path, '')
    assert Spool(root=tmp_path / 'demands') == sources.spool(conf, tmp_path)
    with sources.listening(conf, desk) as heard:
        assert heard is None


def test_what_is_configured_is_listened_to_and_ended(desk: DemandService, tmp_path: Path) -> None:
    """Nova's bus; when it ends no thread of ours is left."""
    text = '[baremetal_acc_demand]\nnova_transport_url = fake:/sources\n'
    before = set(threading.enumerate())
    desk.catalogue = lambda: frozenset({'aes'})
    conf = configured(tmp_path, f'{text}folder = {tmp_path}/elsewhere\nproject_limit = 3\n')
    spool = sources.spool(conf, tmp_path)
    assert (tmp_path / 'elsewhere', 3) == (spool.root, spool.most_of_an_asker)
    with sources.listening(conf, desk) as heard:
        assert "Nova's notifications (versioned_notifications, notifications)" == heard
        assert frozenset({'aes'}) == desk.functions
    until = time.monotonic() + 10
    while (left := [t for t in threading.enumerate() if t not in before and not t.daemon]) and time.monotonic() < until:
        time.sleep(0.05)
    assert [] == left


@pytest.mark.parametrize(('line', 'said'), [('project_limit = 0', 'project_limit'), ('nova_pool = a b', 'nova_pool')])
def test_a_wrong_option_is_told_with_its_file(tmp_path: Path, line: str, said: str) -> None:
    """Before anything is listened to."""
    conf = configured(tmp_path, f'[baremetal_acc_demand]\n{line}\n')
    with pytest.raises(DocumentError, match=rf'acc.conf: .baremetal_acc_demand. {said}: '):
        sources.spool(conf, tmp_path)


def test_a_bus_that_cannot_be_listened_to_is_told(desk: DemandService, tmp_path: Path) -> None:
    """Its URL is wrong: pool watch does not start without what it was configured to hear."""
    text = '[baremetal_acc_demand]\nnova_transport_url = nosuch:/\n'
    with pytest.raises(UsageError, match='nova_transport_url'), sources.listening(configured(tmp_path, text), desk):
        pass


def test_a_hundred_regions_and_thousands_who_wait_are_quickly_looked_at() -> None:
    """A flood costs a part of a second for each turn, not minutes."""
    machines = [machine(f'm-{n}', 'aes', 'gzip') for n in range(50)]
    told = [
        StoredDemand(demand=one, source='nova', since=NOW)
        for n in range(4000)
        for one in AskedFunctions(functions=(('aes', 'gzip')[n % 2],)).demands(f'req-{n}', NOW)
    ]
    begun = time.monotonic()
    found = progress(told, machines, NOW)
    assert time.monotonic() - begun < 5
    assert 100 == sum(t.progress is DemandProgress.SCHEDULABLE for t in found)
