# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Draft the entry of a catalogue for a component of a PLDM package.

Versions, digests and ids are taken from the package, so that nobody types them. For what the package cannot say the draft has a
comment that says what to fill in, and the catalogue is refused until that is done. All text of a package is written as a string
of TOML with escapes, in comments, too: no text of it becomes a line of its own.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from baremetal_acc.images.image_keys import NO_RESTORE
from baremetal_acc.images.pldm import (
    Activation,
    AnyDescriptor,
    Descriptor,
    DescriptorType,
    DeviceRecord,
    DownstreamRecord,
    PldmPackage,
)
from baremetal_acc.model.lock import ResetKind

_LONGEST_NAME = 100
"""Most characters of an image's name; see :mod:`baremetal_acc.images.image_keys`."""

_RESETS = (
    (Activation.AC_POWER_CYCLE, None),
    (Activation.DC_POWER_CYCLE, ResetKind.POWER_CYCLE),
    (Activation.SYSTEM_REBOOT, ResetKind.SYSTEM_RESET),
)
"""The reset for each requested activation method, the strongest first. None where the reset depends on the BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """The file of a package.

    :ivar source: the path or URL for the catalogue.
    """

    source: str
    size_bytes: int
    digest: str


def entry(package: PldmPackage, position: int, name: str, file: File) -> str:
    """Return an ``[[image]]`` table for the component at that position, with comments."""
    component = package.components[position]
    lines = [
        f'# Component {component.identifier} of PLDM package {quoted(file.source)}, version {quoted(package.version.text)}.',
        '# The header of a package proves nothing: compare the digest with the one that the vendor publishes.',
        '[[image]]',
        f'name = {quoted(name)}',
        'kind = "firmware"',
        *_fits(package, position),
        '# component = "..."  # fill in: a pattern over the Ids of SoftwareInventory, as the BMC reports them',
    ]
    if component.version.text:
        lines.append(f'version = {quoted(component.version.text)}  # compare it with what the BMC reports when the image runs')
    else:
        lines.append('# version = "..."  # fill in: what the BMC reports when the image runs')
    lines += [
        '# security_version = 0  # fill in: a whole number that never decreases',
        f'source = {quoted(file.source)}  # relative to the folder of the catalogue',
        f'size = {file.size_bytes}',
        f'digest = {quoted(file.digest)}',
        *_reset(component.activation),
        f'# restore = "..."  # fill in: the name of the image to restore, or "{NO_RESTORE}"',
    ]
    return '\n'.join(lines) + '\n'


def bundle(package: PldmPackage, name: str, file: File) -> str:
    """Return a ``[[bundle]]`` table for all components of a package, with comments."""
    lines = [
        f'# PLDM package {quoted(file.source)}, version {quoted(package.version.text)}: sent once, for all of its components.',
        '# The header of a package proves nothing: compare the digest with the one that the vendor publishes.',
        '[[bundle]]',
        f'name = {quoted(name)}',
        f'source = {quoted(file.source)}  # relative to the folder of the catalogue',
        f'size = {file.size_bytes}',
        f'digest = {quoted(file.digest)}',
        '# targets = ["/redfish/v1/..."]  # fill in: as the vendor says; [] to send an empty list, "none" to send no Targets',
        'component_targets = false  # true if the BMC accepts the package for a single component, whose URI is in Targets',
        '# security_version = 0  # fill in: a whole number that never decreases',
        f'# restore = "..."  # fill in: the name of the bundle to restore, or "{NO_RESTORE}"',
    ]
    records: tuple[DeviceRecord | DownstreamRecord, ...] = (*package.devices, *package.downstream_devices)
    if not any(pci_ids(record.descriptors) for record in records):
        lines.append(
            '# fits = [{ pci = "0x....:0x...." }]  # fill in: the package names no PCI ids of the devices that it is for'
        )
    ids = [component.identifier for component in package.components]
    for position, component in enumerate(package.components):
        number = component.identifier
        own = f'{number:#06x}' if ids.count(number) == 1 else f'{number:#06x}-{position}'
        lines += [
            '',
            '[[bundle.component]]',
            f'name = "{own}"',
            '# component = "..."  # fill in: a pattern over the Ids of SoftwareInventory, as the BMC reports them',
            f'identifier = {number:#06x}',
        ]
        if component.version.text:
            lines.append(
                f'version = {quoted(component.version.text)}  # compare it with what the BMC reports when the image runs'
            )
        else:
            lines.append('# version = "..."  # fill in: what the BMC reports when the image runs')
        lines += [line for line in _fits(package, position) if line.startswith('fits')]
        lines += _reset(component.activation)
    return '\n'.join(lines) + '\n'


def names(package: PldmPackage, file: str) -> tuple[str, ...]:
    """Return a name for the image of each component, made from the file name; no two are equal."""
    start = stem(file)
    if len(package.components) == 1:
        return (start,)
    ids = [component.identifier for component in package.components]
    times = Counter(ids)
    ends = [f'-{one}' if times[one] == 1 else f'-{one}-{at}' for at, one in enumerate(ids)]
    return tuple(start[: _LONGEST_NAME - len(end)] + end for end in ends)


def stem(file: str) -> str:
    """Convert a file name to a name that a catalogue accepts."""
    return (re.sub(r'[^A-Za-z0-9._-]+', '-', file).strip('-._') or 'package')[:_LONGEST_NAME]


def quoted(text: str) -> str:
    """Return a text as a TOML string on one line, with no characters that a terminal interprets."""
    return '"' + ''.join(c if c.isprintable() and c not in '"\\' else _escaped(ord(c)) for c in text) + '"'


def _escaped(code: int) -> str:
    return f'\\u{code:04x}' if code <= 0xFFFF else f'\\U{code:08x}'


def _fits(package: PldmPackage, position: int) -> Iterator[str]:
    found: dict[str, None] = {}
    others = False
    records: tuple[DeviceRecord | DownstreamRecord, ...] = (*package.devices, *package.downstream_devices)
    for record in records:
        if position not in record.components:
            continue
        ids = _fit(record.descriptors)
        if ids is None:
            others = True
        else:
            found[ids] = None
    if found:
        yield f'fits = [{", ".join(found)}]'
    else:
        yield '# fits = [{ pci = "0x....:0x...." }]  # fill in: the package names no PCI ids of the devices that it is for'
    if found and others:
        yield '# fill in: the package is also for devices whose PCI ids it does not name'


def pci_ids(descriptors: tuple[AnyDescriptor, ...]) -> str | None:
    """Return vendor and device id as a catalogue has them: ``0x10de:0x2330``; None where one of them is missing."""
    return _pair(descriptors, DescriptorType.PCI_VENDOR_ID, DescriptorType.PCI_DEVICE_ID)


def _fit(descriptors: tuple[AnyDescriptor, ...]) -> str | None:
    """Return the ids of a device in a catalogue's format."""
    pci = pci_ids(descriptors)
    if pci is None:
        return None
    subsystem = _pair(descriptors, DescriptorType.PCI_SUBSYSTEM_VENDOR_ID, DescriptorType.PCI_SUBSYSTEM_ID)
    return f'{{ pci = "{pci}" }}' if subsystem is None else f'{{ pci = "{pci}", subsystem = "{subsystem}" }}'


def _pair(descriptors: tuple[AnyDescriptor, ...], vendor: DescriptorType, device: DescriptorType) -> str | None:
    ids = {one.type: one.value for one in descriptors if isinstance(one, Descriptor)}
    return f'{ids[vendor]}:{ids[device]}' if vendor in ids and device in ids else None


def _reset(activation: Activation) -> Iterator[str]:
    for method, reset in _RESETS:
        if method in activation and reset is not None:
            yield f'apply = {{ reset = "{reset}" }}  # as the header of the package requests'
            return
        if method in activation:
            yield (
                f'# apply = {{ reset = "{ResetKind.AUX_POWER_CYCLE}" }}  # fill in: the header requests an AC power cycle; '
                f'"{ResetKind.AC_POWER_CYCLE}" if the BMC has no action for it'
            )
            return
