# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Restore one setting of a BMC: read its resource, write it if it still shows what the plan saw, and read it again.

A property is written by PATCH, with If-Match; a medium is ejected by VirtualMedia.EjectMedia; an event subscription is deleted.
An account is disabled and not deleted, so that nothing of it is lost. A host interface is not disabled if the session may use
it: if it is shown as accessible from outside of the host, or has the address by which the BMC is used.

Source: DSP8010 2025.4: ManagerNetworkProtocol, HostInterface, ComputerSystem, Manager, ManagerAccount, VirtualMedia,
EventDestination; DSP0266, sections "PATCH (update)" and "DELETE (delete)".
"""

import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from baremetal_acc.bmc.driver import BmcAddress, Document, JsonObject
from baremetal_acc.bmc.redfish.bmc_settings import boot_source, destination_of, medium_of, switch_of
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.parse import LONGEST, ResourceView
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.redfish.task import said_against
from baremetal_acc.bmc.redfish.writer import RedfishWriter
from baremetal_acc.bmc.settings_reader import SettingSight
from baremetal_acc.errors import BmcError, BmcUnsupported, is_not_found
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import RESTORED_TO, BmcSetting
from baremetal_acc.model.inventory import Objection

LOG = logging.getLogger(__name__)

_EJECT = '#VirtualMedia.EjectMedia'

_VANISHES = frozenset({BmcSetting.ACCOUNTS, BmcSetting.EVENT_SUBSCRIPTIONS})
"""Settings whose resource may be gone: then there is nothing left to restore."""

IpAddress = IPv4Address | IPv6Address


def restore(
    connector: Connector, writer: RedfishWriter, action: RestoreSetting, address: BmcAddress, *, send: bool
) -> SettingSight:
    """Restore a setting, if it still shows what the action expects.

    :param address: by which the BMC is used.
    :param send: False: only read it.
    :raises BmcUnsupported: the resource has no action for it, or the session may use the host interface.
    :raises BmcError: it could not be read, or was not accepted.
    """
    before = _read(connector, action)
    seen = _sight(before, action)
    if before is None or not send or seen.restored or seen.value != action.expects:
        return seen
    if action.setting is BmcSetting.HOST_INTERFACES:
        _check_unused(connector, ResourceView.of(before, []), address)
    objections = (_write(connector, writer, before, action), *writer.objections)
    try:
        after = _sight(_read(connector, action), action)
    except BmcError as exc:
        LOG.info('%s', exc)  # it was written: from now on it is only read
        after = SettingSight(restored=False, value=None)
    return replace(
        after,
        sent=True,
        objection=next((one for one in objections if one is not None), None),
        unconditional=bool(writer.unconditional),
    )


def _read(connector: Connector, action: RestoreSetting) -> Document | None:
    """Read the resource now; None if it is gone, and may be."""
    try:
        return replace(fresh(connector, action.ref.bmc, action.ref.uri), ref=action.ref)
    except BmcError as exc:
        if is_not_found(exc) and action.setting in _VANISHES:
            return None
        raise


def _sight(document: Document | None, action: RestoreSetting) -> SettingSight:
    if document is None:
        return SettingSight(restored=True, value=None)
    view = ResourceView.of(document, [])
    if action.setting is BmcSetting.ACCOUNTS:
        name = view.body.get('UserName')
        known = name if isinstance(name, str) and len(name) <= LONGEST else None
        return SettingSight(restored=view.boolean('Enabled') is False, value=known)
    value = _value(view, action)
    return SettingSight(restored=value == RESTORED_TO[action.setting], value=value)


def _value(view: ResourceView, action: RestoreSetting) -> str | None:
    match action.setting:
        case BmcSetting.EVENT_SUBSCRIPTIONS:
            return destination_of(view)
        case BmcSetting.VIRTUAL_MEDIA:
            return medium_of(view)
        case BmcSetting.BOOT_OVERRIDE:
            boot = view.part('Boot')
            return None if boot is None else boot_source(boot)
        case _:
            return switch_of(view, *action.field.split('/'))


def _write(connector: Connector, writer: RedfishWriter, document: Document, action: RestoreSetting) -> Objection | None:
    """Send the one write. What a PATCH is objected to is noted by the writer; that of another request is returned."""
    match action.setting:
        case BmcSetting.EVENT_SUBSCRIPTIONS:
            return said_against(connector, connector.send('DELETE', action.ref.uri), action.ref.bmc)
        case BmcSetting.VIRTUAL_MEDIA:
            eject = ResourceView.of(document, []).part('Actions', _EJECT)
            target = None if eject is None else eject.text('target')
            if target is None:
                raise BmcUnsupported(bmc=connector.label, uri=action.ref.uri, what='this VirtualMedia has no EjectMedia action')
            return said_against(connector, connector.send('POST', target, body={}), action.ref.bmc)
        case BmcSetting.BOOT_OVERRIDE:
            writer.patch(document, {'Boot': {'BootSourceOverrideEnabled': 'Disabled'}})
        case BmcSetting.ACCOUNTS:
            writer.patch(document, {'Enabled': False})
        case _:
            writer.patch(document, _nested(action.field.split('/'), False))
    return None


def _nested(path: list[str], value: bool) -> JsonObject:
    body: JsonObject = {path[-1]: value}
    for name in reversed(path[:-1]):
        body = {name: body}
    return body


def _check_unused(connector: Connector, view: ResourceView, address: BmcAddress) -> None:
    """Check that a session does not use a host interface.

    :raises BmcUnsupported: it uses it, or may. ``BmcError``: the addresses of the interface could not be read.
    """
    if view.boolean('ExternallyAccessible') is True:
        what = 'nothing was written: the host interface can be used from outside of the host, so this session may use it'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what)
    used = _addresses(urlsplit(address.address).hostname or '')
    link = view.link('ManagerEthernetInterface')
    shown = () if link is None else _shown_addresses(ResourceView.of(fresh(connector, view.ref.bmc, link), []))
    if any(one.is_link_local for one in used) or not used.isdisjoint(shown):
        what = 'nothing was written: the BMC is used through this host interface'
        raise BmcUnsupported(bmc=connector.label, uri=view.ref.uri, what=what)


def _shown_addresses(ethernet: ResourceView) -> Iterator[IpAddress]:
    for name in ('IPv4Addresses', 'IPv6Addresses'):
        for part in ethernet.parts(name):
            text = None if part is None else part.text('Address')
            with suppress(ValueError):
                yield ip_address(text or '')


def _addresses(host: str) -> frozenset[IpAddress]:
    """Return the IP addresses of a host; none where its name is not known any more."""
    with suppress(ValueError):
        return frozenset({ip_address(host.partition('%')[0])})
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return frozenset()
    return frozenset(ip_address(str(where[0]).partition('%')[0]) for *_, where in found)
