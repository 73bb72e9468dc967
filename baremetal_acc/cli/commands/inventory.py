# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc inventory``: list the accelerators of targets with their firmware, functions and locks."""

import argparse
import contextlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from baremetal_acc.cli import exits, session, worker_pool
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import card_list, documents, layout, text
from baremetal_acc.cli.output.progress import Count
from baremetal_acc.cli.output.report import Report, ReportCommand, as_yaml, failed, is_for_people, plain
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState, TargetStore
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.cli.worker_processes import runner
from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.model import inventory as model
from baremetal_acc.planning.verify import judged

COLUMNS = ('Target', 'Kind', 'Model', 'Identity', 'Place', 'Firmware', 'Functions', 'Lock')


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTarget:
    """The result of one target in the form in which it is printed, which takes a tenth of the memory of the inventory.

    :ivar part: lines of a document, or rows of a table.
    :ivar gaps: what could not be read, in one sentence.
    :ivar unsure: the state of some lock is unknown.
    """

    part: Any
    error: AccError | None = None
    gaps: str | None = None
    unsure: bool = False
    warnings: tuple[str, ...] = ()


EACH_PROCESS = 16
"""The fewest targets for which another process is started: its start takes as long as reading some of them."""

_Wanted = tuple[int, TargetEntry, Target | AccError]


class InventoryCommand(ReportCommand):
    """List the accelerators of targets with firmware, functions and locks. Writes nothing to a BMC.

    Reads any number of targets, some hundreds at a time. With -f json or yaml, prints one document of all targets (see the
    schema inventory.json in the documentation). Exit code 0: every target was read, with or without gaps; else that of the
    worst failure.
    """

    _streamed = False
    _left = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and output."""
        session.add_arguments(parser, writes=False, documents=False)
        parser.add_argument('--stream', action='store_true', help='print each target as one line of JSON as soon as it is read')
        parser.add_argument(
            '--measure',
            action='store_true',
            help='also request signed SPDM measurements from devices, which takes seconds for each',
        )
        parser.add_argument('--no-progress', action='store_true', help='do not show the progress line')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the inventory of every target."""
        using = session.begin(arguments, writes=False)
        entries = using.entries
        verbosity = self.app.options.verbose_level
        self._streamed = arguments.stream
        form = _FORMS['stream' if arguments.stream else arguments.formatter if arguments.formatter in _FORMS else 'table']
        kept: list[Any] = [None] * (0 if arguments.stream else len(entries))
        # Not with -v: log lines would interrupt the count.
        counting = len(entries) > 1 and not arguments.no_progress and verbosity == 1
        count = Count(sys.stderr, len(entries), quiet=not counting)
        tally = _Tally(total=len(entries))
        looking, limits, connections = self._looking(using, form, measure=arguments.measure)

        def stopped() -> None:
            if interrupted.is_set() and verbosity > 0:
                count.clear()
                text.note(f'interrupted: closing the sessions of BMCs, for {worker_pool.GRACE:.0f} s at most')

        running = runner(
            looking,
            limits,
            min(using.settings.fleet_processes, len(entries) // EACH_PROCESS),
            beat=count.draw,
            stopping=connections.stop,
            stopped=stopped,
            in_hub=limits.each == 1,
        )
        # Passwords are asked for here, one after another.
        wanted = [(number, entry, using.attempt(entry, limits.each)) for number, entry in enumerate(entries)]
        with worker_pool.interrupted_by_ctrl_c(running.stop) as interrupted:
            results = running.results(wanted)
            try:
                for (number, entry, _), found in results:
                    if interrupted.is_set() and (found.error or found.gaps or found.unsure):
                        continue  # what is missing may be missing because of the interruption: the target counts as not read
                    if arguments.stream:
                        self.app.stdout.write(found.part)
                        self.app.stdout.flush()
                    else:
                        kept[number] = found.part
                    if found.warnings or found.gaps or found.error:
                        count.clear()
                    tally.add(entry.name, found)
                    count.ended(failed=found.error is not None)
            except BrokenPipeError:
                # The reader of our output has gone. Targets in progress log out, and nothing is printed.
                running.stop()
                for _ in results:
                    pass
                raise
            finally:
                count.clear()
                self._left = bool(running.left_behind)
        if interrupted.is_set():
            tally.codes.add(Exit.INTERRUPTED)
            self._fill(kept, entries, form)
        if verbosity > 0:
            tally.say(interrupted=interrupted.is_set())
        report = form.report(kept, exits.worst(tally.codes))
        if not is_for_people(arguments):
            return report
        width = layout.width(self.app.stdout, arguments.max_width)
        return replace(report, blocks=card_list.instead_of_table(report.columns, report.rows, width))

    def _looking(
        self, using: Session, form: '_Form', *, measure: bool
    ) -> tuple[Callable[[_Wanted], FoundTarget], worker_pool.PoolBounds, worker_pool.Connections]:
        """The function that reads one target, the bounds on targets in progress, and the connections to stop."""
        limits = worker_pool.bounds(
            len(using.entries),
            max((len(e.bmcs) for e in using.entries), default=1),
            at_once=using.settings.max_parallel_targets,
            each=using.settings.bmc_concurrency,
        )
        tools = using.tools(documents=False)
        connections = worker_pool.Connections(tools.connect)
        tools = replace(tools, connect=connections)

        def one(wanted: _Wanted) -> FoundTarget:
            _, entry, target = wanted
            warnings: list[str] = []
            try:
                if isinstance(target, AccError):
                    raise target
                body = documents.inventory(entry.name, look(target, using.store, tools, warnings.append, measure=measure))
            except AccError as exc:
                return FoundTarget(part=form.part(documents.inventory(entry.name, None, exc)), error=exc)
            except Exception as exc:
                # A defect of ours that one machine triggers must not cost the inventory of all others.
                if self.app.options.debug:
                    raise
                error = AccError(f'internal error: {type(exc).__name__}: {exc}', hint='run it again with --debug and report it')
                return FoundTarget(part=form.part(documents.inventory(entry.name, None, error)), error=error)
            readings = [*(r for a in body['accelerators'] for r in a['locks']), *body['platform_locks']]
            unsure = any(reading['state'] == 'unknown' for reading in readings)
            return FoundTarget(part=form.part(body), gaps=_gaps(body), unsure=unsure, warnings=tuple(warnings))

        return one, limits, connections

    def _fill(self, kept: list[Any], entries: Iterable[TargetEntry], form: '_Form') -> None:
        """Add the targets that were not read to a document, with an error: a document names every target."""
        error = AccError('not read: the run was interrupted')
        for number, entry in enumerate(entries):
            if number < len(kept) and kept[number] is None:
                kept[number] = form.part(documents.inventory(entry.name, None, error))

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Print the report, unless every target was printed by ``--stream`` already."""
        return 0 if self._streamed else super().produce_output(parsed_args, column_names, data)

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Called by cliff. Exits without waiting for targets that did not end when the run was stopped."""
        code = Exit.OUR_FAULT
        try:
            code = Exit(super().run(parsed_args))
        except BrokenPipeError:
            code = Exit.HOLDS
            if not self._left:
                raise
        except KeyboardInterrupt:
            code = Exit.INTERRUPTED
            self._left = True
        if self._left:
            # A normal exit would wait for the threads of these targets.
            with contextlib.suppress(OSError):
                sys.stderr.flush()
            os._exit(code)
        return code


@dataclass(slots=True)
class _Tally:
    """The counts of targets, and their exit codes."""

    total: int
    read: int = 0
    gaps: int = 0
    failed: int = 0
    codes: set[Exit] = field(default_factory=set)

    def add(self, name: str, found: FoundTarget) -> None:
        """Count one target, and print its warnings and its error."""
        for warning in found.warnings:
            text.warn(warning)
        if found.gaps is not None:
            text.warn(found.gaps)
            self.gaps += 1
        if found.error is None:
            self.read += 1
        else:
            self.failed += 1
            self.codes.add(failed(name, found.error))

    def say(self, *, interrupted: bool) -> None:
        """Print the summary, where there is more than one target or the run was interrupted."""
        summary = f'{self.read} read, {self.gaps} with gaps, {self.failed} failed'
        if interrupted:
            missing = self.total - self.read - self.failed
            text.note(f'interrupted: {missing} of {self.total} targets were not read; {summary}')
        elif self.total > 1:
            text.note(summary)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """An output format.

    :ivar part: makes the printed part of one target.
    :ivar report: makes the report of all parts, in the order of the list.
    """

    part: Callable[[dict[str, Any]], Any]
    report: Callable[[list[Any], Exit], Report]


def look(
    target: Target, store: TargetStore, tools: Tools, warn: Callable[[str], None], *, measure: bool = False
) -> model.Inventory:
    """Read the inventory of a target, and compare its locks with our records of engaged locks.

    :param measure: let devices sign SPDM measurements, too.

    :raises BmcError: a BMC cannot be reached or read.
    """
    try:
        remembered = store.read(target.name)
    except StaleJob as exc:
        warn(str(exc))
        remembered = TargetState(target=target.name)
    seen = observe(target, tools, datetime.now(UTC), measure=measure)
    return judged(seen, remembered.engagements, lifecycle=remembered.lifecycle)


def _gaps(body: dict[str, Any]) -> str | None:
    if not body['gaps']:
        return None
    first = body['gaps'][0]
    more = f', and {len(body["gaps"]) - 1} more' if len(body['gaps']) > 1 else ''
    return f'{body["target"]}: not all could be read: {first["bmc"]} {first["uri"]}: {first["reason"]}{more}'


def _rows(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of a machine's cards, sorted by slot, as a person in front of the machine looks for them."""
    return [
        (
            body['target'],
            a['kind'],
            _model(a['vendor'], a['model']),
            a['serial'] or a['uuid'] or a['primary_uri'],
            _place(a),
            tuple(f'{c["id"] or "device"} {c["version"] or "unknown"}' for c in a['firmware']),
            _slots(a) or tuple(f['name'] or f['id'] for f in a['functions']),
            a['device_lock'],
        )
        for a in sorted(body['accelerators'], key=_in_order)
    ]


def _place(a: dict[str, Any]) -> str:
    """The slot, as the BMC labels it, and the PCI address, as far as the BMC reports them."""
    return ', '.join(filter(None, (a['location'], a['pci']['address'])))


def _in_order(a: dict[str, Any]) -> tuple[object, ...]:
    """Sort key: Slot 2 before Slot 10; a card without slot and PCI address comes last."""
    place = _place(a)
    return (not place, [(int(part), '') if part.isdigit() else (-1, part) for part in _NUMBERS.split(place)], a['primary_uri'])


_NUMBERS = re.compile(r'([0-9]+)', re.ASCII)


def _slots(a: dict[str, Any]) -> tuple[str, ...]:
    """The function in each slot by its name: on real cards the Id of the function resource is that of the slot."""
    names = {f['id']: f['name'] or f['id'] for f in a['functions']}
    return tuple(f'{s["slot_id"]} {names.get(s["function"], s["function"]) or "empty"}' for s in a['slots'])


def _model(vendor: str | None, model: str | None) -> str | None:
    """Vendor and model, without the vendor twice: many models begin with their vendor already."""
    if vendor and model and model.casefold().startswith(vendor.casefold()):
        return model
    return ' '.join(filter(None, (vendor, model))) or None


def _whole(start: str, between: str, end: str, parts: Iterable[str], code: Exit) -> Report:
    """A document that is joined from the texts of its targets: the same text as that of the whole, for less memory."""
    pieces = [start]
    for part in parts:
        pieces += [part, between]
    pieces[-1] = end
    return Report(document=None, columns=COLUMNS, rows=(), code=code, pieces=pieces)


_FORMS = {
    'stream': _Form(
        # With the line end, so that each line is one write.
        part=lambda body: json.dumps(plain(body)) + '\n',
        report=lambda kept, code: Report(document=None, columns=COLUMNS, rows=(), code=code),
    ),
    'json': _Form(
        part=lambda body: json.dumps(plain(body), indent=2).replace('\n', '\n    '),
        report=lambda kept, code: _whole(
            f'{{\n  "format": {documents.FORMAT},\n  "targets": [\n    ', ',\n    ', '\n  ]\n}\n', kept, code
        ),
    ),
    'yaml': _Form(
        part=lambda body: as_yaml([body]),
        report=lambda kept, code: _whole(f'format: {documents.FORMAT}\ntargets:\n', '', '', kept, code),
    ),
    'table': _Form(
        part=lambda body: _rows(body),
        report=lambda kept, code: Report(
            document=None, columns=COLUMNS, rows=tuple(row for rows in kept for row in rows), code=code
        ),
    ),
}
"""The output formats; every other format prints the rows of a table."""
