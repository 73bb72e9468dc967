# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The firmware banks of an emulated machine: which images its components take, and what brings an image in force."""

from dataclasses import replace

from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.image import EmulatedImage
from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.parts import Bank, EmulatedComponent, Restart, System, WriteRefused
from baremetal_acc.emulator.setting_values import SettingValues

ROOT_OF_TRUST = 'erot'
"""The name of the root-of-trust component of a card, which guards the images of the other components."""


class FirmwareBanks:
    """The banks of the components: what the BMC shows of them, which images they take, and what brings an image in force."""

    def __init__(self, machine: MachineState, values: SettingValues) -> None:
        self._machine = machine
        self._values = values

    def shown_version(self, key: str, *, by_item: bool = False) -> str:
        """The version that the BMC shows; empty when the component holds nothing.

        :param by_item: the version in the SoftwareInventory item, not that in the card's own resources.
        """
        component = self._machine.components[key]
        rule = self._machine.component_fault('version-lies', component, use=False)
        if rule is not None and (by_item or not rule.parameters['item_only']):
            told = rule.parameters['version']
            if told is not None:
                return str(told)
            if component.sent is not None:
                return component.sent.version
        return component.active.version if component.active is not None else ''

    def lateness(self, component: EmulatedComponent) -> Fault | None:
        """The fault rule by which the inventory item does not yet show the last write; None: the item shows it."""
        return self._recent('item-late', component)

    def copy_seconds(self, device: str) -> float:
        """For how many more seconds the root of trust of a card copies the written image in the background; 0: none."""
        parts = [one for one in self._machine.components.values() if device and one.device == device]
        if not any(one.component == ROOT_OF_TRUST for one in parts):
            return 0.0
        # An image that waits for its activation is copied only after it came in force.
        settled = [one for one in parts if one.staged is None or one.identity is None]
        found = [(one, rule) for one in settled if (rule := self._recent('background-copy', one)) is not None]
        return max((self._left(one, rule) for one, rule in found), default=0.0)

    def _recent(self, name: str, component: EmulatedComponent) -> Fault | None:
        """The fault rule of that name that applies for some seconds after an update, if it still applies; else None."""
        if component.changed is None:
            return None
        rule = self._machine.component_fault(name, component, use=False)
        return rule if rule is not None and self._left(component, rule) > 0 else None

    def _left(self, component: EmulatedComponent, rule: Fault) -> float:
        changed = component.changed
        return 0.0 if changed is None else changed + float(rule.parameters['seconds']) - self._machine.now()

    def find_write_block(self, component: EmulatedComponent) -> WriteRefused | None:
        """Why the component takes no image at all now; None: it takes one."""
        if not component.updateable:
            return WriteRefused('not-updateable', f'{component.key} cannot be updated')
        if component.write_protect is not None and self._values.is_closed(component.write_protect):
            return WriteRefused('write-protected', f'{component.key} is write-protected')
        return None

    def find_obstacle(self, component: EmulatedComponent, image: EmulatedImage) -> WriteRefused | None:
        """Why the component does not take this image now; None: it takes the image."""
        if (closed := self.find_write_block(component)) is not None:
            return closed
        try:
            self.check_image(component, image)
        except WriteRefused as why:
            return why
        return None

    def check_image(self, component: EmulatedComponent, image: EmulatedImage) -> None:
        """Check an image as the card does, whoever sends it.

        :raises WriteRefused: the image is not for this component, or a fault makes the card refuse it.
        """
        variant = self._machine.component_fault('other-variant', component, use=False)
        asked = component if variant is None else replace(component, model=str(variant.parameters['takes']))
        asked.check(image)
        rule = self._machine.component_fault('image-refused', component, use=False)
        if rule is None:
            return
        version, below = rule.parameters['version'], rule.parameters['below']
        if version in (None, image.version) and (below is None or image.security_version < below):
            self._machine.component_fault('image-refused', component, use=True)
            raise WriteRefused('image-refused', str(rule.parameters['message']))

    def judge(self, key: str, image: EmulatedImage | None = None) -> None:
        """Check that the component can be written now, and with this image if one is given.

        :raises WriteRefused: the component is not updateable or write protected, or the image is not for it.
        """
        component = self._machine.components[key]
        if (why := self.find_write_block(component)) is not None:
            raise why
        if image is not None:
            self.check_image(component, image)

    def activate(self, component: EmulatedComponent, bank: Bank) -> None:
        """Bring a bank in force now; the bank that was active becomes the backup."""
        component.previous = component.active
        component.active = bank
        component.staged = None
        component.changed = self._machine.now()
        self._machine.note_part('activated', component.key, version=bank.version, digest=bank.digest)

    def apply_restart(self, system: System, depth: Restart) -> None:
        """Activate the staged images that wait for this restart of a system, or drop or keep them where a fault says so."""
        for component in self._machine.components.values():
            is_deep_enough = component.activates is None or depth >= component.activates
            if component.system != system.name or component.staged is None or not is_deep_enough:
                continue
            if self.activates_with_bmc(component):
                continue
            if self._machine.component_fault('activation-lost', component, use=True) is not None:
                continue
            refused = self._machine.component_fault('activation-refused', component, use=True)
            if refused is None:
                self.activate(component, component.staged)
            elif refused.parameters['leaves'] is None:
                component.staged = None
            else:
                self.activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))

    def apply_bmc_restart(self, bmc: str) -> None:
        """Activate the staged images that, by a fault, wait for the restart of a BMC."""
        for component in self._machine.components.values():
            if component.bmc == bmc and component.staged is not None and self.activates_with_bmc(component):
                self.activate(component, component.staged)

    def activates_with_bmc(self, component: EmulatedComponent) -> bool:
        """Whether, by a fault, a staged image of the component comes in force with a restart of its BMC."""
        return self._machine.component_fault('activates-with-bmc', component, use=False) is not None

    def hold(self, key: str, image: EmulatedImage, writer: str) -> None:
        """Keep a written image until :meth:`activate_held`."""
        component = self._machine.components[key]
        component.held = component.sent = Bank.of(image, writer)
        self._machine.note_part('written', key, task=None, version=image.version, digest=image.digest, writer=writer)
        self._machine.revision += 1

    def drop_held(self, key: str) -> None:
        """Drop a written image that was not activated."""
        self._machine.components[key].held = None
        self._machine.revision += 1

    def activate_held(self, key: str, *, keeps_previous: bool = False) -> None:
        """Bring the held image in force, or stage it where a restart of the system activates it.

        :param keeps_previous: the backup was copied by an earlier command, and stays as it is.
        """
        component = self._machine.components[key]
        bank, previous = component.held, component.previous
        if bank is None or self._machine.component_fault('activation-lost', component, use=True) is not None:
            return
        component.held = None
        if component.activates is not None:
            component.staged = bank
        elif (refused := self._machine.component_fault('activation-refused', component, use=True)) is None:
            self.activate(component, bank)
        elif refused.parameters['leaves'] is not None:
            self.activate(component, Bank(version=str(refused.parameters['leaves']), writer='bmc'))
        if keeps_previous:
            component.previous = previous
        self._values.lose_locks_of_card(component)
        self._machine.revision += 1

    def back_up(self, key: str) -> None:
        """Copy the active bank to the backup for a rollback."""
        component = self._machine.components[key]
        component.previous = component.active
        self._machine.revision += 1

    def roll_back(self, key: str) -> None:
        """Swap the active bank and the backup.

        Where a restart of the system activates images, a staged image is dropped; if none is staged, the backup is staged.
        """
        component = self._machine.components[key]
        if component.activates is not None:
            component.staged = component.previous if component.staged is None else None
            self._machine.revision += 1
        elif component.previous is not None:
            component.active, component.previous = component.previous, component.active
            self._machine.revision += 1
