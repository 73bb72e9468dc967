# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A card that took neither its firmware nor the restore image is quarantined; no tenant gets its node until it is flashed."""

import types
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from ironic.common import faults, states

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import plan
from baremetal_acc_ironic.state import node_store, quarantine
from baremetal_acc_ironic.state.node_state import NodeState
from tests.ironic.case import GPU_NEW, GPU_OLD, IronicCase
from tests.unit.planning import values as v

UPDATE = {'step': 'update_accelerator_firmware'}
PROGRAM = {'step': 'program_accelerators'}
GPU_0 = 'host/HGX_FW_GPU_0'


class QuarantineCase(IronicCase):
    """One card takes no image at all."""

    parameters = {'gpus': 2}  # noqa: RUF012

    def spoil(self) -> None:
        """From now on every write to one card fails."""
        self.machine.fault('task-fails', device='GPU_0')

    def rule(self, version: str) -> None:
        """The baseline wants this version of all GPUs."""
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace(GPU_NEW, version))

    @property
    def other(self) -> dict[str, Any]:
        """Arguments that name the other card."""
        return {'args': {'devices': [self.gpu(1)]}}

    def quarantined(self) -> list[str]:
        """The devices."""
        return [str(q.device) for q in self.node_state.quarantined]


class TestCleaning(QuarantineCase):
    """Automated cleaning finds the card behind the baseline."""

    def setUp(self) -> None:
        super().setUp()
        self.spoil()
        self.clean()
        assert states.CLEANFAIL == self.settle()

    def test_the_node_goes_to_maintenance_and_says_which_card_and_what_to_do(self) -> None:
        """As Ironic does it, with its own fault; the lock of the card is closed all the same."""
        assert (True, faults.CLEAN_FAILURE) == (self.node.maintenance, self.node.fault)
        reason = self.node.maintenance_reason
        words = ('GPU_0', self.gpu(0), 'is quarantined', 'HGX_FW_GPU_0', GPU_OLD, 'clear maintenance', 'provide')
        assert [] == [word for word in words if word not in reason], reason
        assert 'is quarantined' in self.node.last_error
        assert [self.gpu(0)] == self.quarantined()
        assert all(closed for name, closed in self.locks().items() if 'InbandUpdatePolicy' in name)

    def test_cleaning_with_a_card_that_takes_it_brings_the_node_back(self) -> None:
        """The documented way: clear maintenance, manage, provide."""
        self.machine.clear_faults()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ([], GPU_NEW) == (self.quarantined(), self.version(GPU_0))
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_a_baseline_that_fits_by_chance_deploys_nothing(self) -> None:
        """Somebody clears maintenance, cleans nothing, and the card shows what is asked for: it was never looked after."""
        self.machine.clear_faults()
        self.clear()
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert f'{self.gpu(0)} is quarantined since' in self.node.last_error


class TestWhatItShows(QuarantineCase):
    """The card, rewritten by its tenant perhaps, shows what is wanted all of a sudden, and runs something else."""

    def setUp(self) -> None:
        super().setUp()
        self.spoil()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        self.machine.clear_faults()
        self.machine.fault('version-lies', device='GPU_0', version=GPU_NEW)
        self.machine.reset_log()
        self.clear()

    def sent(self) -> int:
        """Images that went to it."""
        bodies = [e['body'] for e in self.machine.log() if isinstance(e['body'], dict)]
        return sum(any('GPU_0' in target for target in body.get('Targets', ())) for body in bodies)

    def test_nothing_that_does_not_write_it_takes_the_quarantine_away(self) -> None:
        """Programming, which is a right of its own, and locking."""
        for step in (PROGRAM, PROGRAM | self.other, {'step': 'lock_accelerators'}):
            self.clear()
            self.clean(step)
            assert states.MANAGEABLE == self.settle(), (step, self.node.last_error)
            assert ([self.gpu(0)], 0) == (self.quarantined(), self.sent()), step

    def test_what_needs_the_host_to_start_is_refused_for_another_card(self) -> None:
        """The host is given back with no quarantined card: let the same step write that one, too."""
        self.machine.fault('version-lies', device='GPU_1', version=GPU_OLD)
        self.clean(UPDATE | self.other)
        assert states.CLEANFAIL == self.settle()
        assert 'stays powered off while NVIDIA H100 80GB HBM3 GPU_0' in self.node.last_error
        assert ([self.gpu(0)], 0) == (self.quarantined(), self.sent())

    def test_cleaning_writes_it_anew(self) -> None:
        """What it shows counts for nothing; then it really runs what it shows."""
        assert GPU_OLD == self.version(GPU_0)
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ([], GPU_NEW, 1) == (self.quarantined(), self.version(GPU_0), self.sent())

    def test_cleaning_fails_as_long_as_it_takes_nothing(self) -> None:
        """It stays quarantined."""
        self.spoil()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert ([self.gpu(0)], GPU_OLD) == (self.quarantined(), self.version(GPU_0))
        assert self.node.maintenance

    def test_a_card_that_calls_itself_something_else_is_the_same_card(self) -> None:
        """Another serial number and UUID in the same place: it is written anew all the same."""
        self.machine.fault('card-exchanged', device='GPU_0')
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ([], GPU_NEW, 1) == (self.quarantined(), self.version(GPU_0), self.sent())

    def test_it_stays_quarantined_under_its_other_name_while_it_takes_nothing(self) -> None:
        """And so does its place."""
        self.machine.fault('card-exchanged', device='GPU_0')
        self.spoil()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert GPU_OLD == self.version(GPU_0)
        assert self.quarantined()
        self.machine.clear_faults()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert ([], GPU_NEW) == (self.quarantined(), self.version(GPU_0))

    def test_a_card_that_was_taken_out_is_not_waited_for(self) -> None:
        """Nothing stands in its place."""
        self.machine.clear_faults()
        self.machine.fault('device-absent', device='GPU_0')
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [] == self.quarantined()

    def test_cleaning_fails_where_no_rule_says_what_it_has_to_run(self) -> None:
        """Nothing can be written to it then."""
        path = self._folder / 'baseline.toml'
        path.write_text(path.read_text().replace('firmware = {', '# firmware = {'))
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert f'{self.gpu(0)} is quarantined since' in self.node.last_error
        assert ([self.gpu(0)], 0) == (self.quarantined(), self.sent())


class TestService(QuarantineCase):
    """An active node is updated."""

    def test_servicing_it_again_with_a_good_image_takes_the_quarantine_away(self) -> None:
        """Service failed, with its own way back."""
        self.to_active()
        self.rule(GPU_OLD)
        self.spoil()
        self.serve(UPDATE)
        assert states.SERVICEFAIL == self.settle()
        assert (True, faults.SERVICE_FAILURE) == (self.node.maintenance, self.node.fault)
        assert 'service the node with update_accelerator_firmware' in self.node.maintenance_reason
        assert (states.POWER_OFF, 'Off') == (self.node.power_state, self.machine.truth()['systems']['host']['power'])
        self.machine.clear_faults()
        self.node.maintenance, self.node.maintenance_reason, self.node.fault = False, None, None
        self.node.save()
        self.serve(UPDATE)
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert ([], GPU_OLD) == (self.quarantined(), self.version(GPU_0))

    def test_the_host_is_not_given_back_for_another_card(self) -> None:
        """It is off because of the one that is quarantined; nothing of the other is written, for that would need it on."""
        self.to_active()
        self.rule(GPU_OLD)
        self.spoil()
        self.serve(UPDATE | {'args': {'devices': [self.gpu(0)]}})
        assert states.SERVICEFAIL == self.settle()
        self.node.maintenance, self.node.maintenance_reason, self.node.fault = False, None, None
        self.node.save()
        self.machine.reset_log()
        self.serve(UPDATE | self.other)
        assert states.SERVICEFAIL == self.settle()
        assert 'write the quarantined cards in the same job' in self.node.last_error
        assert ([self.gpu(0)], 'Off') == (self.quarantined(), self.machine.truth()['systems']['host']['power'])
        assert not any("'On'" in str(e['body']) for e in self.machine.log())


class TestMemory(QuarantineCase):
    """What is stored, and what placement hears."""

    def test_it_is_kept_until_it_is_taken_away(self) -> None:
        """It outlives the process; what was stored before there was such a thing still loads."""
        one = Quarantine(device=AcceleratorId('uuid:1'), since=datetime(2026, 11, 21, tzinfo=UTC), why='it burns')
        old = self.node_state
        assert () == old.quarantined
        node_store.store(self.node, replace(old, quarantined=(one,)))
        assert (one,) == self.node_state.quarantined
        assert ['uuid:1 is quarantined since 2026-11-21 00:00:00 UTC: it burns'] == quarantine.reasons(self.node_state)


SLOTS = tuple(v.slot(n).item.ref for n in (0, 1))
CARD = v.inventory(v.fpga(slots=(v.slot(0), v.slot(1))))
SPOILT_SLOT = Quarantine(device=v.FPGA, since=v.NOW, why='it burns', firmware=False, refs=SLOTS[:1], anew=SLOTS[:1])
SPOILT_FIRMWARE = Quarantine(device=v.FPGA, since=v.NOW, why='it burns', refs=(), anew=())


def programmed(slot: int, unmet: tuple[AcceleratorId, ...] = ()) -> Job:
    """A job that has written a slot well; of these devices something does not hold."""
    rules = v.baseline(firmware=None, block=frozenset(), functions=((f'Slot{slot}', 'gzip'),))
    made = plan(CARD, rules, v.NODE, [v.function_image()], again=frozenset({v.FPGA}))
    spans = {'now': v.NOW, 'timeout': timedelta(hours=1), 'lifecycle': 1}
    job = begin(made, identity='1', node='n', flow=Flow.CLEAN, step='program_accelerators', **spans)
    done = tuple(replace(i, state=ItemState.DONE) for i in job.items)
    values = {
        'label': 'x',
        'subject': Subject.from_text('firmware x'),
        'fact': FindingText(expected='1', found='2'),
        'met': Met.NO,
        'rule': 'x',
    }
    findings = tuple(Finding(accelerator=a, **values) for a in unmet)
    return replace(job, items=done, verdict=Verdict(target='node-1', findings=findings))


@pytest.mark.parametrize(
    ('slot', 'unmet', 'expected'),
    [(0, (), []), (1, (), [SPOILT_SLOT]), (0, (v.FPGA,), [SPOILT_SLOT]), (0, (AcceleratorId('uuid:1'),), [])],
)
def test_a_slot_is_mended_by_the_job_that_writes_it_and_offered_by_no_other(slot: int, unmet: Any, expected: Any) -> None:
    """The firmware of the card that is spoilt, too, stays so."""
    job = programmed(slot, unmet)
    state = NodeState(quarantined=(SPOILT_FIRMWARE, SPOILT_SLOT), job=job)
    assert [SPOILT_FIRMWARE, *expected] == list(state.after(job, CARD, v.NOW, met=False, whole=False).quarantined)
    alone = NodeState(quarantined=(SPOILT_SLOT,), job=job)
    assert (frozenset({v.FPGA}) if slot == 1 else frozenset()) == quarantine.still_bad(alone, CARD)
    assert frozenset({v.FPGA}) == quarantine.still_bad(state, CARD)
    assert frozenset({v.FPGA}) == quarantine.still_bad(replace(alone, job=None), CARD)


def test_placement_hears_of_a_quarantined_device_as_of_one_that_is_not_met() -> None:
    """Whatever it shows; others are offered."""
    verdict = quarantine.withheld(Verdict(target='node-1', findings=()), frozenset({AcceleratorId('uuid:1')}))
    assert ['uuid:1'] == [f.accelerator for f in verdict.unmet]
    assert Verdict(target='node-1', findings=()) == quarantine.withheld(Verdict(target='node-1', findings=()), frozenset())


@pytest.mark.parametrize('flow', [Flow.CLEAN, Flow.DEPLOY, Flow.SERVICE])
def test_the_node_of_a_quarantined_card_goes_to_maintenance_whatever_the_flow(flow: Flow) -> None:
    """Ironic itself does that in cleaning and servicing, not in a deploy. What stood there before is kept."""
    one = Quarantine(device=AcceleratorId('uuid:1'), since=datetime(2026, 11, 21, tzinfo=UTC), why='it burns')
    node = types.SimpleNamespace(maintenance=False, maintenance_reason='an old one')
    quarantine.maintain(node, [one], flow)
    assert node.maintenance is True
    assert node.maintenance_reason.startswith(f'it burns ({quarantine.WAY_BACK[flow]}; ')
    assert 'an old one' not in node.maintenance_reason
    node = types.SimpleNamespace(maintenance=True, maintenance_reason='a fan')
    quarantine.maintain(node, [one], flow)
    assert node.maintenance_reason.startswith('it burns')
    assert node.maintenance_reason.endswith('before that: a fan')
