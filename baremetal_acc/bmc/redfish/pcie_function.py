# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse PCI ids, class code and PCI address of a PCIeFunction."""

import re

from baremetal_acc.bmc.redfish.parse import ResourceView, is_sentinel, json_type
from baremetal_acc.model import pci_address
from baremetal_acc.model.accelerator import PciIds

HEX = re.compile(r'(?P<prefix>0x)?(?P<digits>[0-9a-f]{1,8})(?P<suffix>h)?', re.ASCII)

COMPUTES = frozenset({0x03, 0x0B, 0x12})
"""PCI base classes of devices that may be accelerators: display, coprocessor, processing accelerator.

Source: PCI Code and ID Assignment Specification, class codes.
"""


def pci_id(view: ResourceView, name: str, *, base: int = 10) -> str | None:
    """A PCI id as ``0x10de``; None for sentinels; None and a gap for a malformed id.

    BMCs write ``0x10de``, ``0X10DE``, ``10DE`` and decimal numbers, also as text (``"4139"`` is 0x102b).

    :param base: the base of digits without a prefix; :func:`pci_ids` infers it from all ids of the function.
    """
    number = _whole(view, name, base=base, most=0xFFFF)
    return f'0x{number:04x}' if number is not None and 0 < number < 0xFFFF else None


def class_code(view: ResourceView) -> str | None:
    """ClassCode as ``0x030200``; None for one byte only (``0x000003`` was seen on two BMCs).

    A missing last byte is added. A wrong byte order is corrected if that gives a class of :data:`COMPUTES`.
    """
    digits = _class_digits(view)
    if digits is None:
        return None
    number = int(digits, 16)
    if number <= 0xFF or number >= 0xFFFFFF:
        return None
    if number >> 16:
        return f'0x{number:06x}'
    turned, shifted = int.from_bytes(number.to_bytes(3, 'big'), 'little'), number << 8
    order = (shifted, turned) if len(digits) <= 4 else (turned, shifted)
    return next((f'0x{n:06x}' for n in order if n >> 16 in COMPUTES), f'0x{number if len(digits) > 4 else shifted:06x}')


def base_class(view: ResourceView) -> int | None:
    """The base class of ClassCode: 0x03 of ``0x030200``, and of ``0x000003`` too, whose bytes are in the wrong order."""
    code = class_code(view)
    if code is not None:
        return int(code[2:4], 16)
    digits = _class_digits(view)
    number = int(digits, 16) if digits is not None else 0
    return number if 0 < number < 0xFF else None


def pci_ids(view: ResourceView) -> PciIds:
    """The PCI ids of a PCIeFunction; parsed once."""
    if view.ids is None:
        view.ids = _pci_ids(view)
    return view.ids


def instance_function(view: ResourceView) -> ResourceView:
    """A PCI function of an OEM extension, as a view with the standard's property names. Its class is in two numbers.

    Seen: HpeServerPciDevice v2_0_0 (iLO 5 and 7), with decimal numbers.
    """
    found = {name: view.body[theirs] for name, theirs in _INSTANCE.items() if theirs in view.body}
    base, sub = view.body.get('ClassCode'), view.body.get('SubclassCode')
    if type(base) is int and type(sub) is int and 0 <= base <= 0xFF and 0 <= sub <= 0xFF:
        found['ClassCode'] = f'0x{base:02x}{sub:02x}00'
    return ResourceView(view.ref, {'@odata.id': view.ref.uri, **found}, view.gaps)


_INSTANCE = {
    'VendorId': 'VendorID',
    'DeviceId': 'DeviceID',
    'SubsystemVendorId': 'SubsystemVendorID',
    'SubsystemId': 'SubsystemDeviceID',
    'SegmentNumber': 'SegmentNumber',
    'BusNumber': 'BusNumber',
    'DeviceNumber': 'DeviceNumber',
    'FunctionNumber': 'FunctionNumber',
}


def _pci_ids(view: ResourceView) -> PciIds:
    names = ('VendorId', 'DeviceId', 'SubsystemVendorId', 'SubsystemId')
    base = _base_of([view.body.get(name) for name in names])
    vendor, device, subsystem_vendor, subsystem = [pci_id(view, name, base=base) for name in names]
    return PciIds(
        vendor_id=vendor,
        device_id=device,
        subsystem_vendor_id=subsystem_vendor,
        subsystem_id=subsystem,
        class_code=class_code(view),
        address=_address(view),
    )


def _address(view: ResourceView) -> str | None:
    """The PCI address as ``dddd:bb:dd.f``. ``0000:00:00.0`` is the host bridge's, and means that the address is unknown."""
    bus = _whole(view, 'BusNumber', most=0xFF)
    device = _whole(view, 'DeviceNumber', most=0x1F)
    function = _whole(view, 'FunctionNumber', most=0xFF)
    segment = _whole(view, 'SegmentNumber', most=0xFFFF) or 0
    if bus is None or device is None or function is None or not (segment or bus or device or function):
        return None
    return pci_address.write(domain=segment, bus=bus, device=device, function=function)


def _base_of(values: list[object]) -> int:
    """The base of the ids of one function that have no prefix: a letter in one of them makes all of them hexadecimal.

    ``8086`` is hexadecimal. Vendor ids below 0x1000 are rare: four digits that would be such a number in decimal (``1002``) are
    hexadecimal.
    """
    bare = [text for v in values if isinstance(v, str) and not (text := v.strip().lower()).startswith('0x')]
    if not bare:
        return 10
    if any(re.search('[a-f]', text) and HEX.fullmatch(text) for text in bare):
        return 16
    vendor = values[0].strip() if isinstance(values[0], str) else ''
    decimal = len(vendor) == 4 and vendor.isascii() and vendor.isdigit()
    return 16 if decimal and (vendor == '8086' or int(vendor) < 0x1000) else 10


def _whole(view: ResourceView, name: str, *, most: int, base: int = 10) -> int | None:
    """A number, also as text: hexadecimal with ``0x``, a final ``h`` or letters; digits alone in the given base."""
    value = view.body.get(name)
    if value is None:
        return None
    if isinstance(value, str):
        text = value.strip().lower()
        if is_sentinel(text):
            return None
        found = HEX.fullmatch(text)
        if found is None:
            view.odd(name, 'not a number')
            return None
        digits = found['digits']
        marked = found['prefix'] or found['suffix'] or not digits.isdigit()
        number = int(digits, 16 if marked else base)
    elif isinstance(value, int) and not isinstance(value, bool):
        number = value
    else:
        view.odd(name, f'number expected, {json_type(value)} found')
        return None
    if number > most and number in (0xFF, 0xFFFF, 0xFFFFFFFF):
        return None
    if not 0 <= number <= most:
        view.odd(name, f'not between 0 and {most:#x}')
        return None
    return number


def _class_digits(view: ResourceView) -> str | None:
    """The hexadecimal digits of ClassCode."""
    value = view.body.get('ClassCode')
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 0xFFFFFF:
        return f'{value:06x}'
    if not isinstance(value, str):
        view.odd('ClassCode', f'text expected, {json_type(value)} found')
        return None
    text = value.strip().lower()
    if is_sentinel(text):
        return None
    found = HEX.fullmatch(text)
    if found is None or len(found['digits'].lstrip('0')) > 6:
        view.odd('ClassCode', 'not a class code')
        return None
    return found['digits']
