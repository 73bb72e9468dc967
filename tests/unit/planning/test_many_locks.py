# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The work of a verdict grows with the locks and our records of them, not with their product."""

import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from baremetal_acc.model.custody import Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Engagement, LockState, Scope
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Met
from baremetal_acc.planning import custody_readings, lock_evidence
from baremetal_acc.planning.verify import judged
from tests.unit.planning.finding_words import verify

from .values import LIFECYCLE, NODE, baseline, component, engagement, gpu, inventory, reading, ref


def _machine(cards: int) -> tuple[Inventory, list[Engagement]]:
    """A machine whose every card has a lock that we engaged, and one that we engaged and that is not shown any more."""
    accelerators, engagements = [], []
    for number in range(cards):
        identity = AcceleratorId(f'uuid:gpu-{number}')
        place = ref(f'Systems/1/Processors/GPU_{number}')
        lock = reading(accelerator=identity, place=f'Chassis/RoT_{number}')
        firmware = (component(f'GPU_{number}'),)
        accelerators.append(gpu(id=identity, primary=place, refs=(place,), firmware=firmware, locks=(lock,)))
        engagements += [engagement(lock), engagement(replace(lock, ref=ref(f'Chassis/Gone_{number}')))]
    return inventory(*accelerators), engagements


def _calls(work: Callable[[], object]) -> int:
    """How many functions are called: the same each time, however busy the machine is."""
    number = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal number
        number += event in ('call', 'c_call')

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return number


WORK: dict[str, Callable[[Inventory, list[Engagement]], object]] = {
    'verify': lambda seen, ours: verify(seen, baseline(), NODE, (), ours, lifecycle=LIFECYCLE),
    'judged': lambda seen, ours: judged(seen, ours, lifecycle=LIFECYCLE),
    'custody': lambda seen, ours: custody_readings.seen(seen, baseline(), NODE, ours, lifecycle=LIFECYCLE, before=Custody()),
}


@pytest.mark.parametrize('name', sorted(WORK))
def test_four_times_the_cards_take_four_times_the_work(name: str) -> None:
    """It took sixteen times as much: 1.2 s of a processor for a machine of 1,000 devices with a lock each."""
    few, many = _machine(50), _machine(200)
    WORK[name](*few)  # what is remembered between calls is there now
    assert 4.4 * _calls(lambda: WORK[name](*few)) > _calls(lambda: WORK[name](*many))


def test_each_lock_is_judged_by_the_records_of_its_own_place() -> None:
    """All that we engaged and that is shown is proven; of the second one of every card nobody knows any more."""
    seen, ours = _machine(20)
    assert {LockState.LOCKED_VERIFIED} == {
        r.state for a in judged(seen, ours, lifecycle=LIFECYCLE).accelerators for r in a.locks
    }
    unmet = [f for f in verify(seen, baseline(), NODE, (), ours, lifecycle=LIFECYCLE).findings if 'no longer' in f.fact.found]
    assert [a.id for a in seen.accelerators] == [f.accelerator for f in unmet]
    assert {(Met.NO, LockState.UNKNOWN)} == {(f.met, f.state) for f in unmet}


def test_records_of_one_place_keep_their_order_and_others_are_none_of_its_business() -> None:
    """Mechanism, resource and field make the place."""
    lock = reading()
    ours = [engagement(lock, session='a'), engagement(lock, mechanism='other'), engagement(lock, session='b')]
    assert ['a', 'b'] == [e.session for e in lock_evidence.Records(ours).at(lock)]
    assert () == lock_evidence.Records(ours).at(replace(lock, field='Another'))


def test_a_lock_of_a_whole_machine_that_is_gone_is_missed_by_each_of_its_devices() -> None:
    """It is recorded in the name of one device, and is for all that the BMC shows; the devices' own are not told twice."""
    seen, _ = _machine(3)
    first = seen.accelerators[0]
    gone = engagement(reading(accelerator=first.id, place='Managers/BMC', scope=Scope.BMC), scope=Scope.BMC)
    own = engagement(reading(accelerator=first.id, place='Chassis/Gone'))
    found = verify(seen, baseline(), NODE, (), [own, gone], lifecycle=LIFECYCLE).findings
    missed = [(f.accelerator, f.fact.expected) for f in found if 'no longer' in f.fact.found]
    assert [first.id, first.id, *(a.id for a in seen.accelerators[1:])] == [identity for identity, _ in missed]
    assert ['Chassis/Gone', 'Managers/BMC'] == [said.partition('/redfish/v1/')[2].partition(',')[0] for _, said in missed[:2]]
