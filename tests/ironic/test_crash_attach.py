# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The conductor dies while two regions are programmed for an instance, the second fails, and both are restored."""

import os

from ironic import objects
from ironic.common import states
from ironic.conductor import task_manager

from baremetal_acc.emulator.image import read_image
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank
from baremetal_acc.execution.observation import observe
from baremetal_acc.model.attach import AttachState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.provider_names import slot_uuid
from baremetal_acc_ironic import placement
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import wall_clock
from baremetal_acc_ironic.steps.job_context import tools as tools_of
from tests.ironic.attach_case import BASELINE, BEFORE, STEP
from tests.ironic.case import write_function
from tests.ironic.crashing import CrashCase, Mortal, every_point
from tests.ironic.points import ATTACH

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))
"""Each point takes two flows: ``make test`` tries the one in the middle."""

INSTANCE = '11111111-aaaa-4bbb-8ccc-222222222222'


@every_point(ATTACH, all_of_them=SOAK)
class TestAttach(CrashCase):
    """A deploy in which the second image fails."""

    product = 'fpga-server'
    parameters = {'virtual_clock': True, 'tls': False}  # noqa: RUF012
    baseline = BASELINE
    before = states.AVAILABLE
    done = states.ACTIVE
    failed = states.DEPLOYFAIL

    def _configure(self) -> None:
        super()._configure()
        path = self._folder / 'catalogue.toml'
        path.write_text('\n\n'.join([path.read_text(), *(write_function(self._folder, name) for name in BEFORE)]))

    def _changed(self, machine: Machine, revision: int) -> None:
        """The slots are the machine's own; its locks are looked at in the end."""
        machine.__dict__['revision'] = revision
        self._inner = machine

    def prepare(self) -> None:
        """The slots hold something, an instance has claimed both, and the card will refuse one image for the second one."""
        for number, name in enumerate(BEFORE):
            image = read_image((self._folder / name).read_bytes())
            self._inner.components[f'host/FPGA1_Slot{number}'].active = Bank.of(image, 'bmc')
        self.config(group='baremetal_acc', publish=True)
        self._patch(placement, 'shell', lambda *_, **__: None)
        card = self._card()
        held = {slot_uuid(self.node.uuid, card, f'Slot{n}'): frozenset({'FPGA'}) for n in (0, 1)}
        self._patch(placement, 'claims', lambda consumer: held if consumer == INSTANCE else {})
        self.node.instance_uuid = INSTANCE
        traits = ['CUSTOM_ACC_CAN_AES', 'CUSTOM_ACC_CAN_GZIP']
        self.node.instance_info = {'traits': traits}
        self.node.save()
        objects.TraitList.create(self.context, self.node.id, traits)
        self.node.refresh()
        node_store.store(self.node, node_state.NodeState(traits=frozenset(traits)))
        self.machine.fault('task-fails', uri='*_Slot1', count=1)

    def _card(self) -> AcceleratorId:
        """Identity of the card, as a look shows it."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = observe(target_of(task), tools_of(task, self.node_state), wall_clock.now())
        return next(a.id for a in found.accelerators if a.slots)

    def begin(self) -> None:
        """Nova deploys it, with the step that the flavor's template brings."""
        self.service.do_node_deploy(self.context, self.node.uuid, deploy_steps=[STEP])

    def holds(self) -> list[str | None]:
        """The machine's truth: what each slot holds."""
        parts = self.machine.truth()['components']
        active = [parts[f'host/FPGA1_Slot{n}']['active'] for n in (0, 1)]
        return [None if a is None else a['function'] for a in active]

    def never_half(self) -> None:
        """What a slot holds now was there before, or the slot is still to be brought back."""
        attached = self.node_state.attached
        states_ = {} if attached is None else {a.slot: a.state for a in attached.items}
        for number, (now, then) in enumerate(zip(self.holds(), BEFORE, strict=True)):
            told = states_.get(f'Slot{number}') not in (None, AttachState.GONE, AttachState.PLANNED)
            assert now == then or told, f'Slot{number} holds {now}, and nobody knows: {states_}'

    def settled(self, *, must: bool) -> None:
        """All is back, or cleaning brings it back; no image was sent twice, and the instance has never got anything.

        :param must: it goes on by itself.
        """
        begun = self.provision_state() != self.before
        self.restart()
        state = self.settle()
        assert (True, None, []) == (self.rests(), self.node.reservation, self.broken)
        assert len(set(self.pushes)) == len(self.pushes), f'an image was sent twice: {self.pushes}'
        assert (self.failed if begun else self.before) == state, self.node.last_error
        self.never_half()
        if must:
            assert BEFORE == self.holds(), self.node.last_error
        if state == self.before:
            assert ([], BEFORE) == (self.pushes, self.holds())
            return
        self.machine.clear_faults()
        self.node.maintenance, self.node.fault = False, None
        self.node.save()
        self.service.do_node_tear_down(self.context, self.node.uuid)
        assert states.AVAILABLE == self.settle(), self.node.last_error
        state = self.node_state
        assert (BEFORE, None, ()) == (self.holds(), state.attached, state.quarantined)
        assert [] == [name for name, closed in self.locks().items() if 'ProgrammableFromHost' in name and not closed]

    def test_these_are_all_points(self) -> None:
        """A save that is new is a point that is new; four images are sent, and both slots hold what they held."""
        mortal = Mortal()
        self.live(mortal)
        assert self.points == len(mortal.saves), len(mortal.saves)
        assert (4, {'gzip', 'aes', *BEFORE}) == (len(self.pushes), {os.path.basename(name) for name in self.pushes})
        assert (self.failed, BEFORE) == (self.provision_state(), self.holds()), self.node.last_error
        self.never_half()
