# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What services refuse, lose or forget ends with a machine on the shelf, or with a move that the next call goes on with."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from baremetal_acc.errors import InventoryInUse, IronicRefused, IronicUnreachable, PlacementRefused, PlacementUnreachable
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement.node_withdrawal import Offered, WithdrawnNode
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.moves import Mover
from baremetal_acc.pools.state_machine import Act, MoveStage
from baremetal_acc.pools.steering import TRIED, Steering
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.pools import Pool, Pools, RegionChange, RegionMove
from baremetal_acc.scheduling.provider_names import slot_uuid
from baremetal_acc.scheduling.regions import Regions, Slot
from tests.unit.planning import values as v

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'
REGION = slot_uuid(NODE, 'uuid:a', 'Slot0')
MOVE = RegionMove(
    machine=NODE,
    name='rack-1',
    changes=(RegionChange(provider=REGION, accelerator='uuid:a', slot_id='Slot0', was='gzip', function='aes', why='pool a'),),
)
ACTS = ['withdraw', 'manage', 'clean', 'provide']


def stock(name: str) -> Stock:
    return Stock(resource_class=name, total=1, reserved=0, min_unit=1, max_unit=1, step_size=1, allocation_ratio=1.0)


def offering(function: str) -> tuple[Offered, ...]:
    return (Offered(uuid=REGION, name='r', stocks=(stock(f'CUSTOM_ACC_FN_{function.upper()}'),)),)


class Cloud:
    """An Ironic and a placement with one machine, on which every act has its effect at once.

    :ivar acts: what was done, in order.
    :ivar fails: act to the error that it ends with; ``late`` errors come after the effect.
    """

    def __init__(self) -> None:
        self.state = 'available'
        self.holds = 'gzip'
        self.more: dict[str, Any] = {}
        self.offered = offering('gzip')
        self.claims: tuple[str, ...] = ()
        self.root = True
        self.acts: list[str] = []
        self.fails: dict[str, Exception] = {}
        self.late: dict[str, Exception] = {}
        self.publishes = True

    # Ironic
    def node(self, uuid: str) -> dict[str, Any]:
        self._may('node')
        slots = (Slot(accelerator='uuid:a', slot_id='Slot0', function=self.holds, takes=frozenset({'gzip', 'aes'})),)
        info = {'baremetal_acc': {'regions': regions.document(Regions(at=v.NOW, slots=slots))}}
        raw = {'uuid': NODE, 'name': 'rack-1', 'provision_state': self.state, 'maintenance': False}
        return raw | {'driver_internal_info': info} | self.more

    def nodes(self) -> list[dict[str, Any]]:
        return [self.node(NODE)]

    def provision(self, uuid: str, target: str, *, clean_steps: Any = ()) -> None:
        self._may(target)
        self.acts.append(target)
        if target == 'manage':
            self.state = 'manageable'
        elif target == 'clean':
            self.holds = 'aes'
        else:
            self.state = 'available'
            if self.publishes and 'clean' in self.acts:
                self.offered = offering(self.holds)
        self._late(target)

    # placement
    def look(self, root: str) -> WithdrawnNode:
        self._may('look')
        return WithdrawnNode(root=self.root, ours=self.offered, claims=self.claims)

    def busy(self, root: str) -> str | None:
        return f'claimed: {self.claims[0]}' if self.claims else None

    def withdraw(self, root: str, seen: WithdrawnNode) -> None:
        self._may('withdraw')
        self.acts.append('withdraw')
        self.offered = ()
        self._late('withdraw')

    def put_back(self, root: str, offered: Any, *, still: Any) -> tuple[str, ...]:
        self._may('put_back')
        still()
        self.acts.append('put_back')
        self.offered = self.offered or tuple(offered)
        return ()

    def _may(self, act: str) -> None:
        if act in self.fails:
            raise self.fails[act]

    def _late(self, act: str) -> None:
        if act in self.late:
            raise self.late.pop(act)


class Clock:
    """It goes on by a second each time that somebody looks at it."""

    def __init__(self) -> None:
        self.at = v.NOW

    def __call__(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def journal(tmp_path) -> MoveJournal:
    return MoveJournal(root=tmp_path)


def mover(cloud: Cloud, journal: MoveJournal, **changes: Any) -> Mover:
    values = {
        'say': lambda _: None,
        'lasts': timedelta(minutes=2),
        'stop': threading.Event(),
        'poll': timedelta(0),
        'settles': timedelta(seconds=20),
        'now': Clock(),
    }
    return Mover(cloud, cloud, journal, **(values | changes))


def test_a_move_that_nothing_disturbs(cloud, journal):
    """Each thing once."""
    ended = mover(cloud, journal).begin(MOVE)
    assert (Act.DONE, ACTS, ()) == (ended.act, cloud.acts, journal.read())
    assert ('rack-1: done: Slot0 holds aes', 'done') == (str(ended), ended.outcome)


@pytest.mark.parametrize(
    ('act', 'error', 'acts', 'how'),
    [
        ('withdraw', InventoryInUse('claimed right now'), [], Act.CANCELLED),
        ('withdraw', PlacementRefused('status 403'), [], Act.FAILED),
        ('manage', IronicRefused('status 403'), ['withdraw', 'put_back'], Act.CANCELLED),
        ('clean', IronicRefused('status 403'), ['withdraw', 'manage', 'provide', 'put_back'], Act.CANCELLED),
    ],
)
def test_what_is_refused_ends_on_the_shelf(cloud, journal, act, error, acts, how):
    """With what it offered, and the reason is told."""
    cloud.fails[act] = error
    ended = mover(cloud, journal).begin(MOVE)
    assert (how, acts, offering('gzip'), 'available') == (ended.act, cloud.acts, cloud.offered, cloud.state)
    assert error.message in str(ended)
    assert () == journal.read()


def test_what_is_refused_at_the_end_is_gone_on_with(cloud, journal):
    """It is out of use and programmed: the next call brings it back."""
    cloud.fails['provide'] = IronicRefused('status 403')
    ended = mover(cloud, journal).begin(MOVE)
    assert (None, ACTS[:3]) == (ended.act, cloud.acts)
    assert 'still under way, the next pool apply --execute or pool watch resumes it: status 403' in str(ended)
    assert 'under way' == ended.outcome
    [entry] = journal.read()
    del cloud.fails['provide']
    assert (Act.DONE, ACTS) == (mover(cloud, journal).resume(entry).act, cloud.acts)


@pytest.mark.parametrize('act', ACTS)
def test_a_lost_answer_is_looked_after(cloud, journal, act):
    """It was done: nothing is programmed twice, and in the end the machine is on the shelf."""
    cloud.late[act] = (PlacementUnreachable if act == 'withdraw' else IronicUnreachable)('no answer')
    ended = mover(cloud, journal).begin(MOVE)
    if act == 'withdraw':
        assert (Act.CANCELLED, ['withdraw', 'put_back'], offering('gzip')) == (ended.act, cloud.acts, cloud.offered)
    else:
        assert (Act.DONE, ACTS) == (ended.act, cloud.acts)
    assert () == journal.read()


@pytest.mark.parametrize('what', ['node', 'look'])
def test_a_service_that_is_away_for_a_while_is_waited_for(cloud, journal, what):
    """Up to the end of the move's time; what was begun stays stored."""
    cloud.acts.append('')
    cloud.fails[what] = PlacementUnreachable('no answer')
    ended = mover(cloud, journal).resume(Entry(move=MOVE, stage=MoveStage.CLEAN, begun=v.NOW - timedelta(days=9)))
    assert (None, ['']) == (ended.act, cloud.acts)
    assert 'not finished after 120 s: no answer' in str(ended)


def test_a_machine_that_does_not_offer_what_was_asked_for_fails(cloud, journal):
    """After a while, and it is told what is missing."""
    cloud.publishes = False
    ended = mover(cloud, journal).begin(MOVE)
    assert (Act.FAILED, ACTS, ()) == (ended.act, cloud.acts, journal.read())
    assert 'its functions are not available in placement; see baremetal node history list rack-1' in str(ended)


@pytest.mark.parametrize(
    ('changes', 'told'),
    [
        ({'root': False}, 'placement has no root provider'),
        ({'claims': ('FPGA of p by consumer c',)}, 'the node was claimed during the move'),
        ({'more': {'instance_uuid': 'i'}}, 'the node was claimed during the move'),
        ({'more': {'maintenance': True}}, 'in maintenance'),
        ({'state': 'deploying'}, 'the node was in state deploying before it could be programmed'),
    ],
)
def test_what_somebody_has_or_nobody_knows_is_not_begun(cloud, journal, changes, told):
    """Nothing of it is changed that is not put back."""
    for name, value in changes.items():
        setattr(cloud, name, value)
    ended = mover(cloud, journal).begin(MOVE)
    assert (Act.CANCELLED, offering('gzip'), ()) == (ended.act, cloud.offered, journal.read())
    assert {'put_back'} >= set(cloud.acts)
    assert told in str(ended)


@pytest.mark.parametrize('refused', [True, False])
def test_a_withdrawal_that_was_sent_twice_is_put_back(cloud, journal, refused):
    """An adapter has sent it again, since an answer was lost: the second one finds it changed, whoever has changed it."""
    changed = PlacementUnreachable('its inventory was just withdrawn')
    (cloud.fails if refused else cloud.late)['withdraw'] = changed
    ended = mover(cloud, journal).begin(MOVE)
    assert (Act.CANCELLED, offering('gzip'), ()) == (ended.act, cloud.offered, journal.read())
    assert 'rack-1: cancelled: its inventory was just withdrawn' == str(ended)


MARK = {'since': '2026-11-22T00:00:00+00:00', 'why': 'somebody has the node', 'doubtful': False}


@pytest.mark.parametrize('when', ['before', 'while it is put back'])
def test_what_its_conductor_keeps_off_the_shelf_is_not_put_back(cloud, journal, when):
    """A tenant came and went since it was withdrawn, or a card was swapped: the conductor offers it when it has looked."""
    entry = Entry(move=MOVE, stage=MoveStage.MANAGE, begun=v.NOW - timedelta(days=3), offered=offering('gzip'))
    cloud.offered = ()
    read = cloud.node

    def marked(uuid):
        raw = read(uuid)
        raw['driver_internal_info']['baremetal_acc']['shelf'] = {'withdrawn': MARK}
        return raw

    cloud.node = marked
    if when != 'before':
        reads = iter([read, *[marked] * 9])
        cloud.node = lambda uuid: next(reads)(uuid)
    ended = mover(cloud, journal).resume(entry)
    assert (Act.CANCELLED, [], (), ()) == (ended.act, cloud.acts, cloud.offered, journal.read())
    assert 'its conductor has withdrawn it from placement (somebody has the node) and publishes it again itself' in str(ended)


def test_maintenance_is_waited_for_by_the_next_call(cloud, journal):
    """Nothing of a machine in maintenance is on offer; after that everything is again."""
    entry = Entry(move=MOVE, stage=MoveStage.MANAGE, begun=v.NOW, offered=offering('gzip'))
    cloud.offered, cloud.more = (), {'maintenance': True}
    ended = mover(cloud, journal).resume(entry)
    assert (None, (), MoveStage.RESTORE) == (ended.act, cloud.offered, journal.read()[0].stage)
    cloud.more = {}
    ended = mover(cloud, journal).resume(journal.read()[0])
    assert (Act.CANCELLED, offering('gzip'), ()) == (ended.act, cloud.offered, journal.read())


def test_a_process_that_is_to_end_leaves_what_is_under_way(cloud, journal):
    """Nothing is done any more, and what was done is stored."""
    stop = threading.Event()
    cloud.provision = lambda *_, **__: stop.set()
    ended = mover(cloud, journal, stop=stop).begin(MOVE)
    assert (None, MoveStage.MANAGE) == (ended.act, journal.read()[0].stage)
    assert ['withdraw'] == cloud.acts


# ---------------------------------------------------------------------------------------------------------------- steering


def steering(cloud: Cloud, journal: MoveJournal, said: list[str], **changes: Any) -> Steering:
    pools = Pools(pools=(Pool(name='aes', function='aes', free=1),), move_lasts=timedelta(minutes=2))
    values = {
        'ironic': cloud,
        'shelf': cloud,
        'journal': journal,
        'pools': lambda: pools,
        'say': said.append,
        'warn': lambda text: said.append(f'warning: {text}'),
        'poll': timedelta(0),
    }
    return Steering(**(values | changes))


def watched(made: Steering, until: Any, seconds: float = 20) -> None:
    """Watch until something is so."""
    watching = threading.Thread(target=made.watch, args=(timedelta(seconds=0.01),))
    watching.start()
    try:
        for _ in range(int(seconds * 50)):
            if until():
                break
            watching.join(0.02)
        assert until()
    finally:
        made.stop.set()
        watching.join(10)
    assert not watching.is_alive()


def test_rounds_go_on_after_one_that_failed(cloud, journal):
    """It is told, and the next one comes a little later; who waits is asked each time."""
    said, asked = [], []
    left = [IronicUnreachable('no answer'), PlacementUnreachable('away')]
    made = steering(cloud, journal, said)

    def source(machines: Any, now: datetime, lasts: timedelta) -> list[Any]:
        asked.append(len(machines))
        if left:
            raise left.pop(0)
        return []

    made.sources = (source,)
    watched(made, lambda: 'rack-1: done: Slot0 holds aes' in said)
    assert ['warning: this round failed: no answer', 'warning: this round failed: away'] == said[:2]
    assert 'rack-1: Slot0 gets aes instead of gzip, for pool aes' in said
    assert {1} == set(asked)
    assert ACTS == cloud.acts


def test_what_came_to_nothing_is_not_tried_again_at_once(cloud, journal):
    """A user who may not have a node managed would otherwise have its offers come and go all the time."""
    said: list[str] = []
    cloud.fails['manage'] = IronicRefused('status 403')
    made = steering(cloud, journal, said)
    rounds = []
    made.sources = (lambda machines, now, lasts: rounds.append(machines[0]) or (),)
    watched(made, lambda: sum(machine.passing for machine in rounds) > 5)
    assert ['withdraw', 'put_back'] == cloud.acts
    assert any('cancelled' in line for line in said)
    assert any(m.busy is not None and m.busy.startswith('last move of it did not succeed: status 403') for m in rounds)
    assert timedelta(minutes=10) == TRIED


def test_one_call_goes_on_with_what_another_has_left(cloud, journal):
    """And then executes a plan of its own; goals that are short are told in the plan."""
    journal.write(Entry(move=MOVE, stage=MoveStage.MANAGE, begun=v.NOW, offered=offering('gzip')))
    cloud.offered = ()
    look, ended = steering(cloud, journal, []).apply()
    assert [Act.CANCELLED, Act.DONE] == [e.act for e in ended]
    assert ['put_back', *ACTS] == cloud.acts
    assert () == look.plan.short
    assert 1 == len(look.plan.moves)


def test_a_move_under_way_counts_and_is_not_planned_again(cloud, journal):
    """For whoever plans while another process moves."""
    journal.write(Entry(move=MOVE, stage=MoveStage.CLEAN, begun=v.NOW))
    cloud.state = 'cleaning'
    look = steering(cloud, journal, []).look()
    assert ((), ()) == (look.plan.moves, look.plan.short)
    assert 'being programmed' == look.machines[0].busy
    assert replace(look.machines[0].regions[0]).coming == 'aes'


@pytest.mark.parametrize('stage', [MoveStage.WITHDRAW, MoveStage.MANAGE, MoveStage.RESTORE, MoveStage.RETURN])
@pytest.mark.parametrize('found', ['as before', 'other function', 'kept'])
def test_a_resumed_move_that_is_undone_has_a_reason(cloud, journal, stage, found):
    """The result said "cancelled: None" where the earlier process was killed before it had stored a reason."""
    entry = Entry(move=MOVE, stage=stage, begun=v.NOW, offered=cloud.offered)
    cloud.offered = ()
    if found == 'other function':
        cloud.holds = 'zstd'
    if found == 'kept':
        cloud.more = {'driver_internal_info': cloud.node(NODE)['driver_internal_info']}
        cloud.more['driver_internal_info']['baremetal_acc']['shelf'] = {'withdrawn': MARK}
    ended = mover(cloud, journal).resume(entry)
    assert Act.CANCELLED is ended.act
    assert str(ended).startswith('rack-1: cancelled: an earlier process was interrupted, so the move is undone')
    assert 'None' not in str(ended)
    assert () == journal.read()
