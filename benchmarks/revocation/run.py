# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Benchmark how soon one entry of the deny list keeps the accelerators of all nodes of a conductor from being allocated.

A real conductor with its own database, a real placement over HTTP, and a BMC that counts what it is asked. One node is cleaned
by our steps, so that it is verified and published; the others are copies of it in Ironic's database and in placement. Then an
operator replaces the catalogue by one that denies the firmware of every card, and later by one that does not.

The time begins with the change of the file, and ends when placement itself answers that no accelerator can be allocated.
"""

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.inventory import harness
from benchmarks.inventory.harness import TOP, Bars
from benchmarks.placement.run import Placement

NODES = 3500
WITHDRAWN_SECONDS = 60.0
"""Within this time after the change of the catalogue, nothing that is denied can be allocated."""

TITLES = ('what', 'figure')


def judge(found: dict[str, Any]) -> Bars:
    """What has to hold."""
    bars = Bars()
    bars.at_most('withdrawn-seconds', found['withdrawn'], WITHDRAWN_SECONDS)
    bars.at_most('bmc-requests', found['bmc_requests'], 0)
    bars.at_most('allocatable-while-denied', found['allocatable'], 0)
    bars.at_most('unreserved-in-use', found['unreserved'], 0)
    bars.at_most('claims-lost', found['claims_lost'], 0)
    bars.at_most('not-back', found['not_back'], 0)
    bars.at_most('reservations-lost', found['reservations_lost'], 0)
    return bars


def rows(found: dict[str, Any]) -> list[tuple[str, object]]:
    """For the table."""
    return [
        ('nodes', found['nodes']),
        ('accelerators', found['accelerators']),
        ('nodes with a claim that is not deployed yet', found['claimed']),
        ('nodes with a card that an operator has reserved', found['reserved']),
        ('s until nothing denied can be allocated', found['withdrawn']),
        ('s until every node is settled: reserved, stored, reported', found['settled']),
        ('s until everything is available again', found['back']),
        ('requests to placement, to withdraw', found['placement_requests']),
        ('requests to BMCs', found['bmc_requests']),
        ("conductor's processor s, to withdraw", found['cpu']),
        ("placement's processor s, to withdraw", found['placement_cpu']),
    ]


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--nodes', type=int, default=NODES)
    parser.add_argument('--gpus', type=int, default=2, help='of each node; every one runs what is denied')
    parser.add_argument('--claimed', type=float, default=0.01, help='share of the nodes of which a card was just claimed')
    parser.add_argument('--reserved', type=float, default=0.01, help='share of the nodes of which an operator reserved a card')
    parser.add_argument('--database', metavar='FILE', type=Path, help='holds the URL of an empty database for placement')
    parser.add_argument('--threads', type=int, default=None, help='of placement; 1 with SQLite, else 8')
    arguments = parser.parse_args()
    place = harness.where()
    print(harness.header(place))
    database = None if arguments.database is None else arguments.database.read_text(encoding='utf-8').strip()
    threads = arguments.threads or (1 if database is None else 8)
    kind = 'SQLite' if database is None else database.partition(':')[0]
    print(f'Ironic with SQLite; placement with {kind}, threads: {threads}\n', flush=True)
    with (
        tempfile.TemporaryDirectory(prefix='bench-revocation-') as folder,
        Placement(Path(folder), database=database, threads=threads) as placement,
    ):
        from benchmarks.revocation.fleet import Fleet  # it needs Ironic, which is slow to import

        with Fleet(Path(folder), placement, gpus=arguments.gpus) as fleet:
            with ThreadPoolExecutor(4) as pool:
                began = time.monotonic()
                fleet.grow(arguments.nodes, arguments.claimed, arguments.reserved, pool)
                print(f'  set up in {time.monotonic() - began:.0f} s', file=sys.stderr)
            found = fleet.measure()
    print(harness.table(TITLES, rows(found)))
    bars = judge(found)
    record = {
        'where': place,
        'arguments': {name: str(value) for name, value in vars(arguments).items()},
        'found': found,
        'bars': bars.lines(),
    }
    kept = harness.keep('revocation', json.loads(json.dumps(record)))
    print(f'\nkept in {kept.relative_to(TOP)}')
    print('\n'.join(bars.lines()))
    sys.exit(0 if bars.all_met() else 1)


if __name__ == '__main__':
    main()
