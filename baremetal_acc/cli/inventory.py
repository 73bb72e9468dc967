# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc inventory``: which accelerators are there, what do they run, and are they locked?"""

import argparse
import json
from datetime import UTC, datetime
from typing import Any

from baremetal_acc.cli import exits, render, session, text
from baremetal_acc.cli.bmcs import TargetEntry
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.report import Report, ReportCommand, each, failed
from baremetal_acc.cli.session import Session
from baremetal_acc.cli.state import TargetState
from baremetal_acc.decide.verify import judged
from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.model import inventory as model
from baremetal_acc.run import Target, Tools, observe

COLUMNS = ('Target', 'Kind', 'Model', 'Identity', 'Firmware', 'Functions', 'Lock')


class Inventory(ReportCommand):
    """List the accelerators of targets with firmware, functions and locks. Writes nothing to a BMC.

    With -f json or yaml it prints one document of all targets (see the schema inventory.json in the documentation).
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Targets, and how to print them."""
        session.add_arguments(parser, writes=False, documents=False)
        parser.add_argument(
            '--stream', action='store_true', help='print each target as one line of JSON as soon as it was read'
        )

    def work(self, arguments: argparse.Namespace) -> Report:
        """Look at every target."""
        using = session.begin(arguments, writes=False)
        tools = using.tools(documents=False)
        targets = {e.name: using.attempt(e) for e in using.entries}

        def one(entry: TargetEntry) -> dict[str, Any]:
            target = targets[entry.name]
            try:
                if isinstance(target, AccError):
                    raise target
                body = render.inventory(entry.name, look(target, using, tools))
                code = Exit.HOLDS
                _mention_gaps(body)
            except AccError as exc:
                body = render.inventory(entry.name, None, exc)
                code = failed(entry.name, exc)
            codes.append(code)
            if arguments.stream:
                # One write for each line: lines of several threads do not mix.
                self.app.stdout.write(json.dumps(body) + '\n')
                self.app.stdout.flush()
            return body

        codes: list[Exit] = []
        bodies = [body for _, body in each(using.entries, one) if not isinstance(body, AccError)]
        self._streamed = arguments.stream
        return Report(
            document=render.document(bodies),
            columns=COLUMNS,
            rows=tuple(row for body in bodies for row in _rows(body)),
            code=exits.worst(codes),
        )

    def produce_output(self, parsed_args: argparse.Namespace, column_names: Any, data: Any) -> int:
        """Nothing more to print when every target has been printed already."""
        return 0 if self._streamed else super().produce_output(parsed_args, column_names, data)


def look(target: Target, using: Session, tools: Tools) -> model.Inventory:
    """A target as it is now, its locks judged by what we remember.

    :raises BmcError: a BMC cannot be spoken to.
    """
    try:
        remembered = using.store.read(target.name)
    except StaleJob as exc:
        text.warn(str(exc))
        remembered = TargetState(target=target.name)
    seen = observe(target, tools, datetime.now(UTC))
    return judged(seen, remembered.engagements, lifecycle=remembered.lifecycle)


def _mention_gaps(body: dict[str, Any]) -> None:
    if body['gaps']:
        first = body['gaps'][0]
        more = f', and {len(body["gaps"]) - 1} more' if len(body['gaps']) > 1 else ''
        text.warn(f'{body["target"]}: not all could be read: {first["bmc"]} {first["uri"]}: {first["reason"]}{more}')


def _rows(body: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (
            body['target'],
            a['kind'],
            _model(a['vendor'], a['model']),
            a['serial'] or a['uuid'] or a['primary_uri'],
            tuple(f'{c["id"] or "device"} {c["version"] or "unknown"}' for c in a['firmware']),
            tuple(f'{s["slot_id"]} {s["function"] or "empty"}' for s in a['slots'])
            or tuple(f['name'] or f['id'] for f in a['functions']),
            a['device_lock'],
        )
        for a in body['accelerators']
    ]


def _model(vendor: str | None, model: str | None) -> str | None:
    """Vendor and model; many models begin with their vendor already."""
    if vendor and model and model.casefold().startswith(vendor.casefold()):
        return model
    return ' '.join(filter(None, (vendor, model))) or None
