# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc publish``: bring the resource providers in placement to what the verification of a target proves now."""

import argparse
import contextlib
from collections.abc import Iterable
from typing import Any

from baremetal_acc.cli import exits, publisher, session, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import documents as render
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, PlacementError, UsageError
from baremetal_acc.execution import Target, Tools
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.provider import (
    Call,
    CreateProvider,
    DeleteProvider,
    KeptReservation,
    MoveProvider,
    ProviderTree,
    SetInventories,
    SetTraits,
)
from baremetal_acc.placement.publish import PublishResult
from baremetal_acc.render import reservations
from baremetal_acc.render.standing import why
from baremetal_acc.scheduling import providers
from baremetal_acc.scheduling.custom_traits import vocabulary
from baremetal_acc.scheduling.offer_report import OfferReport, Withheld, standing
from baremetal_acc.scheduling.provider_diff import describe
from baremetal_acc.scheduling.schedulable import supply

COLUMNS = ('Target', 'Provider', 'Call', 'What', 'Sent')

WHY_COLUMNS = ('Target', 'Device', 'Provider', 'Offers', 'Why')

_WORDS = {
    CreateProvider: 'create',
    MoveProvider: 'move',
    SetInventories: 'inventories',
    SetTraits: 'traits',
    DeleteProvider: 'delete',
}


class PublishCommand(ReportCommand):
    """Make placement agree with what targets can verifiably provide now. Writes to placement only with --execute.

    Writes nothing to a BMC. Without --execute the calls are printed (dry run). A target needs the UUID of its node (key node in
    bmcs.yaml), and the configuration needs a group [placement]. A device with an unmet demand is not available in placement;
    --why prints for each device and slot what is available, and why or why not. Exit code 0: placement agrees; 3: a dry run
    found calls to send.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and execution."""
        session.add_arguments(parser, writes=True)
        what = parser.add_mutually_exclusive_group()
        what.add_argument('--execute', action='store_true', help='send the calls; without this option they are only printed')
        what.add_argument(
            '--why', action='store_true', help='print what each device makes available in placement, and why or why not'
        )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return WHY_COLUMNS if arguments.why else COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Compare every target with placement, and send the calls that are missing."""
        using = session.begin(arguments, writes=True)
        tools = using.tools()
        to = publisher.connect(using.conf)
        targets = {e.name: using.attempt(e) for e in using.entries}
        if arguments.execute:
            names = vocabulary(tools.baseline, tools.catalogue)
            with contextlib.suppress(PlacementError):  # each target reports the same error below
                to.declare(names.classes, names.traits)

        def one(entry: TargetEntry) -> tuple[tuple[OfferReport, ...], PublishResult]:
            tree, devices = looked(entry, using, tools, targets[entry.name])
            return devices, publisher.publish(to, tree) if arguments.execute else publisher.plan(to, tree)

        bodies: list[dict[str, Any]] = []
        codes, unproven = [], list[str]()
        for entry, found in each(using.entries, one):
            error = found if isinstance(found, AccError) else None
            devices, result = ((), PublishResult(calls=())) if isinstance(found, AccError) else found
            calls = result.calls
            bodies.append(
                {
                    'target': entry.name,
                    'node': entry.node,
                    'executed': arguments.execute and error is None,
                    'devices': [_device(d) for d in devices],
                    'calls': list(documents(calls)),
                    'reserved': [_reserved(kept) for kept in result.reserved],
                    'error': render.failure(error),
                }
            )
            if not arguments.execute and _takes(calls) and any(map(_may_be_proven, devices)):
                unproven.append(entry.name)
            if error is not None:
                codes.append(failed(entry.name, error))
            else:
                codes.append(Exit.NOT_MET if calls and not arguments.execute else Exit.HOLDS)
            for call in calls:
                if isinstance(call, SetInventories) and call.unreserved:
                    _note_unreserved(entry, call, sent=arguments.execute)
            for kept in result.reserved:
                text.note(f'{entry.name}: {reservations.sentence(kept)}')
        if Exit.NOT_MET in codes:
            text.note('dry run: nothing was sent; --execute does it')
        if unproven:
            text.note(
                f'{", ".join(unproven)}: --execute would withdraw devices whose locks are {LockState.LOCKED_REPORTED}: if an '
                'Ironic conductor has engaged them, let the conductor publish, for this command cannot see its records'
            )
        return Report(
            document=render.document(bodies),
            columns=self.columns(arguments),
            rows=tuple(row for body in bodies for row in (_why if arguments.why else _rows)(body)),
            code=exits.worst(codes),
            done=tuple(f'{b["target"]}: calls sent to placement: {len(b["calls"])}' for b in bodies if b['executed']),
        )


def _note_unreserved(entry: TargetEntry, call: SetInventories, *, sent: bool) -> None:
    """Note that units are not reserved any more that baremetal-acc has reserved, as they were claimed of a withdrawn device."""
    names = ', '.join(i.resource_class for i in call.unreserved)
    ends = 'ended' if sent else 'would end'
    text.note(
        f'{entry.name}: this {ends} the reservation of {names} of provider {call.name} ({call.uuid}), which was for a claim '
        'that has ended'
    )


def _reserved(kept: KeptReservation) -> dict[str, Any]:
    return {
        'provider': kept.uuid,
        'name': kept.name,
        'resource_class': kept.resource_class,
        'total': kept.total,
        'reserved': kept.reserved,
        'text': reservations.sentence(kept),
    }


def _takes(calls: Iterable[Call]) -> bool:
    """Whether some of the calls withdraw inventory."""
    return any(isinstance(c, SetInventories) and not c.inventories for c in calls)


def _may_be_proven(device: OfferReport) -> bool:
    """Whether a device is withheld for a lock that reads locked and that somebody else, such as Ironic, may have proven."""
    return isinstance(device.why, Withheld) and any(f.state is LockState.LOCKED_REPORTED for f in device.why.findings)


def node_of(entry: TargetEntry) -> str:
    """UUID of a target's node.

    :raises UsageError: bmcs.yaml does not name it.
    """
    if entry.node is None:
        hint = 'set node: UUID of the Ironic node in bmcs.yaml'
        raise UsageError(argument=f'target {entry.name}', what='has no node UUID to publish for', hint=hint)
    return entry.node


def wanted(entry: TargetEntry, using: Session, tools: Tools, target: Target | AccError) -> ProviderTree:
    """The provider tree that placement should have for a target, from an inventory read now.

    :raises AccError: the target could not be read, or has no node.
    """
    return looked(entry, using, tools, target)[0]


def looked(
    entry: TargetEntry, using: Session, tools: Tools, target: Target | AccError
) -> tuple[ProviderTree, tuple[OfferReport, ...]]:
    """The provider tree that placement should have for a target, from an inventory read now, and the reasons for each device.

    :raises AccError: the target could not be read, or has no node.
    """
    root = node_of(entry)
    found = target_verdict.judged(using, entry, tools, target)
    made = supply(found.inventory, found.verdict, tools.baseline, found.target.node, tools.catalogue)
    tree = providers.tree(found.inventory, found.verdict, root, made.functions, made.offers)
    return tree, standing(found.inventory, found.verdict, tools.baseline, found.target.node, root, made)


def documents(calls: Iterable[Call]) -> Iterable[dict[str, Any]]:
    """The calls as they are printed in a document."""
    for call in calls:
        yield {
            'call': _WORDS[type(call)],
            'provider': call.uuid,
            'name': call.name,
            'parent': call.parent_uuid if isinstance(call, CreateProvider | MoveProvider) else None,
            'inventories': [
                {'resource_class': i.resource_class, 'total': i.total, 'reserved': i.reserved} for i in call.inventories
            ]
            if isinstance(call, SetInventories)
            else None,
            'traits': sorted(call.traits) if isinstance(call, SetTraits) else None,
            'text': describe(call),
        }


def _device(device: OfferReport) -> dict[str, Any]:
    return {
        'device': device.label,
        'provider': device.provider,
        'offers': [{'resource_class': i.resource_class, 'total': i.total} for i in device.offers],
        'why': why(device.why),
    }


def _why(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            body['target'],
            d['device'],
            d['provider'],
            ', '.join(f'{i["resource_class"]} {i["total"]}' for i in d['offers']) or 'nothing',
            d['why'],
        )
        for d in body['devices']
    ]


def _rows(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    sent = 'yes' if body['executed'] else 'no'
    return [(body['target'], c['name'], c['call'], c['text'], sent) for c in body['calls']]
