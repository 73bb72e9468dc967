# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Crawl a BMC's Redfish tree for a recording: read-only, breadth first, within limits of resources, bytes and time.

Links are followed if the property that holds them is in :data:`FOLLOWED`, or if they are in a vendor's (``Oem``) extension and
not :data:`NOISE`; on request, all are. Accounts, sessions, events, logs, certificates, telemetry, keys and licences are never
read: links to them are recorded, their targets are not.
"""

import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.mockup import TOP, Missed
from baremetal_acc.bmc.redfish.resource_document import document, fresh
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable, is_not_found
from baremetal_acc.http.transport import Dial
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.uri import normal

FOLLOWED = frozenset({
    'Systems', 'Chassis', 'Managers', 'UpdateService', 'ComponentIntegrity', 'Tasks', 'TaskService', 'Registries', 'Members',
    'Processors', 'SubProcessors', 'AccelerationFunctions', 'PCIeDevices', 'PCIeDevice', 'PCIeFunctions', 'PCIeFunction',
    'PCIeSlots', 'NetworkAdapters', 'NetworkAdapter', 'NetworkInterfaces', 'NetworkDeviceFunctions', 'Ports', 'NetworkPorts',
    'Assembly', 'TrustedComponents', 'FirmwareInventory', 'SoftwareInventory', 'Bios', 'SecureBoot', 'SettingsObject',
    'HostInterfaces', 'NetworkProtocol', 'EthernetInterfaces', 'EthernetInterface', 'ManagerEthernetInterface',
    'HostEthernetInterfaces', 'SecurityPolicy', 'Storage', 'StorageControllers', 'Controllers', 'Drives', 'GraphicsControllers',
    'FabricAdapters', 'USBControllers', 'Contains', 'ContainedBy', 'ComputerSystems', 'ManagedBy', 'ManagerInChassis',
    'ActiveSoftwareImage', 'SoftwareImages', 'RelatedItem', 'ComponentsProtected', 'OffloadProcessors',
    'ComputationalStorage', 'AccelerationFunction', 'HostingComputerSystem', 'Connections', 'Appliances',
})  # fmt: skip
"""Properties whose links lead to what an inventory, a lock or the recognition of a card may need. Source: DSP8010 2025.4."""

NEVER = frozenset({
    'accountservice', 'accounts', 'externalaccountproviders', 'roles', 'sessionservice', 'sessions', 'eventservice', 'events',
    'eventdestinations', 'subscriptions', 'logservices', 'logservice', 'logs', 'entries', 'certificates', 'certificateservice',
    'certificatelocations', 'telemetryservice', 'telemetry', 'metricreports', 'metricreportdefinitions', 'keyservice', 'keys',
    'keymanagement', 'licenseservice', 'licenses', 'license', 'securebootdatabases', 'directory', 'federationpeers',
    'federationgroups', 'activehealthsystem', 'dumps', 'dump', 'diagnosticdata', 'journal', 'jsonschemas', 'schemas', 'snmp',
    'snmpservice', 'outboundconnections', 'users', 'userinfo', 'credentials', 'passwords', 'virtualmedia',
})  # fmt: skip
"""Segments of a URI, case-folded, below which nothing is ever recorded."""

NEVER_LIKE = re.compile(r'.*(account|certificate|cert|licen[sc]e|logservice|session|password|ldap|credential)s?', re.IGNORECASE)

NEVER_TYPES = re.compile(
    r'#(ManagerAccount|Role|Session|Event|EventDestination|LogEntry|LogService|Certificate|Key|License|MetricReport|'
    r'AccountService|ExternalAccountProvider|SessionService|CertificateService|KeyService|LicenseService|SecureBootDatabase|'
    r'Signature|TelemetryService|EventService)(Collection)?\.'
)

NOISE = re.compile(
    r'.*(sensor|thermal|power|metric|memory|dimm|log|event|environment|fan|volume|statistic|history|schedule|job|queue|usb|boot'
    r'|console|schema|registr|backup|eskm|snmp|federation|smtp|datetime|time|media).*',
    re.IGNORECASE,
)
"""Last URI segments of vendors' extensions that say nothing about accelerators. With ``everything`` they are read."""

LOCK_WORDS = re.compile(
    r'lock|protect|secur|privil|rshim|update|flash|firmware|fw|inband|kcs|ipmi|hostint|usbnic|usb.?nic|pass.?thr|attest|trust|write',
    re.IGNORECASE,
)
"""Names of settings that may be a lock."""

FEW_ATTRIBUTES = 64
"""Up to this many settings (Attributes) of a resource are recorded completely. Real resources have ten or five hundred."""

_PRIVATE_ATTRIBUTES = re.compile(
    r'(users?|userdomain|adgroup|activedirectory|ldap\w*|snmp\w*|securitycertificate|email\w*|.*licen[sc]\w*)\.\d',
    re.IGNORECASE,
)
"""Settings of accounts, directories and licences, in the flat form ``Users.2.UserName``."""

_DEEPEST = 64
_MAX_PAGES = 200
_MAX_BODY = 8 * 1024 * 1024
_IN_VAIN = 20
"""Reads in a row without any answer after which the BMC is taken for gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlBounds:
    """Limits of a crawl: resources, bytes of answers, and time."""

    resources: int = 5000
    size_bytes: int = 32 * 1024 * 1024
    time: timedelta = timedelta(minutes=30)


@dataclass(slots=True, kw_only=True)
class Crawled:
    """The result of a crawl.

    :ivar resources: bodies by URI, in the order in which they were found.
    :ivar missed: URIs that were not recorded, with the reason.
    :ivar dropped: what was left out on purpose, and how often.
    :ivar stopped: why the crawl ended early, None if it is complete.
    """

    resources: dict[str, Any] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)
    stopped: str | None = None


@contextmanager
def connected(address: BmcAddress, patience: ReadRetry | None = None, dial: Dial | None = None) -> Iterator[Connector]:
    """A client that is logged in to a BMC; it is logged out at the end.

    :param dial: opens connections; over the network when None.
    :raises BmcError: the BMC cannot be reached, or is no Redfish service.
    """
    connector = Connector(address, patience, dial)
    login = Login(address)
    try:
        root = fresh(connector, address.name, f'{TOP}/').body
        login.begin(connector, _sessions(root))
        yield connector
    finally:
        login.close()
        connector.close()


def crawl(
    connector: Connector,
    name: BmcName,
    *,
    everything: bool = False,
    bounds: CrawlBounds | None = None,
    at_once: int = 4,
    more: Iterable[str] = (),
    told: Callable[[int, int], None] = lambda read, waiting: None,
) -> Crawled:
    """Read a tree from its root.

    :param everything: follow all links except those that are never followed.
    :param more: further URIs to read.
    :param told: called with the number of resources read, and of those still waiting at this level.
    """
    return _Crawl(connector, name, everything, bounds or CrawlBounds(), told).run(at_once, more)


class _Crawl:
    def __init__(
        self, connector: Connector, name: BmcName, everything: bool, bounds: CrawlBounds, told: Callable[[int, int], None]
    ) -> None:
        self._connector = connector
        self._name = name
        self._everything = everything
        self._bounds = bounds
        self._told = told
        self._deadline = time.monotonic() + bounds.time.total_seconds()
        self._found = Crawled()
        self._seen: set[str] = set()
        self._size = 0
        self._lock = threading.Lock()
        self._in_vain = 0

    def run(self, at_once: int, more: Iterable[str]) -> Crawled:
        level = self._new([TOP, *more])
        pool = ThreadPoolExecutor(max(1, at_once), 'record')
        try:
            while level and self._found.stopped is None:
                links: list[str] = []
                for n, (uri, answer) in enumerate(zip(level, pool.map(self._read, level), strict=True)):
                    links += self._keep(uri, answer)
                    self._told(len(self._found.resources), len(level) - n - 1)
                level = self._new(links)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
        return self._found

    def _read(self, uri: str) -> dict[str, Any] | BmcError | None:
        """Read one resource: its body, the error, or None once the crawl was stopped."""
        if self._found.stopped is not None:
            return None
        try:
            answer = self._connector.read(uri, left=self._left)
            if len(answer.content) > _MAX_BODY:
                raise BmcAnswerInvalid(bmc=self._connector.label, uri=uri, what=f'the answer is longer than {_MAX_BODY} bytes')
            with self._lock:
                self._size += len(answer.content)
                if self._size > self._bounds.size_bytes:
                    self._found.stopped = f'there are more than {self._bounds.size_bytes} bytes'
                    return None
            body = self._whole(uri, document(answer, self._name, self._connector))
            if _is_deep(body):
                raise BmcAnswerInvalid(bmc=self._connector.label, uri=uri, what=f'is nested more than {_DEEPEST} levels deep')
            return body
        except BmcError as exc:
            return exc

    def _keep(self, uri: str, body: dict[str, Any] | BmcError | None) -> list[str]:
        """Record a body, or note an error.

        :returns: the links to follow.
        """
        found = self._found
        if body is None:
            return []
        if isinstance(body, BmcError):
            gone = is_not_found(body)
            found.missed.append(Missed(uri=uri, reason='not found (HTTP 404)' if gone else body.what, harmless=gone))
            self._in_vain = self._in_vain + 1 if isinstance(body, BmcUnreachable) else 0
            if self._in_vain >= _IN_VAIN:
                found.stopped = found.stopped or f'the BMC did not answer {_IN_VAIN} times in a row'
            if self._left() <= 0:
                found.stopped = found.stopped or f'the time limit of {self._bounds.time} is used up'
            return []
        self._in_vain = 0
        kind = body.get('@odata.type')
        if isinstance(kind, str) and NEVER_TYPES.match(kind):
            found.dropped[kind.partition('.')[0].lstrip('#')] += 1
            return []
        if len(found.resources) >= self._bounds.resources:
            found.stopped = f'there are more than {self._bounds.resources} resources'
            return []
        found.resources[uri] = self._trimmed(body)
        return list(_links(body, everything=self._everything))

    def _whole(self, uri: str, first: Document) -> dict[str, Any]:
        """A collection with the members of all its pages; any other resource unchanged."""
        body = dict(first.body)
        link = body.pop('Members@odata.nextLink', None)
        if not isinstance(body.get('Members'), list):
            return body
        members, seen = list(body['Members']), {uri}
        while isinstance(link, str):
            there = self._connector.path(link)
            if there in seen or len(seen) > _MAX_PAGES or self._left() <= 0:
                break
            seen.add(there)
            page = document(self._connector.read(there, left=self._left), self._name, self._connector).body
            members += page['Members'] if isinstance(page.get('Members'), list) else []
            link = page.get('Members@odata.nextLink')
        once = {m['@odata.id']: m for m in reversed(members) if isinstance(m, dict) and isinstance(m.get('@odata.id'), str)}
        body['Members'] = list(reversed(once.values())) if len(seen) > 1 else members
        return body

    def _trimmed(self, body: dict[str, Any]) -> dict[str, Any]:
        """A body without what is never recorded, and without most settings if there are very many."""
        dropped = self._found.dropped
        kept = dict(body)
        if kept.pop('Payload', None) is not None:
            dropped['Payload of a task'] += 1
        attributes = kept.get('Attributes')
        if isinstance(attributes, dict):
            chosen = {k: v for k, v in attributes.items() if not _PRIVATE_ATTRIBUTES.match(k)}
            if len(chosen) > FEW_ATTRIBUTES and not self._everything:
                chosen = {k: v for k, v in chosen.items() if LOCK_WORDS.search(k)}
            dropped['Attributes'] += len(attributes) - len(chosen)
            kept['Attributes'] = chosen
        return {k: _without_expanded(v) for k, v in kept.items()}

    def _new(self, links: Iterable[str]) -> list[str]:
        """The URIs among these links that were not read yet and may be read."""
        found = []
        for link in links:
            try:
                place = normal(self._connector.path(link.partition('#')[0]))
            except BmcAnswerInvalid:
                self._miss_once(link[:200], 'not followed: the link does not point to this BMC, or is invalid')
                continue
            if place in self._seen:
                continue
            self._seen.add(place)
            word = _never(place)
            if word is not None:
                self._found.dropped[word] += 1
            elif place != TOP and not place.startswith(f'{TOP}/'):
                self._found.missed.append(Missed(uri=place, reason='not followed: not a path below /redfish/v1', harmless=True))
            else:
                found.append(place)
        return found

    def _miss_once(self, uri: str, reason: str) -> None:
        if uri not in self._seen:
            self._seen.add(uri)
            self._found.missed.append(Missed(uri=uri, reason=reason, harmless=True))

    def _left(self) -> float:
        return self._deadline - time.monotonic()


def _never(place: str) -> str | None:
    """The segment of a path because of which it is never read; None if it may be read."""
    parts = place.removeprefix(TOP).strip('/').split('/')
    if parts[0].casefold() == 'registries':
        return None  # message registries have "event" and "log" in their names, and only link to files
    return next((p for p in parts if p.casefold() in NEVER or NEVER_LIKE.fullmatch(p)), None)


def _links(body: Mapping[str, Any], *, everything: bool) -> Iterator[str]:
    """The links of a resource that are to be followed, in their order."""
    place = body.get('@odata.id')
    # All links of a vendor's own resource are followed: what a card lets its host do may be two links away.
    vendors = isinstance(place, str) and '/Oem/' in place
    waiting: list[tuple[object, str, bool]] = [
        (value, name, vendors or name == 'Oem') for name, value in reversed(list(body.items()))
    ]
    for _ in range(200_000):
        if not waiting:
            return
        value, name, is_oem = waiting.pop()
        if isinstance(value, dict):
            link = value.get('@odata.id')
            if isinstance(link, str) and link and (everything or name in FOLLOWED or (is_oem and _tells(link))):
                yield link
            waiting += [(v, k, is_oem or k == 'Oem') for k, v in reversed(list(value.items())) if k != '@odata.id']
        elif isinstance(value, list):
            waiting += [(item, name, is_oem) for item in reversed(value)]
        elif name == '@Redfish.ActionInfo' and isinstance(value, str) and value:
            yield value


def _tells(link: str) -> bool:
    return NOISE.fullmatch(link.rstrip('/').rpartition('/')[2]) is None


def _is_deep(body: object) -> bool:
    waiting = [(body, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > _DEEPEST:
            return True
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        waiting += [(item, depth + 1) for item in inner]
    return False


def _without_expanded(value: Any) -> Any:
    """Replace resources that are never recorded, but that the BMC expanded without being asked, by links."""
    if isinstance(value, dict):
        kind, link = value.get('@odata.type'), value.get('@odata.id')
        if isinstance(kind, str) and NEVER_TYPES.match(kind):
            return {'@odata.id': link} if isinstance(link, str) else {}
        return {k: _without_expanded(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_expanded(item) for item in value]
    return value


def _sessions(root: Mapping[str, Any]) -> str | None:
    """The URI of the session collection; None if the BMC has no sessions."""

    def link(value: object, *path: str) -> str | None:
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) and value else None

    service = link(root, 'SessionService', '@odata.id')
    return link(root, 'Links', 'Sessions', '@odata.id') or (f'{service.rstrip("/")}/Sessions' if service else None)
