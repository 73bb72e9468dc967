# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When a slot must not be programmed, as the host could program it meanwhile."""

from dataclasses import replace

import pytest

from baremetal_acc.model.action import Program, Reset, ResetPurpose
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.planning.host_interference import host_may_program
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.policy.baseline_rules import Exposure
from tests.unit.planning import values as v

PROGRAM = Program(
    accelerator=v.FPGA, slot='Slot1', ref=v.ref('S/Slot1'), image='aes', function='aes', version=v.NEW, expects=None
)
HOLD = Reset(system=v.SYSTEM, purpose=ResetPurpose.HOLD, kind=ResetKind.NONE, why=('held',))


def job(*actions, flow=Flow.CLI):
    return begin(
        Plan(target='node-1', actions=(*actions, PROGRAM)), identity='j', node='n', flow=flow, step='s', lifecycle=1, now=v.NOW,
        timeout=v.NOW - v.EARLIER,
    )  # fmt: skip


def ask(of=None, *, exposure=Exposure.TENANT, host=v.facts(), accelerator=v.fpga()):  # noqa: B008
    return host_may_program(of or job(), PROGRAM, exposure, host, accelerator)


def closed_but(scope, part=None, **changes):
    """An FPGA whose ways are closed, but for one place."""
    locks = tuple(replace(r, **changes) if (r.scope, r.part) == (scope, part) else r for r in v.fpga().locks)
    return v.fpga(locks=locks)


def test_a_slot_with_all_its_ways_closed_is_programmed():
    """Found closed is enough: it only has to be so now."""
    assert None is ask()


@pytest.mark.parametrize('state', [s for s in LockState if s is not LockState.LOCKED_REPORTED])
@pytest.mark.parametrize(('scope', 'part', 'name'), [(Scope.SLOT, 'Slot1', 'Slot1'), (Scope.FIRMWARE, None, 'FPGA1')])
def test_a_way_that_is_not_known_to_be_closed_is_open(state, scope, part, name):
    """Also one that waits for a reset, or could not be read. A mechanism may not call itself verified."""
    found = ask(accelerator=closed_but(scope, part, state=state))
    assert f'{name} is {state}' in found
    assert 'power the host off, or lock' in found


@pytest.mark.parametrize(
    ('slot', 'named'),
    [(v.slot(1), 'the slot holds gzip, which'), (v.slot(1, None), f'the slot holds an unnamed function, version {v.NEW}')],
)
def test_what_a_running_host_may_be_using_is_not_taken_from_it(slot, named):
    """All ways are closed; but the slot is not empty, and a tenant's host runs. With the host held it is programmed."""
    full = v.fpga(slots=(v.slot(0), slot))
    found = ask(accelerator=full)
    assert named in found
    assert 'power the host off' in found
    assert None is ask(job(HOLD), accelerator=full)
    assert None is ask(host=v.facts(power=PowerState.OFF), accelerator=full)
    assert None is ask(exposure=Exposure.SERVICE, accelerator=full)


def test_another_slot_may_be_open():
    """It is not the one that is written."""
    assert None is ask(accelerator=closed_but(Scope.SLOT, 'Slot0', state=LockState.UNLOCKED))


@pytest.mark.parametrize(
    'accelerator',
    [v.fpga(locks=()), v.fpga(slots=(v.slot(0),)), v.fpga(slots=(v.slot(1), replace(v.slot(0), slot_id='Slot1'))), None],
    ids=['no property', 'no such slot', 'two slots of one name', 'no card'],
)
def test_what_is_not_shown_is_open(accelerator):
    """Absent is a failure."""
    assert 'Slot1' in ask(accelerator=accelerator)


@pytest.mark.parametrize('host', [None, *(v.facts(power=p) for p in PowerState if p is not PowerState.OFF)])
def test_only_a_host_that_is_off_cannot_program(host):
    """One that is about to be off, or was not read, still may."""
    open_one = closed_but(Scope.SLOT, 'Slot1', state=LockState.UNLOCKED)
    assert ask(host=host, accelerator=open_one)
    assert None is ask(host=v.facts(power=PowerState.OFF), accelerator=open_one)


def test_a_card_that_shows_no_property_is_programmed_while_the_host_is_held_or_is_no_tenants():
    """Held; in the operator's ramdisk, which is where a cleaning that does not hold has it; the operator's own."""
    bare = v.fpga(locks=())
    assert None is ask(job(HOLD), accelerator=bare)
    assert None is ask(job(flow=Flow.CLEAN), accelerator=bare)
    assert None is ask(exposure=Exposure.SERVICE, accelerator=bare)
    assert None is ask(exposure=Exposure.NONE, accelerator=bare)


@pytest.mark.parametrize('flow', [f for f in Flow if f is not Flow.CLEAN])
@pytest.mark.parametrize('purpose', [ResetPurpose.ENFORCE, ResetPurpose.RESUME])
def test_no_other_flow_and_no_other_reset_holds(flow, purpose):
    """A host that is only restarted or given back is not held."""
    assert ask(job(replace(HOLD, purpose=purpose), flow=flow), accelerator=v.fpga(locks=()))


def test_every_open_way_is_named_with_what_to_do():
    """Word by word: an operator reads it in the reasons of a job."""
    slot, firmware = (replace(r, state=LockState.UNLOCKED) for r in v.fpga().locks if r.part in ('Slot1', None))
    expected = (
        "the tenant's host is on and could program the slot at the same time (host-device: FPGA1 is unlocked, Slot1 "
        'is unlocked): '
        'power the host off, or lock the card, before the slot is programmed'
    )
    assert expected == ask(accelerator=v.fpga(locks=(slot, firmware)))
