# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc record``: record the Redfish resource tree of a BMC, without what identifies the machine.

The tree is written to a new folder in the DMTF's mockup layout, scrubbed, next to the inventory that baremetal-acc made of it.
``baremetal-acc emulate --recording`` serves such a folder.
"""

import argparse
import os
import secrets
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from baremetal_acc import input_file
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import mockup
from baremetal_acc.bmc.registry import PROTOCOLS
from baremetal_acc.cli import session
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, failed
from baremetal_acc.errors import AccError, Refused, UsageError
from baremetal_acc.execution import Target
from baremetal_acc.model.ref import HOST

if TYPE_CHECKING:
    pass

from baremetal_acc.cli.output.record_progress import RecordProgress
from baremetal_acc.cli.recording import OTHER_USER, README, Recorded, RecordRequest, record

COLUMNS = ('Target', 'BMC', 'Output', 'Resources', 'Missed', 'Scrubbed')

SMALLEST_KEY = 16
"""The fewest bytes of a key file. A shorter key can be guessed."""

SHORTEST_PASSWORD = 4
"""Characters. A shorter password occurs in other text by chance, and could not be kept out of a recording."""
_LARGEST_KEY = 64 * 1024


_BY_IPMI = (
    'send the output of inventory -f json -vv, ipmitool fru print, ipmitool sdr elist all and ipmitool hpm check instead: it '
    'contains serial numbers and addresses, which are not scrubbed'
)
"""The hint for a BMC that is read by IPMI, of which nothing can be recorded."""


class RecordCommand(ReportCommand):
    """Record the Redfish tree of a BMC in a new folder, without what identifies the machine. Writes nothing to a BMC.

    Send the folder to the developers when a machine is read wrongly. Scrubbed values are counted; review the folder before you
    send it. Exit code 0: complete; 3: something could not be read, or a limit was reached; 4: refused, nothing was kept.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the target, the BMC, the extent, the output and the scrubbing."""
        session.add_arguments(parser, writes=False, documents=False)
        what = parser.add_argument_group('recording')
        what.add_argument('--output', metavar='DIR', required=True, help='folder to create; it must be new or empty')
        what.add_argument('--bmc', metavar='NAME', default=HOST, help='name of the BMC of the target (default: %(default)s)')
        what.add_argument(
            '--everything',
            action='store_true',
            help='record all linked resources, not only those that matter for accelerators; accounts, events, logs, '
            'certificates, telemetry, keys and licences are never recorded',
        )
        what.add_argument(
            '--max-minutes',
            metavar='N',
            type=int,
            default=30,
            help='time limit in minutes; what was read by then is kept (default: %(default)s)',
        )
        scrub = parser.add_argument_group('scrubbing')
        how = scrub.add_mutually_exclusive_group()
        how.add_argument(
            '--scrub-key-file',
            metavar='FILE',
            help=f'key for the replacements, {SMALLEST_KEY} bytes or more, so that recordings agree; it is as secret as the '
            'replaced values (default: a new key for each recording, which is not kept)',
        )
        how.add_argument('--no-scrub', action='store_true', help='keep serial numbers, addresses, names and everything else')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the tree of one BMC, scrub it, and write the folder."""
        request = _request(arguments)
        using = session.begin(arguments, writes=False)
        if len(using.entries) != 1:
            what = f'one target is recorded at a time, but {len(using.entries)} are selected'
            raise UsageError(argument='TARGET', what=what, hint='name one')
        target = using.target(using.entries[0])
        address = _bmc(target, request)
        if request.key is None:
            text.warn(f'--no-scrub: {request.output} will contain serial numbers, addresses and names; do not pass it on')
        try:
            shown = RecordProgress(sys.stderr, target.name, quiet=self.app.options.verbose_level == 0)
            found = record(target, address, using, request, shown)
        except AccError as exc:
            return _report(target.name, request, None, exc, failed(target.name, exc))
        return _report(target.name, request, found, None, _judge(target.name, found))


def _judge(target: str, found: Recorded) -> Exit:
    """Warn of what is missing, and return the exit code. Links to resources that do not exist are common, and no failure."""
    hard = [m for m in found.missed if not m.harmless]
    if found.stopped is not None:
        text.warn(f'{target}: the recording is incomplete: {found.stopped}')
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
        raise UsageError(argument='--output', what=f'{output}: {exc.strerror}', hint='name a new folder') from exc
    if not free or output.name in ('', '..'):
        raise UsageError(argument='--output', what=f'{output} exists and is not an empty folder', hint='name a new folder')
    parent = next(p for p in output.absolute().parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise UsageError(
            argument='--output',
            what=f'{output} cannot be created: {parent} is not a folder that you may write to',
            hint='name a new folder',
        )
    if not 1 <= arguments.max_minutes <= 24 * 60:
        raise UsageError(
            argument='--max-minutes', what=f'{arguments.max_minutes} is not a number of minutes', hint=f'1 to {24 * 60}'
        )
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
        key = input_file.read(path, _LARGEST_KEY)
    except OSError as exc:
        raise UsageError(
            argument='--scrub-key-file', what=f'{path}: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    if not SMALLEST_KEY <= len(key) <= _LARGEST_KEY:
        what = f'{path} has {len(key)} bytes' if len(key) < SMALLEST_KEY else f'{path} has more than {_LARGEST_KEY} bytes'
        raise UsageError(
            argument='--scrub-key-file',
            what=what,
            hint=f'head -c 32 /dev/urandom > FILE makes one ({SMALLEST_KEY} to {_LARGEST_KEY} bytes)',
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
        raise UsageError(argument='--bmc', what=f'{target.name} has no BMC {request.bmc!r}', hint=f'it has {", ".join(names)}')
    if PROTOCOLS.get(found.address.partition('://')[0]) != 'redfish':
        raise UsageError(
            argument='record',
            what=f'BMC {found.label} is not used over Redfish, and only Redfish can be recorded',
            hint=_BY_IPMI,
        )
    if found.password and len(found.password) < SHORTEST_PASSWORD:
        raise Refused(
            [f'the password has fewer than {SHORTEST_PASSWORD} characters, and cannot be told from other text'], hint=OTHER_USER
        )
    if len(names) > 1:
        rest = ', '.join(n for n in names if n != found.name)
        text.note(f'{target.name}: recording BMC {found.name}; record {rest} with --bmc, each into a folder of its own')
    return found
