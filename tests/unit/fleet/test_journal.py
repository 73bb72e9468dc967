# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A move that was begun is remembered, for its owner alone, and one process moves machines."""

import json
import os
import subprocess
import sys

import pytest

from baremetal_acc.decide.moving import Stage
from baremetal_acc.decide.pool import Change, Move
from baremetal_acc.errors import Refused, StaleJob, StateError
from baremetal_acc.fleet.journal import Entry, Journal
from baremetal_acc.fleet.moves import clean_steps
from baremetal_acc.model.reshape import Stock
from baremetal_acc.placement.shelf import Offered
from tests.unit.decide import values as v

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'


def change(card: str = 'uuid:a', slot: str = 'Slot0', function: str = 'aes') -> Change:
    return Change(provider=f'p-{card}-{slot}', accelerator=card, slot_id=slot, was='gzip', function=function, why='pool a')


STOCK = Stock(resource_class='FPGA', total=1, reserved=0, min_unit=1, max_unit=1, step_size=1, allocation_ratio=1.5)
ENTRY = Entry(
    move=Move(machine=NODE, name='rack-1', changes=(change(),)),
    stage=Stage.CLEAN,
    begun=v.NOW,
    offered=(Offered(uuid='p', name='x', stocks=(STOCK,)),),
    why='claimed',
)


@pytest.fixture
def journal(tmp_path) -> Journal:
    return Journal(root=tmp_path / 'pool')


def test_what_is_written_is_read(journal):
    """With what was offered, number for number, by the owner alone; and it is gone when it has ended."""
    assert () == journal.read()
    journal.write(ENTRY)
    assert (ENTRY,) == journal.read()
    path = journal.root / 'moves' / f'{NODE}.json'
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert [path.name] == os.listdir(path.parent)
    journal.drop(ENTRY)
    journal.drop(ENTRY)
    assert () == journal.read()


@pytest.mark.parametrize(
    'text',
    ['', '{', '[]', '{"format": 2}', json.dumps({'format': 1}), '[' * 100_000, ' ' * (1024 * 1024 + 1)],
)
def test_a_file_that_cannot_be_used_is_named(journal, text):
    """With what to do; nothing is moved then."""
    journal.write(ENTRY)
    path = journal.root / 'moves' / f'{NODE}.json'
    path.write_text(text)
    with pytest.raises(StaleJob) as failed:
        journal.read()
    assert str(path) in str(failed.value)
    assert 'delete the file' in str(failed.value)


def test_a_file_about_another_node_is_refused(journal):
    """Somebody has copied it."""
    journal.write(ENTRY)
    path = journal.root / 'moves' / f'{NODE}.json'
    path.rename(path.with_name(f'{NODE[:-1]}4.json'))
    with pytest.raises(StaleJob, match='it is about another node'):
        journal.read()


def test_what_others_may_write_is_refused(journal, tmp_path):
    """They could have machines moved."""
    journal.write(ENTRY)
    path = journal.root / 'moves' / f'{NODE}.json'
    path.chmod(0o622)
    with pytest.raises(StateError, match='others may write it'):
        journal.read()
    path.unlink()
    path.symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(StateError, match='is a link'):
        journal.read()
    path.unlink()
    path.parent.chmod(0o777)
    for act in (journal.read, lambda: journal.write(ENTRY)):
        with pytest.raises(StateError, match='others may write it'):
            act()


def test_no_name_of_a_node_leads_out_of_the_folder(journal):
    """It comes from a service's answer."""
    with pytest.raises(StateError, match='is no UUID of a node'):
        journal.write(Entry(move=Move(machine='../../x', name='x', changes=()), stage=Stage.CLEAN, begun=v.NOW))


def test_a_second_process_is_told_who_moves_machines(journal):
    """Until that has ended, however it ends."""
    with journal.alone():
        code = (
            'import sys; from pathlib import Path; from baremetal_acc.fleet.journal import Journal\n'
            f'with Journal(root=Path({str(journal.root)!r})).alone(): pass'
        )
        done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=False)
        assert f'process {os.getpid()} moves machines of the pools (wait until it has ended)' in done.stderr
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
