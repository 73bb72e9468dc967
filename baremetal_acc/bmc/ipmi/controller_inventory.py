# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Controllers and FRUs that an inspection of a machine has found."""

from dataclasses import dataclass

from baremetal_acc.bmc.ipmi import entities, fru_contents
from baremetal_acc.bmc.ipmi.controller_path import Path
from baremetal_acc.bmc.ipmi.device import DeviceId


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagementController:
    """A controller that the inspection has found.

    :ivar device: None: its device id was not read, because it is absent or for a reason in ``Look.unread``.
    :ivar absent: a record refers to it, and nothing answers at its address.
    """

    path: Path
    name: str | None = None
    entity: int | None = None
    instance: int | None = None
    device: DeviceId | None = None
    absent: bool = False

    @property
    def location(self) -> str | None:
        """Its location, by the name in its locator, else by its entity."""
        return located(self.name, self.entity, self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fru:
    """An FRU that the inspection has found.

    :ivar path: to its controller.
    :ivar number: FRU device id.
    :ivar entity: entity id, such as C1h for an AMC.
    :ivar device_type: device type of its memory, from its locator.
    :ivar modifier: device type modifier, from its locator.
    :ivar contents: None: it was not read, because it is absent or for a reason in ``Look.unread``.
    :ivar absent: its controller reports that it is not present, or is absent itself.
    """

    path: Path
    number: int
    lun: int = 0
    name: str | None = None
    entity: int | None = None
    instance: int | None = None
    device_type: int | None = None
    modifier: int | None = None
    contents: fru_contents.Contents | None = None
    absent: bool = False

    @property
    def location(self) -> str | None:
        """Its location, by the name in its locator, else by its entity."""
        return located(self.name, self.entity, self.instance)

    @property
    def may_be_card(self) -> bool:
        """Whether it may be the FRU of a card. FRU 0 of the BMC is the BMC's board, unless its entity is a card's."""
        if not self.path and not self.number and not self.lun:
            return self.entity in entities.CARDS
        return entities.may_be_card(self.entity, self.device_type, self.modifier)

    @property
    def called(self) -> str:
        """Its name in messages. The same FRU number on two LUNs is two FRUs."""
        return f'FRU {self.number}' + (f' on LUN {self.lun}' if self.lun else '')


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """Something that could not be read.

    :ivar what: which part of the controller: ``device id``, ``SDR repository``, ``FRU 3``, ``FRU 3 on LUN 1``.
    :ivar hides: undetected controllers or cards may be behind it.
    :ivar fru: the FRU, if it is one.
    :ivar location: location of the FRU or the controller.
    """

    path: Path
    what: str
    reason: str
    hides: bool = False
    fru: Fru | None = None
    location: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerInventory:
    """Controllers and FRUs that an inspection has found, sorted by their paths."""

    controllers: tuple[ManagementController, ...]
    frus: tuple[Fru, ...]
    unread: tuple[Unread, ...] = ()


def located(name: str | None, entity: int | None, instance: int | None) -> str | None:
    """Location of an FRU or a controller, by the name in its locator, else by its entity; None: not known."""
    return name if name is not None or entity is None else f'entity {entity:02X}h.{instance}'
