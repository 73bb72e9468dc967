# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A plan for one machine refuses to write what the machine shares with another machine of its BMC, and nothing else."""

import pytest

from baremetal_acc.model import subject
from baremetal_acc.model.refusal import SharedResource
from baremetal_acc.planning.plan import plan
from tests.unit.planning import values as v

ROT = v.reading()
ITEM = v.component()
FUNCTIONS = v.baseline(firmware=None, functions=(('Slot*', 'gzip'),))


def refused(inventory, baseline=None):
    """Device, part and resource of each refusal that a resource is shared."""
    made = plan(inventory, baseline or v.baseline(), v.NODE, (v.image(), v.function_image()))
    return {(r.accelerator, r.subject, r.reason.ref) for r in made.refusals if isinstance(r.reason, SharedResource)}


def test_where_nothing_is_shared_nothing_is_refused():
    """The same machine as below."""
    assert set() == refused(v.inventory(v.gpu(), v.fpga()))


@pytest.mark.parametrize('shared', ['Processors/GPU_0', 'Chassis/elsewhere'])
def test_a_device_that_is_shared_is_not_written(shared):
    """Neither its firmware nor its locks, whichever of its resources both machines have; the other device is."""
    place = v.ref(f'Systems/1/{shared}')
    gpu = v.gpu(refs=(v.gpu().primary, v.ref('Systems/1/Chassis/elsewhere')))
    assert {
        (v.GPU, subject.firmware('GPU_0'), ITEM.ref),
        (v.GPU, subject.lock_mechanism(ROT.mechanism), ROT.ref),
    } == refused(v.inventory(gpu, v.fpga(), shared=(place,)))


def test_a_lock_that_is_shared_is_not_engaged():
    """The firmware of the device is its own."""
    assert {(v.GPU, subject.lock_mechanism(ROT.mechanism), ROT.ref)} == refused(v.inventory(v.gpu(), shared=(ROT.ref,)))


def test_a_firmware_item_that_is_shared_is_not_written():
    """The lock of the device is its own."""
    assert {(v.GPU, subject.firmware('GPU_0'), ITEM.ref)} == refused(v.inventory(v.gpu(), shared=(ITEM.ref,)))


def test_a_slot_of_a_shared_device_is_not_programmed():
    """It is named by its slot."""
    fpga = v.fpga()
    found = refused(v.inventory(fpga, shared=(fpga.primary,)), FUNCTIONS)
    assert (v.FPGA, subject.function('Slot1'), fpga.slots[1].item.ref) in found


def test_a_system_that_is_shared_is_not_reset():
    """It is the host of the other machine as well."""
    assert (None, subject.HOST, v.SYSTEM) in refused(v.inventory(v.gpu(), shared=(v.SYSTEM,)))
