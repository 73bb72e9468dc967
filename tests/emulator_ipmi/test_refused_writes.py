# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Harmless writes of a host: a lock of each kind refuses them, a lock that lies is found, and the recorded table is current."""

import dataclasses

import pytest

from baremetal_acc.locks.harmless_write import IpmiRequest
from baremetal_acc.locks.registry import mechanisms
from doc.refused import Outcome, RefusedWrite, described, read, rendered, written
from tests.emulator_ipmi.refused_writes import FIREWALL, HOST_PATHS, Trial, paths, tried, wrong

RIGHT = RefusedWrite(
    mechanism='hpe_kcs',
    path='host-bmc-ipmi',
    write='ipmitool raw 0x00',
    before=Outcome.DONE,
    locked=Outcome.REFUSED,
    after=Outcome.DONE,
)

SAMPLE = ('hpe_kcs', 'supermicro_kcs', 'host_interface', 'dell_system_lockdown')
"""One mechanism of each kind; ``make soak-guest`` tries all. tests/cli/test_ipmi_lock.py tests the firewall."""


def mechanism(name):
    return next(one for one in mechanisms() if one.name == name)


@pytest.mark.parametrize('name', SAMPLE)
def test_a_write_of_the_host_is_done_refused_and_done_again(emulated_machine, tmp_path, name):
    """Open, locked and unlocked, over the wire that the host has; where the write has an effect, the operator sees it."""
    rows = list(tried(emulated_machine, mechanism(name), tmp_path))
    tried_rows = [row for row in rows if row.write]
    assert [(Outcome.DONE, Outcome.REFUSED, Outcome.DONE)] == [(row.before, row.locked, row.after) for row in tried_rows]
    assert [] == wrong(rows, lies=False)


@pytest.mark.parametrize('name', ['hpe_kcs', 'host_interface', 'dell_system_lockdown', FIREWALL])
def test_a_lock_that_reads_closed_and_refuses_nothing_is_found(emulated_machine, tmp_path, name):
    """Verification is satisfied with such a BMC; the write of its host is not refused, and the table says so."""
    rows = list(tried(emulated_machine, mechanism(name), tmp_path, lies=True))
    (found,) = [row for row in rows if row.write]
    assert Outcome.DONE is found.locked
    assert [found] == wrong(rows, lies=False)
    assert f'- **{Outcome.DONE}**' in '\n'.join(rendered(dataclasses.replace(read(), rows=tuple(rows))))


@pytest.mark.parametrize(
    ('said', 'seen', 'outcome'),
    [
        (True, (0, 1), Outcome.DONE),
        (False, (0, 0), Outcome.REFUSED),
        (True, (0, 0), Outcome.CONTRADICTORY),
        (False, (0, 1), Outcome.CONTRADICTORY),
        (None, (0, 0), Outcome.CONTRADICTORY),
        (True, (None, None), Outcome.DONE),
        (None, (None, None), Outcome.CONTRADICTORY),
    ],
)
def test_an_answer_has_to_agree_with_what_the_operator_sees(monkeypatch, tmp_path, said, seen, outcome):
    """The host is told that the write is done and the operator sees no effect, or the other way round: neither counts."""
    answers, restored = iter(seen), []
    monkeypatch.setattr(Trial, '_sent', lambda _: said)
    monkeypatch.setattr(Trial, '_seen', lambda _: next(answers))
    monkeypatch.setattr(Trial, '_restore', lambda trial: restored.append(trial))
    trial = Trial(machine=None, folder=tmp_path, mechanism='hpe_kcs', write=mechanism('hpe_kcs').about.harmless[0])
    assert outcome is trial.outcome()
    assert (seen[0] != seen[1]) is bool(restored)


@pytest.mark.parametrize(
    ('changes', 'is_right'),
    [
        ({}, True),
        ({'locked': Outcome.DONE}, False),
        ({'before': Outcome.REFUSED}, False),
        ({'after': Outcome.REFUSED}, False),
        ({'locked': Outcome.CONTRADICTORY}, False),
        ({'locked': Outcome.NOT_TRIED}, False),
        ({'write': ''}, False),
        (dict.fromkeys(('before', 'locked', 'after'), Outcome.NOT_TRIED), False),
        ({'write': '', **dict.fromkeys(('before', 'locked', 'after'), Outcome.NOT_TRIED)}, True),
    ],
)
def test_a_row_is_right_if_only_the_lock_refuses_the_write(changes, is_right):
    """A path with a declared write has to be tried, and one without has none."""
    row = dataclasses.replace(RIGHT, **changes)
    assert is_right is row.is_right
    assert is_right is not any('**' in line for line in rendered(dataclasses.replace(read(), rows=(row,))))


def test_each_declared_write_is_of_a_path_that_its_lock_blocks():
    """One for each path at most, over the right wire, with its source."""
    for one in mechanisms():
        writes = one.about.harmless
        assert len(writes) == len({write.path for write in writes})
        assert {write.path for write in writes} <= {*paths(one)}, one.name
        for write in writes:
            assert isinstance(write.request, IpmiRequest) is (write.path == HOST_PATHS[0])
            assert write.effect
            assert write.source


def test_the_recorded_table_is_of_the_mechanisms_that_are_installed():
    """``make soak-guest`` writes it; a mechanism or a write that changed since has to be tried again."""
    expected = {
        (one.name, str(path), next((described(write) for write in one.about.harmless if write.path == path), ''))
        for one in mechanisms()
        for path in paths(one)
    }
    run = read()
    assert expected == {(row.mechanism, row.path, row.write) for row in run.rows}
    assert all(row.is_right for row in run.rows)
    assert (run.commit, run.date) > ('', '')


def test_a_run_is_read_as_it_was_written(tmp_path):
    """Nothing is lost in the file."""
    path = tmp_path / 'refused.json'
    path.write_text(written(read()), encoding='utf-8')
    assert read() == read(path)
