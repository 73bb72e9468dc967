# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the interface of what reads a setting of cards (:class:`CardSettingMechanism`)."""

from collections.abc import Iterable
from typing import Protocol

from baremetal_acc.bmc.driver import Reader, Writer
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading


class CardSettingMechanism(Protocol):
    """Properties of Redfish resources by which a BMC shows a setting of a card."""

    name: str
    setting: CardSetting

    def read(self, accelerator: Accelerator, readers: Iterable[Reader]) -> tuple[CardSettingReading, ...]:
        """Read every property of a device that shows the setting; none where the BMC does not show it.

        A property that cannot be read gives a reading with the reason; this never raises an error of the BMC.

        :param readers: those of all BMCs on which the device has resources.
        """

    def set(self, writer: Writer, reading: CardSettingReading, value: str) -> None:
        """Set a value, which is one of ``sets`` of the reading. Whether it took effect is seen by reading again.

        :raises BmcError: it was not accepted.
        """
