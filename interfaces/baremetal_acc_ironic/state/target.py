# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the BMC addresses of a node from its ``driver_info``, and the facts about the node that baseline rules can match.

The host's BMC is that of Ironic's own keys, ``redfish_*`` or ``ipmi_*``, by the hardware type. For further BMCs the address
says which protocol they speak, and for child nodes their driver does.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ironic import objects
from ironic.common import exception
from ironic.drivers import utils as driver_utils
from ironic.drivers.modules import ipmitool
from ironic.drivers.modules.redfish import utils as redfish_utils
from oslo_utils import strutils, uuidutils

from baremetal_acc import bootstrap
from baremetal_acc.bmc.address import IPMI_FIXED, PORT_EXPECTED, check_address, ipmi_address, ipmi_key, speaks_ipmi
from baremetal_acc.bmc.driver import BmcAddress, Setting
from baremetal_acc.bmc.ipmi.endpoint import NAME_BYTES, PASSWORD_BYTES, SUITES
from baremetal_acc.execution import Target
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts
from baremetal_acc.scheduling.provider_names import PREFIX
from baremetal_acc_ironic import opts, settings
from baremetal_acc_ironic.state import node_state, node_store
from baremetal_acc_ironic.state.node_state import NodeState

BMCS = 'acc_bmcs'
EXPOSURE = 'acc_exposure'
PARALLEL = 'acc_parallel_updates'

_KEY = 'secret_hex_kg_key'
"""Name of the key K_G of a further BMC. Ironic's API masks keys with "secret" in their name, and would show hex_kg_key."""

_TEXTS = ('address', 'username', 'password', 'system', _KEY)
_OF_NODE = {
    Setting.VERIFY_CA: 'redfish_verify_ca in driver_info',
    Setting.CIPHER_SUITE: 'ipmi_cipher_suite in driver_info',
    Setting.KEY: 'ipmi_hex_kg_key in driver_info',
}
_OF_FURTHER = {one: f'{one} in acc_bmcs' for one in Setting}
"""Where a setting of the node's own BMC, and of a further one, is set."""

_OF_REDFISH = frozenset({'verify_ca', 'system', 'parallel_updates'})
_OF_IPMI = frozenset({'cipher_suite', _KEY})
_OWN = frozenset({*_TEXTS, *_OF_REDFISH, *_OF_IPMI})

_INTERFACES = ('console', 'management', 'power', 'raid', 'vendor')
"""Interfaces of a node that may use its BMC over IPMI. Source: ironic, drivers/ipmi.py and drivers/generic.py."""

_BY_IPMI = ('ipmi', opts.IPMI_ACC)
_BY_REDFISH = ('redfish', opts.REDFISH_ACC)
"""Hardware types by protocol: Ironic's and ours."""

PROPERTIES = {
    BMCS: (
        'Further BMCs of the node, such as those of its DPUs: a dictionary from a name to {address, username, password, '
        'verify_ca, system, parallel_updates}, for a BMC that speaks IPMI to {address: ipmi://HOST[:PORT], username, password, '
        f'cipher_suite, {_KEY}}}, or to {{node}}, the UUID of a child node of this one that has redfish_* or ipmi_* of its '
        'own. Optional.'
    ),
    EXPOSURE: (
        "Whose code runs on the node: 'tenant', 'service' or 'none'; [baremetal_acc] default_exposure if not set. Any "
        'other value than tenant takes effect only after a system administrator has run reconcile_accelerators in manual '
        'cleaning or service. Optional.'
    ),
    PARALLEL: (
        "Number of updates that the host's BMC accepts at the same time, if it speaks Redfish and you know that it accepts "
        "more than one; for further BMCs set 'parallel_updates' in acc_bmcs. One at a time if not set. Optional."
    ),
}


def target(task: Any) -> Target:
    """Build the target of a node: its BMC addresses and the facts that rules can match.

    :raises InvalidParameterValue: driver_info is wrong; names the key.
    :raises MissingParameterValue: driver_info lacks something.
    :raises StaleJob: our stored state of the node cannot be read.
    """
    node = task.node
    state = node_store.load(node)
    facts = NodeFacts(
        name=node.name or node.uuid,
        resource_class=state.resource_class or None,
        owner=node.owner,
        # A trait that the list of known devices gives to one device of the node would select rules for all of them.
        traits=traits(node, state) | {t for t in state.traits if t.startswith(PREFIX)},
        exposure=exposure(node, state),
        over_ipmi=any(str(getattr(node, f'{name}_interface', None) or '').startswith('ipmi') for name in _INTERFACES),
    )
    return Target(name=node.name or node.uuid, node=facts, bmcs=(_host(node, HOST), *_further(task)))


def exposure(node: Any, state: NodeState) -> Exposure:
    """Return the exposure that rules go by: the accepted one.

    What ``driver_info`` says does not count by itself, since more people may edit it. Before anything was accepted the option
    decides; but ``tenant``, which asks for most, is believed at once.

    :raises InvalidParameterValue: ``driver_info`` names an unknown exposure.
    """
    shown = shown_exposure(node)
    if state.exposure is not None:
        return state.exposure
    return shown if shown is Exposure.TENANT else settings.core().default_exposure


def traits(node: Any, state: NodeState) -> frozenset[str]:
    """Return the traits that rules go by besides our own: those that an operator has accepted. Before that none counts.

    A node that an earlier version of this package has reconciled goes by the traits that it has.
    """
    if state.taken is not None:
        return state.taken
    return shown_traits(node, state) if node_state.settled_before(state) else frozenset()


def shown_traits(node: Any, state: NodeState) -> frozenset[str]:
    """Return the traits that the node has, without those that we set."""
    return (frozenset(node.traits.get_trait_names()) if node.traits else frozenset()) - state.traits


def shown_exposure(node: Any) -> Exposure:
    """Return the exposure that ``driver_info`` names; the option's if it names none.

    :raises InvalidParameterValue: ``driver_info`` names an unknown exposure.
    """
    value = node.driver_info.get(EXPOSURE, settings.core().default_exposure)
    try:
        return Exposure(value)
    except ValueError:
        choices = ', '.join(Exposure)
        raise exception.InvalidParameterValue(
            f"driver_info['{EXPOSURE}'] of node {node.uuid} is {value!r}; it can be: {choices}"
        ) from None


def _host(node: Any, name: BmcName) -> BmcAddress:
    """Read the address of a node's own BMC from Ironic's own keys."""
    if node.driver in _BY_IPMI:
        return _by_ipmi(node, name)
    given = node.driver_info
    if node.driver not in _BY_REDFISH and given.get('ipmi_address') and not given.get('redfish_address'):
        return _by_ipmi(node, name)
    return _by_redfish(node, name)


def _by_redfish(node: Any, name: BmcName) -> BmcAddress:
    info = redfish_utils.parse_driver_info(node)
    system = info['system_id']
    if system is not None and '/' not in system:
        # We would find the System; Ironic's own requests to the BMC, such as for a boot device, would fail during a flow.
        raise exception.InvalidParameterValue(
            f"driver_info['redfish_system_id'] of node {node.uuid} is {system!r:.60}: Ironic itself accepts no Id of a "
            'System; give its path, such as /redfish/v1/Systems/1'
        )
    return _address(
        name,
        address=info['address'],
        username=info['username'],
        password=info['password'],
        verify_ca=info['verify_ca'],
        system=system,
        parallel_updates=_number(f"driver_info['{PARALLEL}'] of node {node.uuid}", node.driver_info.get(PARALLEL)),
    )


def _by_ipmi(node: Any, name: BmcName) -> BmcAddress:
    """Read an address that Ironic's own code accepts, and with which we can open a session."""
    given = node.driver_info
    where = f'driver_info of node {node.uuid}'
    for key, only, why in IPMI_FIXED:
        if str(given.get(key, only)) != only:
            raise exception.InvalidParameterValue(f'{where}: {key} is {given[key]!r}; it must be {only!r}, or not set: {why}')
    if given.get(PARALLEL) is not None:
        raise exception.InvalidParameterValue(f'{where}: {PARALLEL} is only for a BMC that speaks Redfish')
    # Before Ironic's own code parses them: its errors do not name the key, and it fails on a key that is no string.
    suite = _suite(f'{where}: ipmi_cipher_suite', given.get('ipmi_cipher_suite'))
    secret = _kg(f'{where}: ipmi_hex_kg_key', given.get('ipmi_hex_kg_key'))
    port = given.get('ipmi_port')
    if port is not None and not 0 < (_whole(port) or 0) < 65536:
        raise exception.InvalidParameterValue(f'{where}: ipmi_port is {port!r:.60}: {PORT_EXPECTED}')
    info = ipmitool._parse_driver_info(node)
    host = str(info['address'])
    address = ipmi_address(host, info['dest_port'])
    if '/' in host or check_address(address) is not None:
        raise exception.InvalidParameterValue(f'{where}: ipmi_address is neither the name of a host nor an IP address')
    return _address(
        name,
        address=address,
        **_login(where, {key: f'ipmi_{key}' for key in ('username', 'password')}, info),
        cipher_suite=suite,
        key=secret,
    )


def _further(task: Any) -> Iterator[BmcAddress]:
    node = task.node
    bmcs = node.driver_info.get(BMCS) or {}
    if not isinstance(bmcs, dict):
        raise exception.InvalidParameterValue(
            f"driver_info['{BMCS}'] of node {node.uuid} is not a dictionary from names to BMCs"
        )
    for name, value in sorted(bmcs.items()):
        where = f"driver_info['{BMCS}'][{name!r}] of node {node.uuid}"
        if name == HOST or not name:
            raise exception.InvalidParameterValue(
                f'{where}: choose another name; {HOST!r} is the BMC of redfish_address, or ipmi_address'
            )
        if not isinstance(value, dict):
            raise exception.InvalidParameterValue(f'{where} is not a dictionary')
        yield _child(task, where, name, value['node']) if set(value) == {'node'} else _own(node, where, name, value)


def _own(node: Any, where: str, name: str, value: dict[str, Any]) -> BmcAddress:
    unknown = sorted(set(value) - _OWN)
    if unknown:
        raise exception.InvalidParameterValue(
            f'{where} has unknown keys: {", ".join(unknown)}; known: {", ".join(sorted(_OWN))}'
        )
    for key in _TEXTS:
        if value.get(key) is not None and not isinstance(value[key], str):
            raise exception.InvalidParameterValue(f'{where}: {key} is not a string')
    address = value.get('address')
    if not address:
        raise exception.MissingParameterValue(f'{where} has no address')
    if '://' not in address:
        address = f'https://{address}'
    by_ipmi = speaks_ipmi(address)
    strange = sorted((_OF_REDFISH if by_ipmi else _OF_IPMI) & set(value))
    if strange:
        protocol = 'IPMI' if by_ipmi else 'Redfish'
        raise exception.InvalidParameterValue(f'{where}: {", ".join(strange)}: not supported for a BMC that speaks {protocol}')
    if by_ipmi:
        wrong = check_address(address)
        if wrong is not None:
            raise exception.InvalidParameterValue(f'{where}: address {wrong}')
        return _address(
            BmcName(name),
            address=address,
            **_login(where, {key: key for key in ('username', 'password')}, value),
            cipher_suite=_suite(f'{where}: cipher_suite', value.get('cipher_suite')),
            key=_kg(f'{where}: {_KEY}', value.get(_KEY)),
            set_by=_OF_FURTHER,
        )
    return _address(
        BmcName(name),
        address=address,
        username=value.get('username'),
        password=value.get('password'),
        verify_ca=_verify_ca(where, driver_utils.get_verify_ca(node, value.get('verify_ca', True))),
        system=value.get('system'),
        parallel_updates=_number(f'{where}: parallel_updates', value.get('parallel_updates')),
        set_by=_OF_FURTHER,
    )


def _child(task: Any, where: str, name: str, uuid: object) -> BmcAddress:
    if not uuidutils.is_uuid_like(uuid):
        raise exception.InvalidParameterValue(f'{where}: node is not a UUID')
    child = objects.Node.get_by_uuid(task.context, uuid)
    if child.parent_node != task.node.uuid:
        raise exception.InvalidParameterValue(
            f'{where}: node {uuid} is not a child of this node (its parent_node is another node, or not set)'
        )
    return _host(child, BmcName(name))


def _login(where: str, keys: Mapping[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    """Return username and password with which an IPMI session can be opened.

    :param keys: their names as the operator knows them.
    """
    found = {}
    for name, most in (('username', NAME_BYTES), ('password', PASSWORD_BYTES)):
        text = str(given.get(name) or '')
        if not text:
            raise exception.MissingParameterValue(
                f'{where}: {keys[name]} is missing: an IPMI session needs a named user and a password'
            )
        if len(text.encode()) > most or '\0' in text:
            raise exception.InvalidParameterValue(
                f'{where}: {keys[name]} has more than {most} bytes, or contains a zero byte, which IPMI does not allow'
            )
        found[name] = text
    return found


def _suite(where: str, value: object) -> int:
    """Parse a cipher suite; a string that is a number counts, as for Ironic. 17 if not set."""
    if value is None:
        return 17
    number = _whole(value)
    if number in SUITES:
        return number
    raise exception.InvalidParameterValue(
        f'{where} is {value!r:.60}: too weak or unknown; use 17, or 3 for a BMC that supports nothing better'
    )


def _kg(where: str, value: object) -> bytes | None:
    if value is not None and not isinstance(value, str):
        raise exception.InvalidParameterValue(f'{where} is not a string')
    try:
        return None if value is None else ipmi_key(value)
    except ValueError as exc:
        raise exception.InvalidParameterValue(f'{where}: {exc}') from None


def _verify_ca(where: str, value: object) -> bool | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value:
        try:
            return bool(strutils.bool_from_string(value, strict=True))
        except ValueError:
            return value
    raise exception.InvalidParameterValue(f'{where}: verify_ca must be true, false or a path')


def _number(where: str, value: object) -> int | None:
    """Parse a number of at least 1; a string that is one counts, for that is what command lines send."""
    if value is None:
        return None
    number = _whole(value)
    if number is not None and number >= 1:
        return number
    raise exception.InvalidParameterValue(f'{where} is {value!r:.60}; it must be a number of at least 1')


def _whole(value: object) -> int | None:
    """Parse an integer, or a string of at most nine digits, since Python raises where there are thousands."""
    if isinstance(value, str) and re.fullmatch(r'[0-9]{1,9}', value.strip()):
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _address(name: BmcName, **values: Any) -> BmcAddress:
    return bootstrap.tuned(BmcAddress(name=name, **({'set_by': _OF_NODE} | values)), settings.core())
