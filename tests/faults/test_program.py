# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A slot of an FPGA is programmed only while the tenant's host cannot program it too: with the emulator, whose host can."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc import execution
from baremetal_acc.locks.fpga_programmable_from_host import ProgrammableFromHost
from baremetal_acc.model.action import Stage
from baremetal_acc.model.job import Done, Failed
from baremetal_acc.model.lock import Scope
from baremetal_acc.planning.job_transitions import current
from baremetal_acc.policy.baseline_rules import Exposure
from tests.faults.rig import Rig
from tests.faults.slots import fpga_rig, programmed, pushes


@pytest.fixture
def fpga(emulated_machine: Callable[..., Any], tmp_path: Path) -> Callable[..., Rig]:
    """Makes nodes with one FPGA; see :func:`tests.faults.slots.fpga_rig`."""

    def make(*, hold: bool, exposure: Exposure = Exposure.TENANT) -> Rig:
        return fpga_rig(emulated_machine, tmp_path, hold=hold, exposure=exposure)

    return make


def change(rig: Rig, verb: str, *, only: Scope | None = None) -> None:
    """Let somebody close or open the host's ways to the FPGA and its slots."""
    (accelerator,) = execution.observe(rig.target, rig.tools, rig.now).accelerators
    for reading in accelerator.locks:
        if reading.mechanism == ProgrammableFromHost.name and only in (None, reading.scope):
            with rig.tools.connect(rig.target.bmcs[0]) as bmc:
                getattr(ProgrammableFromHost(), verb)(bmc.writer(), reading)


def test_a_slot_is_not_programmed_while_a_tenants_host_could_program_it(fpga: Callable[..., Rig]) -> None:
    """Nothing is sent, and the reason says what is open. The locks are closed all the same, so the next job programs it."""
    rig = fpga(hold=False)
    assert () == rig.begin()
    outcome = rig.turn()
    assert isinstance(outcome, Failed)
    assert "the tenant's host is on and could program the slot at the same time" in rig.reasons
    assert 'Slot1 is unlocked' in rig.reasons
    assert 'Slot0' not in rig.reasons, 'the other slot is not written'
    assert ([], None, False) == (pushes(rig), programmed(rig), outcome.wrote)
    assert () == rig.begin()
    assert isinstance(rig.turn(), Done), rig.reasons
    assert 'aes' == programmed(rig)


@pytest.mark.parametrize('scope', [Scope.SLOT, Scope.FIRMWARE])
def test_the_slot_and_the_fpga_have_to_be_closed_both(fpga: Callable[..., Rig], scope: Scope) -> None:
    """A host that may write the FPGA's firmware may put anything into any slot."""
    rig = fpga(hold=False)
    change(rig, 'engage', only=scope)
    assert () == rig.begin()
    assert isinstance(rig.turn(), Failed)
    assert ('Slot1 is unlocked' not in rig.reasons, 'FPGA1_FW is unlocked' not in rig.reasons) == (
        scope is Scope.SLOT,
        scope is Scope.FIRMWARE,
    )
    assert [] == pushes(rig)


def test_a_slot_whose_host_cannot_program_it_is_programmed_while_the_host_runs(fpga: Callable[..., Rig]) -> None:
    """The function is there, and the host was never touched."""
    rig = fpga(hold=False)
    change(rig, 'engage')
    assert () == rig.begin()
    assert isinstance(rig.turn(), Done), rig.reasons
    assert ('aes', 'On') == (programmed(rig), rig.machine.truth()['systems']['host']['power'])
    image = (rig.folder / 'aes.img').read_bytes()
    assert not rig.machine.tenant_program('FPGA1', 1, image)['written']


def test_a_way_that_opens_right_before_the_write_is_seen(fpga: Callable[..., Rig]) -> None:
    """It was closed when the plan was made, and when the images were checked."""
    rig = fpga(hold=False)
    change(rig, 'engage')
    assert () == rig.begin()
    rig.when(lambda job: current(job) is Stage.WRITE, lambda: change(rig, 'release'))
    assert isinstance(rig.turn(), Failed)
    assert 'Slot1 is unlocked' in rig.reasons
    assert ([], None) == (pushes(rig), programmed(rig))


def test_a_slot_that_is_open_is_programmed_while_the_host_is_held(fpga: Callable[..., Rig]) -> None:
    """Off from before the image until all is closed."""
    rig = fpga(hold=True)
    assert () == rig.begin()
    assert isinstance(rig.turn(), Done), rig.reasons
    assert (True, 'aes', 'On') == (rig.held, programmed(rig), rig.machine.truth()['systems']['host']['power'])
    image = (rig.folder / 'aes.img').read_bytes()
    assert not rig.machine.tenant_program('FPGA1', 1, image)['written']


def test_a_slot_that_is_open_is_programmed_where_the_host_is_off_already(fpga: Callable[..., Rig]) -> None:
    """Nobody's code runs, and nobody powers it on for that."""
    rig = fpga(hold=False)
    rig.machine.power('ForceOff')
    rig.advance(30)
    assert () == rig.begin()
    assert isinstance(rig.turn(), Done), rig.reasons
    assert ('aes', 'Off') == (programmed(rig), rig.machine.truth()['systems']['host']['power'])


def test_a_host_of_the_operators_own_does_not_stand_in_the_way(fpga: Callable[..., Rig]) -> None:
    """What it could do its owner does not do."""
    rig = fpga(hold=False, exposure=Exposure.SERVICE)
    assert () == rig.begin()
    assert isinstance(rig.turn(), Done), rig.reasons
    assert 'aes' == programmed(rig)
