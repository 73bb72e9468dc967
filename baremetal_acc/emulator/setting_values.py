# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The values of settings and locks of an emulated machine: configured, in force, and as its BMCs show them."""

from baremetal_acc.emulator.machine_state import MachineState
from baremetal_acc.emulator.parts import EmulatedComponent, EmulatedSetting, Restart, System, Value


class SettingValues:
    """The configured values of settings and locks and the values in force, as the BMCs hold and show them."""

    def __init__(self, machine: MachineState) -> None:
        self._machine = machine

    def configure(self, key: str, value: Value) -> None:
        """Write a setting, as the BMC does for a client."""
        setting = self._machine.settings[key]
        ignored = 'lock-ignored' if setting.is_lock else 'setting-ignored'
        if self._machine.setting_fault(ignored, setting, use=True):
            return
        setting.value = value
        if setting.takes_force is None and not setting.with_bmc and not self._never_in_force(setting):
            setting.in_force = value
        self._machine.revision += 1

    def _never_in_force(self, setting: EmulatedSetting) -> bool:
        """Whether a fault keeps the configured value from coming in force."""
        name = 'lock-never-in-force' if setting.is_lock else 'setting-never-in-force'
        return self._machine.setting_fault(name, setting, use=True) is not None

    def lockdown(self, bmc: str) -> EmulatedSetting | None:
        """The lockdown in force on a BMC; None: the BMC changes settings and takes updates."""
        return next((self._machine.settings[key] for key in self._machine.bmcs[bmc].lockdowns if self.is_closed(key)), None)

    def shown(self, key: str) -> Value:
        """The configured value as the BMC shows it."""
        setting = self._machine.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        if setting.takes_force is None and not setting.with_bmc:
            return setting.in_force
        return setting.value

    def shown_in_force(self, key: str) -> Value:
        """The value in force as the BMC shows it."""
        setting = self._machine.settings[key]
        if setting.is_lock and self._is_invented(setting):
            return setting.locked
        return setting.in_force

    def _is_invented(self, setting: EmulatedSetting) -> bool:
        """Whether a fault makes the BMC show a lock as closed whatever its state is."""
        lies = ('lock-reports-locked', 'lock-unread')
        return any(self._machine.setting_fault(name, setting, use=False) is not None for name in lies)

    def is_pending(self, key: str) -> bool:
        """Whether a configured value still waits for a restart."""
        return self._machine.settings[key].value != self._machine.settings[key].in_force

    def is_closed(self, key: str) -> bool:
        """Whether a lock really holds: the value in force is the locked one, and no fault makes the BMC invent it."""
        setting = self._machine.settings[key]
        if self._is_invented(setting):
            return False
        return setting.is_lock and setting.in_force == setting.locked

    def apply_restart(self, system: System, depth: Restart) -> None:
        """Bring values in force that wait for this restart of a system; a fault may open locks."""
        for setting in self._machine.settings.values():
            if setting.system != system.name:
                continue
            if setting.takes_force is not None and depth >= setting.takes_force and not self._never_in_force(setting):
                setting.in_force = setting.value
            if setting.once is not None and setting.value == setting.once[0]:
                setting.value = setting.in_force = setting.once[1]
            if setting.is_lock and self._machine.setting_fault('lock-lost-on-reset', setting, use=True):
                setting.value = setting.in_force = setting.open

    def apply_bmc_restart(self, bmc: str) -> None:
        """Bring values in force that wait for the restart of a BMC, when the BMC answers again."""
        for setting in self._machine.settings.values():
            if setting.with_bmc and setting.bmc == bmc and not self._never_in_force(setting):
                setting.in_force = setting.value

    def lose_locks_of_bmc(self, bmc: str) -> None:
        """Open the locks that a BMC loses, by a fault, when it is reset."""
        for setting in self._machine.settings.values():
            is_its = setting.is_lock and setting.bmc == bmc
            if is_its and self._machine.setting_fault('lock-lost-on-bmc-reset', setting, use=True):
                setting.value = setting.in_force = setting.open

    def lose_locks_of_card(self, component: EmulatedComponent) -> None:
        """Open the locks that a card loses, by a fault, when one of its components is updated."""
        for setting in self._machine.settings.values():
            is_its = setting.is_lock and setting.device == component.device and setting.bmc == component.bmc
            if is_its and self._machine.setting_fault('lock-lost-on-update', setting, use=True):
                setting.value = setting.in_force = setting.open
