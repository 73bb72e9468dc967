# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store the moves that were begun, so that a killed process leaves no node withdrawn from placement for ever.

::

    moves.sqlite   a row for each machine, written before each act; deleted when the move has ended
    lock           held by the one process that moves machines; it contains the process id
"""

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.placement.node_withdrawal import Offered
from baremetal_acc.pools.state_machine import MoveStage
from baremetal_acc.scheduling.pools import RegionMove
from baremetal_acc.state_file import Earlier, StateFile

FORMAT = 1

_TABLES = 'CREATE TABLE move (machine TEXT PRIMARY KEY, entry BLOB NOT NULL)'
_REMEMBER = 'INSERT OR REPLACE INTO move (machine, entry) VALUES (?, ?)'


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A move as it is stored.

    :ivar stage: the stage that was to be done when the move was stored.
    :ivar offered: the machine's inventories in placement before the move.
    :ivar why: why the move is undone; None where it is not.
    """

    move: RegionMove
    stage: MoveStage
    begun: datetime
    offered: tuple[Offered, ...] = ()
    why: str | None = None
    format: int = FORMAT


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveJournal:
    """The stored moves of one folder.

    :ivar root: the folder, created when it is needed, for its owner alone.
    """

    root: Path

    def read(self) -> tuple[Entry, ...]:
        """Return all moves, sorted by node.

        :raises StateError: the database cannot be used.
        :raises StaleJob: a move was written by another version, or by somebody else.
        """
        rows = self._file().select('SELECT machine, entry FROM move ORDER BY machine')
        return tuple(self._decoded(machine, data) for machine, data in rows)

    def write(self, entry: Entry) -> None:
        """Store a move atomically: whatever happens to this process, a reader sees the old state or the new one.

        :raises StateError: the move could not be stored; then the act must not be done.
        """
        with self._file().writing() as db:
            db.execute(_REMEMBER, (entry.move.machine, json.dumps(encode(entry)).encode()))

    def drop(self, entry: Entry) -> None:
        """Delete a move that has ended.

        :raises StateError: the move could not be deleted.
        """
        with self._file().writing() as db:
            db.execute('DELETE FROM move WHERE machine = ?', (entry.move.machine,))

    def alone(self) -> AbstractContextManager[None]:
        """Hold the lock that lets only one process move machines. The system releases it when the process ends in any way.

        :raises Refused: on entering: another process holds it.
        """
        return self._file().alone(self.root / 'lock', '{} is already changing nodes of the pools')

    def _decoded(self, machine: str, data: bytes) -> Entry:
        try:
            raw = json.loads(data)
            if not isinstance(raw, dict) or raw.get('format') != FORMAT:
                raise StaleJob('unknown format')
            entry = decode(Entry, raw)
            if entry.move.machine != machine:
                raise StaleJob('it belongs to another node')
        except (ValueError, RecursionError, StaleJob) as exc:
            path = self._file().path
            forget = f'sqlite3 {path} "DELETE FROM move WHERE machine = \'{machine}\'"'  # noqa: S608 - for people
            hint = f'clean the node, so that it is available and published in placement, then delete the move: {forget}'
            raise StaleJob(f'{path}: stored move of node {machine} cannot be read: {exc}', hint=hint) from None
        return entry

    def _file(self) -> StateFile:
        path = self.root / 'moves.sqlite'
        return StateFile(
            path=path,
            tables=_TABLES,
            risk='have nodes withdrawn and reprogrammed',
            lost=f'restore it; or clean the nodes that are withdrawn from placement, then move {path} away',
            elsewhere='set XDG_STATE_HOME, or [baremetal_acc] state_dir, to a folder of your own',
            earlier=Earlier(
                at=self.root / 'moves',
                documents=('moves/*.json',),
                locks='lock',
                # Copied without a check: an entry is checked when it is read.
                take=lambda db, path, data: db.execute(_REMEMBER, (path.stem, data)),
            ),
        )
