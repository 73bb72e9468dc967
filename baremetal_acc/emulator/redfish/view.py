# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The view of the machine by one BMC: its accounts, options, updatable trays and the resource tree."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baremetal_acc.emulator.access import AccessControl
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import EmulatedComponent, Task
from baremetal_acc.emulator.redfish.errors import MessageForm
from baremetal_acc.emulator.redfish.resource import ResourceTree, Writable


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The abilities of a BMC.

    :param update_service: whether it has an UpdateService at all.
    :param push: whether it takes images by MultipartHttpPushUri.
    :param pull: whether it has SimpleUpdate.
    :param plain_push: whether it also takes images by HttpPushUri, with HttpPushUriTargets and HttpPushUriOptions.
    :param plain_lock: whether clients can reserve these: HttpPushUriTargetsBusy, HttpPushUriOptionsBusy.
    :param strict_targets: exactly one Target per request; else an update without Targets updates all that the image fits, and
        several Targets are accepted.
    :param expand: whether it supports $expand.
    :param page_size: how many Members an answer holds; None: all.
    :param max_image_bytes: the largest image.
    :param host_history: whether it shows when Systems and Managers were last reset, and the boot progress of a System.
    :param verify_fetch: whether it verifies the certificate of the server that it fetches from.
    """

    update_service: bool = True
    push: bool = True
    pull: bool = True
    plain_push: bool = False
    plain_lock: bool = False
    strict_targets: bool = True
    expand: bool = True
    page_size: int | None = None
    max_image_bytes: int = 512 * 1024 * 1024
    verify_fetch: bool = False
    host_history: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Tray:
    """A set of components that a BMC updates as a whole, by one package.

    :ivar target: the URI that names it in Targets; None: a request without Targets updates it.
    :ivar keys: its components.
    """

    target: str | None
    keys: tuple[str, ...]


@dataclass(slots=True, kw_only=True)
class View:
    """One BMC: its machine, its name there, its accounts and its resources.

    :ivar fetch: starts the fetch of an image for a task (SimpleUpdate); None: nothing is fetched.
    :ivar trays: the trays that it updates by packages; empty: it takes an image for one component.
    :ivar forms: messages that differ from those in general use.
    :ivar wrong_target: the message that refuses a target, if not that of the Base registry.
    :ivar task_prefix: the prefix of its task Ids.
    """

    machine: Machine
    name: str
    access: AccessControl
    options: Options = field(default_factory=Options)
    fetch: Callable[[Task, str], None] | None = None
    trays: tuple[Tray, ...] = ()
    forms: Mapping[str, MessageForm] = field(default_factory=dict)
    wrong_target: MessageForm | None = None
    task_prefix: str = ''
    tree: ResourceTree = field(init=False)

    def __post_init__(self) -> None:
        self.tree = ResourceTree(self.is_absent)

    def is_absent(self, device: str) -> bool:
        """Whether a fault has removed the device, or hides it while its system is off."""
        faults = self.machine.faults
        if faults.find('device-absent', bmc=self.name, device=device, use=False) is not None:
            return True
        shown = faults.find('absent-while-off', bmc=self.name, device=device, use=False)
        return shown is not None and not self.machine.is_powered(device)

    def is_missing(self, component: EmulatedComponent) -> bool:
        """Whether a fault leaves out the inventory item of a component after an update."""
        late = self.machine.lateness(component)
        return late is not None and bool(late.parameters['missing'])

    def setting(self, key: str, types: tuple[type, ...], allowed: tuple[Any, ...] | None = None) -> Writable:
        """A writable property that writes a setting of the machine."""
        return Writable(types=types, allowed=allowed, write=lambda value: self.machine.configure(key, value))

    def system_uri(self, name: str) -> str:
        """The URI of a system of the machine."""
        return self.machine.systems[name].uri
