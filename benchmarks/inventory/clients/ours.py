# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Our client through its public API: connect, look, read the locks, log out. One line of JSON at the end.

With ``--repeat`` it looks twice over one connection, and tells what the second look took and asked. Then nothing but the second
look is counted: no root, no login, no logout.
"""

import argparse
import http.client
import json
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from oslo_config import cfg

from baremetal_acc import bootstrap
from baremetal_acc.bmc import registry
from baremetal_acc.bmc.driver import BmcAddress, Connection
from baremetal_acc.cli.output import documents
from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings
from baremetal_acc.execution import Target, Tools, observe
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import LockReading
from baremetal_acc.model.ref import HOST
from baremetal_acc.policy.baseline_rules import Baseline, Exposure, NodeFacts


def main() -> None:
    """Look."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('address')
    parser.add_argument('username')
    parser.add_argument('password')
    parser.add_argument('--system', help='URI of the System that is deployed')
    parser.add_argument('--slots', type=int, default=4, help='requests at a time')
    parser.add_argument('--repeat', type=int, metavar='PORT', help='control port of the server, to count a second inspection')
    parser.add_argument('--document', type=Path, help='file for the inventory, as the command line prints it')
    arguments = parser.parse_args()

    conf = cfg.ConfigOpts()
    options.register(conf)
    conf([], project='baremetal_acc', default_config_files=[], default_config_dirs=[])
    tools = bootstrap.tools(
        Settings.from_conf(conf), bootstrap.Documents(baseline=Baseline(rules=()), catalogue=(), folders=())
    )
    address = BmcAddress(
        name=HOST,
        address=arguments.address,
        username=arguments.username,
        password=arguments.password,
        system=arguments.system,
        concurrency=arguments.slots,
    )
    # A plugin is imported when it is first looked for; imports of the peers are not counted either.
    registry.for_address(address)
    node = NodeFacts(name='bench', resource_class=None, traits=frozenset(), exposure=Exposure('tenant'))
    target = Target(name='bench', node=node, bmcs=(address,))
    found = twice(address, tools, arguments.repeat) if arguments.repeat else once(target, tools, arguments.document)
    print(json.dumps(found))


def once(target: Target, tools: Tools, document: Path | None) -> dict[str, Any]:
    """A whole inventory. It is in hand before the logout has been answered, and ends with that."""
    started, cpu = time.monotonic(), time.process_time()
    inventory = observe(target, tools, datetime.now(UTC))
    in_hand = time.monotonic() - started
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    found = {'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu, 'in_hand': in_hand}
    if document is not None:
        document.write_text(json.dumps(documents.document([documents.inventory('bench', inventory)])), encoding='utf-8')
    return {**found, **_told(inventory)}


def twice(address: BmcAddress, tools: Tools, control: int) -> dict[str, Any]:
    """The second of two looks over one connection."""
    with tools.connect(address) as connection:
        first = _look(connection, tools)
        _counts(control)
        started, cpu = time.monotonic(), time.process_time()
        second = _look(connection, tools)
        found = {'wall': time.monotonic() - started, 'cpu': time.process_time() - cpu}
        counts = _counts(control)
    return {**found, 'counts': counts, 'same': first == second, 'locks': len(second[1])}


def _look(connection: Connection, tools: Tools) -> tuple[list[Any], list[Any]]:
    """Devices with what they run, and their locks: without the times, so that looks can be compared."""
    now = datetime.now(UTC)
    seen = connection.look(now)
    readings: Iterable[LockReading] = (
        r for a in seen.accelerators for m in tools.mechanisms for r in m.read(a, [seen.reader], now)
    )
    return [repr(a) for a in seen.accelerators], [(r.mechanism, r.ref, r.field, str(r.state)) for r in readings]


def _told(inventory: Inventory) -> dict[str, int]:
    return {
        'accelerators': len(inventory.accelerators),
        'firmware': sum(len(a.firmware) for a in inventory.accelerators),
        'locks': sum(len(a.locks) for a in inventory.accelerators) + len(inventory.platform_locks),
        'gaps': len(inventory.gaps),
    }


def _counts(port: int) -> dict[str, Any]:
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    connection.request('GET', '/counts')
    found: dict[str, Any] = json.load(connection.getresponse())
    connection.close()
    return found


if __name__ == '__main__':
    main()
