# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Response faults of an emulated BMC: renamed and swapped resources, and JSON that parsers do not expect.

This module knows no HTTP. It implements the answers of faults such as ``item-renamed``, ``cards-swapped``, ``other-variant``
and ``strange-json`` (:mod:`baremetal_acc.emulator.fault`).
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import EmulatedComponent

# Larger than the largest answer that a careful client reads.
HUGE = 16 * 1024 * 1024
MANY = 1_000_000
DEEP = 100_000
_NOWHERE = '/redfish/v1/gone'


class Names:
    """The present names of the resources of one BMC, changed by the faults ``item-renamed`` and ``cards-swapped``."""

    def __init__(self, machine: Machine, bmc: str) -> None:
        renamed = {
            component.uri: new
            for component in machine.components.values()
            if component.bmc == bmc and (new := _renamed(machine, component)) is not None
        }
        swapped = machine.faults.find('cards-swapped', bmc=bmc, use=False)
        pair = (str(swapped.parameters['one']), str(swapped.parameters['other'])) if swapped is not None else None
        self._out = tuple((_whole(old), new) for old, new in renamed.items())
        self._in = tuple((_whole(new), old) for old, new in renamed.items())
        self._gone = tuple(_whole(old) for old in renamed)
        self._pair = pair
        self._swap = re.compile(rf'({"|".join(re.escape(one) for one in pair)})(?![0-9])') if pair else None

    @property
    def changed(self) -> bool:
        """Whether any resource has another name than its fixed one."""
        return bool(self._out) or self._swap is not None

    def inward(self, text: str) -> str:
        """Translate a path or JSON text of a client to the fixed names; the old name of a renamed resource is not found."""
        for pattern in self._gone:
            text = pattern.sub(_NOWHERE, text)
        for pattern, old in self._in:
            text = pattern.sub(old, text)
        return self._swapped(text)

    def outward(self, value: Any) -> Any:
        """Translate an answer to the present names."""
        if isinstance(value, str):
            for pattern, new in self._out:
                value = pattern.sub(new, value)
            return self._swapped(value)
        if isinstance(value, list):
            return [self.outward(one) for one in value]
        if isinstance(value, dict):
            shown = {key: self.outward(one) for key, one in value.items()}
            if 'Id' in shown and shown.get('@odata.id') != value.get('@odata.id'):
                shown['Id'] = str(shown['@odata.id']).rsplit('/', 1)[-1]
            return shown
        return value

    def _swapped(self, text: str) -> str:
        if self._swap is None or self._pair is None:
            return text
        one, other = self._pair
        return self._swap.sub(lambda found: other if found.group(1) == one else one, text)


def _renamed(machine: Machine, component: EmulatedComponent) -> str | None:
    """Return the URI that an item has by the fault ``item-renamed``; None: its own."""
    device, uri = component.device, component.uri
    rule = machine.faults.find('item-renamed', bmc=component.bmc, device=device, uri=uri, use=False)
    if rule is None:
        return None
    if not rule.parameters['by_version']:
        return f'{uri}_1' if component.sent is not None else None
    version = re.sub('[^A-Za-z0-9._-]', '.', machine.shown_version(component.key, by_item=True).strip())
    return f'{uri}-{version}' if version else None


def _whole(uri: str) -> re.Pattern[str]:
    """A pattern that matches the URI and everything below it, but no other URI that begins with the same text."""
    return re.compile(rf'{re.escape(uri)}(?![A-Za-z0-9_.-])')


def other_unit(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resource as another unit of the same product shows it: with another serial number and another UUID."""
    shown = dict(body)
    if isinstance(shown.get('SerialNumber'), str):
        shown['SerialNumber'] = f'{shown["SerialNumber"][:-3]}EXC'
    if isinstance(shown.get('UUID'), str):
        shown['UUID'] = f'{shown["UUID"][:-4]}0000'
    return shown


def other_variant(body: Mapping[str, Any], shows: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resource as another variant of the same model shows it: with these properties replaced."""
    return {key: shows.get(key, value) for key, value in body.items()}


def flipped(chunk: bytes, at: int) -> bytes:
    """Flip one bit of a chunk of an image at this offset, if the offset is inside the chunk."""
    if not 0 <= at < len(chunk):
        return chunk
    return chunk[:at] + bytes((chunk[at] ^ 1,)) + chunk[at + 1 :]


def strange(body: Any, how: str) -> bytes:
    """Encode an answer as JSON that is valid, or nearly valid, and that a parser may fail on or misread."""
    text = json.dumps(body)
    if not isinstance(body, dict):
        return text.encode()
    match how:
        case 'duplicate-keys':
            return _twice(body).encode()
        case 'huge':
            return f'{text[:-1]}, "Padding": "{"x" * HUGE}"}}'.encode()
        case 'nan':
            return _without_numbers(text).encode()
        case 'many-members':
            members = ','.join(['{"@odata.id":"/redfish/v1"}'] * MANY)
            return f'{{"Members": [{members}], {text[1:]}'.encode()
        case 'endless-next':
            place = body.get('@odata.id', '/redfish/v1')
            return json.dumps({**body, 'Members@odata.nextLink': f'{place}?$skip=0'}).encode()
        case _:
            return f'{text[:-1]}, "Deep": {"[" * DEEP}{"]" * DEEP}}}'.encode()


def _twice(value: Any) -> str:
    """Encode every property twice: first as null, then with its own value. The parser decides which one counts."""
    if isinstance(value, dict):
        parts = [f'{json.dumps(key)}: null, {json.dumps(key)}: {_twice(one)}' for key, one in value.items()]
        return f'{{{", ".join(parts)}}}'
    if isinstance(value, list):
        return f'[{", ".join(map(_twice, value))}]'
    return json.dumps(value)


def _without_numbers(text: str) -> str:
    """Replace all numbers by NaN and add Infinity, neither of which JSON has."""
    return f'{re.sub(r"(?<=: )-?[0-9][0-9.]*(?=[,}])", "NaN", text)[:-1]}, "Infinite": Infinity}}'
