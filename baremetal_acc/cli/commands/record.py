# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc record``: record the Redfish resource tree of a BMC, without what identifies the machine.

The tree is written to a new folder in the DMTF's mockup layout, scrubbed, next to the inventory that baremetal-acc made of it.
``baremetal-acc emulate --recording`` serves such a folder.
"""

import argparse
import json
import os
import secrets
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import urlsplit

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import mockup
from baremetal_acc.bmc.redfish.mockup import TOP, Missed
from baremetal_acc.bmc.redfish.own_credentials import Own
from baremetal_acc.bmc.redfish.scrub import Scrubber
from baremetal_acc.bmc.registry import PROTOCOLS
from baremetal_acc.cli import session
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, failed
from baremetal_acc.cli.output.terminal import Moving
from baremetal_acc.cli.session import Session
from baremetal_acc.errors import AccError, BmcAnswerInvalid, Refused, UsageError
from baremetal_acc.execution import Target, observe
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.verify import judged

if TYPE_CHECKING:
    from baremetal_acc.bmc.redfish.crawl import Crawled

COLUMNS = ('Target', 'BMC', 'Output', 'Resources', 'Missed', 'Scrubbed')

TARGET = 'recording'
"""Replaces the target's name in inventory.json, because that may be a host name."""

README = 'README.md'
INVENTORY = 'inventory.json'

SMALLEST_KEY = 16
"""The fewest bytes of a key file. A shorter key can be guessed."""

SHORTEST_PASSWORD = 4
"""Characters. A shorter password occurs in other text by chance, and could not be kept out of a recording."""

_OTHER_USER = 'record it as a user with another name and password, best one that may only read'
_LARGEST_KEY = 64 * 1024
_LISTED = 500
_EVERY = 5.0
"""Seconds between two progress lines where the output is not a terminal."""


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


_BY_IPMI = (
    'send the output of inventory -f json -vv instead, and of ipmitool fru print, ipmitool sdr elist all and ipmitool hpm '
    'check: they hold serial numbers and addresses, which nothing scrubs'
)
"""The hint for a BMC that is read by IPMI, of which nothing can be recorded."""


class RecordCommand(ReportCommand):
    """Record what a BMC tells of its machine into a new folder, without what identifies it. Writes nothing to a BMC.

    Send the folder to us when a machine is read wrongly. What was scrubbed is counted; look through it before you send it.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the target, the BMC, the extent, the output and the scrubbing."""
        session.add_arguments(parser, writes=False, documents=False)
        what = parser.add_argument_group('recording')
        what.add_argument('--output', metavar='DIR', required=True, help='the folder to make; it must be new or empty')
        what.add_argument('--bmc', metavar='NAME', default=HOST, help='which BMC of the target (default: %(default)s)')
        what.add_argument(
            '--everything',
            action='store_true',
            help='all that links lead to, not only what matters for accelerators; accounts, events, logs, certificates, '
            'telemetry, keys and licences are never recorded',
        )
        what.add_argument(
            '--max-minutes',
            metavar='N',
            type=int,
            default=30,
            help='end after this time with what there is (default: %(default)s)',
        )
        scrub = parser.add_argument_group('scrubbing')
        how = scrub.add_mutually_exclusive_group()
        how.add_argument(
            '--scrub-key-file',
            metavar='FILE',
            help=f'key for the replacements, {SMALLEST_KEY} bytes or more, so that recordings agree; it is as secret as what '
            'was replaced (default: a new one for each recording, forgotten at its end)',
        )
        how.add_argument(
            '--no-scrub', action='store_true', help='leave serial numbers, addresses, names and all else as they are'
        )

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the tree of one BMC, scrub it, and write the folder."""
        request = _request(arguments)
        using = session.begin(arguments, writes=False)
        if len(using.entries) != 1:
            what = f'one target is recorded at a time, and {len(using.entries)} are meant'
            raise UsageError(argument='TARGET', what=what, hint='name one')
        target = using.target(using.entries[0])
        address = _bmc(target, request)
        if request.key is None:
            text.warn(f'--no-scrub: {request.output} will tell serial numbers, addresses and names; give it to nobody')
        try:
            shown = RecordProgress(sys.stderr, target.name, quiet=self.app.options.verbose_level == 0)
            found = record(target, address, using, request, shown)
        except AccError as exc:
            return _report(target.name, request, None, exc, failed(target.name, exc))
        return _report(target.name, request, found, None, _judge(target.name, found))


class RecordProgress:
    """Shows how many resources were read: one line that is redrawn on a terminal, a line every few seconds elsewhere."""

    def __init__(self, stream: TextIO, target: str, *, quiet: bool = False) -> None:
        self._stream = stream
        self._target = target
        self._quiet = quiet
        self._moving = Moving(stream, quiet=quiet)
        self._next = 0.0 if self._moving.is_shown else time.monotonic() + _EVERY

    def told(self, read: int, waiting: int) -> None:
        """Show the numbers, at most ten times per second on a terminal and every five seconds elsewhere.

        :param read: resources that were read.
        :param waiting: resources that are known and not read yet.
        """
        if self._quiet or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + (0.1 if self._moving.is_shown else _EVERY)
        line = f'{text.PROGRAM}: {self._target}: {read} resources read, {waiting} or more to go'
        if self._moving.is_shown:
            self._moving.draw([line])
        else:
            self._stream.write(f'{line}\n')
            self._stream.flush()

    def end(self) -> None:
        """Remove the progress line."""
        self._moving.clear()


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
        reason = next((m.reason for m in found.missed if m.uri == TOP), found.stopped or 'nothing came')
        raise BmcAnswerInvalid(bmc=address.label, uri=TOP, what=f'the service root could not be recorded: {reason}')
    own = Own(address.username, address.password, redact)
    try:
        with mockup.new_folder(request.output) as folder:
            recorded = _write(folder, found, inventory, address, own, request)
            _check(folder, own)
    except OSError as exc:
        raise UsageError(argument='--output', what=f'{request.output}: {exc.strerror or exc}') from exc
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
            raise AccError(f'{name} still holds a value that was to be scrubbed: nothing was kept', hint='please report this')
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
            raise Refused([f'{what} is a word of the standard, and cannot be told from it'], hint=_OTHER_USER)
    return scrubber


def _check(folder: mockup.MockupFolder, own: Own) -> None:
    """Check that the folder holds no credentials of ours.

    :raises Refused: it holds the user name, the password or a token.
    """
    for name, content in folder.texts():
        for part in (str(name), content):
            which = own.stands_in(part)
            if which is not None:
                raise Refused([f'{which} of this BMC stands in the recording, which was not kept'], hint=_OTHER_USER)


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
        f'`{INVENTORY}` is what baremetal-acc made of the machine: say in it what is wrong.',
        '',
        '| machine | |',
        '|---|---|',
        *(f'| {label} | {_plain(value)} |' for label, value in machine),
        '',
        f'{recorded.resources} resources were recorded.'
        + (f' Not all: {_plain(recorded.stopped)}.' if recorded.stopped else ''),
        '',
        '## Scrubbed',
        '',
    ]
    if request.key is None:
        lines += ['**Nothing was scrubbed (--no-scrub).** Serial numbers, addresses and names are those of the machine.', '']
    else:
        lines += [
            'Replaced by random values of the same shape, the same value always by the same one; different values:',
            '',
            *(f'* {_many(kind)}: {number}' for kind, number in recorded.scrubbed.items()),
            '',
        ]
    lines += [
        '## Left out on purpose',
        '',
        'Links to these were left and lead to nothing. How many there were, by the part of the URI:',
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


def _judge(target: str, found: Recorded) -> Exit:
    """Warn of what is missing, and return the exit code. Links to resources that do not exist are common, and no failure."""
    hard = [m for m in found.missed if not m.harmless]
    if found.stopped is not None:
        text.warn(f'{target}: the recording is not whole: {found.stopped}')
    if hard:
        more = f', and {len(hard) - 1} more' if len(hard) > 1 else ''
        text.warn(f'{target}: not all could be recorded: {hard[0].uri}: {hard[0].reason}{more} ({README} lists them)')
    return Exit.NOT_MET if hard or found.stopped is not None else Exit.HOLDS


def _report(target: str, request: RecordRequest, found: Recorded | None, error: AccError | None, code: Exit) -> Report:
    body = {
        'target': target,
        'bmc': request.bmc,
        'output': str(request.output) if found is not None else None,
        'resources': found.resources if found is not None else 0,
        'size_bytes': found.size_bytes if found is not None else 0,
        'complete': found is not None and code is Exit.HOLDS,
        'stopped': found.stopped if found is not None else None,
        'missed': [
            {'uri': m.uri, 'reason': m.reason, 'harmless': m.harmless} for m in (found.missed if found is not None else ())
        ],
        'dropped': dict(found.dropped) if found is not None else {},
        'scrubbed': dict(found.scrubbed) if found is not None and request.key is not None else None,
        'error': documents.failure(error),
    }
    rows: tuple[tuple[Any, ...], ...] = ()
    if found is not None:
        scrubbed = tuple(f'{n} {kind}' for kind, n in found.scrubbed.items()) if request.key is not None else 'nothing'
        hard = sum(not m.harmless for m in found.missed)
        rows = ((target, request.bmc, str(request.output), found.resources, hard, scrubbed),)
    return Report(document=documents.document([body]), columns=COLUMNS, rows=rows, code=code)


def _request(arguments: argparse.Namespace) -> RecordRequest:
    """The options, checked before any BMC is contacted.

    :raises UsageError: an option is wrong.
    """
    output = Path(arguments.output)
    try:
        free = mockup.is_free(output)
    except OSError as exc:
        raise UsageError(argument='--output', what=f'{output}: {exc.strerror}') from exc
    if not free or output.name in ('', '..'):
        raise UsageError(argument='--output', what=f'{output} is there and not an empty folder', hint='name a new one')
    parent = next(p for p in output.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(argument='--output', what=f'{output} cannot be made: {parent} is no folder that you may write to')
    if not 1 <= arguments.max_minutes <= 24 * 60:
        raise UsageError(argument='--max-minutes', what=f'{arguments.max_minutes} is not between 1 and {24 * 60}')
    key = None
    if not arguments.no_scrub:
        key = _key(Path(arguments.scrub_key_file)) if arguments.scrub_key_file else secrets.token_bytes(32)
    return RecordRequest(
        output=output,
        bmc=arguments.bmc,
        everything=arguments.everything,
        time_limit=timedelta(minutes=arguments.max_minutes),
        key=key,
    )


def _key(path: Path) -> bytes:
    try:
        with path.open('rb') as file:
            key = file.read(_LARGEST_KEY + 1)
    except OSError as exc:
        raise UsageError(argument='--scrub-key-file', what=f'{path}: {exc.strerror}') from exc
    if not SMALLEST_KEY <= len(key) <= _LARGEST_KEY:
        what = f'{path} has {len(key)} bytes' if len(key) < SMALLEST_KEY else f'{path} has more than {_LARGEST_KEY} bytes'
        raise UsageError(
            argument='--scrub-key-file',
            what=what,
            hint=f'head -c 32 /dev/urandom > FILE makes one (at least {SMALLEST_KEY} bytes)',
        )
    return key


def _bmc(target: Target, request: RecordRequest) -> BmcAddress:
    """The BMC that ``--bmc`` names.

    :raises UsageError: the target has no BMC of that name, or the BMC does not speak Redfish.
    :raises Refused: the password is too short to be kept out of a recording.
    """
    names = [b.name for b in target.bmcs]
    found = next((b for b in target.bmcs if b.name == request.bmc), None)
    if found is None:
        raise UsageError(argument='--bmc', what=f'{target.name} has no {request.bmc!r}', hint=f'it has {", ".join(names)}')
    if PROTOCOLS.get(found.address.partition('://')[0]) != 'redfish':
        raise UsageError(
            argument='record',
            what=f'BMC {found.label} is not spoken to by Redfish, and nothing else can be recorded',
            hint=_BY_IPMI,
        )
    if found.password and len(found.password) < SHORTEST_PASSWORD:
        raise Refused(['the password is so short that it could not be told from other text'], hint=_OTHER_USER)
    if len(names) > 1:
        rest = ', '.join(n for n in names if n != found.name)
        text.note(f'{target.name}: recording BMC {found.name}; record {rest} with --bmc, each into a folder of its own')
    return found
