# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Kinds of values that identify a machine or a person, as the names of their properties tell them."""

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any

from baremetal_acc.bmc.placeholders import SENTINELS

DEEPEST = 64
"""Levels of nesting that are accepted. Real resources have fewer than ten."""


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

CONSTANT_WORDS = SENTINELS | {
    'enabled', 'disabled', 'default', 'true', 'false', 'yes', 'no', 'on', 'off', 'auto', 'manual', 'static', 'dhcp', 'absent',
    'present', 'not set', 'not specified', 'notavailable', 'unspecified', 'undefined', 'supported', 'notsupported',
    'unavailable', 'available', 'scrubbed', 'default_string', 'to be filled by o.e.m', 'o.e.m.', 'oem', 'system serial number',
    'chassis serial number', 'board serial number', 'base board serial number', 'baseboard serial number', '0123456789',
    '123456789', '1234567890', 'asset tag', 'no asset tag', 'no asset information', 'asset-1234567890', 'localhost',
    'localhost.local', 'localhost.localdomain',
}  # fmt: skip
"""Values that identify nothing, case-folded."""

_ALGORITHM = re.compile(r'(tpm_alg|sha|md5|hmac|rsa|ecdsa|aes|none)[\w-]{0,16}', re.IGNORECASE)
_TAG = re.compile(r'[A-Z0-9]{5,7}')
"""A service tag, which some machines show as SKU."""

Json = Any
"""The result of json.loads."""


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
    return value.casefold() in CONSTANT_WORDS or len({c for c in value.casefold() if c.isalnum()}) <= 1


def stays(kind: ScrubbedKind, value: str) -> bool:
    """Whether a value identifies nothing: a constant, an algorithm's name instead of a hash, a SKU that is no service tag."""
    match kind:
        case ScrubbedKind.SECRET:
            return value.casefold() in CONSTANT_WORDS or not value.strip('*xX-. ')
        case ScrubbedKind.TAG:
            return is_constant(value) or _TAG.fullmatch(value) is None
        case ScrubbedKind.HASH:
            return is_constant(value) or _ALGORITHM.fullmatch(value) is not None
        case _:
            return is_constant(value)


def pair_kind(body: Mapping[str, Json]) -> ScrubbedKind | None:
    """For ``{"Name": "SerialNumber", "Value": "..."}``, the kind of value that the name indicates."""
    names = (body.get(k) for k in ('Name', 'AttributeName', 'PropertyName', 'Key', 'MetricId'))
    return next((kind for n in names if isinstance(n, str) and (kind := _named(n))), None)


def walk_leaves(body: Json) -> Iterator[tuple[str, ScrubbedKind | None, Json]]:
    """Every property with the kind that its name indicates; None instead of the value of an object or array."""
    waiting: list[tuple[str, ScrubbedKind | None, Json, int]] = [('', None, body, 0)]
    while waiting:
        name, kind, value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f'nested more than {DEEPEST} levels deep')
        if isinstance(value, dict):
            pair = pair_kind(value)
            waiting += [(k, kind_of(k, v, kind, pair), v, depth + 1) for k, v in value.items()]
        elif isinstance(value, list):
            waiting += [(name, kind, v, depth + 1) for v in value]
        yield name, kind, None if isinstance(value, dict | list) else value
