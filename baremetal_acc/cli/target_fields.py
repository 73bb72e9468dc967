# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The fields of a target in the list of BMCs, with the names that an Ironic node gives them in driver_info."""

import os
import re
import uuid
from collections.abc import Mapping

from baremetal_acc.bmc.address import IPMI_FIXED, PORT_EXPECTED, check_address, ipmi_address, ipmi_key, speaks_ipmi
from baremetal_acc.bmc.driver import Setting
from baremetal_acc.cli.target_entry import BmcEntry, Secret, TargetEntry, TargetSource
from baremetal_acc.cli.yaml_reader import Map
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.policy.baseline_rules import Exposure

NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')

NAME_EXPECTED = 'at most 100 letters, digits, dots, dashes and underscores, the first a letter or digit'


_LOGIN = ('address', 'username', *(s.value for s in TargetSource if s is not TargetSource.PROMPT))

_OF_REDFISH = ('verify_ca', 'system', 'parallel_updates')
_OF_IPMI = ('cipher_suite', 'secret_hex_kg_key')
"""Ironic's API masks keys whose names contain ``secret``. It shows its own ``ipmi_hex_kg_key`` unmasked."""

LITERAL_SECRETS = (TargetSource.LITERAL, 'secret_hex_kg_key')
"""Keys whose values are literal secrets."""

_BMC = (*_LOGIN, *_OF_REDFISH, *_OF_IPMI)

_REDFISH = {key: {'system': 'redfish_system_id'}.get(key, f'redfish_{key}') for key in (*_LOGIN, *_OF_REDFISH)}
_IPMI = {key: {'secret_hex_kg_key': 'ipmi_hex_kg_key'}.get(key, f'ipmi_{key}') for key in (*_LOGIN, *_OF_IPMI, 'port')}
"""The keys of the host's BMC in an Ironic node's ``driver_info``, so that ``driver_info`` can be copied unchanged."""

_REDFISH_FIXED = (
    (
        'redfish_auth_type',
        ('auto', 'session', 'basic'),
        'baremetal-acc uses a session, or HTTP Basic if the BMC has no sessions',
    ),
    ('redfish_tls_minimum_version', ('1.1', '1.2'), 'baremetal-acc requires TLS 1.2 or newer'),
)
_IPMI_FIXED = tuple((key, (only,), why) for key, only, why in IPMI_FIXED)
"""Further keys of Ironic's ``driver_info``, with the values that are accepted because they change nothing here, and why."""

_IDLE = (
    *(f'ipmi_{end}_{what}' for end in ('transit', 'target') for what in ('channel', 'address')),
    'ipmi_local_address',
    'ipmi_force_boot_device',
    'ipmi_disable_boot_timeout',
    'ipmi_terminal_port',
)
"""Keys of Ironic's ``driver_info`` that are accepted and ignored: for bridging (not supported), booting and consoles."""

IRONIC_FIELDS = (*_REDFISH.values(), *_IPMI.values(), *(key for key, _, _ in (*_REDFISH_FIXED, *_IPMI_FIXED)), *_IDLE)

ABOUT_FIELDS = ('resource_class', 'owner', 'traits', 'exposure', 'acc_exposure', 'node')


def parse_target(name: str, table: Map) -> TargetEntry:
    table.only('bmcs', *ABOUT_FIELDS, *IRONIC_FIELDS, 'acc_bmcs')
    if not NAME.fullmatch(name):
        raise table.error(None, f'{name!r} is not a valid name: {NAME_EXPECTED}')
    if table.has('exposure') and table.has('acc_exposure'):
        raise table.error('acc_exposure', 'exposure is set as well: keep one of them')
    return TargetEntry(
        name=name,
        bmcs=_bmcs(table),
        resource_class=table.string('resource_class'),
        owner=table.string('owner'),
        traits=frozenset(table.strings('traits') or ()),
        exposure=table.choice('acc_exposure' if table.has('acc_exposure') else 'exposure', Exposure),
        node=_uuid(table, 'node'),
    )


def _bmcs(table: Map) -> tuple[BmcEntry, ...]:
    """The BMCs of a target: ``bmcs``, or the keys of an Ironic node's driver_info."""
    ironic = next((key for key in (*IRONIC_FIELDS, 'acc_bmcs') if table.has(key)), None)
    if ironic is not None and table.has('bmcs'):
        raise table.error(ironic, 'the BMCs are already listed under bmcs')
    found: list[BmcEntry] = []
    for keys, fixed in ((_REDFISH, _REDFISH_FIXED), (_IPMI, _IPMI_FIXED)):
        if any(map(table.has, keys.values())):
            if found:
                raise table.error(
                    keys['address'], 'redfish_address is set as well: the BMC of the host is used over Redfish or over IPMI'
                )
            found.append(_bmc(HOST, table, keys))
            for key, taken, why in fixed:
                value = table.word(key)
                if value is not None and value not in taken:
                    raise table.error(key, f'is {value!r:.60}; it must be {" or ".join(taken)}, or left out: {why}')
    listed = table.table('bmcs' if ironic is None else 'acc_bmcs')
    for name in listed.data:
        if not NAME.fullmatch(name):
            raise listed.error(name, f'is not a valid name: {NAME_EXPECTED}')
        if any(b.name == name for b in found):
            raise listed.error(name, 'is defined twice: redfish_address or ipmi_address is the BMC of that name')
        bmc = listed.table(name)
        bmc.only(*_BMC)
        found.append(_bmc(BmcName(name), bmc, {key: key for key in _BMC}))
    if not found:
        raise table.error(None, 'names no BMC', 'list them under bmcs: {host: {address: https://..., username: ...}}')
    return tuple(found)


def _bmc(name: BmcName, table: Map, keys: Mapping[str, str]) -> BmcEntry:
    """One BMC.

    :param keys: the names of a BMC's keys in this mapping.
    """
    address = table.string(keys['address'])
    if address is None:
        raise table.error(None, f'{keys["address"]} is missing')
    if 'port' in keys:
        address = _with_port(table, keys, address)
    wrong = check_address(address)
    if wrong is not None:
        raise table.error(keys['address'], wrong)
    by_ipmi = speaks_ipmi(address)
    if ('cipher_suite' if by_ipmi else 'verify_ca') not in keys:
        raise table.error(
            keys['address'],
            'an IPMI address belongs in ipmi_address' if by_ipmi else 'a Redfish address belongs in redfish_address',
        )
    for key in _OF_REDFISH if by_ipmi else _OF_IPMI:
        if key in keys and table.has(keys[key]):
            raise table.error(keys[key], f'does not apply to a BMC that is used over {"IPMI" if by_ipmi else "Redfish"}')
    verify_ca = table.boolean_or_text(keys['verify_ca']) if 'verify_ca' in keys else None
    if isinstance(verify_ca, str):
        verify_ca = _beside(table.path, verify_ca)
    secrets = [table.line_of(keys[key]) for key in LITERAL_SECRETS if key in keys and table.has(keys[key])]
    return BmcEntry(
        name=name,
        address=address.rstrip('/'),
        username=table.string(keys['username']),
        secret=_secret(table, keys),
        verify_ca=True if verify_ca is None else verify_ca,
        system=table.string(keys['system']) if 'system' in keys else None,
        parallel_updates=table.integer(keys['parallel_updates'], minimum=1) if 'parallel_updates' in keys else None,
        cipher_suite=_suite(table, keys['cipher_suite']) if by_ipmi else 17,
        key=_key(table, keys['secret_hex_kg_key']) if by_ipmi else None,
        trusted_at=(table.path, table.line_of(keys['verify_ca'])) if isinstance(verify_ca, str) else None,
        secret_at=min(secrets, default=None),
        set_by={one: f'{keys[one]} in {table.path}' for one in Setting if one in keys},
    )


def _with_port(table: Map, keys: Mapping[str, str], host: str) -> str:
    """The address of a BMC of which Ironic's ``driver_info`` has the host and the port."""
    port = _number(table, keys['port'])
    if '://' in host:
        if port is not None:
            raise table.error(keys['port'], f'must not be set where {keys["address"]} is a URL')
        return host
    if port is not None and not 0 < port < 65536:
        raise table.error(keys['port'], f'{port} is not a port: {PORT_EXPECTED}')
    return ipmi_address(host, port)


def _suite(table: Map, key: str) -> int:
    suite = _number(table, key)
    if suite not in (None, 3, 17):
        raise table.error(
            key, f'cipher suite {suite} is too weak or unknown', 'use 17, or 3 if the BMC supports nothing better'
        )
    return 17 if suite is None else suite


def _number(table: Map, key: str) -> int | None:
    """A number. Text is accepted too, as Ironic accepts it."""
    value = table.data.get(key)
    if isinstance(value, str) and re.fullmatch(r'\s*[0-9]{1,5}\s*', value):
        return int(value)
    return table.integer(key)


def _key(table: Map, key: str) -> bytes | None:
    """The BMC key K_G (IPMI 2.0) from hexadecimal digits, as in Ironic; a key of zeros means no key."""
    text = table.secret(key)
    if text is None:
        return None
    try:
        return ipmi_key(text)
    except ValueError as exc:
        raise table.error(key, str(exc)) from None


def _secret(table: Map, keys: Mapping[str, str]) -> Secret:
    given: list[Secret] = []
    for source in (TargetSource.LITERAL, TargetSource.ENVIRONMENT, TargetSource.FILE):
        key = keys[source]
        text = table.secret(key) if source is TargetSource.LITERAL else table.string(key)
        if text is not None and given:
            raise table.error(key, f'{keys[given[0].source]} is set as well: keep one of them')
        if text is not None:
            given.append(Secret(source=source, text=_beside(table.path, text) if source is TargetSource.FILE else text))
    return given[0] if given else Secret(source=TargetSource.PROMPT)


def _beside(document: str, path: str) -> str:
    """The path, relative to the folder of the document. Text, as Path objects would be a quarter of the cost of a long list."""
    return os.path.join(os.path.dirname(os.path.abspath(document)), os.path.expanduser(path))


def _uuid(table: Map, key: str) -> str | None:
    text = table.string(key)
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise table.error(key, f'{text!r} is not a UUID') from None
