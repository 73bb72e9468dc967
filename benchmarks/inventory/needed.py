# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""List the requests that an inventory of a recorded BMC needs, in ``needed/*.txt``, to be checked by hand.

A resource is needed when our client reads it, and is right about the recording (``expected.yaml``), and

* the standard puts devices there, so that only reading it tells whether one is there: Systems, Chassis, Managers (a card's own
  BMC is one), Processors, PCIeDevices with their functions (PCI ids), NetworkAdapters with their processors, NetworkInterfaces
  (which System has which adapter), AccelerationFunctions;
* or it may be firmware of a device: all items of both inventories, since RelatedItem stands in the item;
* or the truth names it as a resource of a device; its siblings too, since only reading tells which one it is;
* or a collection names it and nothing is there (404): only a request shows that.

Places of locks (group ``lock``) are listed whether or not it reads them; they count when it does: those that the truth names,
and those that the standard has (:data:`LOCKS`), of which the truth of some recordings says nothing since they lock no device.
What is on the way to one of those is needed too. What the client requested beyond these is listed at the end of the file, as a
comment.
"""

import argparse
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benchmarks.inventory import harness
from benchmarks.inventory.floor import BASE, NEEDED, Request, bare, parse
from benchmarks.inventory.served import PASSWORD, USER

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'
CLIENT = Path(__file__).parent / 'clients' / 'ours.py'
QUERY = '?$expand=.($levels=1)'
LEVELS = 3
DEEP = f'?$expand=.($levels={LEVELS})'

PLACES = (
    (r'(Systems|Chassis)', 'devices are below'),
    (r'Systems/[^/]+', 'what it has; a DPU is one'),
    (r'Chassis/[^/]+', 'what it has; a card is one'),
    (r'Managers(/[^/]+)?', "a card's own BMC is one"),
    (r'Systems/[^/]+/ResetActionInfo', 'how it can be reset'),
    (r'Systems/[^/]+/Processors(/[^/]+)?', 'may be an accelerator'),
    (r'Chassis/[^/]+/NetworkAdapters/[^/]+/Processors(/[^/]+)?', 'makes a NIC a DPU'),
    (r'.*/AccelerationFunctions(/[^/]+)?', 'functions'),
    (r'(Systems|Chassis)/[^/]+/PCIeDevices(/[^/]+)?', 'may be an accelerator'),
    (r'.*/PCIeDevices/[^/]+/PCIeFunctions(/[^/]+)?', 'PCI ids'),
    (r'Chassis/[^/]+/NetworkAdapters(/[^/]+)?', 'may be a DPU'),
    (r'Systems/[^/]+/NetworkInterfaces(/[^/]+)?', 'which System has which adapter'),
    (r'UpdateService', 'the way to the firmware'),
    (r'UpdateService/(Firmware|Software)Inventory(/[^/]+)?', 'may be firmware of a device'),
)
"""Where the standard puts what an inventory is made of. Source: DSP8010 2025.4, the links of these resources."""

LOCKS = (
    (r'Managers/[^/]+/HostInterfaces(/[^/]+)?', 'lock HostInterface.InterfaceEnabled'),
    (r'Chassis/[^/]+/(Oem/[^/]+/)?[^/]*ResetActionInfo', 'how standby power is reset, by which locks come in force'),
)
"""Where the standard puts locks of the whole machine: whoever reads such locks reads them on every BMC. Without them the best
schedule of dmtf/rackmount had fewer requests than such a client can send in its rounds. Source: DSP8010 2025.4, Manager,
HostInterfaces.

What says how a System is reset counts always (:data:`PLACES`); what says it of a Chassis when the client reads it. Without that
the best schedule of nvidia/bluefield3 had 16 requests in four rounds of four, for a client that reads 17 of them. Source:
DSP8010 2025.4, Chassis, Reset; ActionInfo.
"""


@dataclass(slots=True)
class Tree:
    """A recorded tree, by URI."""

    folder: Path
    documents: dict[str, Any] = field(default_factory=dict)

    @property
    def levels(self) -> int:
        """How many levels the BMC expands at once, as it says itself."""
        features = self.documents[ROOT].get('ProtocolFeaturesSupported') or {}
        most = (features.get('ExpandQuery') or {}).get('MaxLevels')
        return most if isinstance(most, int) else 1

    def __post_init__(self) -> None:
        for path in self.folder.rglob('index.json'):
            uri = '/' + '/'.join(path.parent.relative_to(self.folder).parts)
            try:
                self.documents[uri] = json.loads(path.read_text(encoding='utf-8'))
            except ValueError:
                self.documents[uri] = {}

    def links(self, uri: str) -> list[str]:
        """URIs that a resource names, in order."""
        return list(dict.fromkeys(link for link in _links(self.documents.get(uri)) if link != uri))

    def members(self, uri: str) -> list[str]:
        """Members of a collection."""
        body = self.documents.get(uri)
        found = body.get('Members') if isinstance(body, dict) else None
        return [place for m in found if (place := _place(m.get('@odata.id')))] if isinstance(found, list) else []

    def complete(self, uri: str) -> bool:
        """A resource that a client can take from an expanded collection."""
        body = self.documents.get(uri)
        return isinstance(body, dict) and all(isinstance(body.get(n), str) and body[n] for n in ('@odata.id', 'Id', 'Name'))


def _place(uri: object) -> str | None:
    return uri.partition('#')[0].rstrip('/') if isinstance(uri, str) and uri.startswith(ROOT) else None


def _links(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            place = _place(inner) if name in ('@odata.id', '@Redfish.ActionInfo') else None
            if place is not None:
                yield place
            else:
                yield from _links(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _links(inner)


def _by_place(uri: str, places: Iterable[tuple[str, str]] = PLACES) -> str | None:
    below = uri.removeprefix(ROOT).strip('/')
    return next((why for pattern, why in places if re.fullmatch(pattern, below)), None)


def _truth(expected: Any) -> tuple[dict[str, str], dict[str, str]]:
    """Resources of devices, and places of locks, with what they are for."""
    devices: dict[str, str] = {}
    locks: dict[str, str] = {}
    for kind in ('accelerators', 'ambiguous', 'platform_devices', 'not_accelerators'):
        for item in expected.get(kind) or ():
            if not isinstance(item, dict):
                continue
            for uri in (*(item.get('uris') or ()), item.get('uri')):
                place = _place(uri if isinstance(uri, str) else (uri or {}).get('uri'))
                if place:
                    devices.setdefault(place, f'is {item.get("label") or kind}')
            for lock in item.get('locks') or ():
                if place := _place(lock.get('uri')):
                    locks.setdefault(place, f'lock {lock.get("mechanism")}')
    for lock in expected.get('platform_locks') or ():
        if isinstance(lock, dict) and (place := _place(lock.get('uri'))):
            locks.setdefault(place, f'lock {lock.get("mechanism")}')
    return devices, locks


def reasons(tree: Tree, expected: Any, asked: frozenset[str]) -> dict[str, tuple[str, str, str]]:
    """Every needed resource: what names it, its group, what for. In the order in which a client learns of them."""
    devices, locks = _truth(expected)

    def why(uri: str, named_by: str) -> tuple[str, str] | None:
        if uri in asked and (reason := _by_place(uri) or devices.get(uri)) is not None:
            return BASE, reason if uri in tree.documents or not tree.members(named_by) else 'named, and only asking tells (404)'
        reason = locks.get(uri) or (_by_place(uri, LOCKS) if uri in asked else None)
        return ('lock', reason) if reason is not None and uri in tree.documents else None

    found: dict[str, tuple[str, str, str]] = {ROOT: ('', BASE, 'where everything begins')}
    waiting = [ROOT]
    while waiting:
        uri = waiting.pop(0)
        for link in tree.links(uri):
            if link in found:
                continue
            reason = why(link, uri)
            if reason is not None and (link in tree.documents or link in tree.members(uri)):
                found[link] = (uri, *reason)
                waiting.append(link)
    # What is needed and named only by resources that are not: the way there, over the whole tree.
    named = {u: w for u, w in devices.items() if u in asked}
    homes = {uri.rpartition('/')[0] for uri in named}
    for uri in sorted(asked):
        if uri.rpartition('/')[0] in homes:
            named.setdefault(uri, 'one of these is a device: only reading tells which')
        elif any(member in devices for member in tree.members(uri)):
            named.setdefault(uri, 'names a resource of a device')
        elif uri.rpartition('/')[0] in locks:
            locks.setdefault(uri, 'what is pending of a lock')
    for uri, purpose in {**locks, **named}.items():
        if uri not in found and uri in tree.documents:
            group = 'lock' if uri in locks and uri not in named else BASE
            way = _way(tree, found, uri)
            for position, step in enumerate(way[1:], 1):
                last = step == uri
                found[step] = (way[position - 1], group, purpose if last else f'the way to {uri.removeprefix(ROOT + "/")}')
    return found


def _way(tree: Tree, found: dict[str, Any], uri: str) -> list[str]:
    """The shortest way from what is needed to a resource."""
    before: dict[str, str] = {}
    waiting = list(found)
    seen = set(found)
    while waiting:
        at = waiting.pop(0)
        if at == uri:
            way = [at]
            while way[-1] in before:
                way.append(before[way[-1]])
            return way[::-1]
        for link in tree.links(at):
            if link not in seen and link in tree.documents:
                seen.add(link)
                before[link] = at
                waiting.append(link)
    return []


def requests(tree: Tree, found: dict[str, tuple[str, str, str]], *, expand: bool) -> list[Request]:
    """The requests, each after the first one whose answer names it."""
    inside: dict[str, str] = {}
    for uri in found if expand else ():
        for member in tree.members(uri):
            if member in found and tree.complete(member):
                inside.setdefault(member, uri)
    deep = set()
    for uri in [uri for uri in inside if expand and tree.levels >= LEVELS and inside[uri].endswith('/PCIeDevices')]:
        below = f'{uri}/PCIeFunctions'
        if below in found and all(tree.complete(member) for member in tree.members(below)):
            deep.add(inside[uri])
            inside[below] = inside[uri]
            inside |= {member: inside[uri] for member in tree.members(below) if member in found}
    brings: dict[str, list[str]] = {}
    for member, uri in inside.items():
        brings.setdefault(uri, []).append(member)
    made = [
        Request(number=1, after=0, group=BASE, members=0, method='GET', target=f'{ROOT}/', why=found[ROOT][2]),
        Request(number=2, after=0, group=BASE, members=0, method='POST', target=SESSIONS, why='login, beside the root'),
    ]
    waiting = [(2, ROOT)]  # after the login, whatever the root names
    asked = {ROOT}
    while waiting:
        after, uri = waiting.pop(0)
        for link in tree.links(uri):
            if link in asked or link not in found or link in inside:
                continue
            asked.add(link)
            _, group, why = found[link]
            members = brings.get(link, [])
            made.append(
                Request(
                    number=len(made) + 1,
                    after=after,
                    group=group,
                    members=_put_in(tree, link, deep=link in deep) if members else 0,
                    method='GET',
                    target=link + ((DEEP if link in deep else QUERY) if members else ''),
                    why=f'{why}, with its members' if members else why,
                )
            )
            waiting += [(len(made), document) for document in (link, *members)]
    last = len(made) + 1
    made.append(
        Request(number=last, after=last - 1, group=BASE, members=0, method='DELETE', target=f'{SESSIONS}/1', why='logout')
    )
    return made


def _put_in(tree: Tree, collection: str, *, deep: bool) -> int:
    """How many resources an expanded answer holds."""
    members = [m for m in tree.members(collection) if m in tree.documents]
    below = [f'{m}/PCIeFunctions' for m in members if f'{m}/PCIeFunctions' in tree.documents] if deep else []
    return len(members) + len(below) + sum(1 for uri in below for m in tree.members(uri) if m in tree.documents)


def asked_by_us(folder: Path) -> frozenset[str]:
    """What our client reads of a tree that refuses $expand."""
    with harness.Served(folder, delay=0.001) as served:
        where = [f'http://127.0.0.1:{served.ports[0]}', USER, PASSWORD]
        subprocess.run([sys.executable, str(CLIENT), *where], check=True, stdout=subprocess.DEVNULL, timeout=300)
        counts = served.counts()
    return frozenset(bare(target.removeprefix('GET ')) for target in counts['asked'] if target.startswith('GET '))


def text(name: str, made: list[Request], beyond: Iterable[str], *, expand: bool) -> str:
    """A list as it is kept."""
    lines = [
        '# SPDX-FileCopyrightText: The baremetal-acc authors',
        '# SPDX-License-Identifier: Apache-2.0',
        f'# Needed for an inventory of {name}, {"with" if expand else "without"} $expand. Made by needed.py, checked by hand.',
        '# NUMBER AFTER GROUP MEMBERS METHOD TARGET  # WHY; lines of group lock count when the client reads such places.',
        *(request.line() for request in made),
        *(f'# sent by the client, not needed: {uri}' for uri in sorted(beyond)),
    ]
    return '\n'.join(lines) + '\n'


def main() -> None:
    """Write both lists of recordings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', type=Path, nargs='+', help='folder of a recording, with expected.yaml and redfish/')
    for folder in parser.parse_args().folder:
        name = '-'.join(folder.resolve().parts[-1 if folder.resolve().is_relative_to(harness.WORK) else -2 :])
        tree = Tree(folder)
        expected = yaml.safe_load((folder / 'expected.yaml').read_text(encoding='utf-8'))
        asked = asked_by_us(folder)
        found = reasons(tree, expected, asked)
        for expand in (True, False):
            made = requests(tree, found, expand=expand)
            path = NEEDED / f'{name}.{"expand" if expand else "plain"}.txt'
            path.write_text(text(name, made, asked - set(found), expand=expand), encoding='utf-8')
            base = sum(1 for r in parse(path.read_text(encoding='utf-8')).requests if r.group == BASE)
            print(f'{path.name}: {base} requests and {len(made) - base} for locks')
        for uri in sorted(asked - set(found)):
            print(f'  requested, not needed: {uri}')


if __name__ == '__main__':
    main()
