# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write the spool, the journal and the catalogue serials that a version leaves on the disk, by the code of that version.

How it was run is in README.rst beside this file. It imports only what every version since 94f9a7d has.
"""

import argparse
import shutil
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

from baremetal_acc.errors import DemandRefused
from baremetal_acc.images.serials import Serials
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement.node_withdrawal import Offered
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.spool import Spool
from baremetal_acc.pools.state_machine import MoveStage
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand
from baremetal_acc.scheduling.pools import Demand, RegionChange, RegionMove

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)

PROJECT = '6f3c4f0a2d9b4e5f8a7c1b2d3e4f5061'

NODES = tuple(f'1be26c0b-03f2-4d2e-ae87-c02d7f33c12{n}' for n in range(7))


def write_spool(root: Path) -> None:
    """Demands of all sources, in each progress, a request of three, and a count of those that found no room."""
    spool = Spool(root=root, most=8, most_of_an_asker=2)
    spool.put(Demand(id='boot-1', function='gzip', at=NOW, resource_class='CUSTOM_GOLD'), 'nova', PROJECT)
    spool.put(Demand(id='boot-2', function='aes', at=NOW + timedelta(seconds=1)), 'nova', PROJECT)
    spool.put(Demand(id='by hand', function='gzip', at=NOW + timedelta(seconds=2), resource_class='gold'))
    spool.put(Demand(id='büro/7', function='sha-3', at=NOW + timedelta(seconds=2.5)))
    several = [
        Demand(id=f'req/{n}', function=f, at=NOW + timedelta(seconds=3), of=3) for n, f in enumerate(('gzip', 'aes', 'aes'), 1)
    ]
    spool.put_all(several, 'nova')
    spool.put(Demand(id='served', function='lz4', at=NOW - timedelta(minutes=2)), 'file', 'project-b')
    for n in range(2):
        try:
            spool.put(Demand(id=f'late-{n}', function='gzip', at=NOW))
        except DemandRefused:
            continue
        raise AssertionError('the folder ought to be full')
    marks = {
        'boot-2': (DemandProgress.PROGRAMMING, 'a2b1c0d0-0000-4000-8000-000000000001', None),
        'by hand': (DemandProgress.SCHEDULABLE, 'a2b1c0d0-0000-4000-8000-000000000002', timedelta(seconds=341.5)),
        'served': (DemandProgress.TAKEN, 'a2b1c0d0-0000-4000-8000-000000000003', timedelta(seconds=60)),
    }
    for one in spool.told(NOW + timedelta(minutes=1), timedelta(hours=1)):
        if one.demand.id in marks:
            progress, provider, took = marks[one.demand.id]
            known = {'demand': one.demand, 'source': one.source, 'asker': one.asker}
            assert spool.mark(
                StoredDemand(**known, since=NOW + timedelta(minutes=1), progress=progress, provider=provider, took=took)
            )


def write_journal(root: Path) -> None:
    """A move in each stage, one of them undone, with what was offered."""
    journal = MoveJournal(root=root)
    stock = Stock(
        resource_class='CUSTOM_ACC_FN_GZIP', total=1, reserved=0, min_unit=1, max_unit=1, step_size=1, allocation_ratio=1.0
    )
    gone = Stock(resource_class='FPGA', total=2, reserved=2, min_unit=1, max_unit=2, step_size=1, allocation_ratio=1.5)
    for number, (stage, node) in enumerate(zip(MoveStage, NODES, strict=True)):
        changes = tuple(
            RegionChange(
                provider=f'a2b1c0d0-0000-4000-8000-00000000010{slot}',
                accelerator='serial:8086-0b2b-PAC0001',
                slot_id=f'Slot{slot}',
                was='gzip' if slot else None,
                function='aes',
                why='pool crypto' if slot else 'demand boot-2',
            )
            for slot in range(2)
        )
        undone = stage in (MoveStage.RETURN, MoveStage.RESTORE)
        journal.write(
            Entry(
                move=RegionMove(machine=node, name=f'rack1-{number}', changes=changes),
                stage=stage,
                begun=NOW + timedelta(minutes=number),
                offered=(
                    Offered(uuid='a2b1c0d0-0000-4000-8000-000000000100', name=f'{node}_fpga_0', stocks=(stock, gone)),
                    Offered(uuid='a2b1c0d0-0000-4000-8000-000000000101', name=f'{node}_fpga_1', stocks=()),
                ),
                why='claimed: instance 7 has CUSTOM_ACC_FN_GZIP' if undone else None,
            )
        )
    with journal.alone():  # leaves the file that is held
        pass


def write_serials(path: Path) -> None:
    """Signed catalogues and one that is not, and one that was both."""
    serials = Serials(path=path)
    digest = 'sha256:{:064x}'.format
    serials.accept(Path('/etc/baremetal_acc/catalogue.toml'), 41, digest(41), signed=True)
    serials.accept(Path('/etc/baremetal_acc/catalogue.toml'), 42, digest(42), signed=True)
    serials.accept(Path('/etc/baremetal_acc/lab.toml'), 7, digest(7), signed=False)
    serials.accept(Path('/srv/acc/katalog für alle.toml'), 0, digest(1), signed=False)
    serials.accept(Path('/etc/baremetal_acc/both.toml'), 5, digest(5), signed=True)
    serials.accept(Path('/etc/baremetal_acc/both.toml'), 9, digest(9), signed=False)


def main() -> None:
    """Write all into a folder, which gets ``spool``, ``pool`` and ``serials/catalogue-serials.json``."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=Path)
    out = parser.parse_args().folder
    with tempfile.TemporaryDirectory() as name:
        made = Path(name)
        write_spool(made / 'spool')
        write_journal(made / 'pool')
        write_serials(made / 'serials' / 'catalogue-serials.json')
        for part in ('spool', 'pool', 'serials'):
            shutil.rmtree(out / part, ignore_errors=True)
            shutil.copytree(made / part, out / part)


if __name__ == '__main__':
    main()
