# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The custody of cards over the lives of a node in Ironic, where rules require it.

"Evil" is other firmware under the very version string that the baseline wants.
"""

import contextlib
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.custody import BreakCause, Chain, Cover, Origin, Strength
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import wall_clock
from baremetal_acc_ironic.steps.job_context import tools as tools_of
from tests.emulator.conftest import Client
from tests.ironic.api import LESSEE, is_refused
from tests.ironic.case import BASELINE, GPU_NEW, RULES
from tests.ironic.test_api import LESSEE_ADMIN, OWNER_ADMIN, SYSTEM_ADMIN
from tests.ironic.test_host_start import LESSEE_MANAGER, StartCase
from tests.ironic.test_interference import EVIL, InterferenceCase

GENUINE = build_image(model='h100', component='gpu', version=GPU_NEW)
REQUIRED = f'{RULES}\n[[rule]]\nname = "custody"\ncustody = "required"\n'


class CustodyCase(InterferenceCase):
    """Two GPUs behind roots of trust, which take long enough to be written to be seen to progress."""

    baseline = REQUIRED
    parameters: Mapping[str, Any] = {'gpus': 2, 'flash_seconds': 1.5, 'reset_seconds': 0.05}

    def chains(self) -> list[Chain]:
        """Those of both cards."""
        self.node.refresh()
        found = [c.chain for c in self.node_state.custody.cards]
        assert 2 == len(found)
        return [c for c in found if c is not None]

    def causes(self) -> set[BreakCause | None]:
        """What has broken them."""
        return {c.broken.cause if c.broken is not None else None for c in self.chains()}

    def written(self) -> list[Any]:
        """The targets of the images that the machine was sent since its log was last cleared."""
        return [t for e in self.machine.log() if isinstance(e['body'], dict) for t in e['body'].get('Targets', ())]

    def to_available(self) -> None:
        """Cleaned: written and locked."""
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        self.machine.reset_log()

    def set_locks(self, *, closed: bool) -> None:
        """Somebody with the operator's password, or a BMC that forgets, behind our back."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            address = target_of(task).bmcs[0]
            connection = tools_of(task, node_store.load(task.node)).connect(address)
        with contextlib.closing(connection):
            writer = connection.writer()
            for number in (0, 1):
                root = f'/redfish/v1/Chassis/HGX_ERoT_GPU_{number}'
                writer.patch(writer.fresh(root), {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': not closed}}})
                item = f'/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_GPU_{number}'
                writer.patch(writer.fresh(item), {'WriteProtected': closed})

    def edit_state(self, state: str) -> None:
        """As an operator manages a node."""
        self.node.refresh()
        self.node.provision_state = state
        self.node.target_provision_state = None
        self.node.save()

    def locked(self) -> set[bool]:
        """Whether the cards are closed to the host: the machine's truth."""
        return {v for k, v in self.locks().items() if k.startswith('HGX_ERoT_GPU')}


class TestChain(CustodyCase):
    """From the write to the tenant, and to the next one."""

    def test_it_reaches_over_a_tenant_to_the_next_one_and_cleaning_writes_nothing(self) -> None:
        """The locks cover the time of the tenant, whose host is read neither off nor on meanwhile."""
        self.to_available()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        first = self.chains()
        assert [(Origin.WRITTEN, ('gpu-96.00.74.00.01',))] * 2 == [(c.origin, c.by) for c in first]
        self.machine.reset_log()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert [] == self.written()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert [c.begun for c in first] == [c.begun for c in self.chains()]
        assert {None} == self.causes()
        assert {Cover.HOST_OFF, Cover.LOCKED} == {i.cover for c in self.chains() for i in c.intervals}
        assert {Strength.POLLED} == {c.strength for c in self.chains()}, 'no start of this host was seen before'
        assert ('host',) == tuple(system.bmc for system in self.node_state.custody.dependable), 'and one was since'

    def test_a_card_that_shows_the_right_version_is_written_by_the_first_cleaning_and_not_handed_over_before(self) -> None:
        """Nobody knows who has written what it runs."""
        self.write_evil()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'no chain has begun' in self.node.last_error, self.node.last_error
        assert "somebody else's" == self.cards_run()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert "the operator's" == self.cards_run()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error

    def test_a_lock_that_was_lost_while_the_node_was_free_breaks_it(self) -> None:
        """Somebody wakes the host and writes the cards, under the same version; the deploy closes the locks again."""
        self.to_available()
        self.set_locks(closed=False)
        self.switch('On')
        self.write_evil()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert {True} == self.locked(), 'the deploy has closed them'
        assert {BreakCause.PATH_OPEN} == self.causes()
        assert 'a path that was blocked was found open' in self.node.last_error, self.node.last_error
        assert "somebody else's" == self.cards_run()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert "the operator's" == self.cards_run()
        assert {None} == self.causes()

    def test_a_lock_that_a_verification_found_open_breaks_it_though_somebody_closes_it_again(self) -> None:
        """The verification has failed; what it has read is kept."""
        self.to_available()
        self.edit_state(states.MANAGEABLE)
        self.set_locks(closed=False)
        self.clean('verify_accelerators')
        assert states.CLEANFAIL == self.settle()
        self.set_locks(closed=True)
        self.clear()
        self.edit_state(states.AVAILABLE)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert {BreakCause.PATH_OPEN} == self.causes()

    def test_unlocking_a_card_breaks_nothing_while_its_host_stays_off(self) -> None:
        """Its BMC shows that it did; one that was on shows that, too."""
        self.to_available()
        self.edit_state(states.MANAGEABLE)
        self.clean('unlock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        time.sleep(0.3)
        self.clean('lock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        assert {None} == self.causes()
        self.clean('unlock_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        self.pause()
        self.switch('On')
        self.write_evil()
        self.switch('Off')
        self.clean('lock_accelerators')
        self.settle()
        assert {None} != self.causes()
        self.edit_state(states.MANAGEABLE)
        self.clear()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert "the operator's" == self.cards_run()


class TestStrangers(CustodyCase):
    """Somebody who shares nothing with us, and has the password of the BMC: a tool of a maker, a command line elsewhere."""

    parameters: Mapping[str, Any] = CustodyCase.parameters | {'flash_seconds': 3.0}

    def push_evil(self, *, ended: bool = False) -> None:
        """Send firmware of somebody else, under the version that the rules want, to one card; its lock is closed again.

        :param ended: when the update has ended; else it runs on.
        """
        self.set_locks(closed=False)
        stranger = Client(self.machine.bmcs['host'])
        answer = stranger.push('/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_GPU_0', EVIL)
        assert 202 == answer.status_code, answer.text
        task, wanted = answer.json()['@odata.id'], 'Completed' if ended else 'Running'
        time.sleep(0.3)
        deadline = time.monotonic() + 60
        while wanted != (state := stranger.get(task)['TaskState']):
            assert 'Running' == state
            assert time.monotonic() < deadline
            time.sleep(0.2)
        self.set_locks(closed=True)

    def test_a_foreign_write_that_runs_when_a_cleaning_begins_breaks_the_chain_and_is_written_over(self) -> None:
        """Which card it is for its BMC need not say: none is taken for what it was."""
        self.to_available()
        self.push_evil()
        self.machine.reset_log()
        self.edit_state(states.MANAGEABLE)
        self.clean()
        assert {BreakCause.FOREIGN_WRITE} == self.causes(), 'its BMC may have forgotten the task when it is done with it'
        self.poll()
        assert {BreakCause.FOREIGN_WRITE} == self.causes()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert 2 == len(self.written()), 'what was sent comes in force with the next start of the host'
        assert "the operator's" == self.cards_run()
        assert {None} == self.causes()

    def test_no_node_is_handed_over_while_somebody_else_writes(self) -> None:
        """The version that the card shows until then is the right one."""
        self.to_available()
        self.push_evil()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert {BreakCause.FOREIGN_WRITE} == self.causes()
        assert 'a task that is not ours' in self.node.last_error, self.node.last_error

    def test_a_foreign_write_that_has_ended_unseen_breaks_the_chain_and_is_written_over(self) -> None:
        """The card shows the right version, and nobody looked while it was written: the BMC still has the task."""
        self.to_available()
        assert {None} == self.causes()
        self.push_evil(ended=True)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert {BreakCause.FOREIGN_WRITE} == self.causes()
        self.node.provision_state = states.MANAGEABLE
        self.node.save()
        self.clean()
        assert states.AVAILABLE == self.settle(), self.node.last_error
        assert "the operator's" == self.cards_run()
        assert {None} == self.causes()


class TestAccepted(StartCase):
    """The step ``accept_accelerator_custody``."""

    baseline = REQUIRED

    def setUp(self) -> None:
        super().setUp()
        self.be(states.MANAGEABLE, lessee=None)

    def accept(self, headers: dict[str, str] = SYSTEM_ADMIN, **args: Any) -> int:
        """Ask for the step."""
        self.be(states.MANAGEABLE)
        given = {'reason': 'as delivered', 'until': (wall_clock.now() + timedelta(days=1)).isoformat()} | args
        step = {'interface': 'firmware', 'step': 'accept_accelerator_custody'}
        asked = [step | {'args': {k: v for k, v in given.items() if v is not None}}]
        code = self.provision(headers, 'clean', clean_steps=asked, disable_ramdisk=True)
        if code == 202:
            self.settle()
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        return code

    def causes(self) -> set[BreakCause | None]:
        """What has broken the chains."""
        self.node.refresh()
        chains = [c.chain for c in self.node_state.custody.cards]
        return {c.broken.cause if c is not None and c.broken is not None else None for c in chains}

    def test_an_operator_begins_the_chains_of_cards_that_nobody_is_known_to_have_written(self) -> None:
        """By name, with a reason and an end; then the node is handed over without a write."""
        for number in (0, 1):
            self.machine.power('On')
            self._until_on()
            for _ in range(100):
                if self.machine.tenant_write(f'GPU_{number}', GENUINE, component='gpu').get('written'):
                    break
        self.press('ForceOff')
        assert 202 == self.accept(), self.said
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        chains = [c.chain for c in self.node_state.custody.cards]
        assert [(Origin.ACCEPTED, 'as delivered', None)] * 2 == [
            (c.origin, c.reason, c.broken) for c in chains if c is not None
        ]
        self.machine.reset_log()
        self.be(states.AVAILABLE)
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        assert not [e for e in self.machine.log() if isinstance(e['body'], dict) and 'Targets' in e['body']]
        assert {None} == self.causes()

    def _until_on(self) -> None:
        for _ in range(200):
            if 'On' == self.host:
                return
            time.sleep(0.01)
        raise AssertionError(self.host)

    def test_a_card_that_its_host_can_write_and_one_that_somebody_has_reached_are_not_accepted(self) -> None:
        """The next reading would break the chain; and what is known to be spoilt is written."""
        self.machine.power('On')
        self._until_on()
        assert 202 == self.accept(), self.said
        assert 'is not proven closed to its host, which is not off' in str(self.node.last_error)
        self.press('ForceOff')
        self.remembered(exposed=frozenset({self.gpu(0)}))
        assert 202 == self.accept(), self.said
        assert f'a tenant or a host may have written {self.gpu(0)}' in str(self.node.last_error)
        assert 202 == self.accept(devices=[self.gpu(1)]), self.said
        assert states.MANAGEABLE == self.node.provision_state, self.node.last_error
        assert [self.gpu(1)] == [c.accelerator for c in self.node_state.custody.cards if c.chain is not None]

    def test_it_ends(self) -> None:
        """Then the cards are written, or not handed over."""
        assert 202 == self.accept(until=(wall_clock.now() + timedelta(seconds=2)).isoformat()), self.said
        time.sleep(2)
        self.be(states.AVAILABLE)
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert {BreakCause.ACCEPTANCE_ENDED} == self.causes()

    def test_nobody_else_accepts_and_never_without_an_end(self) -> None:
        """Nor a project that owns or leases the node, whatever its role."""
        for headers in (OWNER_ADMIN, LESSEE_ADMIN, LESSEE_MANAGER):
            self.be(states.MANAGEABLE, lessee=LESSEE)
            assert is_refused(self, self.accept(headers)), self.said
        self.be(states.MANAGEABLE, lessee=None)
        for args, said in (
            ({'until': None}, 'missing these required arguments: until'),
            ({'reason': None}, 'missing these required arguments: reason'),
            ({'until': '2026-01-01'}, 'is over'),
            ({'until': '2099-01-01'}, 'too far ahead'),
            ({'until': 'soon'}, "argument until: 'soon' is neither a date"),
            ({'reason': 'a\x1b[2J'}, 'cannot be printed'),
            ({'devices': ['GPU_9']}, 'matches no device'),
            ({'expires': 'x'}, 'unexpected arguments: expires'),
        ):
            assert 202 == self.accept(**args), self.said
            assert said in str(self.node.last_error), args
            assert [] == [c for c in self.node_state.custody.cards if c.chain is not None]


class TestDefault(CustodyCase):
    """Where no rule says anything of it, and the host has to be kept from firmware that a rule names."""

    baseline = RULES

    def test_a_card_that_nobody_has_written_is_not_handed_over(self) -> None:
        """The version that it shows is the right one."""
        self.write_evil()
        self.deploy()
        assert states.DEPLOYFAIL == self.settle()
        assert 'no chain has begun' in self.node.last_error, self.node.last_error
        assert "somebody else's" == self.cards_run()


class TestReported(CustodyCase):
    """Where a rule says that it refuses nothing."""

    baseline = BASELINE

    def test_it_is_recorded_and_refuses_nothing(self) -> None:
        """A card that shows the right version is not written."""
        self.write_evil()
        self.to_available()
        self.deploy()
        assert states.ACTIVE == self.settle(), self.node.last_error
        self.node.refresh()
        assert [None, None] == [c.chain for c in self.node_state.custody.cards]
