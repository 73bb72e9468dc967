# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc reshape``: move inventory and allocations in placement from a root provider to nested providers, or back."""

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from typing import Any, ClassVar

from baremetal_acc.cli import exits, publisher, session
from baremetal_acc.cli.commands import publish
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, PlacementUnreachable, Refused, UsageError
from baremetal_acc.model.reshape import InventoryMove, Reshape
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.reshape import Reshaper, ReshapeRefused, Reshaping, Wish
from baremetal_acc.render.reshape_refusals import sentences
from baremetal_acc.scheduling import reshape

COLUMNS = ('Target', 'Step', 'What', 'Done')

_NAME = re.compile(r'[A-Z0-9_]{1,255}')

_FORM = 'FLAT, FLAT=NESTED or FLAT=NESTED:TRAIT, such as CUSTOM_BIG_GPU=PGPU:CUSTOM_ACC_GPU_ACME_X1'


class ReshapePlanCommand(ReportCommand):
    """Print what would move in placement from root providers to the providers of devices, or back. Writes nothing.

    Exit code 0: nothing to move; 3: something to move; 4: refused, and apply would do nothing.
    """

    WRITES: ClassVar[bool] = False

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets, resource classes and direction."""
        session.add_arguments(parser, writes=self.WRITES)
        if self.WRITES:
            parser.add_argument(
                '--execute', action='store_true', help='move the inventory; without this option the move is only printed'
            )
        parser.add_argument(
            '--class',
            action='append',
            default=[],
            dest='classes',
            metavar='FLAT[=NESTED[:TRAIT]]',
            help='only this resource class of the root; its name on the devices, if that differs; and a trait that selects the '
            'devices; can be repeated (default: all classes that publish uses)',
        )
        parser.add_argument(
            '--back', action='store_true', help='move from the providers of devices to the root; contacts no BMC'
        )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read every target and its providers in placement, and plan or apply the reshape."""
        execute = self.WRITES and arguments.execute
        moves = tuple(parse(word) for word in arguments.classes)
        check(moves)
        using = session.begin(arguments, writes=self.WRITES)
        client = publisher.client(using.conf)
        reshaper = Reshaper(client, Publisher(client))
        tools = None if arguments.back else using.tools()
        targets = {} if tools is None else {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> Reshaping:
            root = publish.node_of(entry)
            tree = None if tools is None else publish.wanted(entry, using, tools, targets[entry.name])
            wish = Wish(root_uuid=root, wanted=tree, moves=moves, own=reshape.node_class(entry.resource_class))
            try:
                return reshaper.apply(wish) if execute else reshaper.plan(wish)
            except ReshapeRefused as exc:
                raise Refused(sentences(exc.reshape)) from exc
            except PlacementUnreachable as exc:
                raise with_reasons(exc) from exc.__cause__

        bodies, codes = [], []
        for entry, found in each(using.entries, one):
            bodies.append(_body(entry, found, back=arguments.back, execute=execute))
            if isinstance(found, AccError):
                codes.append(failed(entry.name, found))
                continue
            made = found.reshape
            for reason in sentences(made):
                text.error(f'{entry.name}: refused: {reason}')
            for name in made.absent:
                where = 'the providers of its devices have' if arguments.back else 'its root provider has'
                text.note(f'{entry.name}: {where} no {name} to move')
            if made.moves:
                text.note(f'{entry.name}: {_about_nova(made, back=arguments.back)}')
            codes.append(_code(made, execute=execute))
        if Exit.NOT_MET in codes:
            text.note(f'dry run: nothing was written; {"" if self.WRITES else "reshape apply "}--execute does it')
        return Report(
            document=documents.document(bodies),
            columns=self.columns(arguments),
            rows=tuple(row for body in bodies for row in _rows(body)),
            code=exits.worst(codes),
            done=tuple(f'{b["target"]}: inventories moved: {len(b["moves"])}' for b in bodies if b['executed']),
        )


class ReshapeApplyCommand(ReshapePlanCommand):
    """Move inventory and its allocations from root providers to the providers of devices, or back. Only with --execute.

    Without --execute nothing is written: the command prints what reshape plan prints (dry run). All or nothing is moved;
    nothing is written to a BMC. Stop nova-compute of the node meanwhile. Exit code 0: moved, or nothing to move; 3: a dry run
    found something to move; 4: refused, nothing was moved.
    """

    WRITES: ClassVar[bool] = True


def _code(made: Reshape, *, execute: bool) -> Exit:
    if made.refusals:
        return Exit.REFUSED
    return Exit.NOT_MET if made.moves and not execute else Exit.HOLDS


def _body(entry: TargetEntry, found: Reshaping | AccError, *, back: bool, execute: bool) -> dict[str, Any]:
    error = found if isinstance(found, AccError) else None
    made = found.reshape if isinstance(found, Reshaping) else None
    refusals = sentences(made) if made is not None else error.reasons if isinstance(error, Refused) else ()
    return {
        'target': entry.name,
        'node': entry.node,
        'back': back,
        'executed': execute and error is None,
        'calls': [] if isinstance(found, AccError) else list(publish.documents(found.calls)),
        'moves': [] if made is None else list(_moves(made)),
        'claims': [] if made is None else list(_claims(made)),
        'stays': [] if made is None else list(made.stays),
        'refusals': list(refusals),
        'error': documents.failure(error),
    }


def _about_nova(made: Reshape, *, back: bool) -> str:
    """What to change in nova-compute's provider.yaml, so that Nova neither undoes the reshape nor publishes inventory twice."""
    if back:
        names = ', '.join(m.target_class for m in made.moves)
        return (
            f'add {names} to provider.yaml of its nova-compute before nova-compute starts again, or Nova deletes the '
            'inventory; and set [baremetal_acc] publish = false, or the next publication makes all of it available twice'
        )
    names = ', '.join(m.source_class for m in made.moves)
    return (
        f'remove {names} from provider.yaml of its nova-compute before nova-compute starts again, or Nova makes all of it '
        'available twice'
    )


def _moves(made: Reshape) -> Iterable[dict[str, Any]]:
    for moved in made.moves:
        yield {
            'resource_class': moved.source_class,
            'becomes': moved.target_class,
            'before': moved.before,
            'after': moved.after,
            'claimed': moved.claimed,
            'reserved': moved.reserved,
        }


def _claims(made: Reshape) -> Iterable[dict[str, Any]]:
    for shift in made.shifts:
        yield {
            'consumer': shift.consumer,
            'amount': shift.amount,
            'resource_class': shift.source_class,
            'provider': shift.source,
            'becomes': shift.target_class,
            'of': shift.target,
        }


def _rows(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    done = 'yes' if body['executed'] else 'no'
    where = 'devices -> root' if body['back'] else 'root -> devices'
    rows = [(c['call'], c['text']) for c in body['calls']]
    for m in body['moves']:
        kept = f', {m["reserved"]} reserved' if m['reserved'] else ''
        what = f'{m["resource_class"]} {m["before"]} -> {m["becomes"]} {m["after"]} ({where}), {m["claimed"]} claimed{kept}'
        rows.append(('inventory', what))
    rows.extend(
        ('claim', f'{c["consumer"]}: {c["amount"]} {c["resource_class"]} of {c["provider"]} -> {c["becomes"]} of {c["of"]}')
        for c in body['claims']
    )
    return [(body['target'], step, what, done) for step, what in rows]


def parse(text: str) -> InventoryMove:
    """Parse a move as an operator writes it: ``FLAT``, ``FLAT=NESTED`` or ``FLAT=NESTED:TRAIT``.

    :raises UsageError: the text has another form.
    """
    flat, equals, rest = text.partition('=')
    nested, colon, trait = rest.partition(':')
    names = (flat, nested, trait)[: 1 + bool(equals) + bool(colon)]
    if not all(map(_NAME.fullmatch, names)):
        raise UsageError(argument=f'--class {text[:80]!r}', what='is not a resource class', hint=f'write {_FORM}')
    return InventoryMove(flat=flat, nested=nested or flat, trait=trait or None)


def check(moves: Iterable[InventoryMove]) -> None:
    """Check that each resource class of the root is moved once only.

    :raises UsageError: a class is named twice.
    """
    for flat, times in Counter(m.flat for m in moves).items():
        if times > 1:
            raise UsageError(
                argument=f'--class {flat}', what='is given twice', hint='a class of the root is moved to one class'
            )


def with_reasons(exc: PlacementUnreachable) -> PlacementUnreachable:
    """The error, with the reasons of an earlier refusal of the reshape where that is its cause."""
    if not isinstance(exc.__cause__, ReshapeRefused):
        return exc
    return PlacementUnreachable(f'{exc.message} ({"; ".join(sentences(exc.__cause__.reshape))})', hint=exc.hint)
