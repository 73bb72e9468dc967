# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Record the Redfish resource tree of one BMC into a folder, scrubbed and checked."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import mockup
from baremetal_acc.bmc.redfish.mockup import TOP, Missed
from baremetal_acc.bmc.redfish.own_credentials import Own
from baremetal_acc.bmc.redfish.scrub import Scrubber
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.session import Session
from baremetal_acc.errors import AccError, BmcAnswerInvalid, Refused, UsageError
from baremetal_acc.execution import Target, observe
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.verify import judged

if TYPE_CHECKING:
    from baremetal_acc.bmc.redfish.crawl import Crawled

from baremetal_acc.cli.output.record_progress import RecordProgress

TARGET = 'recording'
"""Replaces the target's name in inventory.json, because that may be a host name."""

README = 'README.md'
INVENTORY = 'inventory.json'

OTHER_USER = 'record as a BMC user with another name and password, preferably one that may only read'
_LISTED = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRequest:
    """The options of the command, checked.

    :ivar key: secret key for the replacements; None: nothing is scrubbed.
    """

    output: Path
    bmc: str
    everything: bool
    time_limit: timedelta
    key: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A summary of the recording in the folder.

    :ivar missed: resources that could not be recorded; their URIs and reasons are scrubbed, too.
    """

    resources: int
    size_bytes: int
    missed: tuple[Missed, ...]
    dropped: Mapping[str, int]
    scrubbed: Mapping[str, int]
    stopped: str | None


def record(target: Target, address: BmcAddress, using: Session, request: RecordRequest, shown: RecordProgress) -> Recorded:
    """Read the tree of one BMC and write the folder.

    :raises BmcError: the BMC cannot be reached or read. ``Refused``: our own credentials would be in the folder.
    :raises UsageError: the folder cannot be written.
    """
    # Imported here: it imports sushy, which --help need not wait for.
    from baremetal_acc.bmc.redfish import crawl

    limits = crawl.CrawlBounds(time=request.time_limit)
    if request.everything:
        limits = replace(limits, resources=20_000, size_bytes=128 * 1024 * 1024)
    try:
        with crawl.connected(address) as connector:
            seen, inventory = _inventory(target, address, using)
            found = crawl.crawl(
                connector,
                address.name,
                everything=request.everything,
                bounds=limits,
                at_once=address.concurrency,
                more=seen,
                told=shown.told,
            )
            redact = connector.redact
    finally:
        shown.end()
    if TOP not in found.resources:
        reason = next((m.reason for m in found.missed if m.uri == TOP), found.stopped or 'nothing was read')
        raise BmcAnswerInvalid(bmc=address.label, uri=TOP, what=f'the service root could not be recorded: {reason}')
    own = Own(address.username, address.password, redact)
    try:
        with mockup.new_folder(request.output) as folder:
            recorded = _write(folder, found, inventory, address, own, request)
            _check(folder, own)
    except OSError as exc:
        raise UsageError(
            argument='--output', what=f'{request.output}: {exc.strerror or exc}', hint='name a new folder'
        ) from exc
    return recorded


def _write(
    folder: mockup.MockupFolder,
    found: 'Crawled',
    inventory: dict[str, Any],
    address: BmcAddress,
    own: Own,
    request: RecordRequest,
) -> Recorded:
    scrubber = _learned(found, inventory, address, own, request.key)
    missed = [replace(m, uri=_said(m.uri, scrubber), reason=_said(m.reason, scrubber)) for m in found.missed]
    written = 0
    for uri, body in found.resources.items():
        place = uri if scrubber is None else scrubber.text(uri)
        try:
            folder.resource(place, body if scrubber is None else scrubber.body(body))
            written += 1
        except mockup.NoPlace as exc:
            missed.append(Missed(uri=_said(uri, scrubber), reason=f'not written: {exc}'))
    folder.file(
        INVENTORY, json.dumps(documents.document([_scrubbed(inventory, scrubber)]), indent=2, ensure_ascii=False) + '\n'
    )
    recorded = Recorded(
        resources=written,
        size_bytes=folder.bytes,
        missed=tuple(missed),
        dropped=dict(sorted(found.dropped.items())),
        scrubbed={} if scrubber is None else scrubber.counts,
        stopped=found.stopped,
    )
    folder.file(README, _readme(recorded, _machine(found, scrubber), request))
    for name, content in folder.texts():
        if scrubber is not None and scrubber.leaks(content):
            raise AccError(
                f'{name} still contains a value that had to be scrubbed: nothing was kept', hint='please report this'
            )
    return recorded


def _learned(found: 'Crawled', inventory: dict[str, Any], address: BmcAddress, own: Own, key: bytes | None) -> Scrubber | None:
    """A scrubber that has learnt the values of all documents to be written; None when nothing is to be scrubbed."""
    if key is None:
        return None
    scrubber = Scrubber(key, own)
    for body in found.resources.values():
        scrubber.learn(body)
    scrubber.learn(inventory)
    scrubber.learn_host(urlsplit(address.address).hostname or '')
    for word, what in ((address.username, 'the user name'), (address.password, 'the password')):
        if word and scrubber.is_property(word):
            raise Refused([f'{what} is also the name of a property, and cannot be told from it'], hint=OTHER_USER)
    return scrubber


def _check(folder: mockup.MockupFolder, own: Own) -> None:
    """Check that the folder holds no credentials of ours.

    :raises Refused: it holds the user name, the password or a token.
    """
    for name, content in folder.texts():
        for part in (str(name), content):
            which = own.stands_in(part)
            if which is not None:
                raise Refused([f'{which} of this BMC occurs in the recording, which was not kept'], hint=OTHER_USER)


def _inventory(target: Target, address: BmcAddress, using: Session) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The URIs of the accelerators, and our inventory document of the BMC. An error is recorded in the document, too."""
    alone = replace(target, bmcs=(address,))
    try:
        seen = judged(observe(alone, using.tools(documents=False), datetime.now(UTC)), (), lifecycle=0)
    except AccError as exc:
        text.warn(f'{target.name}: no inventory: {exc}')
        body = documents.inventory(TARGET, None, exc)
        body['error'] = {'type': type(exc).__name__, 'message': str(exc).replace(address.label, HOST)}
        return (), body
    return tuple(sorted({ref.uri for a in seen.accelerators for ref in a.refs})), documents.inventory(TARGET, seen)


def _scrubbed(inventory: dict[str, Any], scrubber: Scrubber | None) -> dict[str, Any]:
    """The inventory with scrubbed values; the ids of accelerators, which contain serial numbers, are replaced accordingly."""
    if scrubber is None:
        return inventory
    made: dict[str, Any] = scrubber.body(inventory)
    ids = {}
    for old, new in zip(inventory['accelerators'], made['accelerators'], strict=True):
        head = f'serial:{old["serial"]}'
        if old['id'].startswith(head):
            # Short serial numbers too, which the scrubber does not search for in other texts.
            new['id'] = f'serial:{new["serial"]}{scrubber.text(old["id"].removeprefix(head))}'
        ids[old['id']] = new['id']
    for old, new in zip(inventory['gaps'], made['gaps'], strict=True):
        new['accelerator'] = ids.get(old['accelerator'], new['accelerator'])
    made['accelerators'].sort(key=lambda a: a['id'])
    return made


def _machine(found: 'Crawled', scrubber: Scrubber | None) -> list[tuple[str, str]]:
    """Vendor, model and firmware of the service, its systems and its managers, as the BMC reports them."""

    def shown(place: str, *names: str) -> str:
        body = found.resources.get(place)
        values = [v for n in names if isinstance(body, dict) and isinstance(v := body.get(n), str)]
        return _said(' '.join(values), scrubber)[:200]

    lines = [('service', shown(TOP, 'Vendor', 'Product', 'RedfishVersion'))]
    for name, label, names in (
        ('Systems', 'system', ('Manufacturer', 'Model')),
        ('Managers', 'BMC', ('Manufacturer', 'Model', 'FirmwareVersion')),
    ):
        places = (uri for uri in found.resources if uri.startswith(f'{TOP}/{name}/') and uri.count('/') == 4)
        lines += [(label, shown(uri, *names)) for uri in places]
    return [(label, value) for label, value in lines if value][:20]


def _readme(recorded: Recorded, machine: list[tuple[str, str]], request: RecordRequest) -> str:
    """The text of README.md: what was recorded, scrubbed and left out."""
    hard = [m for m in recorded.missed if not m.harmless]
    soft = [m for m in recorded.missed if m.harmless]
    lines = [
        '# A recorded Redfish tree',
        '',
        f'Made by baremetal-acc {metadata.version("baremetal-acc")} on {datetime.now(UTC):%Y-%m-%d}'
        + (' with --everything.' if request.everything else '.'),
        'One folder for each URI, the resource in `index.json`; `baremetal-acc emulate --recording` serves it.',
        f'`{INVENTORY}` is the inventory that baremetal-acc read: mark in it what is wrong.',
        '',
        '| machine | |',
        '|---|---|',
        *(f'| {label} | {_plain(value)} |' for label, value in machine),
        '',
        f'{recorded.resources} resources were recorded.'
        + (f' The recording is incomplete: {_plain(recorded.stopped)}.' if recorded.stopped else ''),
        '',
        '## Scrubbed',
        '',
    ]
    if request.key is None:
        lines += ['**Nothing was scrubbed (--no-scrub).** Serial numbers, addresses and names are those of the machine.', '']
    else:
        lines += [
            'Each value was replaced by one random value of the same shape. Number of different values:',
            '',
            *(f'* {_many(kind)}: {number}' for kind, number in recorded.scrubbed.items()),
            '',
        ]
    lines += [
        '## Left out on purpose',
        '',
        'Links to these resources are kept, and lead to nothing. Number of links, by part of the URI:',
        '',
        *(f'* {_plain(word)}: {number}' for word, number in recorded.dropped.items() if number),
        '',
        f'## Could not be recorded: {len(hard)}',
        '',
        *_listed(hard),
        '',
        f'## Links that lead to nothing: {len(soft)}',
        '',
        *_listed(soft),
        '',
    ]
    return '\n'.join(lines)


def _many(kind: str) -> str:
    """The plural. With it the README does not contain the word ``user``, which may be the user name that must not be in it."""
    return f'{kind}es' if kind.endswith(('s', 'sh')) else f'{kind}s'


def _listed(missed: list[Missed]) -> list[str]:
    lines = [f'* `{_plain(m.uri)}`: {_plain(m.reason)}' for m in missed[:_LISTED]]
    return lines + ([f'* and {len(missed) - _LISTED} more'] if len(missed) > _LISTED else [])


def _plain(value: str) -> str:
    """A BMC's text on one line, without characters that Markdown would interpret."""
    return ''.join("'" if c in '`|<>' else c for c in text.printable(value))[:500]


def _said(value: str, scrubber: Scrubber | None) -> str:
    return text.printable(value if scrubber is None else scrubber.text(value))
