# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc custody``: show the chains of custody of accelerators, and let an operator accept cards to begin a chain."""

import argparse
import getpass
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from baremetal_acc import execution
from baremetal_acc.cli import device_selection, exits, session, target_verdict
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.history import LONGEST_ENTRY, HistoryEntry
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, NotMet, Refused, UsageError
from baremetal_acc.execution import Target, Tools
from baremetal_acc.model.custody import Access, CardCustody, Custody, Origin
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.waiver import END_HINT, END_LIMIT, LONGEST_TEXT, end_flaw, moment, read_end
from baremetal_acc.planning import custody, custody_readings, custody_rules
from baremetal_acc.planning.quarantine import suspects
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render import custody as custody_words

COLUMNS = ('Target', 'Device', 'Holds', 'Chain', 'Demand')

Json = dict[str, Any]


class CustodyShowCommand(ReportCommand):
    """Read targets, and print the chain of custody of each card up to now. Writes nothing to a BMC.

    Exit code 0: every chain that a rule requires holds; 3: one does not.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets."""
        session.add_arguments(parser, writes=False)

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Report the chains of custody of every target."""
        using = session.begin(arguments, writes=False)
        tools = using.tools()
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> Json:
            found = target_verdict.judged(using, entry, tools, targets[entry.name])
            job = found.state.unfinished
            if job is not None:
                text.warn(f'{entry.name}: {target_verdict.unfinished(job)}; {target_verdict.goes_on(job)}')
            return _body(entry.name, found.inventory, found.custody, found.target, tools)

        return _report(using, one)


class Accept(ReportCommand):
    """Take responsibility for what the cards of one target run, until a date. Writes nothing to a BMC.

    Begins a new chain of custody for each card, without writing the card: for the first day of a fleet, and for cards without
    an image. A card that the host can write is accepted only while the host is off; a card in quarantine is never accepted.
    Exit code 0: accepted; 3: accepted, but a chain that a rule requires does not hold; 4: refused.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the target and the acceptance."""
        session.add_arguments(parser, writes=False)
        given = parser.add_argument_group('acceptance')
        given.add_argument(
            '--until', required=True, metavar='DATE', help=f'end of the acceptance, {END_HINT.replace("%", "%%")}'
        )
        given.add_argument('--reason', required=True, metavar='TEXT', help='reason, named in certificates')
        given.add_argument(
            '--device',
            action='append',
            default=[],
            metavar='NAME',
            help='only this device: id, UUID, serial number, URI or name; can be repeated',
        )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Begin new chains of custody for the accepted cards of the target."""
        reason, until = _reason(arguments.reason), _end(arguments.until, datetime.now(UTC))
        using = session.begin(arguments, writes=False)
        if len(using.entries) > 1:
            what = f'{len(using.entries)} targets are selected'
            raise UsageError(argument='TARGET', what=what, hint='accept the cards of one target at a time')
        tools = using.tools()

        def one(entry: TargetEntry) -> Json:
            target = using.target(entry)
            with using.store.alone(entry.name):
                state = using.store.read(entry.name)
                job = state.unfinished
                if job is not None:
                    raise Refused(
                        [f'{entry.name}: {target_verdict.unfinished(job)}'],
                        hint=f'{target_verdict.goes_on(job)}; after that, accept the cards',
                    )
                inventory = execution.observe(target, tools, datetime.now(UTC))
                kept = target_verdict.custody_of(inventory, target, tools, state)
                chosen = device_selection.devices_named(inventory, tuple(arguments.device))
                spoilt = suspects(state.quarantined, inventory)
                _refuse(inventory, kept, chosen, spoilt)
                _warn(entry.name, inventory, kept, chosen)
                for accelerator in sorted(chosen):
                    kept = custody.begun(
                        kept,
                        accelerator,
                        Origin.ACCEPTED,
                        inventory.at,
                        by=[getpass.getuser()],
                        until=until,
                        reason=reason,
                    )
                accepted = HistoryEntry(
                    id=uuid.uuid4().hex,
                    target=entry.name,
                    command='custody accept',
                    by=getpass.getuser(),
                    begun=inventory.at,
                    ended=datetime.now(UTC),
                    outcome='done',
                    reasons=(f'{reason} (until {moment(until)}): {", ".join(sorted(chosen))}'[:LONGEST_ENTRY],),
                )
                using.store.write(replace(state.with_custody(kept), anew=state.anew - chosen), accepted)
            cards = '1 card' if len(chosen) == 1 else f'{len(chosen)} cards'
            text.note(f'{entry.name}: {getpass.getuser()} has accepted {cards} until {moment(until)}: {reason}')
            return _body(entry.name, inventory, kept, target, tools)

        return _report(using, one)


def _refuse(inventory: Inventory, kept: Custody, chosen: frozenset[AcceleratorId], spoilt: frozenset[AcceleratorId]) -> None:
    """Check that the next reading will not break an accepted chain.

    :raises Refused: a card is quarantined, or not proven closed to a host that is not off.
    """
    reasons, is_open = [], False
    for accelerator in inventory.accelerators:
        seen = kept.of(accelerator.id).seen
        if accelerator.id not in chosen or seen is None:
            continue
        name = f'{accelerator.label} ({accelerator.id})'
        if accelerator.id in spoilt:
            reasons.append(f'{name} is quarantined: write it with apply')
        elif not custody_readings.is_kept(seen):
            is_open = True
            reasons.append(f'{name} is not proven to be locked against its host, which is not off')
    if reasons:
        raise Refused(reasons, hint='lock the target, or power its host off, first' if is_open else None)


def _warn(name: str, inventory: Inventory, kept: Custody, chosen: frozenset[AcceleratorId]) -> None:
    """Warn of broken chains that an acceptance overrules, and of cards that only a host that stays off keeps in custody."""
    for accelerator in inventory.accelerators:
        card = kept.of(accelerator.id)
        if accelerator.id not in chosen or card.seen is None:
            continue
        if card.chain is not None and card.chain.broken is not None:
            text.warn(
                f'{name}: {accelerator.label}: accepted despite a broken chain: {custody_words.explain(card, inventory.at)}'
            )
        if not (card.seen.access is Access.CLOSED and card.seen.proven):
            text.warn(
                f'{name}: {accelerator.label} is not proven to be locked against its host, which is off: the acceptance holds '
                'only as long as readings show that the host stays off; lock the target, then accept again'
            )


def _reason(given: str) -> str:
    reason = given.strip()
    if not reason or not reason.isprintable() or len(reason) > LONGEST_TEXT:
        what = f'is empty, longer than {LONGEST_TEXT} characters, or has characters that cannot be printed'
        raise UsageError(argument='--reason', what=what, hint='say in a few words why you accept it')
    return reason


def _end(given: str, now: datetime) -> datetime:
    until = read_end(given)
    if until is None:
        raise UsageError(
            argument='--until', what=f'{given!r} is neither a date nor a date and time with an offset', hint=END_HINT
        )
    flaw = end_flaw(until, now)
    if flaw is not None:
        raise UsageError(argument='--until', what=flaw, hint=END_LIMIT)
    return until


# ------------------------------------------------------------------------------------------------------------------ documents


def _report(using: Session, one: Any) -> Report:
    bodies: list[Json] = []
    codes: list[Exit] = []
    for entry, found in each(using.entries, one):
        if isinstance(found, AccError):
            bodies.append({'target': entry.name, 'cards': [], 'error': documents.failure(found)})
            codes.append(failed(entry.name, found))
            continue
        bodies.append(found | {'error': None})
        wrong = [f'{c["device"]}: {c["chain"]}' for c in found['cards'] if c['demand'] != 'reported' and not c['holds']]
        codes.append(failed(entry.name, NotMet(wrong)) if wrong else Exit.HOLDS)
    return Report(
        document=documents.document(bodies),
        columns=COLUMNS,
        rows=tuple(
            (
                body['target'],
                card['device'],
                'yes' if card['holds'] else 'NO',
                card['chain'],
                f'{card["demand"]} ({card["rule"]})',
            )
            for body in bodies
            for card in body['cards']
        ),
        code=exits.worst(codes),
    )


def _body(name: str, inventory: Inventory, kept: Custody, target: Target, tools: Tools) -> Json:
    cards = []
    for accelerator in inventory.accelerators:
        wanted = demands(tools.baseline, accelerator, target.node)
        card = kept.of(accelerator.id)
        cards.append(
            {
                'accelerator': accelerator.id,
                'device': accelerator.label,
                'demand': str(wanted.custody),
                'rule': wanted.custody_rule,
                'holds': custody_rules.satisfies(card, wanted.custody, inventory.at) and custody.holds(card, inventory.at),
                'chain': custody_words.explain(card, inventory.at),
                **_facts(card),
            }
        )
    return {'target': name, 'cards': cards}


def _facts(card: CardCustody) -> Json:
    chain = card.chain
    broken = None if chain is None else chain.broken
    return {
        'origin': None if chain is None else str(chain.origin),
        'begun': None if chain is None else _time(chain.begun),
        'reaches': None if chain is None else _time(chain.reaches),
        'strength': None if chain is None else str(chain.strength),
        'until': None if chain is None or chain.until is None else _time(chain.until),
        'reason': None if chain is None else chain.reason,
        'broken': None if broken is None else str(broken.cause),
    }


def _time(at: datetime) -> str:
    return at.isoformat()
