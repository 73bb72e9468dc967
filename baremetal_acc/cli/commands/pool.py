# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc pool``: keep as many free FPGA regions with each function as the pool file says, by reprogramming others."""

import argparse
import functools
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from cliff import command

from baremetal_acc import input_file
from baremetal_acc.cli import exits, publisher, session
from baremetal_acc.cli.commands import pool_demand
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import Report, ReportCommand, strict
from baremetal_acc.cli.session import Configuration
from baremetal_acc.cli.state import folder
from baremetal_acc.config.options import GROUP
from baremetal_acc.config.settings import Settings
from baremetal_acc.errors import DocumentError, LocalError, UsageError
from baremetal_acc.model import toml
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.pools import sources
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.pools.ironic import IronicApi
from baremetal_acc.pools.journal import MoveJournal
from baremetal_acc.pools.moves import Ended
from baremetal_acc.pools.nodes import NO_REGIONS
from baremetal_acc.pools.state_machine import Act
from baremetal_acc.pools.steering import PoolReading, Steering
from baremetal_acc.scheduling import pools
from baremetal_acc.scheduling.pools import PoolMachine, Pools, RegionMove

COLUMNS = ('Machine', 'Region', 'Holds', 'Becomes', 'Why')

FORMAT = 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that ``plan``, ``apply`` and ``watch`` share."""
    parser.add_argument('--pools', metavar='FILE', help='pool file; overrides the configuration')
    parser.add_argument(
        '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
    )


def state_folder(settings: Settings, environ: Mapping[str, str]) -> Path:
    """The folder in which unfinished moves and demands are stored."""
    return settings.state_dir or folder(environ)


def read(path: Path) -> Pools:
    """Read and parse the pool file.

    :raises DocumentError: the file is missing or wrong.
    """
    try:
        found = input_file.read(path, toml.MAX_SIZE * 4)
    except OSError as exc:
        hint = f'--pools or [{GROUP}] pools names it'
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from None
    try:
        return pools.parse(found.decode(), str(path))
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8', hint='save it as UTF-8') from None


def begin(
    arguments: argparse.Namespace, environ: Mapping[str, str] | None = None, *, writes: bool = True
) -> tuple[Steering, DemandService, Configuration]:
    """Build what the pool commands work with, from their arguments.

    :param writes: report and store the progress of demands.
    :raises AccError: a file or an option is wrong.
    """
    connect = _connect()
    environ = os.environ if environ is None else environ
    using = session.configuration(arguments, environ)
    settings = using.settings
    path = Path(arguments.pools) if arguments.pools else settings.pools
    read(path)  # so that an error in the file is found before any service is contacted
    desk = pool_demand.desk(using, environ)
    ironic, shelf = connect(using.conf, say=text.note), NodeWithdrawal(publisher.client(using.conf))
    desk.on_offer = shelf.on_offer
    steering = Steering(
        ironic=ironic,
        shelf=shelf,
        journal=MoveJournal(root=state_folder(settings, environ) / 'pool'),
        pools=lambda: read(path),
        say=text.note,
        warn=text.warn,
        sources=(desk.turn if writes else desk.look,),
        called=desk.called,
        poll=min(settings.poll_interval, timedelta(seconds=5)),
        settles=max(settings.settle_timeout, timedelta(seconds=120)),
    )
    return steering, desk, using


def _connect() -> Callable[..., IronicApi]:
    """What connects to Ironic with openstacksdk, which takes its time to import.

    :raises UsageError: the SDK is not installed. ``LocalError``: it finds no home folder, and looks for it when it is imported.
    """
    try:
        from baremetal_acc.pools.connect import connect
    except ModuleNotFoundError as exc:
        if (exc.name or '').startswith('baremetal_acc'):
            raise
        hint = "pip install 'baremetal-acc[fleet]'"
        raise UsageError(argument='pool', what=f'{exc.name} is not installed', hint=hint) from exc
    except RuntimeError as exc:
        raise LocalError('environment variable HOME', str(exc), hint='set HOME to the absolute path of a folder') from exc
    return connect


def dry_run(arguments: argparse.Namespace, how: str) -> Report:
    """Read the nodes of the fleet from Ironic and placement, and report a plan. Writes nothing.

    :param how: the arguments that execute the plan.
    """
    steering, _, _ = begin(arguments, writes=False)
    unfinished = steering.journal.read()
    look = steering.look()
    _told(look)
    for entry in unfinished:
        text.note(f'{entry.move.name}: an earlier call has left its move unfinished, at stage {entry.stage}')
    if look.plan.moves or unfinished:
        text.note(f'dry run: nothing was written; {how} does it')
    wanting = look.plan.moves or look.plan.short or unfinished
    return _report(look, (), Exit.NOT_MET if wanting else Exit.HOLDS)


class PoolPlanCommand(ReportCommand):
    """Print which free regions would get another function, and which goals cannot be reached and why. Writes nothing.

    Exit code 0: every pool has reached its goal, and no demand waits; 3: something to do, or something that cannot be done now.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the pool file and the configuration."""
        add_arguments(parser)

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read the nodes of the fleet from Ironic and placement, and print a plan."""
        return dry_run(arguments, 'pool apply --execute')


class PoolApplyCommand(ReportCommand):
    """Reprogram free regions, and wait until they can be claimed. Writes to Ironic and placement only with --execute.

    Without --execute nothing is written: the command prints what pool plan prints (dry run). A machine of which anything is
    claimed is never touched: a claim that is made meanwhile cancels the plan for its machine. Moves that an earlier call left
    unfinished are resumed first. Exit code 0: every pool has reached its goal, and no demand waits; 3: not every goal could be
    reached now, or a dry run found something to do; 6: a machine failed, or is not available again yet.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for the pool file, the configuration and execution."""
        add_arguments(parser)
        parser.add_argument('--execute', action='store_true', help='execute the plan; without this option it is only printed')

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Make one plan, and execute it to its end if ``--execute`` is given."""
        if not arguments.execute:
            return dry_run(arguments, '--execute')
        steering, _, _ = begin(arguments)
        with _signals(steering.stop):
            look, ended = steering.apply()
        _told(look)
        codes = [_code(e) for e in ended]
        if look.plan.short:
            codes.append(Exit.NOT_MET)
        if steering.stop.is_set():
            codes.append(Exit.INTERRUPTED)
        return _report(look, ended, exits.worst(codes))


class Watch(command.Command):
    """Do what pool apply --execute does, in rounds, until it is stopped. Writes to Ironic and placement.

    Needs --execute; pool plan is its dry run. A changed pool file takes effect in the next round. Ctrl-C and SIGTERM stop the
    command: moves in progress are stored, and the next pool apply --execute or pool watch resumes them.
    """

    app_dist_name = text.PROGRAM

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """The parser, with the options for the pool file, the configuration and the interval."""
        parser = strict(super().get_parser(prog_name))
        add_arguments(parser)
        parser.add_argument('--execute', action='store_true', help='execute the plans; without this option nothing is done')
        parser.add_argument(
            '--interval', type=float, default=30.0, metavar='SECONDS', help='seconds between two rounds (default: 30)'
        )
        return parser

    def get_epilog(self) -> str:
        """No epilog: cliff's own reads the metadata of every installed package."""
        return ''

    def take_action(self, parsed_args: argparse.Namespace) -> int:
        """Do the work of the command. Called by cliff."""
        if not parsed_args.execute:
            raise UsageError(
                argument='--execute',
                what='is missing, so nothing was done: pool watch writes to Ironic and placement',
                hint='run pool plan, which prints what the first round would do, then pool watch --execute; '
                'a service that runs pool watch needs the option, too',
            )
        if not 0.1 <= parsed_args.interval <= 86400:
            raise UsageError(argument='--interval', what='is out of range', hint='0.1 to 86400 seconds')
        steering, desk, using = begin(parsed_args)
        desk.catalogue = functools.partial(pool_demand.functions, using.settings)
        with _signals(steering.stop), sources.listening(using.conf, desk) as heard:
            text.note('watching the pools' if heard is None else f'watching the pools, with demands from {heard}')
            steering.watch(timedelta(seconds=parsed_args.interval))
        text.note('ended')
        return Exit.HOLDS


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and Ctrl-C stop moves where they are; they are stored. A second Ctrl-C ends at once, which is safe too."""

    def ending(number: int, frame: object) -> None:
        if stop.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        # Nothing is printed here: the interrupted code may itself be printing, and Python does not allow a nested print.
        stop.set()

    before = {number: signal.signal(number, ending) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if stop.is_set():
            text.note('stopped: moves in progress are stored, and the next pool apply --execute or pool watch resumes them')


def _code(ended: Ended) -> Exit:
    match ended.act:
        case Act.DONE:
            return Exit.HOLDS
        case Act.CANCELLED | Act.LEFT:
            return Exit.NOT_MET
        case _:
            return Exit.WRITE_FAILED


def _told(look: PoolReading) -> None:
    for short in look.plan.short:
        text.note(str(short))
    without = sum(m.busy == NO_REGIONS for m in look.machines)
    if without:
        nodes = '1 node' if without == 1 else f'{without} nodes'
        text.note(f'{nodes} without known regions: clean or inspect those that have FPGA slots')


def _report(look: PoolReading, ended: Sequence[Ended], code: Exit) -> Report:
    moves = {m.machine: m for m in look.plan.moves}
    results = {e.move.machine: e for e in ended}
    document = {
        'format': FORMAT,
        'machines': [_machine(m) for m in look.machines],
        'moves': [_move(m, results.get(m.machine)) for m in moves.values()],
        'resumed': [_move(e.move, e) for e in ended if e.move is not moves.get(e.move.machine)],
        'short': [{'who': s.who, 'function': s.function, 'missing': s.missing, 'why': s.why} for s in look.plan.short],
    }
    return Report(document=document, columns=COLUMNS, rows=tuple(_rows(look, results)), code=code, done=tuple(map(str, ended)))


def _machine(machine: PoolMachine) -> dict[str, Any]:
    return {
        'node': machine.uuid,
        'name': machine.name,
        'resource_class': machine.resource_class,
        'owner': machine.owner,
        'busy': machine.busy,
        'regions': [
            {
                'provider': r.provider,
                'accelerator': r.accelerator,
                'slot': r.slot_id,
                'function': r.function,
                'takes': sorted(r.takes),
                'changed': None if r.changed is None else r.changed.isoformat(),
                'coming': r.coming,
            }
            for r in machine.regions
        ],
    }


def _move(move: RegionMove, ended: Ended | None) -> dict[str, Any]:
    return {
        'node': move.machine,
        'name': move.name,
        'changes': [
            {
                'provider': c.provider,
                'accelerator': c.accelerator,
                'slot': c.slot_id,
                'was': c.was,
                'function': c.function,
                'why': c.why,
            }
            for c in move.changes
        ],
        'outcome': None if ended is None else ended.outcome,
        'reason': None if ended is None or not ended.why else ended.why,
    }


def _rows(look: PoolReading, ended: Mapping[str, Ended]) -> Iterable[tuple[Any, ...]]:
    changes = {c.provider: c for m in look.plan.moves for c in m.changes}
    for machine in look.machines:
        for region in machine.regions:
            change = changes.get(region.provider)
            why = machine.busy
            if change is not None:
                result = ended.get(machine.uuid)
                why = change.why if result is None else f'{change.why}: {result.outcome}'
            becomes = region.coming if change is None else change.function
            yield machine.name, f'{region.slot_id} of {region.accelerator}', region.function, becomes, why
