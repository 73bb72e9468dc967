# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""PCI addresses in normal form, ``dddd:bb:dd.f``, and shell patterns over that form.

Source: PCI Express Base Specification, Requester ID: 8 bits of bus, 5 of device and 3 of function, or 8 of function with ARI.
The domain is the segment group of ACPI, 16 bits (DSP8010 2025.4, PCIeFunction, SegmentNumber).
"""

import re

_ADDRESS = re.compile(r'(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-9a-f]{1,2})')

_HEX = re.compile(r'[0-9a-f]+')

_WILD = frozenset('*?[')

_DIGITS = '0123456789abcdef'

_BEGINNING = (*[_DIGITS] * 4, ':', *[_DIGITS] * 2, ':', '01', _DIGITS, '.')

PLACES = ((*_BEGINNING, _DIGITS), (*_BEGINNING, _DIGITS, _DIGITS))
"""The allowed characters at each position of an address: with one digit for the function, and with two."""


def write(*, domain: int, bus: int, device: int, function: int) -> str:
    """Return an address in normal form."""
    return f'{domain:04x}:{bus:02x}:{device:02x}.{function:x}'


def normal(text: str) -> str | None:
    """Return the normal form of an address; None where the text is no address.

    Case and leading zeros do not count, and a missing domain is domain 0.
    """
    found = _ADDRESS.fullmatch(text.strip().casefold())
    if found is None:
        return None
    domain, bus, device, function = (int(part or '0', 16) for part in found.groups())
    if domain > 0xFFFF or device > 0x1F:
        return None
    return write(domain=domain, bus=bus, device=device, function=function)


def pattern(text: str) -> str | None:
    """Return a shell pattern over normal forms; None where the text is neither an address nor a pattern with all parts of one.

    An address is a pattern that matches only itself. A pattern without a domain is for domain 0, like an address without one.
    """
    found = normal(text)
    if found is not None:
        return found
    parts = text.strip().casefold().split(':')
    if not _WILD & set(text) or len(parts) not in (2, 3):
        return None
    domain, bus, rest = parts if len(parts) == 3 else ('0', *parts)
    device, dot, function = rest.partition('.')
    # Leading zeros do not count, so that a part without wildcards is padded as in the normal form.
    return f'{_padded(domain, 4)}:{_padded(bus, 2)}:{_padded(device, 2)}{dot}{_without_zero(function)}'


def _padded(part: str, digits: int) -> str:
    return f'{int(part, 16):0{digits}x}' if _HEX.fullmatch(part) else part


def _without_zero(part: str) -> str:
    return f'{int(part, 16):x}' if _HEX.fullmatch(part) else part
