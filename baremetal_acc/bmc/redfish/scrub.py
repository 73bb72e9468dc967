# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Scrub a recorded Redfish tree: replace serial numbers, UUIDs, MACs, addresses, host and user names, and remove secrets.

There are two passes. The first learns every value that its property's name classifies (``SerialNumber``, ``HostName``). The
second replaces these values wherever they occur, also in URIs, Ids, names and longer texts, and with them whatever has a
recognisable form: UUIDs, MACs, addresses, certificates. A value is replaced by another of the same length and shape, chosen
with a secret key: equal values stay equal, different ones stay different, letter case and padding are kept, and without the key
the replacement cannot be reversed.
"""

import base64
import hashlib
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any
from urllib.parse import quote, unquote

from baremetal_acc.bmc.placeholders import SENTINELS

SECRET = 'scrubbed'  # noqa: S105 - the replacement of a secret
"""Replaces passwords, keys and certificates, whatever they were: not even their length is kept."""

DEEPEST = 64
"""Levels of nesting that are accepted. Real resources have fewer than ten."""

LONGEST = 100
"""Characters of a value that is replaced everywhere. Longer values are replaced only where their property is."""


LONGEST_TEXT = 16 * 1024
"""Characters. A longer text is replaced as a whole instead of being searched; real texts are a tenth of that."""

SHORTEST_HASH = 16
"""Characters. A shorter hash, as in ETags, identifies nothing and may equal any number."""


class ScrubbedKind(StrEnum):
    """Kinds of values that are replaced, for counting."""

    SERIAL = 'serial'
    TAG = 'tag'
    UUID = 'uuid'
    GUID = 'guid'
    MAC = 'mac'
    ASSET = 'asset'
    HOST = 'host'
    ADDRESS = 'address'
    USER = 'user'
    EMAIL = 'email'
    PLACE = 'place'
    HASH = 'hash'
    SECRET = 'secret'  # noqa: S105 - a word


_NAMES: tuple[tuple[ScrubbedKind, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (ScrubbedKind.UUID, r'.*uuids?'),
        (ScrubbedKind.GUID, r'.*guids?|durablename|.*ww[np]n|.*wwid|wwn|.*eui|.*nqn|.*iqn|(iscsi)?(initiator|target)name'),
        (ScrubbedKind.MAC, r'.*mac|.*macaddr(ess(es)?)?|.*networkaddress(es)?'),
        (
            ScrubbedKind.SERIAL,
            r'serials?|.*serialnumbers?|.*serialn[or]|.*serialnum|.*servicetag|.*servicecode|nodeid|.*ppid|.*ppin'
            r'|.*protectedidentificationnumber|.*uniqueid(entifier)?|.*machineid|.*ecid|.*chipid|.*dieid|.*entitlementid',
        ),
        (ScrubbedKind.ASSET, r'.*asset(tag|number|owner|location)'),
        (ScrubbedKind.TAG, r'sku'),
        (ScrubbedKind.EMAIL, r'.*e?mail(address|from|to|sender|recipient)?'),
        (
            ScrubbedKind.HOST,
            r'.*hostname|.*fqdn|.*fullyqualifieddomainname|.*domainnames?|.*domain|.*dnsname|.*racname|.*nameservers?|.*ntpservers?'
            r'|.*dnsservers?|.*smtpserver|.*(server|system|computer|common|rack|datacenter|room|aisle)name|.*serveraddress'
            r'|.*searchdomains?|.*timeservers?|hostedby|.*syslogserver|.*proxyserver|.*ldapserver',
        ),
        (
            ScrubbedKind.USER,
            r'.*user|.*users?name|.*loginname|.*accountname|owner(name)?|createdby|modifiedby|.*contact(name|info)?',
        ),
        (ScrubbedKind.PLACE, r'.*ossysdescription|.*roomlocation|.*latitude|.*longitude|.*streetaddress|.*phone(number)?'),
        (ScrubbedKind.HASH, r'.*(hash|digest|fingerprint|thumbprint|checksum|signature|hashvalue|measurement|etag)|odataetag'),
        (ScrubbedKind.HASH, r'.*sessionid|.*licen[sc]e(key|number|id)|.*activationkey|.*registrationkey'),
        (
            ScrubbedKind.SECRET,
            r'.*pass(word|wd|phrase|code)s?|.*password(hash|salt|key)?|.*secrets?|.*tokens?|.*credentials?|.*community(name|string)?'
            r'|.*salt|.+keys?|.*certificatestring|.*csrstring|.*pins?code',
        ),
    )
)
"""Property names that classify their value. Of a name the last dotted part is compared, without letter case and punctuation."""

_PLACES = frozenset({'postaladdress', 'placement', 'contacts', 'geolocation'})
"""Objects in which every text says where a machine is, or who looks after it. Source: DSP8010 2025.4, Resource.Location."""

_VERSIONS = re.compile(r'.*(version|revision|firmware|release|build)')
_ADDRESSES = re.compile(r'.*address(es)?|.*gateway|.*(ip|ipv4|ipv6)(address)?|.*subnet|.*server')

_HARDWARE = frozenset({
    'softwareid', 'vendorid', 'deviceid', 'subsystemid', 'subsystemvendorid', 'classcode', 'identificationregisters',
    'effectivefamily', 'deviceclass',
})  # fmt: skip
"""Properties that identify a product, not a single piece of hardware."""

_WORDS = SENTINELS | {
    'enabled', 'disabled', 'default', 'true', 'false', 'yes', 'no', 'on', 'off', 'auto', 'manual', 'static', 'dhcp', 'absent',
    'present', 'not set', 'not specified', 'notavailable', 'unspecified', 'undefined', 'supported', 'notsupported',
    'unavailable', 'available', 'scrubbed', 'default_string', 'to be filled by o.e.m', 'o.e.m.', 'oem', 'system serial number',
    'chassis serial number', 'board serial number', 'base board serial number', 'baseboard serial number', '0123456789',
    '123456789', '1234567890', 'asset tag', 'no asset tag', 'no asset information', 'asset-1234567890', 'localhost',
    'localhost.local', 'localhost.localdomain',
}  # fmt: skip
"""Values that identify nothing, case-folded."""

_KEPT_LABELS = frozenset(
    {'com', 'net', 'org', 'edu', 'gov', 'local', 'localdomain', 'localhost', 'lan', 'internal', 'www', 'arpa'}
)
_KEPT_DOMAINS = ('dmtf.org', 'snia.org', 'w3.org', 'ietf.org')
"""Hosts in the standard's own links."""

_ALGORITHM = re.compile(r'(tpm_alg|sha|md5|hmac|rsa|ecdsa|aes|none)[\w-]{0,16}', re.IGNORECASE)
_ORDINAL = re.compile(r'[a-z]{2,}[ _.-]?\d{1,3}', re.IGNORECASE)
_TAG = re.compile(r'[A-Z0-9]{5,7}')
"""A service tag, which some machines show as SKU."""

_TOKEN = re.compile(r'[^\W_]+')
_STANDARD = frozenset({'redfish', 'v1', 'odata'})

_HEX_RUN = re.compile(r'(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}', re.IGNORECASE)
_UUID = r'(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])'
_OCTETS = r'(?<![0-9a-f])(?<![0-9a-f]{2}[:-])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,}(?![0-9a-f])'
_QUADS = r'(?<![0-9a-f])(?<![0-9a-f]{4}:)[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![0-9a-f])'
_HEX_FORM = re.compile(f'{_UUID}|{_OCTETS}|{_QUADS}', re.IGNORECASE)
_IP4 = r'(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)'
_IP6 = (
    r'(?<![0-9a-z_.])(?=[0-9a-f:]{0,40}::|(?:[0-9a-f]{1,4}:){7}[0-9a-f]|(?:[0-9a-f]{1,4}:){6}\d{1,3}\.)'
    r'(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{0,4})(?![\w:])'
)
_BARE = r'(?<![0-9a-z])(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{15,}(?![0-9a-z])'

_BEFORE: tuple[tuple[str, str], ...] = (
    ('pem', r'-----BEGIN [A-Z0-9 ]{1,40}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)'),
    ('secret', r'(?<![\w-])(?-i:eyJ)[\w-]{8,}\.[\w-]+\.[\w-]*|\$[0-9a-z]{1,8}\$[^\s"\']{8,}'
               r'|(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w+)\s{1,9}[a-z0-9+/=]{16,}'),
    ('url', r'(?<![a-z0-9])[a-z][a-z0-9+.-]{1,20}://(?:[^\s/@"\'<>]{0,256}@)?(?:\[[0-9a-f:.]{2,60}\]|[^\s/:?#"\'<>\\]{1,255})'),
    ('email', r'(?<![\w.+-])[\w.+-]+@(?!odata\.|redfish\.|message\.)[a-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){1,9}'),
)  # fmt: skip
_AFTER: tuple[tuple[str, str], ...] = (
    ('uuid', _UUID),
    ('octets', _OCTETS),
    ('ip6', _IP6),
    ('quads', _QUADS),
    ('ip4', _IP4),
    ('hex', _BARE),
    ('base64', r'(?-i:(?<![A-Za-z0-9+])(?=[a-z0-9+]*[A-Z])(?=[A-Z0-9+]*[a-z])(?=(?:[A-Za-z+]*\d){4})[A-Za-z0-9+]{40,}={0,2})'),
)
"""Recognisable forms. At each place they are tried in this order, with the learned values between the two tables."""

_NUMBERS = frozenset({'ip4', 'ip6', 'hex', 'base64'})
"""Forms that a version may have."""

_FORMS = frozenset(name for name, _ in _AFTER)

Json = Any
"""The result of json.loads."""


class Own:
    """Our own credentials for the BMC, which must not appear in a recording.

    :param redact: removes the password and the session token from a text; the connector knows the token.
    """

    def __init__(self, username: str | None, password: str | None, redact: Callable[[str], str] = str) -> None:
        self._redact = redact
        self._password = password
        self._username = username if username is not None and len(username) >= 3 else None
        self.pattern = rf'(?-i:(?<![A-Za-z0-9]){re.escape(self._username)}(?![A-Za-z0-9]))' if self._username else None
        self.username = self._username
        pairs = [f'{username}:{password}', password] if username and password else []
        self._encoded = tuple(f(p.encode()).decode().rstrip('=') for p in pairs for f in (base64.b64encode,) if len(p) > 3)

    def without_secrets(self, text: str) -> str:
        """A text without password and token."""
        for secret in (self._password, *self._encoded):
            text = text.replace(secret, SECRET) if secret else text
        return self._redact(text)

    def stands_in(self, text: str) -> str | None:
        """Which of the credentials a text contains, in words; None: none."""
        rest = text.replace('/redfish/v1', '')
        if self.without_secrets(rest) != rest:
            return 'the password or the session token'
        if self.pattern is not None and re.search(self.pattern, rest):
            return 'the user name'
        return None


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
            plain = _canonical(token)
            if kind in (ScrubbedKind.HOST, ScrubbedKind.EMAIL) and plain in _KEPT_LABELS:
                return token
            if plain in self.numbers:
                return self.replace_hex(token)
            made = self._chosen(f'token{len(plain)}', plain, lambda noise: _shaped(plain, noise))
            return ''.join(n.upper() if c.isupper() else n for c, n in zip(token, made, strict=True))

        return _TOKEN.sub(one, text)

    def replace_hex(self, text: str) -> str:
        """Replace the digits of a hexadecimal number; punctuation and case stay. A MAC becomes locally administered."""
        digits = _nibbles(text)
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
        if name.endswith(_KEPT_DOMAINS) or name in _WORDS:
            return f'{head}{mark}{SECRET + at if at else ""}{host}'
        inner = host.strip('[]')
        if re.fullmatch(_IP4, inner):
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


class Scrubber:
    """Replaces identifying values in the bodies of a tree. Pass all bodies to :meth:`learn` before :meth:`body` is called."""

    def __init__(self, key: bytes, own: Own | None = None) -> None:
        """Create a scrubber that has learned nothing.

        :param key: secret; the same key gives the same replacements.
        :param own: our credentials for the BMC.
        """
        self._replacements = ReplacementTable(key)
        self._own = own or Own(None, None)
        self._known: dict[str, ScrubbedKind] = {}
        self._properties: set[str] = set(_STANDARD)
        self._versions: set[str] = set()
        self._products: set[str] = set()
        self._addresses: set[str] = set()
        self._all: re.Pattern[str] | None = None
        self._forms = _compiled((*_BEFORE, *_AFTER))
        self._remembered: dict[tuple[str, frozenset[str]], str] = {}

    # ---- first pass

    def learn(self, body: Json) -> None:
        """Learn every value of a body that its property's name classifies, and every UUID, MAC and GUID in its texts.

        :raises ValueError: the body is nested too deeply.
        """
        self._all = None
        self._remembered.clear()
        for name, kind, value in _leaves(body):
            plain = normal(name)
            if name[:1].isupper() or name[:1] == '@':
                self._properties.update(part for part in name.split('@') if part)
            if not isinstance(value, str):
                if kind is not None and isinstance(value, int) and not isinstance(value, bool):
                    self._note(kind, str(value))
                continue
            if len(value) > LONGEST_TEXT:
                continue
            for found in _HEX_FORM.finditer(value):
                self._note_hex(found.group())
            if plain.endswith('partnumber'):
                self._products.add(value.strip())
            if _VERSIONS.fullmatch(plain):
                self._versions.update(m.group() for m in re.finditer(f'{_IP4}|{_BARE}', value, re.IGNORECASE))
            if _ADDRESSES.fullmatch(plain) or kind is ScrubbedKind.HOST:
                self._addresses.update(m.group() for m in re.finditer(_IP4, value))
            if kind is not None:
                self._note(kind, value)

    def learn_host(self, name: str) -> None:
        """Learn a host's name or address."""
        self._all = None
        if re.fullmatch(_IP4, name):
            self._addresses.add(name)
        self._note(ScrubbedKind.HOST, name)

    def _note(self, kind: ScrubbedKind, value: str) -> None:
        value = value.strip()
        if kind is ScrubbedKind.SECRET or len(value) > LONGEST or stays(kind, value):
            return
        if (kind is ScrubbedKind.HASH and len(value) < SHORTEST_HASH) or kind is ScrubbedKind.TAG:
            return
        if self._is_hex(value):
            self._note_hex(value)
            return
        self._replacements.originals.update(_canonical(t) for t in _TOKEN.findall(value))
        if self._forms.search(value):
            return
        names = [value]
        if kind is ScrubbedKind.HOST:
            labels = value.split('.')
            names += [labels[0], '.'.join(labels[1:])] if len(labels) > 1 else []
        for name in names:
            plain = _canonical(name)
            if _bounds(kind, plain) is not None and plain not in _WORDS | _KEPT_LABELS:
                self._known.setdefault(plain, kind)

    def _note_hex(self, value: str) -> None:
        digits = _nibbles(value)
        if len(set(digits)) > 1 and len(digits) >= 12:
            self._replacements.numbers.add(digits)
            self._replacements.originals.add(digits)

    # ---- second pass

    def body(self, body: Json) -> Json:
        """Scrub a whole resource.

        :raises ValueError: it is nested too deeply.
        """
        return self._value(body, '', None, 0)

    def text(self, text: str, keep: frozenset[str] = frozenset()) -> str:
        """Scrub a text: replace everything in it that was learned or has a recognisable form.

        :param keep: names of forms that are not replaced.
        """
        if len(text) > LONGEST_TEXT:
            self._replacements.count(ScrubbedKind.SECRET, text)
            return SECRET
        known = self._remembered.get((text, keep))
        if known is None:
            known = self._text(self._own.without_secrets(text), keep)
            if len(text) < 1000:
                self._remembered[text, keep] = known
        return known

    def field(self, kind: ScrubbedKind, value: str) -> str:
        """Replace the whole value of a property whose name classifies it; leading and trailing blanks are kept."""
        bare = value.strip()
        if len(value) > LONGEST_TEXT:
            self._replacements.count(ScrubbedKind.SECRET, value)
            return SECRET
        if stays(kind, bare) or (kind is ScrubbedKind.TAG and bare in self._products):
            return self.text(value)
        if kind is ScrubbedKind.SECRET:
            self._replacements.count(kind, bare)
            return SECRET
        if self._own.without_secrets(bare) != bare:
            self._replacements.count(ScrubbedKind.SECRET, bare)
            return SECRET
        if self._is_hex(bare):
            return value.replace(bare, self._replacements.replace_hex(bare), 1)
        self._replacements.count(kind, _canonical(bare))
        made, at = [], 0
        for match in self._forms.finditer(bare):
            made += [self._replacements.replace_tokens(bare[at : match.start()], kind), self._replaced(match, frozenset())]
            at = match.end()
        return value.replace(bare, ''.join([*made, self._replacements.replace_tokens(bare[at:], kind)]), 1)

    @property
    def counts(self) -> dict[str, int]:
        """Number of different values that were replaced, by kind."""
        return self._replacements.counts

    def is_property(self, word: str) -> bool:
        """Whether a word is a property name in this tree: then replacing it everywhere would ruin the tree."""
        return word in self._properties

    def leaks(self, text: str) -> bool:
        """Whether a scrubbed text still contains one of the longer learned values."""
        return self._long.search(text) is not None

    # ---- implementation

    def _value(self, value: Json, name: str, kind: ScrubbedKind | None, depth: int) -> Json:
        if depth > DEEPEST:
            raise ValueError(f'nested more than {DEEPEST} levels deep')
        match value:
            case dict():
                pair = _pair_kind(value)
                return {self._name(k): self._value(v, k, kind_of(k, v, kind, pair), depth + 1) for k, v in value.items()}
            case list():
                return [self._value(item, name, kind, depth + 1) for item in value]
            case str():
                if kind is not None:
                    return self.field(kind, value)
                plain = normal(name)
                keep = _FORMS if plain in _HARDWARE else _NUMBERS if _VERSIONS.fullmatch(plain) else frozenset()
                return self.text(value, keep)
            case bool() | None:
                return value
            case int() if kind in (
                ScrubbedKind.SERIAL,
                ScrubbedKind.GUID,
                ScrubbedKind.UUID,
                ScrubbedKind.MAC,
                ScrubbedKind.ASSET,
                ScrubbedKind.USER,
                ScrubbedKind.HASH,
                ScrubbedKind.SECRET,
            ):
                if stays(kind, str(abs(value))) or value == 0:
                    return value
                self._replacements.count(kind, str(value))
                return 0 if kind is ScrubbedKind.SECRET else int(self._replacements.replace_tokens(str(value), kind))
            case float() if kind is ScrubbedKind.PLACE:
                self._replacements.count(kind, str(value))
                return 0.0
            case _:
                return value

    def _name(self, name: str) -> str:
        """Scrub a property's name, which may contain a value, as names of vendors' settings do."""
        return self.text(name, frozenset({'base64'}))

    def _text(self, text: str, keep: frozenset[str]) -> str:
        if '%' in text:
            plain = unquote(text)
            if plain != text:
                made = self._text(plain, keep) if '%' not in plain else self._sub(plain, keep)
                return text if made == plain else quote(made, safe="/:?#[]@!$&'()*+,;= ")
        return self._sub(text, keep)

    def _sub(self, text: str, keep: frozenset[str]) -> str:
        if self._all is None:
            self._seal()
        assert self._all is not None  # noqa: S101 - sealed above
        return self._all.sub(lambda match: self._replaced(match, keep), text)

    def _seal(self) -> None:
        """Build one pattern of everything that is replaced, so that one pass replaces each place once."""
        free = {digits for digits in self._replacements.numbers if len(digits) <= LONGEST}
        groups: dict[str, list[str]] = {'free': [], 'digits': [], 'words': [], 'hosts': []}
        properties = {name.casefold() for name in self._properties}
        for value, kind in self._known.items():
            if value in properties:
                continue
            groups['hosts' if kind is ScrubbedKind.HOST else _bounds(kind, value) or 'words'].append(value)
        parts = []
        if groups['free'] or free:
            parts.append(_trie([*groups['free'], *free]))
        if groups['digits']:
            parts.append(rf'(?<!\d)(?:{_trie(groups["digits"])})(?!\d)')
        if groups['words']:
            parts.append(rf'(?<![a-z0-9])(?:{_trie(groups["words"])})(?![a-z0-9])')
        if groups['hosts']:
            # A host name may be followed by a domain that no property shows.
            parts.append(rf'(?<![a-z0-9])(?:{_trie(groups["hosts"])})(?:\.[a-z][a-z0-9-]{{1,62}}){{0,5}}(?![a-z0-9])')
        own = self._own.pattern
        if own is not None and self.is_property(self._own.username or ''):
            own = None  # replacing it would make the tree unreadable; the code that writes the recording checks for it
        known = [('own', own)] if own is not None else []
        known += [('known', '|'.join(parts))] if parts else []
        self._all = _compiled(
            (*_BEFORE[:2], *known[:1], *_BEFORE[2:], *known[1:], *_AFTER) if own else (*_BEFORE, *known, *_AFTER)
        )
        self._long = re.compile(_trie([v for v in [*groups['free'], *free] if len(v) >= 10]) or r'(?!)', re.IGNORECASE)

    def _replaced(self, match: re.Match[str], keep: frozenset[str]) -> str:
        text, form = match.group(), match.lastgroup or ''
        if form in keep and not (form == 'hex' and _nibbles(text) in self._replacements.numbers):
            return text
        match form:
            case 'pem' | 'secret' | 'base64':
                self._replacements.count(ScrubbedKind.SECRET, text)
                return SECRET
            case 'own':
                self._replacements.count(ScrubbedKind.USER, text)
                return self._replacements.replace_tokens(text, ScrubbedKind.USER)
            case 'url':
                return self._replacements.replace_url(text)
            case 'email':
                self._replacements.count(ScrubbedKind.EMAIL, text.casefold())
                return self._replacements.replace_tokens(text, ScrubbedKind.HOST)
            case 'known':
                plain = _canonical(text)
                if plain in self._replacements.numbers:
                    return self._replacements.replace_hex(text)
                kind = self._known.get(plain, ScrubbedKind.HOST)
                self._replacements.count(kind, plain)
                return self._replacements.replace_tokens(text, kind)
            case 'ip4':
                return text if text in self._versions and text not in self._addresses else self._replacements.replace_ip4(text)
            case 'ip6':
                return self._replacements.replace_ip6(text)
            case 'hex' if text in self._versions and _nibbles(text) not in self._replacements.numbers:
                return text
            case _:
                return self._replacements.replace_hex(text)

    def _is_hex(self, text: str) -> bool:
        return (
            bool(_HEX_FORM.fullmatch(text) or _HEX_RUN.fullmatch(text)) or _nibbles_of_run(text) in self._replacements.numbers
        )


@lru_cache(maxsize=20_000)
def normal(name: str) -> str:
    """A property's name as it is compared: ``agentcommunity`` for ``SNMP.1.AgentCommunity``."""
    if '@' in name and name != '@odata.etag':
        return ''
    last = name if name.startswith('@') else name.rsplit('.', 1)[-1]
    return re.sub(r'[^a-z0-9]', '', last.casefold()).rstrip('0123456789')


@lru_cache(maxsize=20_000)
def _named(name: str) -> ScrubbedKind | None:
    plain = normal(name)
    return next((kind for kind, pattern in _NAMES if pattern.fullmatch(plain)), None) if plain else None


def kind_of(name: str, value: Json, outer: ScrubbedKind | None, pair: ScrubbedKind | None = None) -> ScrubbedKind | None:
    """The kind of value that a property's name indicates.

    :param outer: the kind of the enclosing object.
    :param pair: the kind for ``Value`` next to a ``Name`` that classifies it.
    """
    if outer is ScrubbedKind.PLACE or normal(name) in _PLACES:
        return None if normal(name).endswith('units') else ScrubbedKind.PLACE
    if pair is not None and name in ('Value', 'CurrentValue', 'PropertyValue', 'MetricValue'):
        return pair
    return _named(name) if not isinstance(value, dict) else None


def is_constant(value: str) -> bool:
    """Whether a value is the same on many machines: a word for "none", or a repetition of one character."""
    return value.casefold() in _WORDS or len({c for c in value.casefold() if c.isalnum()}) <= 1


def stays(kind: ScrubbedKind, value: str) -> bool:
    """Whether a value identifies nothing: a constant, an algorithm's name instead of a hash, a SKU that is no service tag."""
    match kind:
        case ScrubbedKind.SECRET:
            return value.casefold() in _WORDS or not value.strip('*xX-. ')
        case ScrubbedKind.TAG:
            return is_constant(value) or _TAG.fullmatch(value) is None
        case ScrubbedKind.HASH:
            return is_constant(value) or _ALGORITHM.fullmatch(value) is not None
        case _:
            return is_constant(value)


def _pair_kind(body: Mapping[str, Json]) -> ScrubbedKind | None:
    """For ``{"Name": "SerialNumber", "Value": "..."}``, the kind of value that the name indicates."""
    names = (body.get(k) for k in ('Name', 'AttributeName', 'PropertyName', 'Key', 'MetricId'))
    return next((kind for n in names if isinstance(n, str) and (kind := _named(n))), None)


def _leaves(body: Json) -> Iterator[tuple[str, ScrubbedKind | None, Json]]:
    """Every property with the kind that its name indicates; None instead of the value of an object or array."""
    waiting: list[tuple[str, ScrubbedKind | None, Json, int]] = [('', None, body, 0)]
    while waiting:
        name, kind, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f'nested more than {DEEPEST} levels deep')
        if isinstance(value, dict):
            pair = _pair_kind(value)
            waiting += [(k, kind_of(k, v, kind, pair), v, depth + 1) for k, v in value.items()]
        elif isinstance(value, list):
            waiting += [(name, kind, v, depth + 1) for v in value]
        yield name, kind, None if isinstance(value, dict | list) else value


def _bounds(kind: ScrubbedKind, value: str) -> str | None:
    """Where else a learned value is replaced: ``free`` anywhere, ``digits`` not within a longer number, ``words`` as a word.

    None: nowhere else, as it is too short or too common to be told from other text.
    """
    has_digit, has_letter = any(c.isdigit() for c in value), any(c.isalpha() for c in value)
    if kind in (ScrubbedKind.HOST, ScrubbedKind.USER, ScrubbedKind.PLACE, ScrubbedKind.EMAIL) or not has_digit:
        return 'words' if len(value) >= 4 else None
    if len(value) < 5 or _ORDINAL.fullmatch(value):
        return None
    if not has_letter:
        return 'digits' if len(value) >= 6 else 'words'
    return 'free' if len(value) >= 6 else 'words'


def _canonical(text: str) -> str:
    """A text in lower case, of the same length."""
    return ''.join(low if len(low := c.lower()) == 1 else c for c in text)


def _nibbles(text: str) -> str:
    bare = text[2:] if text[:2].casefold() == '0x' else text
    return ''.join(c for c in bare.lower() if c in '0123456789abcdef')


def _nibbles_of_run(text: str) -> str | None:
    bare = text[2:] if text[:2].casefold() == '0x' else text
    return bare.lower() if re.fullmatch('[0-9A-Fa-f]{12,}', bare) else None


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


def _compiled(groups: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    return re.compile('|'.join(f'(?P<{name}>{pattern})' for name, pattern in groups), re.IGNORECASE)


def _trie(values: Iterable[str]) -> str:
    """A pattern of many values that reads each character once, longer values first."""
    root: dict[str, Any] = {}
    for value in values:
        node = root
        for c in value:
            node = node.setdefault(c, {})
        node[''] = {}
    return _branches(root)


def _branches(node: Mapping[str, Any]) -> str:
    found = []
    for c, child in sorted(node.items(), reverse=True):
        if c:
            chain = re.escape(c)
            while len(child) == 1 and '' not in child:
                ((c, child),) = child.items()
                chain += re.escape(c)
            found.append(chain + _branches(child))
    if not found:
        return ''
    whole = found[0] if len(found) == 1 else '|'.join(found)
    return f'(?:{whole})?' if '' in node else f'(?:{whole})' if len(found) > 1 else whole
