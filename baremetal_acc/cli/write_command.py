# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base class of the commands that make a plan: a dry run by default; with ``--execute`` the jobs run until they end."""

import abc
import argparse
import sys
from dataclasses import replace
from typing import ClassVar

from baremetal_acc.cli import device_selection, exits, plan_builder, session, target_verdict
from baremetal_acc.cli.durations import EarlierJobs
from baremetal_acc.cli.execution import Execution, Placements, Reporting, any_unfinished
from baremetal_acc.cli.output import documents, text
from baremetal_acc.cli.output.layout import Block
from baremetal_acc.cli.output.progress import JobProgress
from baremetal_acc.cli.output.report import Report, ReportCommand, each, is_for_people
from baremetal_acc.cli.output.results import COLUMNS, CommandResult, done, failure, planned, rows_of, total, warn_of_unlock
from baremetal_acc.cli.plan_builder import PreparedPlan
from baremetal_acc.cli.plan_request import PlanRequest, Verb
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import AccError, DocumentError
from baremetal_acc.execution import Tools
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.store import holding


class PlanningCommand(ReportCommand, metaclass=abc.ABCMeta):
    """A command that makes a plan, and may execute it."""

    VERB: ClassVar[Verb] = Verb.APPLY
    WRITES: ClassVar[bool] = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options for targets, devices and execution."""
        session.add_arguments(parser, writes=self.WRITES)
        device_selection.add_device_argument(parser)
        # A plan has long lines: on a terminal its table is as wide as the terminal.
        parser.set_defaults(fit_width=sys.stdout.isatty() or parser.get_default('fit_width'))
        how = parser.add_argument_group('execution')
        if self.WRITES:
            how.add_argument('--execute', action='store_true', help='execute the plan; without this option it is only printed')
        power = how.add_mutually_exclusive_group()
        power.add_argument(
            '--host-off',
            dest='hold',
            action='store_const',
            const=True,
            help='power the host off before a lock is released or a device written (default with exposure tenant)',
        )
        power.add_argument(
            '--keep-host-running',
            dest='hold',
            action='store_const',
            const=False,
            help="do not power the host off; only for hosts that run nothing but the operator's own code",
        )
        how.add_argument('--no-publish', action='store_true', help='do not write to placement, even if it is configured')
        parser.add_argument(
            '--long', action='store_true', help='print every action on a row of its own, and where it is written (table)'
        )
        self.add_own_arguments(parser)

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of one verb."""

    def request(self, arguments: argparse.Namespace) -> PlanRequest:
        """The request that the arguments describe."""
        return PlanRequest(verb=self.VERB, devices=tuple(arguments.device), hold=arguments.hold)

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def work(self, arguments: argparse.Namespace) -> Report:
        """Make the plans, and execute them if ``--execute`` is given."""
        using = session.begin(arguments, writes=self.WRITES)
        execute = self.WRITES and arguments.execute
        without: AccError | None = None
        try:
            tools = using.tools()
        except (CatalogueRefused, DocumentError) as exc:
            if self.VERB not in (Verb.LOCK, Verb.UNLOCK) and not (execute and any_unfinished(using)):
                raise
            # What needs no image still runs: a refused or broken catalogue must not keep a lock open.
            tools, without = using.tools(images=False), exc
            text.warn(str(exc))
        request = self.request(arguments)
        placements = Placements(using, wanted=not arguments.no_publish)
        if execute:
            progress = JobProgress(sys.stderr, quiet=self.app.options.verbose_level == 0)
            how = Reporting(for_people=is_for_people(arguments), long=arguments.long)
            results = Execution(using, tools, request, placements, progress, how, without).run()
        else:
            with holding():
                results = dry_run(using, tools, request, placements, long=arguments.long)
        for result in results:
            # A resumed job keeps the verb that it was begun with.
            result.document['verb'] = result.document['verb'] or request.verb.value
        report = Report(
            document=documents.document(r.document for r in results),
            columns=self.columns(arguments),
            rows=tuple(row for r in results for row in rows_of(r.document)),
            code=exits.worst(r.code for r in results),
            done=tuple(done(r) for r in results) if execute else (),
            blocks=(*(_titled(r, of_several=len(results) > 1) for r in results), *total(results)),
            long=arguments.long,
        )
        if self.WRITES and not execute and any(r.document['outcome'] == 'planned' for r in results):
            text.note('dry run: nothing was written; --execute does it')
        return report


def _titled(result: CommandResult, *, of_several: bool) -> Block:
    """The block of a target, with its name above the table where there are several targets."""
    block = result.block
    return replace(block, before=(f'{result.document["target"]}:', *block.before)) if of_several and block.rows else block


def dry_run(using: Session, tools: Tools, request: PlanRequest, placements: Placements, *, long: bool) -> list[CommandResult]:
    """Make a plan for every target, and report its refusals. Writes nothing to a BMC."""
    targets = {e.name: using.attempt(e) for e in using.entries}
    earlier = EarlierJobs(using.store)

    def one(entry: TargetEntry) -> PreparedPlan:
        target = targets[entry.name]
        if isinstance(target, AccError):
            raise target
        state = using.store.read(entry.name)
        if state.unfinished is not None:
            text.warn(
                f'{entry.name}: {target_verdict.unfinished(state.unfinished)}; {target_verdict.goes_on(state.unfinished)}'
            )
        prepared = plan_builder.look(using, entry, replace(tools, placement=placements.of(entry)), state, request, target)
        if request.verb is Verb.UNLOCK:
            warn_of_unlock(prepared)
        return prepared

    return [
        failure(entry, found)
        if isinstance(found, AccError)
        else planned(found, request.verb, earlier.lasted(found.made), long=long)
        for entry, found in each(using.entries, one)
    ]
