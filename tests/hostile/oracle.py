# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare an inventory with the answers that a hostile BMC sent, by the sent bytes alone and by code that the client lacks.

An inventory may know less than the BMC told. It may never say locked, or name a version, where no answer said so.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import LockReading, LockState
from baremetal_acc.model.ref import BmcName, Ref
from tests.hostile.bmc import Sent, plain
from tests.mechanisms.switch import switches

LARGEST = 20_000_000
"""Bytes of an answer that is judged. No recording has one of a tenth of it; what is larger was sent for its size alone."""


SWITCHES: dict[str, tuple[Any, ...]] = {
    'dell_system_lockdown': (('Enabled',), 'Attributes', 'Lockdown.1.SystemLockdown'),
    'supermicro_sys_lockdown': ((True,), 'SysLockdownEnabled'),
    'hpe_virtual_nic': ((False,), 'Oem', 'Hpe', 'VirtualNICEnabled'),
    'ipmi_host_interface': ((False,), 'IPMIHostInterface', 'ServiceEnabled'),
    **{name: (one.closed, *one.field.split('/')) for name, one in switches().items()},
}
"""Locks of whole machines: what closed is, and where it stands."""


class Pairs(list[tuple[str, Any]]):
    """An object with all its names, also those that are there twice."""

    def all(self, name: str) -> list[Any]:
        """Every value of a name."""
        return [value for key, value in self if key == name]


class Served:
    """What was sent in one look.

    :param logs: for each BMC what it sent, and its pages that continue a collection: their target to the collection's path.
    """

    def __init__(self, logs: Mapping[BmcName, tuple[Iterable[Sent], Mapping[str, str]]]) -> None:
        self._bodies: dict[Ref, list[tuple[str, bytes]]] = {}
        for bmc, (log, chains) in logs.items():
            for sent in log:
                own = plain(sent.target)
                for body in sent.bodies if sent.method == 'GET' else ():
                    # A page of a collection may be a resource of its own, too: a BMC can name anything as the next page.
                    for place in {own, plain(chains.get(sent.target, sent.target))}:
                        self._bodies.setdefault(Ref(bmc=bmc, uri=place), []).append((own, body))
        self._parsed: dict[bytes, Any] = {}

    def documents(self, ref: Ref) -> Iterator[Pairs]:
        """Everything that was sent for a resource: at its own URI, or as a member of the collection that it is in."""
        place = plain(ref.uri)
        for target, body in self._bodies.get(Ref(bmc=ref.bmc, uri=place), ()):
            found = self._parse(body)
            if isinstance(found, Pairs) and target == place:
                yield found
        collection = place.rpartition('/')[0]
        for _, body in self._bodies.get(Ref(bmc=ref.bmc, uri=collection), ()):
            for members in _every(self._parse(body), 'Members'):
                for member in members if isinstance(members, list) else ():
                    if isinstance(member, Pairs) and any(
                        isinstance(u, str) and plain(u) == place for u in member.all('@odata.id')
                    ):
                        yield member

    def texts(self) -> Iterator[Any]:
        """Every document that was sent."""
        for bodies in self._bodies.values():
            for _, body in bodies:
                yield self._parse(body)

    def _parse(self, body: bytes) -> Any:
        if len(body) > LARGEST:
            return None
        if body not in self._parsed:
            try:
                self._parsed[body] = json.loads(body, object_pairs_hook=Pairs)
            except (ValueError, RecursionError):
                self._parsed[body] = None
        return self._parsed[body]


def _every(value: Any, *path: str | int) -> list[Any]:
    """All values at a place; several where a name is there twice."""
    values = [value]
    for name in path:
        if isinstance(name, int):
            values = [v[name] for v in values if isinstance(v, list) and not isinstance(v, Pairs) and len(v) > name]
        else:
            values = [found for v in values if isinstance(v, Pairs) for found in v.all(name)]
    return values


def says(document: Any, wanted: Any, *path: str | int) -> bool:
    """The document has that very value at a place, of that very type, and no other one beside it."""
    found = _every(document, *path)
    return bool(found) and all(type(value) is type(wanted) and value == wanted for value in found)


def false_locks(inventory: Inventory, served: Served) -> list[str]:
    """Readings that say locked where nothing closed was sent."""
    return [
        f'{reading.state} without its value: {reading.mechanism} {reading.ref} {reading.field} = {reading.value}'
        for accelerator in inventory.accelerators
        for reading in accelerator.locks
        if reading.state in (LockState.LOCKED_REPORTED, LockState.LOCKED_VERIFIED) and not closed(reading, served)
    ]


def closed(reading: LockReading, served: Served) -> bool:
    """Some answer said that the lock of a reading is closed."""
    for document in served.documents(reading.ref):
        match reading.mechanism:
            case 'write_protected':
                held = says(document, True, 'WriteProtected')
            case 'fpga_programmable_from_host':
                path = [int(part) if part.isdigit() else part for part in reading.field.split('/')]
                held = says(document, False, *path)
            case 'nvidia_inband_update_policy':
                held = says(document, False, 'Oem', 'Nvidia', 'InbandUpdatePolicyEnabled')
            case 'bluefield_host_privilege':
                held = _card_closed(reading.ref.bmc, document, served)
            case name if name in SWITCHES:
                wanted, *path = SWITCHES[name]
                held = any(says(document, value, *path) for value in wanted)
            case 'ami_kcs':
                held = says(document, 'Deny All', 'Attributes', 'KCSACP')
            case _:
                raise AssertionError(f'the oracle does not know {reading.mechanism}')
        if held:
            return True
    return False


def _card_closed(bmc: BmcName, system: Pairs, served: Served) -> bool:
    def linked(*path: str) -> Iterator[Pairs]:
        for uri in _every(system, *path, '@odata.id'):
            if isinstance(uri, str):
                yield from served.documents(Ref(bmc=bmc, uri=uri))

    level = any(
        says(bios, 'Restricted', 'Attributes', name)
        for bios in linked('Bios')
        for name in ('HostPrivilegeLevel', 'Host Privilege Level')
    )
    inline = any(says(extension, 'Disabled', 'HostRshim') for extension in _every(system, 'Oem', 'Nvidia'))
    return level and (inline or any(says(extension, 'Disabled', 'HostRshim') for extension in linked('Oem', 'Nvidia')))


def false_versions(inventory: Inventory, served: Served) -> list[str]:
    """Versions that no answer gave at the place that the inventory names."""
    found = []
    for accelerator in inventory.accelerators:
        for component in accelerator.firmware:
            if component.version is not None and not has_version(component.ref, component.version, served):
                found.append(f'version {component.version!r} was not sent for {component.ref}')
            if component.staged is not None and not any(_anywhere(d, component.staged) for d in served.texts()):
                found.append(f'staged version {component.staged!r} was not sent at all')
        found += [
            f'version {function.version!r} was not sent for {function.ref}'
            for function in accelerator.functions
            if function.version is not None and not has_version(function.ref, function.version, served)
        ]
    return found


def has_version(ref: Ref, version: str, served: Served) -> bool:
    """Some answer gave this version for a resource, but for blanks around it and for what cannot be shown."""
    return any(version in _shown(value) for document in served.documents(ref) for value in _versions(document))


def _versions(document: Pairs) -> Iterator[Any]:
    yield from _every(document, 'Version')
    yield from _every(document, 'FirmwareVersion')
    yield from _every(document, 'BiosVersion')
    yield from _every(document, 'FPGA', 'FirmwareVersion')
    for controllers in _every(document, 'Controllers'):
        for controller in controllers if isinstance(controllers, list) else ():
            yield from _every(controller, 'FirmwarePackageVersion')


def _shown(value: Any) -> tuple[str, ...]:
    """How a version may be shown: blanks and NUL around it are padding; what cannot be printed within it is marked, what is too
    long is marked as cut: neither vanishes."""
    if not isinstance(value, str):
        return ()
    text = value.strip()
    marked = ''.join(c if c.isprintable() else '\ufffd' for c in value.strip(' \t\r\n\v\f\0'))
    return text, marked, marked[:255] + '\u2026'


def _anywhere(document: Any, text: str) -> bool:
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Pairs):
            waiting += [v for _, v in value]
        elif isinstance(value, list):
            waiting += value
        elif text in _shown(value):
            return True
    return False
