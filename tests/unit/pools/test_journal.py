# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A move that was begun is remembered, for its owner alone, and one process moves machines."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest

from baremetal_acc.errors import Refused, StaleJob, StateError
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement.node_withdrawal import Offered
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.moves import clean_steps
from baremetal_acc.pools.state_machine import MoveStage
from baremetal_acc.scheduling.pools import RegionChange, RegionMove
from tests.unit.planning import values as v

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'


def change(card: str = 'uuid:a', slot: str = 'Slot0', function: str = 'aes') -> RegionChange:
    return RegionChange(
        provider=f'p-{card}-{slot}', accelerator=card, slot_id=slot, was='gzip', function=function, why='pool a'
    )


STOCK = Stock(resource_class='FPGA', total=1, reserved=0, min_unit=1, max_unit=1, step_size=1, allocation_ratio=1.5)
ENTRY = Entry(
    move=RegionMove(machine=NODE, name='rack-1', changes=(change(),)),
    stage=MoveStage.CLEAN,
    begun=v.NOW,
    offered=(Offered(uuid='p', name='x', stocks=(STOCK,)),),
    why='claimed',
)


@pytest.fixture
def journal(tmp_path) -> MoveJournal:
    return MoveJournal(root=tmp_path / 'pool')


def execute(journal, sql, *values) -> None:
    """Change it behind its owner's back."""
    with closing(sqlite3.connect(journal.root / 'moves.sqlite')) as db:
        db.execute(sql, values)
        db.commit()


def test_what_is_written_is_read(journal):
    """With what was offered, number for number, by the owner alone; and it is gone when it has ended."""
    assert () == journal.read()
    assert not journal.root.exists()
    journal.write(ENTRY)
    assert (ENTRY,) == journal.read()
    path = journal.root / 'moves.sqlite'
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    journal.write(replace(ENTRY, stage=MoveStage.WITHDRAW))
    assert (replace(ENTRY, stage=MoveStage.WITHDRAW),) == journal.read()
    assert ['moves', path.name] == sorted(os.listdir(path.parent))
    journal.drop(ENTRY)
    journal.drop(ENTRY)
    assert () == journal.read()


@pytest.mark.parametrize('text', ['', '{', '[]', '{"format": 2}', json.dumps({'format': 1}), '[' * 100_000])
def test_a_move_that_cannot_be_used_is_named(journal, text):
    """With what to do; nothing is moved then. What is to be done forgets that one."""
    other = replace(ENTRY, move=replace(ENTRY.move, machine=f'{NODE[:-1]}4'))
    journal.write(ENTRY)
    journal.write(other)
    execute(journal, 'UPDATE move SET entry = ? WHERE machine = ?', text.encode(), NODE)
    with pytest.raises(StaleJob, match=rf'moves\.sqlite: stored move of node {NODE} cannot be read') as failed:
        journal.read()
    command = re.search(r'then delete the move: sqlite3 (\S+) "(.*)"', failed.value.hint)
    assert command is not None
    assert str(journal.root / 'moves.sqlite') == command[1]
    execute(journal, command[2])
    assert (other,) == journal.read()


def test_a_move_about_another_node_is_refused(journal):
    """Somebody has copied it."""
    journal.write(ENTRY)
    execute(journal, 'UPDATE move SET machine = ?', f'{NODE[:-1]}4')
    with pytest.raises(StaleJob, match='it belongs to another node'):
        journal.read()


def test_what_others_may_write_is_refused(journal, tmp_path):
    """They could have machines moved."""
    journal.write(ENTRY)
    path = journal.root / 'moves.sqlite'
    path.chmod(0o622)
    with pytest.raises(StateError, match='other users may write it, and could have nodes withdrawn and reprogrammed'):
        journal.read()
    path.chmod(0o600)
    path.rename(tmp_path / 'elsewhere')
    path.symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(StateError, match='is a link'):
        journal.read()
    path.unlink()
    path.parent.chmod(0o777)
    for act in (journal.read, lambda: journal.write(ENTRY), lambda: journal.alone().__enter__()):
        with pytest.raises(StateError, match='other users may write there'):
            act()


def test_a_second_process_is_told_who_moves_machines(journal):
    """Until that has ended, however it ends."""
    with journal.alone():
        code = (
            'import sys; from pathlib import Path; from baremetal_acc.pools.journal import MoveJournal\n'
            f'with MoveJournal(root=Path({str(journal.root)!r})).alone(): pass'
        )
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
        assert f'process {os.getpid()} is already changing nodes of the pools (wait until it has ended)' in done.stderr
        with pytest.raises(Refused), journal.alone():
            pass
    with journal.alone():
        pass


def test_one_step_for_each_card_means_its_slots_and_no_others():
    """The argument of the step takes patterns."""
    found = clean_steps([change(slot='Slot[0]'), change('uuid:b', 'S*'), change(slot='Slot1', function='gzip')])
    assert [
        {'devices': ['uuid:a'], 'functions': {'Slot[[]0]': 'aes', 'Slot1': 'gzip'}},
        {'devices': ['uuid:b'], 'functions': {'S[*]': 'aes'}},
    ] == [step['args'] for step in found]
    assert {('firmware', 'program_accelerators')} == {(s['interface'], s['step']) for s in found}
