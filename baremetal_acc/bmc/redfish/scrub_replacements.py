# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Replacements of identifying values by others of the same length and shape, chosen with a secret key."""

import hashlib
import ipaddress
import re
from collections.abc import Callable

from baremetal_acc.bmc.redfish.own_credentials import SECRET
from baremetal_acc.bmc.redfish.scrub_patterns import IP4
from baremetal_acc.bmc.redfish.scrubbed_kinds import CONSTANT_WORDS, ScrubbedKind

KEPT_LABELS = frozenset(
    {'com', 'net', 'org', 'edu', 'gov', 'local', 'localdomain', 'localhost', 'lan', 'internal', 'www', 'arpa'}
)
_KEPT_DOMAINS = ('dmtf.org', 'snia.org', 'w3.org', 'ietf.org')
"""Hosts in the standard's own links."""

ALPHANUMERIC = re.compile(r'[^\W_]+')


class ReplacementTable:
    """Replacements of values, each of the same length and shape, chosen with a secret key; and counts of what was replaced.

    :ivar originals: values of the tree, which are no replacements.
    :ivar numbers: digits of learned hexadecimal numbers.
    """

    def __init__(self, key: bytes) -> None:
        """Create an empty table.

        :param key: secret; the same key gives the same replacements.
        """
        self.originals: set[str] = set()
        self.numbers: set[str] = set()
        self._key = hashlib.sha256(key).digest()
        self._tables: dict[str, dict[str, str]] = {}
        self._used: dict[str, set[str]] = {}
        self._counted: dict[ScrubbedKind, set[str]] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Number of different values that were replaced, by kind."""
        return {kind.value: len(self._counted[kind]) for kind in ScrubbedKind if kind in self._counted}

    def count(self, kind: ScrubbedKind, value: str) -> None:
        """Count a replaced value."""
        self._counted.setdefault(kind, set()).add(value)

    def replace_tokens(self, text: str, kind: ScrubbedKind) -> str:
        """Replace each run of letters and digits by another, letter for letter and digit for digit."""

        def one(match: re.Match[str]) -> str:
            token = match.group()
            plain = lower_case(token)
            if kind in (ScrubbedKind.HOST, ScrubbedKind.EMAIL) and plain in KEPT_LABELS:
                return token
            if plain in self.numbers:
                return self.replace_hex(token)
            made = self._chosen(f'token{len(plain)}', plain, lambda noise: _shaped(plain, noise))
            return ''.join(n.upper() if c.isupper() else n for c, n in zip(token, made, strict=True))

        return ALPHANUMERIC.sub(one, text)

    def replace_hex(self, text: str) -> str:
        """Replace the digits of a hexadecimal number; punctuation and case stay. A MAC becomes locally administered."""
        digits = hex_digits(text)
        if len(set(digits)) <= 1:
            return text
        head = '02' if len(digits) == 12 else ''
        made = self._chosen(
            f'hex{len(digits)}', digits, lambda noise: head + ''.join(f'{b & 15:x}' for b in noise[len(head) : len(digits)])
        )
        self.count(
            {12: ScrubbedKind.MAC, 16: ScrubbedKind.GUID, 32: ScrubbedKind.UUID}.get(len(digits), ScrubbedKind.HASH), digits
        )
        prefix = text[:2] if text[:2].casefold() == '0x' else ''
        is_upper = any(c.isupper() for c in text[len(prefix) :]) and not any(c.islower() for c in text[len(prefix) :])
        rest = iter(made.upper() if is_upper else made)
        return prefix + ''.join(next(rest) if c in '0123456789abcdefABCDEF' else c for c in text[len(prefix) :])

    def replace_ip4(self, text: str) -> str:
        """Replace an IPv4 address, unless it is special."""
        try:
            number = ipaddress.IPv4Address(text)
        except ValueError:
            return text
        first = int(number) >> 24
        if first in (0, 127) or first >= 224 or number.is_link_local:
            return text
        self.count(ScrubbedKind.ADDRESS, str(number))
        return self._chosen('ip4', str(number), _documentation_address)

    def replace_ip6(self, text: str) -> str:
        """Replace an IPv6 address, unless it is special."""
        try:
            number = ipaddress.IPv6Address(text)
        except ValueError:
            return text
        if number.is_unspecified or number.is_loopback or number.is_multicast:
            return text
        self.count(ScrubbedKind.ADDRESS, str(number))
        net = 0xFE80 << 112 if number.is_link_local else 0x20010DB8 << 96

        def make(noise: bytes) -> str:
            return str(ipaddress.IPv6Address(net | int.from_bytes(noise[:8])))

        made = self._chosen('ip6', str(number), make)
        return made.upper() if text.isupper() else made

    def replace_url(self, text: str) -> str:
        """Replace the host of a URL, and remove user and password."""
        head, mark, rest = text.partition('://')
        person, at, host = rest.rpartition('@')
        if at:
            self.count(ScrubbedKind.SECRET, person)
        name = host.casefold()
        if name.endswith(_KEPT_DOMAINS) or name in CONSTANT_WORDS:
            return f'{head}{mark}{SECRET + at if at else ""}{host}'
        inner = host.strip('[]')
        if re.fullmatch(IP4, inner):
            made = self.replace_ip4(inner)
        elif ':' in inner:
            made = f'[{self.replace_ip6(inner)}]'
        else:
            self.count(ScrubbedKind.HOST, name)
            made = self.replace_tokens(host, ScrubbedKind.HOST)
        return f'{head}{mark}{SECRET + at if at else ""}{made}'

    def _chosen(self, family: str, original: str, make: Callable[[bytes], str]) -> str:
        """The replacement of an original: the first that is not in use yet and, as long as possible, is no original itself."""
        table = self._tables.setdefault(family, {})
        if original not in table:
            used = self._used.setdefault(family, set())
            made = original
            for attempt in range(512):
                seed = f'{family}\0{attempt}\0{original}'.encode('utf-8', 'surrogatepass')
                made = make(hashlib.shake_256(self._key + seed).digest(max(16, len(original))))
                if made not in used and (attempt > 255 or (made != original and made not in self.originals)):
                    break
            used.add(made)
            table[original] = made
        return table[original]


def lower_case(text: str) -> str:
    """A text in lower case, of the same length."""
    return ''.join(low if len(low := c.lower()) == 1 else c for c in text)


def hex_digits(text: str) -> str:
    bare = text[2:] if text[:2].casefold() == '0x' else text
    return ''.join(c for c in bare.lower() if c in '0123456789abcdef')


def _shaped(token: str, noise: bytes) -> str:
    """Replace letters by letters and digits by digits; a number keeps its leading zeros and gets no new one."""
    made, leading = [], True
    for c, byte in zip(token, noise, strict=False):
        if c.isdigit():
            zero = leading and c == '0'
            made.append('0' if zero else str(1 + byte % 9) if leading else str(byte % 10))
            leading = zero
        elif c.isalpha():
            made.append(chr(ord('a') + byte % 26))
            leading = False
        else:
            made.append(c)
    return ''.join(made)


def _documentation_address(noise: bytes) -> str:
    """An address of the documentation networks (RFC 5737) or, once those are used up, of the benchmark networks (RFC 2544)."""
    if noise[3] < 250:
        return f'{("192.0.2", "198.51.100", "203.0.113")[noise[0] % 3]}.{1 + noise[1] % 254}'
    return f'198.{18 + noise[0] % 2}.{noise[1]}.{1 + noise[2] % 254}'
