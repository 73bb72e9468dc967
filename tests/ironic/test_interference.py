# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Cards that somebody else may have written while a job of ours held them open are written again before the next hand-over.

"Evil" is other firmware under the very version string that the baseline wants.
"""

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from ironic.common import states
from ironic.conductor import task_manager
from ironic.conductor.manager import do_sync_power_state
from ironic.conductor.utils import node_power_action

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Flow, Job
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.state.node_state import StartAllowed
from baremetal_acc_ironic.steps import host_hold, runner
from tests.ironic.case import CURRENT, GPU_NEW, IronicCase

EVIL = build_image(model='h100', component='gpu', version=GPU_NEW, seed='evil')
WAITS = (states.CLEANWAIT, states.DEPLOYWAIT, states.SERVICEWAIT)


class InterferenceCase(IronicCase):
    """Two GPUs, and a tenant's code that runs as soon as the host does."""

    @pytest.fixture(autouse=True)
    def _patching(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    parameters: ClassVar[dict[str, Any]] = {'gpus': 2, 'flash_seconds': 0.6, 'reset_seconds': 0.05}

    def host(self) -> str:
        """The machine's truth: its power."""
        return str(self.machine.truth()['systems']['host']['power'])

    def switch(self, power: str) -> None:
        """By hand, by wake-on-LAN or by a clock: until it has come."""
        self.machine.power({'On': 'On', 'Off': 'ForceOff'}[power])
        for _ in range(200):
            if self.host() == power:
                return
            time.sleep(0.01)
        raise AssertionError(self.host())

    def write_evil(self) -> None:
        """What somebody else's code does to the cards that it can write: all of them."""
        for card in ('GPU_0', 'GPU_1'):
            for _ in range(100):  # the BMC may be writing it
                if self.machine.tenant_write(card, EVIL, component='gpu').get('written'):
                    break
                time.sleep(0.02)

    def until(self, reached: Callable[[], bool]) -> None:
        """Turn the job until the machine has got there."""
        for _ in range(400):
            if reached():
                return
            self.poll()
            time.sleep(0.01)
        raise AssertionError(f'never: {self.node.provision_state} {self.node.last_error}')

    def pause(self) -> None:
        """Longer than a host that was just powered off may still change the time of its last reset."""
        time.sleep(0.3)

    def writing(self) -> bool:
        """A card is being written, on a host that is off."""
        job = self.node_state.job
        return self.host() == 'Off' and job is not None and any(i.task is not None for i in job.items)

    def gpus(self) -> set[str]:
        """Both cards."""
        return {self.gpu(0), self.gpu(1)}

    def cleaned_again(self) -> None:
        """The operator clears maintenance and cleans: both cards are written, whatever they show, and can be handed over."""
        self.clear()
        self.machine.reset_log()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert frozenset() == self.node_state.exposed
        written = [t for e in self.machine.log() if isinstance(e['body'], dict) for t in e['body'].get('Targets', ())]
        assert [True, True] == [any(f'GPU_{n}' in target for target in written) for n in (0, 1)]
        assert "the operator's" == self.cards_run()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def cards_run(self) -> str:
        """The machine's truth: whose firmware runs on the cards."""
        theirs = hashlib.sha256(EVIL).hexdigest()
        found = {v['active']['digest'] for k, v in self.machine.truth()['components'].items() if 'FW_GPU' in k}
        return "the operator's" if not any(theirs in str(digest) for digest in found) else "somebody else's"


class TestCleaning(InterferenceCase):
    """Automated cleaning of a node whose cards are open, and not at the baseline."""

    def test_a_host_that_wakes_while_cards_are_written_is_powered_off_and_both_cards_are_written_again(self) -> None:
        """It writes both cards: the one that we had just written, and the one that was to come."""
        self.clean()
        self.until(self.writing)
        self.switch('On')
        self.write_evil()
        assert states.CLEANFAIL == self.settle()
        assert (self.gpus(), 'Off', None) == (self.node_state.exposed, self.host(), self.node_state.opened)
        assert 'the host must stay off, but' in self.node.last_error
        assert "somebody else's" == self.cards_run()
        (told,) = [e for e in self.history() if 'are written again before the next hand-over' in e]
        assert all(card in told for card in self.gpus())
        self.cleaned_again()

    def test_a_host_that_wakes_and_goes_off_again_between_two_reads_is_seen_by_its_last_reset(self) -> None:
        """Nobody has seen it on."""
        self.clean()
        self.until(self.writing)
        self.pause()
        self.switch('On')
        self.write_evil()
        self.switch('Off')
        assert states.CLEANFAIL == self.settle()
        assert 'the host must stay off, but has run: the last reset of' in self.node.last_error
        assert (self.gpus(), 'Off') == (self.node_state.exposed, self.host())
        self.cleaned_again()

    def test_a_node_that_somebody_makes_available_without_cleaning_is_not_handed_over(self) -> None:
        """Maintenance is cleared by hand; every version and lock is as the baseline wants it."""
        self.clean()
        self.until(self.writing)
        self.switch('On')
        self.write_evil()
        assert states.CLEANFAIL == self.settle()
        self.clear()
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert self.gpus() == self.node_state.exposed
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'was not written again' in self.node.last_error

    def test_a_host_that_wakes_while_what_was_done_is_read_back_is_not_given_back(self) -> None:
        """The locks are engaged, and nobody has proven that yet."""
        self._patch.setattr(runner, 'TURNS', 1)
        self.clean()
        self.until(lambda: self.closed_of(0) and self.closed_of(1))
        assert 'Off' == self.host()
        self.switch('On')
        assert states.CLEANFAIL == self.settle()
        assert (self.gpus(), 'Off') == (self.node_state.exposed, self.host())
        self._patch.setattr(runner, 'TURNS', 20)
        self.cleaned_again()

    def test_cards_without_an_image_are_quarantined(self) -> None:
        """Nothing can be written to them, so nobody uses them."""
        path = self._folder / 'baseline.toml'
        self.clean()
        self.until(self.writing)
        self.switch('On')
        assert states.CLEANFAIL == self.settle()
        path.write_text(path.read_text().replace('firmware = {', '# firmware = {'))
        self.clear()
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert self.gpus() == {q.device for q in self.node_state.quarantined}

    def test_a_bmc_that_restarts_under_a_host_that_stays_off_exposes_nothing(self) -> None:
        """It has forgotten its tasks and lost a lock; the time of the last reset of the host says that it did not run."""
        self.machine.fault('lock-lost-on-bmc-reset')
        self.machine.fault('bmc-restart', device='GPU_0', count=1)
        # It restarts within seconds of the push, which proves no end of the write.
        self.config(group='baremetal_acc', stall_timeout=2)
        self.clean()
        self.settle()
        assert frozenset() == self.node_state.exposed

    def test_a_lock_that_is_lost_by_the_start_of_the_host_exposes_its_card(self) -> None:
        """Whatever was started met it open before it could be powered off again."""
        self.machine.fault('lock-lost-on-reset', device='GPU_0')
        self.clean()
        assert states.CLEANFAIL == self.settle()
        assert ({self.gpu(0)}, 'Off') == (self.node_state.exposed, self.host())
        self.machine.clear_faults()
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert frozenset() == self.node_state.exposed

    def closed_of(self, number: int) -> bool:
        """The machine's truth: the locks of a card are closed."""
        return all(closed for name, closed in self.locks().items() if f'GPU_{number}' in name)


class TestUnlocked(InterferenceCase):
    """A node at the baseline whose cards an operator has unlocked: the host is left off."""

    parameters = InterferenceCase.parameters | {'versions': CURRENT}

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.clean({'step': 'unlock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert 'Off' == self.host()

    def test_a_host_that_was_started_by_hand_exposes_the_cards(self) -> None:
        """It is off again before they are locked; nobody has looked meanwhile."""
        time.sleep(1.1)  # times of the last reset are whole seconds: within one a start does not show
        self.switch('On')
        self.write_evil()
        self.switch('Off')
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (self.gpus(), None) == (self.node_state.exposed, self.node_state.opened)
        self.cleaned_again()
        assert "the operator's" == self.cards_run()

    def test_a_host_that_runs_still_exposes_the_cards(self) -> None:
        """The cleaning that finds it writes them at once."""
        self.switch('On')
        self.write_evil()
        self.cleaned_again()
        assert "the operator's" == self.cards_run()

    def test_a_host_that_was_off_all_the_time_exposes_nothing(self) -> None:
        """The operator's own work on open cards is no interference."""
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (frozenset(), None) == (self.node_state.exposed, self.node_state.opened)

    def test_a_host_that_the_power_sync_finds_on_exposes_the_cards(self) -> None:
        """It is off again when a step of ours looks, and the BMC shows no time of its last reset."""
        left = self.node_state.opened
        assert left is not None
        marks = tuple(replace(mark, last_reset=None) for mark in left.held_off)
        node_store.store(self.node, replace(self.node_state, opened=replace(left, held_off=marks)))
        self.sync()
        assert frozenset() == self.node_state.exposed
        self.switch('On')
        self.write_evil()
        self.sync()
        assert ('Off', self.gpus()) == (self.host(), self.node_state.exposed)
        assert any('the host was left powered off, and is power on' in event for event in self.history())
        self.cleaned_again()

    def sync(self) -> None:
        """One round of Ironic's power synchronisation, which powers off what it has recorded as off."""
        self.node.power_state = states.POWER_OFF
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            do_sync_power_state(task, 0)
        self.node.refresh()

    def test_a_start_that_an_operator_vouches_for_exposes_nothing(self) -> None:
        """And from its end on the host is off as before."""
        until = datetime.now(UTC) + timedelta(hours=1)
        word = StartAllowed(since=datetime.now(UTC), until=until, by='root', why='to look at it', vouched=True)
        node_store.store(self.node, replace(self.node_state, start_allowed=word))
        for power in (states.POWER_ON, states.POWER_OFF):
            with task_manager.acquire(self.context, self.node.uuid, shared=False) as task:
                node_power_action(task, power)
        self.node.refresh()
        node_store.store(self.node, replace(self.node_state, start_allowed=None))
        assert 1 == len(self.node_state.opened.held_off)
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (frozenset(), None) == (self.node_state.exposed, self.node_state.opened)

    def test_a_second_unlock_forgets_nothing_of_the_first(self) -> None:
        """The cards that were open then, and the host as it was off then."""
        self.clean({'step': 'unlock_accelerators', 'args': {'devices': [self.gpu(0)]}})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert self.gpus() == self.node_state.opened.accelerators
        self.switch('On')
        self.switch('Off')
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert self.gpus() == self.node_state.exposed


class TestRamdisk(InterferenceCase):
    """The operator's ramdisk runs on the host while cards are open: nothing holds the host off."""

    def setUp(self) -> None:
        super().setUp()
        self.in_ramdisk(True)
        self.switch('On')

    def in_ramdisk(self, runs: bool) -> None:
        """Whether Ironic's ramdisk answers from the host."""
        self._patch.setattr(host_hold, 'must_hold_host', lambda _task, flow: not (runs and flow is Flow.CLEAN))

    def unlocked(self) -> None:
        """At the baseline, and unlocked in the ramdisk, which runs still."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.switch('On')
        self.clean({'step': 'unlock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert 'On' == self.host()

    def test_a_host_that_restarts_while_cards_are_written_exposes_both(self) -> None:
        """It left the ramdisk for something that nobody knows: the card that was written before it counts for nothing."""
        self.clean()
        job = self.node_state.job
        assert job is not None
        assert 1 == len(job.left_on)
        self.until(lambda: any(i.task is not None for i in self.node_state.job.items))
        self.switch('Off')
        self.switch('On')
        self.write_evil()
        assert states.CLEANFAIL == self.settle()
        assert "the host ran the operator's ramdisk, but was reset" in self.node.last_error
        assert self.gpus() == self.node_state.exposed
        self.in_ramdisk(False)
        self.cleaned_again()
        assert "the operator's" == self.cards_run()

    def test_a_host_that_the_job_itself_resets_exposes_nothing(self) -> None:
        """To bring firmware in force."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert frozenset() == self.node_state.exposed

    def test_what_was_unlocked_in_the_ramdisk_is_exposed_once_that_is_gone(self) -> None:
        """Nobody has kept how the host was off since, so nobody can say that it was."""
        self.unlocked()
        self.in_ramdisk(False)
        self.switch('Off')
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (self.gpus(), None) == (self.node_state.exposed, self.node_state.opened)
        assert any('and the host was started since: ' in event for event in self.history())
        self.cleaned_again()

    def test_what_is_locked_again_in_the_ramdisk_is_not(self) -> None:
        """One cleaning unlocks, writes and locks."""
        self.unlocked()
        self.clean({'step': 'lock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert (frozenset(), None) == (self.node_state.exposed, self.node_state.opened)


class TestFailed(InterferenceCase):
    """A deploy that fails since locks do not close leaves the host off, and nobody looks before the next one."""

    parameters = InterferenceCase.parameters | {'versions': CURRENT}

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.clean({'step': 'unlock_accelerators'})
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        # As if the BMC had lost them: no step of ours has opened them.
        node_store.store(self.node, replace(self.node_state, opened=None))
        self.node.provision_state = states.AVAILABLE
        self.node.save()
        self.machine.fault('lock-ignored')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert ('Off', frozenset()) == (self.host(), self.node_state.exposed)
        self.machine.clear_faults()
        time.sleep(1.5)  # what a BMC says of the host's last reset is in whole seconds

    def test_a_host_that_wakes_after_it_exposes_the_cards(self) -> None:
        """The next deploy finds every version and lock as it wants them."""
        self.switch('On')
        self.write_evil()
        self.switch('Off')
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'was not written again' in self.node.last_error
        assert self.gpus() == self.node_state.exposed
        self.cleaned_again()
        assert "the operator's" == self.cards_run()

    def test_a_host_that_stays_off_may_be_deployed_again(self) -> None:
        """The cause is repaired."""
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (frozenset(), None) == (self.node_state.exposed, self.node_state.opened)


class TestServed(InterferenceCase):
    """A service of a node that a tenant has finds locks open that a restart of its host has lost."""

    parameters = InterferenceCase.parameters | {'versions': CURRENT}

    def test_cards_that_are_found_open_to_a_running_host_are_exposed(self) -> None:
        """They are closed later; the host is not started before, and the cards are written again once the node is ours."""
        self.to_active()
        self.machine.fault('lock-lost-on-reset')
        self.switch('Off')
        self.switch('On')
        self.machine.clear_faults()
        self.machine.fault('lock-ignored')
        self.serve('lock_accelerators')
        assert states.SERVICEFAIL == self.settle()
        assert self.gpus() == self.node_state.exposed
        assert self.node_state.opened.found
        self.machine.clear_faults()
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        self.serve('lock_accelerators')
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert (self.gpus(), None) == (self.node_state.exposed, self.node_state.opened)


class TestRecovery(InterferenceCase):
    """The conductor dies while cards are written, and the step is gone with it."""

    def setUp(self) -> None:
        super().setUp()
        self.clean()
        self.until(self.writing)
        self.node.refresh()
        self.node.provision_state, self.node.clean_step = states.CLEANFAIL, {}
        self.node.save()
        self.pause()

    def recovered(self) -> None:
        """Until nothing is left of the job."""
        self.settle()
        for _ in range(400):
            if self.node_state.job is None:
                return
            self.poll()
            time.sleep(0.01)
        raise AssertionError(self.node_state.job)

    def test_a_host_that_has_run_meanwhile_exposes_the_cards(self) -> None:
        """It is off again when somebody looks."""
        self.switch('On')
        self.write_evil()
        self.switch('Off')
        self.recovered()
        assert (self.gpus(), 'Off') == (self.node_state.exposed, self.host())
        self.cleaned_again()
        assert "the operator's" == self.cards_run()

    def test_a_host_that_runs_when_somebody_looks_exposes_the_cards(self) -> None:
        """And is powered off before the locks are engaged."""
        self.switch('On')
        self.write_evil()
        self.recovered()
        assert (self.gpus(), 'Off') == (self.node_state.exposed, self.host())

    def test_a_host_that_stays_off_exposes_nothing(self) -> None:
        """The rest is for the next cleaning, as ever."""
        self.recovered()
        assert frozenset() == self.node_state.exposed


class TestFunctions(InterferenceCase):
    """An FPGA whose slots are programmed."""

    product = 'fpga-server'
    parameters: ClassVar[dict[str, Any]] = {'gpus': 2, 'flash_seconds': 0.6, 'reset_seconds': 0.05}

    def test_a_tenant_that_programs_a_slot_meanwhile_exposes_the_card(self) -> None:
        """Its function is not the baseline's when the job ends, or is and is not what we wrote."""
        self.clean()
        self.until(self.writing)
        self.switch('On')
        image = build_image(kind='function', model='d5005', component='slot', version='1.0.0', function='aes', seed='evil')
        device = next(k for k in self.machine.truth()['components'].values() if k['component'] == 'slot')['device']
        for slot in (0, 1):
            self.machine.tenant_program(device, slot, image)
        assert states.CLEANFAIL == self.settle()
        assert 1 == len(self.node_state.exposed)
        assert 'Off' == self.host()


class TestMemory(InterferenceCase):
    """What is stored."""

    def test_a_job_of_the_version_before_is_read(self) -> None:
        """It holds nothing off that anybody has noted, and has met nothing."""
        self.clean()
        self.until(self.writing)
        job = self.node_state.job
        assert job is not None
        assert ('host', 1) == (job.held_off[0].system.bmc, len(job.held_off))
        old = encode(job)
        for name in ('held_off', 'left_on', 'shut', 'interferences'):
            del old[name]
        read = decode(Job, old)
        assert ((), (), frozenset(), ()) == (read.held_off, read.left_on, read.shut, read.interferences)
        assert job == decode(Job, encode(job))
        state = node_store.load(self.node)
        assert state == decode(node_state.NodeState, encode(state))
