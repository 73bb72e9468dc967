# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The gate for host starts as a pure function: which reason counts in which provision state, and what bars each."""

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from ironic.common import states

from baremetal_acc.model.action import Release
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item as JobItem
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.planning.trouble import TroubleText
from baremetal_acc.planning.watch_alarms import Alarm, TroubleKind, WatchTrouble
from baremetal_acc_ironic.host_power import host_start
from baremetal_acc_ironic.host_power.gate import DEPLOYING, MAY_START, Obstacle, Reason, Situation, StartRefused, decide
from baremetal_acc_ironic.state.node_state import NodeState, Opened, StartAllowed, Watched
from tests.ironic import releases

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
PROVEN = NodeState(proven=NOW - timedelta(days=3), handed_over=True, lifecycle=4)
ALLOWED = NodeState(
    start_allowed=StartAllowed(since=NOW, until=NOW + timedelta(hours=1), by='root (system)', why='to look at it')
)
CARD = AcceleratorId('uuid:1')

TENANTS = {
    'deploying',
    'wait call-back',
    'deploy hold',
    'deploy failed',
    'active',
    'rescuing',
    'rescue wait',
    'rescue',
    'rescue failed',
    'unrescuing',
    'unrescue failed',
    'servicing',
    'service wait',
    'service hold',
    'service failed',
    'deleting',
}
FREE = {'enroll', 'manageable', 'available', 'inspect failed', 'clean hold', 'clean failed'}
RAMDISK = {'inspecting', 'cleaning', 'clean wait'}
NOTHING = {'verifying', 'inspect wait', 'error', 'adopting', 'adopt failed'}


def at(provision_state: str | None, state: NodeState | None, **facts: Any) -> Situation:
    """A situation in which nothing but what is named speaks for a start."""
    return Situation(provision_state=provision_state, state=state, now=NOW, **facts)


def against(situation: Situation) -> tuple[Obstacle, ...]:
    """What stands against a start."""
    found = decide(situation)
    assert isinstance(found, StartRefused), found
    return found.obstacles


# -------------------------------------------------------------------------------------------------------------- the table


def test_the_table_has_every_provision_state_of_ironic_and_no_other() -> None:
    """A state that Ironic gains has to be thought of here before anything starts a host in it."""
    ironics = set(releases.MACHINE.states)
    assert ironics == MAY_START.keys()
    assert ironics == TENANTS | FREE | RAMDISK | NOTHING


@pytest.mark.parametrize('state', sorted(MAY_START))
def test_each_state_allows_what_is_said_of_it(state: str) -> None:
    """With every reason there is, the one that counts here allows it; with all the others and without that one, none does."""
    everything = at(
        state, replace(PROVEN, start_allowed=ALLOWED.start_allowed), verified=True, ramdisk=True, leased=False, operator=True
    )
    without = {
        Reason.PROVEN: replace(everything, state=replace(ALLOWED, proven=None), verified=False),
        Reason.ALLOWED: replace(everything, state=PROVEN),
        Reason.RAMDISK: replace(everything, ramdisk=False),
    }
    wanted = {Reason.PROVEN: TENANTS, Reason.ALLOWED: FREE, Reason.RAMDISK: RAMDISK}
    if state in NOTHING:
        assert (Obstacle.STATE,) == against(everything)
        return
    for reason, counts in wanted.items():
        if state in counts:
            assert reason is decide(everything)
            assert isinstance(decide(without[reason]), StartRefused)
        else:
            assert decide(everything) is decide(without[reason])


@pytest.mark.parametrize('state', ['', None, 'brand new', 'Active', 'power on', states.NOSTATE])
def test_a_state_that_is_not_known_allows_nothing(state: str | None) -> None:
    """Whatever else speaks for it."""
    everything = replace(PROVEN, start_allowed=ALLOWED.start_allowed)
    assert (Obstacle.STATE,) == against(at(state, everything, verified=True, ramdisk=True, leased=False, operator=True))


@pytest.mark.parametrize('state', sorted(TENANTS - DEPLOYING))
def test_what_was_proven_counts_no_longer_than_the_undeploy_lasts(state: str) -> None:
    """A node that is adopted right after it is in the same state as one that was deployed."""
    ending = at(state, replace(PROVEN, ending=True))
    if state == states.DELETING:
        assert Reason.PROVEN is decide(ending)
    else:
        assert (Obstacle.UNPROVEN,) == against(ending)
    for again in (PROVEN.came_back().given_away(NOW), replace(PROVEN, ending=True).given_away(NOW)):
        assert Reason.PROVEN is decide(at(state, again))


# ------------------------------------------------------------------------------------------------------- whatever the state


@pytest.mark.parametrize('state', sorted(MAY_START))
def test_nothing_starts_what_is_unknown_written_to_or_led_by_instance_info(state: str) -> None:
    """Before any reason is looked at."""
    everything = replace(PROVEN, start_allowed=ALLOWED.start_allowed)
    facts: dict[str, Any] = {'verified': True, 'ramdisk': True, 'leased': False, 'operator': True}
    assert (Obstacle.UNREADABLE,) == against(at(state, None, **facts))
    assert (Obstacle.WRITING,) == against(at(state, replace(everything, job=writing()), **facts))
    assert (Obstacle.OVERRIDDEN,) == against(at(state, everything, overrides=('firmware_interface',), **facts))


def writing() -> Job:
    """A job that has released a lock."""
    ref = Ref(bmc='host', uri='/x')
    action = Release(accelerator=CARD, mechanism='m', ref=ref, field='f', expects='false')
    item = JobItem(action=action, state=ItemState.RUNNING, since=NOW)
    job = Job(
        id='1',
        target='n',
        node='n',
        flow=Flow.CLEAN,
        step='reconcile_accelerators#0:0',
        lifecycle=1,
        created=NOW,
        deadline=NOW + timedelta(hours=1),
        requester='root',
        items=(item,),
    )
    assert job.writing
    return job


# ---------------------------------------------------------------------------------------------------------------- ramdisk


@pytest.mark.parametrize('state', sorted(RAMDISK))
def test_a_ramdisk_that_nobody_accepted_is_named_as_such(state: str) -> None:
    """It is another cause than a start that boots no ramdisk."""
    assert (Obstacle.NO_RAMDISK,) == against(at(state, PROVEN))
    assert (Obstacle.RAMDISK_NOT_ACCEPTED,) == against(at(state, PROVEN, other_ramdisk=True))


# --------------------------------------------------------------------------------------------------------------- ways back


def test_only_what_ironic_can_do_is_offered_as_the_way_back() -> None:
    """By Ironic's own state machine: service where it can begin, undeploy where it cannot."""

    def offered(state: str) -> str:
        situation = at(state, NodeState(), verified=True)
        found = decide(situation)
        assert isinstance(found, StartRefused)
        return host_start.text(SimpleNamespace(name='n', uuid='u'), 'power on', situation, found).partition(' (')[2]

    def can(state: str, event: str) -> bool:
        machine = releases.MACHINE.copy()
        machine.initialize(start_state=state)
        return bool(machine.is_actionable_event(event))

    for state in TENANTS:
        way = offered(state)
        if way.startswith('service the node with lock_accelerators first'):
            assert can(state, 'service'), state
        elif 'abort this' in way:
            assert can(state, 'abort'), state
        elif way.startswith('Ironic cannot service'):
            assert not can(state, 'service'), state
            assert can(state, 'delete') or state in ('rescuing', 'unrescuing'), 'these end in a state in which it can'
        elif way.startswith('deploy the node again'):
            assert can(state, 'deploy'), state
            assert can(state, 'delete'), state
        else:
            assert way.startswith(('when this ', 'wait until the node is undeployed')), (state, way)
    quarantined = replace(PROVEN, quarantined=(Quarantine(device=CARD, since=NOW, why='it burns'),))
    for state in TENANTS:
        situation = at(state, quarantined, verified=True)
        found = decide(situation)
        assert isinstance(found, StartRefused)
        said = host_start.text(SimpleNamespace(name='n', uuid='u'), 'power on', situation, found)
        assert ('and service the node with' in said) is ('service' in state or state in ('active', 'servicing')), said


# ------------------------------------------------------------------------------------------------------------------ proven


@pytest.mark.parametrize('state', sorted(TENANTS))
def test_who_has_a_node_starts_it_while_its_locks_are_proven(state: str) -> None:
    """Who asks, and whether somebody leases it, makes no difference; in a deploy it has to be this deploy that is verified."""
    for leased, operator in itertools.product((True, False), repeat=2):
        assert Reason.PROVEN is decide(at(state, PROVEN, verified=True, leased=leased, operator=operator))
    if state in {'deploying', 'wait call-back', 'deploy hold'}:
        assert (Obstacle.UNVERIFIED,) == against(at(state, PROVEN))
    else:
        assert Reason.PROVEN is decide(at(state, PROVEN))
    assert (Obstacle.UNPROVEN,) == against(at(state, replace(PROVEN, proven=None), verified=True, operator=True, ramdisk=True))


BROKEN = {
    Obstacle.OPENED: replace(PROVEN, opened=Opened(since=NOW, why='unlock_accelerators by root')),
    Obstacle.QUARANTINED: replace(PROVEN, quarantined=(Quarantine(device=CARD, since=NOW, why='it burns'),)),
    Obstacle.LOCK_LOST: replace(PROVEN, watched=Watched(lifecycle=4, looked=NOW, alarms=())),
}


def alarm(kind: TroubleKind, *, certain: bool = True, told: bool = False) -> Alarm:
    """One of the watch's."""
    return Alarm(
        trouble=WatchTrouble(kind=kind, device=CARD, subject='m', fact=TroubleText(text='it is open'), certain=certain),
        since=NOW,
        told=told,
    )


def watched(*alarms: Alarm, lifecycle: int = 4) -> NodeState:
    """Proven once, with what the watch knows since."""
    return replace(PROVEN, watched=Watched(lifecycle=lifecycle, looked=NOW, alarms=alarms))


@pytest.mark.parametrize('state', ['active', 'deploying', 'rescue', 'servicing'])
def test_what_is_known_to_have_broken_since_ends_the_proof(state: str) -> None:
    """A mark of ours, a card that nobody may use, a lock that the watch found open."""
    assert (Obstacle.OPENED,) == against(at(state, BROKEN[Obstacle.OPENED], verified=True))
    assert (Obstacle.QUARANTINED,) == against(at(state, BROKEN[Obstacle.QUARANTINED], verified=True))
    for kind in (TroubleKind.LOCK, TroubleKind.OPENED):
        assert (Obstacle.LOCK_LOST,) == against(at(state, watched(alarm(kind)), verified=True))
        assert (Obstacle.LOCK_LOST,) == against(at(state, watched(alarm(kind, certain=False, told=True)), verified=True))


def test_other_alarms_and_those_of_another_deployment_are_none_of_its_business() -> None:
    """A card that fell off its bus may need a restart; what could not be read once is told when it stays so."""
    for kind in set(TroubleKind) - {TroubleKind.LOCK, TroubleKind.OPENED}:
        assert Reason.PROVEN is decide(at('active', watched(alarm(kind))))
    assert Reason.PROVEN is decide(at('active', watched(alarm(TroubleKind.LOCK, certain=False))))
    assert Reason.PROVEN is decide(at('active', watched(alarm(TroubleKind.LOCK), lifecycle=3)))
    assert Reason.PROVEN is decide(at('active', watched()))
    both = watched(alarm(TroubleKind.CARD), alarm(TroubleKind.LOCK))
    assert (Obstacle.LOCK_LOST,) == against(at('active', both))


def test_all_that_is_broken_is_named() -> None:
    """So that nobody mends one thing after the other."""
    state = replace(
        watched(alarm(TroubleKind.LOCK)),
        opened=Opened(since=NOW, why='x'),
        quarantined=BROKEN[Obstacle.QUARANTINED].quarantined,
    )
    found = against(at('active', replace(state, proven=None)))
    assert (Obstacle.OPENED, Obstacle.QUARANTINED, Obstacle.LOCK_LOST, Obstacle.UNPROVEN) == found


# ----------------------------------------------------------------------------------------------------------------- allowed


@pytest.mark.parametrize('state', sorted(FREE))
def test_an_operator_may_start_a_free_node_that_one_has_allowed_to_be_started(state: str) -> None:
    """That it was proven once, or that a ramdisk would boot, is no reason here; each condition has a name."""
    facts: dict[str, Any] = {'leased': False, 'operator': True}
    assert Reason.ALLOWED is decide(at(state, ALLOWED, **facts))
    assert (Obstacle.NOT_ALLOWED,) == against(at(state, PROVEN, verified=True, ramdisk=True, **facts))
    assert (Obstacle.LEASED,) == against(at(state, ALLOWED, **facts | {'leased': True}))
    assert (Obstacle.NOT_AN_OPERATOR,) == against(at(state, ALLOWED, **facts | {'operator': False}))
    allowed = ALLOWED.start_allowed
    assert allowed is not None
    for until, reason in ((NOW, Obstacle.ALLOWANCE_ENDED), (NOW - timedelta(seconds=1), Obstacle.ALLOWANCE_ENDED)):
        assert (reason,) == against(at(state, NodeState(start_allowed=replace(allowed, until=until)), **facts))
    soon = NodeState(start_allowed=replace(allowed, until=NOW + timedelta(microseconds=1)))
    assert Reason.ALLOWED is decide(at(state, soon, **facts))


def test_whoever_forgets_a_fact_is_refused() -> None:
    """The defaults of a situation speak against a start."""
    assert (Obstacle.NOT_ALLOWED, Obstacle.LEASED, Obstacle.NOT_AN_OPERATOR) == against(at('available', NodeState()))
    assert (Obstacle.NO_RAMDISK,) == against(at('cleaning', PROVEN))
    assert (Obstacle.UNVERIFIED,) == against(at('deploying', PROVEN))
    assert (Obstacle.UNPROVEN,) == against(at('active', NodeState()))
    assert (Obstacle.UNPROVEN, Obstacle.UNWRITTEN) == against(at('active', NodeState(exposed=frozenset({CARD}))))
    assert Reason.PROVEN is decide(at('active', replace(PROVEN, exposed=frozenset({CARD}))))
