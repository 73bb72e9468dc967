# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A target may have several hosts of one BMC: none of them runs while anything is open, and each restarts for its own cards."""

from dataclasses import replace

import pytest

from baremetal_acc.errors import Refused
from baremetal_acc.model.action import Flash, Reset, ResetPurpose
from baremetal_acc.model.custody import NO_CUSTODY
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.ref import HOST, AcceleratorId, BmcName, Ref
from baremetal_acc.planning import custody_readings
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from baremetal_acc.render.refusals import refuse_several_hosts
from tests.unit.planning import values as v

SECOND = BmcName('second')
OTHER_SYSTEM = Ref(bmc=SECOND, uri='/redfish/v1/Systems/2')
OTHER = AcceleratorId('uuid:gpu-1@second')
ON, OFF = PowerState.ON, PowerState.OFF


def other_gpu(**changes):
    """The card of the second host."""
    primary = Ref(bmc=SECOND, uri='/redfish/v1/Systems/2/Processors/GPU_1')
    item = Ref(bmc=SECOND, uri='/redfish/v1/UpdateService/FirmwareInventory/GPU_1')
    lock = replace(v.reading(accelerator=OTHER, place='Chassis/RoT_1'), ref=Ref(bmc=SECOND, uri='/redfish/v1/Chassis/RoT_1'))
    given = {'firmware': (replace(v.component('GPU_1'), ref=item),), 'locks': (lock,), 'system': OTHER_SYSTEM} | changes
    return v.gpu(id=OTHER, primary=primary, refs=(primary,), **given)


def two(*powers: PowerState, **changes) -> Inventory:
    """A look at a target with two hosts of one BMC."""
    host, second = powers or (ON, ON)
    bmcs = (v.facts(power=host), v.facts(name=SECOND, system=OTHER_SYSTEM, power=second))
    return v.inventory(v.gpu(system=v.SYSTEM), other_gpu(), **{'bmcs': bmcs, 'several': (HOST, SECOND)} | changes)


def resets(inventory: Inventory, parts: frozenset[Part] = EVERYTHING, hold: bool = True, catalogue=None):
    """Purpose and System of each reset of a plan, in order."""
    images = (v.image(),) if catalogue is None else catalogue
    made = plan(inventory, v.baseline(), v.NODE, images, parts=parts, hold=hold)
    return [(a.purpose, a.system) for a in made.actions if isinstance(a, Reset)]


def test_hosts_are_those_that_may_run_code_of_their_own():
    """A further BMC of one machine is that of a card, and so is a System that is one; nobody else's is a host."""
    assert (HOST, SECOND) == tuple(b.name for b in two().hosts)
    assert (HOST,) == tuple(b.name for b in two(several=()).hosts)
    assert (HOST,) == tuple(b.name for b in two(several=(HOST,)).hosts)
    dpu = replace(two(), accelerators=(v.gpu(), replace(other_gpu(), refs=(OTHER_SYSTEM,))))
    assert (HOST,) == tuple(b.name for b in dpu.hosts)


@pytest.mark.parametrize('unlock', [False, True])
def test_each_host_is_held_off_while_anything_is_open(unlock):
    """Whichever of them has the card that is written; what is unlocked on purpose gives neither back."""
    parts = frozenset({Part.UNLOCK}) if unlock else EVERYTHING
    hold = [(ResetPurpose.HOLD, v.SYSTEM), (ResetPurpose.HOLD, OTHER_SYSTEM)]
    back = [] if unlock else [(ResetPurpose.RESUME, v.SYSTEM), (ResetPurpose.RESUME, OTHER_SYSTEM)]
    assert hold + back == resets(two(), parts)


def test_a_host_that_was_off_stays_off_and_the_other_is_given_back():
    """Each as it was found, unless a card of its own needs its restart."""
    only_first = replace(two(ON, OFF), accelerators=(two().accelerators[0],))
    assert [
        (ResetPurpose.HOLD, v.SYSTEM),
        (ResetPurpose.HOLD, OTHER_SYSTEM),
        (ResetPurpose.RESUME, v.SYSTEM),
    ] == resets(only_first)


@pytest.mark.parametrize('powers', [(ON, ON), (ON, OFF), (OFF, ON), (OFF, OFF)])
def test_custody_of_each_card_is_kept_by_the_power_of_all_hosts_alone(powers):
    """Which of them reaches which card is not what proves anything: whichever runs may be the one."""
    found = custody_readings.seen(two(*powers), v.baseline(), v.NODE, (), lifecycle=1, before=NO_CUSTODY)
    assert {v.GPU, OTHER} == found.keys()
    for card in found.values():
        assert [v.SYSTEM, OTHER_SYSTEM] == [host.system for host in card.hosts]
        assert custody_readings.is_host_off(card) is (powers == (OFF, OFF))


def test_one_service_writes_for_one_host_after_the_other():
    """It may take one update at a time, and has a name for each of its hosts here."""
    made = plan(two(), v.baseline(), v.NODE, (v.image(),), parts=EVERYTHING, hold=True)
    orders = {a.accelerator: a.order for a in made.actions if isinstance(a, Flash)}
    assert orders.keys() == {v.GPU, OTHER}
    assert orders[v.GPU] < orders[OTHER]


def test_who_powers_one_host_takes_no_target_with_several():
    """Ironic's node is one; both are named."""
    refuse_several_hosts(two(several=()))
    refuse_several_hosts(v.inventory(several=(HOST,)))
    with pytest.raises(Refused, match=r'several hosts \(host:/redfish/v1/Systems/1, second:/redfish/v1/Systems/2\)'):
        refuse_several_hosts(two())
