# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc pool demand``: add, list and drop the demands for functions that the pools are to serve."""

import argparse
import os
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from baremetal_acc import bootstrap
from baremetal_acc.cli import session
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import text
from baremetal_acc.cli.output.report import Report, ReportCommand
from baremetal_acc.cli.session import Configuration
from baremetal_acc.cli.state import folder
from baremetal_acc.config.settings import Settings
from baremetal_acc.pools import sources
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.scheduling.demand import AskedFunctions
from baremetal_acc.scheduling.demand_status import StoredDemand

FORMAT = 1

COLUMNS = ('Id', 'Function', 'Class', 'Source', 'Told', 'State', 'Since', 'Took', 'Region')


def desk(using: Configuration, environ: Mapping[str, str]) -> DemandService:
    """The service that stores demands and reports their progress.

    :raises DocumentError: an option is wrong.
    """
    return DemandService(spool=sources.spool(using.conf, using.settings.state_dir or folder(environ)), say=text.note)


def functions(settings: Settings, *, arguments: bool = False) -> frozenset[str]:
    """The functions of the catalogue.

    :param arguments: the command has an option that names the catalogue.
    :raises DocumentError: the catalogue is missing or wrong. ``CatalogueRefused``: its signature is not as required.
    """
    loaded = bootstrap.catalogue(settings, bootstrap.trusting(settings), datetime.now(UTC), arguments=arguments)
    return frozenset(image.function for image in loaded.catalogue.images if image.function is not None)


class _DemandCommand(ReportCommand):
    """A command about demands."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the option for the configuration file."""
        parser.add_argument(
            '--config-file', metavar='FILE', help=f'configuration file (default: {session.CONFIG_FILE} if it exists)'
        )

    def columns(self, arguments: argparse.Namespace) -> tuple[str, ...]:
        """The columns of the table."""
        return COLUMNS

    def _printed(self, told: Iterable[StoredDemand], at: DemandService, code: Exit) -> Report:
        demands = [_one(t) for t in told]
        document = {'format': FORMAT, 'demands': demands, 'refused': at.spool.refused()}
        return Report(document=document, columns=COLUMNS, rows=tuple(_row(one) for one in demands), code=code)


class DemandAddCommand(_DemandCommand):
    """Record that somebody waits for a function and has found no free region with it. Contacts no BMC.

    pool watch, or the next pool apply, has a region programmed. A demand that is added twice with the same --id counts once,
    and keeps its first time. Exit code 0: recorded; 4: too many demands wait already, or --id names a different demand.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options that describe the demand."""
        super().add_arguments(parser)
        parser.add_argument(
            'function', metavar='FUNCTION', help='function of the catalogue, by its name or its resource class in placement'
        )
        parser.add_argument('--catalogue', metavar='FILE', help='catalogue file; overrides the configuration')
        parser.add_argument(
            '--resource-class', metavar='CLASS', help='resource class of the machines that are suitable (default: all)'
        )
        parser.add_argument('--id', metavar='ID', help='id of the demand (default: a new UUID)')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Store the demand."""
        using = session.configuration(arguments, os.environ)
        at = desk(using, os.environ)
        at.functions = functions(using.settings, arguments=True)
        asked = AskedFunctions(functions=(at.function(arguments.function),), resource_class=arguments.resource_class)
        name = str(uuid.uuid4()) if arguments.id is None else arguments.id
        told = {d.id for d in at.tell(asked, name, datetime.now(UTC), source='file')}
        return self._printed((t for t in at.told() if t.demand.id in told), at, Exit.HOLDS)


class List(_DemandCommand):
    """List the demands for functions: who waits for which function, and its progress. Writes nothing. Exit code 0."""

    def work(self, arguments: argparse.Namespace) -> Report:
        """Read and print the demands."""
        at = desk(session.configuration(arguments, os.environ), os.environ)
        report = self._printed(at.told(), at, Exit.HOLDS)
        if at.spool.refused():
            refused = at.spool.refused()
            demands = '1 demand was' if refused == 1 else f'{refused} demands were'
            text.note(f'{demands} refused so far, because there were too many')
        return report


class Drop(_DemandCommand):
    """Delete demands. Programming that has begun for them continues. Exit code 0: deleted; 3: no such demand."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the argument that names the demands."""
        super().add_arguments(parser)
        parser.add_argument('ids', nargs='+', metavar='ID', help='id as printed by pool demand list')

    def work(self, arguments: argparse.Namespace) -> Report:
        """Delete the demands."""
        at = desk(session.configuration(arguments, os.environ), os.environ)
        gone = [one for one in at.told() if one.demand.id in arguments.ids]
        missing = [name for name in arguments.ids if not at.spool.drop(name)]
        for name in missing:
            text.error(f'{name}: there is no such demand (pool demand list prints the ids)')
        return self._printed(gone, at, Exit.NOT_MET if missing else Exit.HOLDS)


def _one(told: StoredDemand) -> dict[str, Any]:
    one = told.demand
    return {
        'id': one.id,
        'function': one.function,
        'resource_class': one.resource_class,
        'project': told.asker,
        'source': told.source,
        'told': one.at.isoformat(),
        'state': str(told.progress),
        'since': told.since.isoformat(),
        'took_seconds': None if told.took is None else round(told.took.total_seconds(), 1),
        'provider': told.provider,
    }


def _row(one: Mapping[str, Any]) -> tuple[Any, ...]:
    took = None if one['took_seconds'] is None else f'{one["took_seconds"]:.0f} s'
    told, since = (f'{datetime.fromisoformat(one[key]):%Y-%m-%d %H:%M:%SZ}' for key in ('told', 'since'))
    return (one['id'], one['function'], one['resource_class'], one['source'], told, one['state'], since, took, one['provider'])
