# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc power``: print the power state of hosts, and power hosts on or off, where that is safe."""

import argparse
import getpass
import time
import uuid
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from baremetal_acc import execution
from baremetal_acc.cli import exits, host_power, session, target_verdict
from baremetal_acc.cli.execution import places
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.history import HistoryEntry
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.layout import INDENT, Block
from baremetal_acc.cli.output.report import Report, ReportCommand, each, failed, is_for_people
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, BmcBusy, NotMet, Refused, UsageError
from baremetal_acc.execution import Target, Tools, lifecycle
from baremetal_acc.execution.job_polling import stuck_tasks
from baremetal_acc.execution.power import check_no_update, switch
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.verdict import Finding
from baremetal_acc.render import findings, verdict_lines
from baremetal_acc.render.words import counted

COLUMNS = ('Target', 'Host', 'Power', 'Power on', 'Done')

LONGEST_POLL = timedelta(seconds=1)
"""The longest time between two readings of the power state of a host that is changing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """What was read of a target.

    :ivar state: the stored state, updated by the reading.
    :ivar against: the findings for which the host must not run.
    :ivar powers: the Systems of the target with their power states.
    :ivar requested: the Systems whose power state was changed, or in a dry run would be.
    """

    state: TargetState
    against: tuple[Finding, ...]
    powers: tuple[tuple[Ref, PowerState], ...]
    requested: tuple[Ref, ...] = ()


class PowerStatusCommand(ReportCommand):
    """Read targets, and print whether their hosts are on, and whether they may be powered on. Writes nothing to a BMC.

    Exit code 0: the power states were read.
    """

    WANTED: ClassVar[PowerState | None] = None

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets and execution."""
        session.add_arguments(parser, writes=self.WANTED is not None)
        if self.WANTED is not None:
            word = 'on' if self.WANTED is PowerState.ON else 'off'
            parser.add_argument(
                '--execute',
                action='store_true',
                help=f'power {word}; without this option the command only says what it would do',
            )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read every target, and change the power state of its hosts if ``--execute`` is given."""
        wanted = self.WANTED
        execute = wanted is not None and arguments.execute
        using = session.begin(arguments, writes=wanted is not None)
        # No image is needed: a refused catalogue must not keep a host off.
        tools = using.tools(images=False)
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> _Looked:
            target = targets[entry.name]
            if isinstance(target, AccError):
                raise target
            with ExitStack() as stack:
                if execute:
                    stack.enter_context(using.store.alone(entry.name))
                    stack.enter_context(using.store.alone_at(entry.name, places(target)))
                found = _look(target, tools, using.store.read(entry.name), wanted)
                _check(found, wanted)
                return _switched(using, entry, target, tools, found, wanted) if execute and wanted is not None else found

        bodies, codes, blocks = [], [], []
        for entry, found in each(using.entries, one):
            bodies.append(_body(entry, found, wanted, execute=execute))
            if isinstance(found, AccError):
                codes.append(failed(entry.name, found))
                continue
            blocks.append(_block(entry, found, wanted, execute=execute))
            left = [s for s, power in found.powers if s in found.requested and power is not wanted]
            if execute and left:
                what = f'power {_word(wanted)} was requested, but {", ".join(map(str, left))} has not changed'
                codes.append(failed(entry.name, NotMet([f'{what} within {tools.patience.reset}'])))
            else:
                codes.append(Exit.NOT_MET if found.requested and not execute else Exit.HOLDS)
        if Exit.NOT_MET in codes and not execute:
            text.note('dry run: nothing was written; --execute does it')
        return Report(
            document=documents.document(bodies),
            columns=COLUMNS,
            rows=tuple(row for body in bodies for row in _rows(body)),
            code=exits.worst(codes),
            blocks=tuple(blocks) if is_for_people(arguments) else None,
            done=tuple(f'{b["target"]}: {h["host"]} is {h["power"]}' for b in bodies for h in b['hosts'] if b['executed']),
        )


class PowerOnCommand(PowerStatusCommand):
    """Power on the hosts of targets, if all their locks are proven and no card is quarantined. Only with --execute.

    Refused under the same conditions under which a job leaves the host off: a lock that the baseline demands is not proven, a
    device could not be read, an account of a BMC is unexpected, a card is quarantined or was unlocked on purpose, a job is
    unfinished, or a BMC is writing firmware. Exit code 0: the host is on; 3: a dry run found a host to power on, or the host
    was not seen on in time; 4: refused.
    """

    WANTED: ClassVar[PowerState | None] = PowerState.ON


class PowerOffCommand(PowerStatusCommand):
    """Power off the hosts of targets at once, without asking their operating systems to shut down. Only with --execute.

    Refused while a job is unfinished or a BMC is writing firmware. Exit code 0: the host is off; 3: a dry run found a host to
    power off, or the host was not seen off in time; 4: refused.
    """

    WANTED: ClassVar[PowerState | None] = PowerState.OFF


def _word(wanted: PowerState | None) -> str:
    return 'status' if wanted is None else 'on' if wanted is PowerState.ON else 'off'


def _look(target: Target, tools: Tools, state: TargetState, wanted: PowerState | None, starting: Ref | None = None) -> _Looked:
    inventory, state, against = host_power.look(target, tools, state, starting)
    powers = tuple((facts.system, facts.power) for facts in inventory.hosts if facts.system is not None)
    if not powers and wanted is not None:
        raise _unnamed(inventory)
    if state.unfinished is None:
        opened = lifecycle.stood_open(state.engagements, state.lifecycle, inventory)
        state = replace(state, anew=state.anew | opened)
    requested = tuple(system for system, power in powers if wanted is not None and power is not wanted)
    return _Looked(state=state, against=against, powers=powers, requested=requested)


def _unnamed(inventory: Inventory) -> UsageError:
    return UsageError(
        argument=f'target {inventory.target}',
        what='its BMC does not say which System is the host',
        hint='name the System in bmcs.yaml (system), or with --system',
    )


def _check(found: _Looked, wanted: PowerState | None) -> None:
    """Check that the power state may be changed.

    :raises Refused: the host must not run, or a job is unfinished.
    """
    if not found.requested:
        return
    if wanted is PowerState.ON and found.against:
        raise host_power.refusal(found.state, found.against)
    job = found.state.unfinished
    if job is not None:
        raise Refused([target_verdict.unfinished(job)], hint=f'{target_verdict.goes_on(job)}; after that, power off')


def _block(entry: TargetEntry, found: _Looked, wanted: PowerState | None, *, execute: bool) -> Block:
    """The report for people: a line for each host, and why hosts must not be powered on."""
    lines = []
    for system, power in found.powers:
        change = ''
        if system in found.requested:
            change = f'; power {_word(wanted)} was requested' if execute else f'; it would be powered {_word(wanted)}'
        lines.append(f'{entry.name}: host {system}: {power.lower()}{change}')
    if not found.powers:
        lines.append(f'{entry.name}: its BMC does not say which System is the host')
    if wanted is PowerState.OFF:
        return Block(before=tuple(lines))
    if found.state.unfinished is not None:
        lines.append(f'{INDENT}power on is refused: a job is unfinished (status shows it)')
    elif not found.against:
        lines.append(f'{INDENT}power on is allowed')
    else:
        lines.append(f'{INDENT}power on is refused: {counted(len(found.against), "finding")}')
        for sentence, parts in verdict_lines.unmet(found.against):
            lines += [f'{INDENT * 2}{sentence}', *(f'{INDENT * 3}{part}' for part in parts)]
    return Block(before=tuple(lines))


def _switched(using: Session, entry: TargetEntry, target: Target, tools: Tools, found: _Looked, wanted: PowerState) -> _Looked:
    """Change the power states, and wait until the BMC reports them.

    Each host is checked right before it is powered on, and the state is stored before that: the chains of custody reach up to
    that reading.
    """

    def told(system: Ref, power: PowerState) -> None:
        text.note(f'{entry.name}: {system}: power {power.lower()} was requested')

    tools = replace(tools, power_changed=told)
    begun = datetime.now(UTC)
    now = dict(found.powers)
    for position, system in enumerate(found.requested):
        if position:
            found = replace(_look(target, tools, found.state, wanted, system), requested=found.requested)
            _check(found, wanted)
        using.store.write(found.state)
        with execution.sessions(target, tools) as bmcs:
            bmc = bmcs[system.bmc]
            job = found.state.job
            try:
                check_no_update(bmc, system, frozenset() if job is None else stuck_tasks(job))
            except BmcBusy as exc:
                raise Refused([str(exc)], hint='run the same command again when it has ended') from exc
            switch(bmc, system, wanted, tools)
            end = time.monotonic() + tools.patience.reset.total_seconds()
            now[system] = bmc.power(system)
            while now[system] is not wanted and time.monotonic() < end:
                time.sleep(min(tools.patience.poll, LONGEST_POLL).total_seconds())
                now[system] = bmc.power(system)
    if found.requested:
        using.store.write(found.state, _entry(entry, wanted, begun, [s for s in found.requested if now[s] is not wanted]))
    return replace(found, powers=tuple(now.items()))


def _entry(entry: TargetEntry, wanted: PowerState, begun: datetime, left: list[Ref]) -> HistoryEntry:
    return HistoryEntry(
        id=uuid.uuid4().hex,
        target=entry.name,
        command=f'power {_word(wanted)}',
        by=getpass.getuser(),
        begun=begun,
        ended=datetime.now(UTC),
        outcome='not-met' if left else 'done',
        reasons=tuple(f'{system} has not changed' for system in left),
    )


def _body(entry: TargetEntry, found: _Looked | AccError, wanted: PowerState | None, *, execute: bool) -> dict[str, Any]:
    if isinstance(found, AccError):
        return {
            'target': entry.name,
            'verb': _word(wanted),
            'executed': False,
            'hosts': [],
            'may_start': None,
            'reasons': list(found.reasons) if isinstance(found, Refused) else [],
            'error': documents.failure(found),
        }
    return {
        'target': entry.name,
        'verb': _word(wanted),
        'executed': execute,
        'hosts': [
            {'host': str(system), 'power': power.value, 'requested': system in found.requested}
            for system, power in found.powers
        ],
        'may_start': not found.against,
        'reasons': [findings.sentence(f) for f in found.against],
        'error': None,
    }


def _rows(body: dict[str, Any]) -> Iterable[tuple[Any, ...]]:
    may = 'allowed' if body['may_start'] else '; '.join(['refused', *body['reasons']])
    for host in body['hosts']:
        done = None if not host['requested'] else 'yes' if body['executed'] else 'no'
        yield body['target'], host['host'], host['power'], may, done
