# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The spool, the journal and the serials that earlier versions have left on a disk are read, whole, and gone on with."""

import json
import logging
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.errors import AccError, DemandDiffers, StaleJob
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.serials import Serials
from baremetal_acc.pools.journal import MoveJournal
from baremetal_acc.pools.spool import Spool
from baremetal_acc.pools.state_machine import MoveStage
from baremetal_acc.scheduling.demand_status import DemandProgress
from baremetal_acc.scheduling.pools import Demand
from tests.stored.folder import COMMITS, files, laid_out

NOW = datetime(2026, 11, 28, 6, 0, tzinfo=UTC)

LATER = NOW + timedelta(minutes=5)

LASTS = timedelta(hours=1)

PROJECT = '6f3c4f0a2d9b4e5f8a7c1b2d3e4f5061'

REGION = 'a2b1c0d0-0000-4000-8000-00000000000'

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c12'

ETC = Path('/etc/baremetal_acc')


@pytest.fixture(params=COMMITS)
def commit(request) -> str:
    """Each one whose files are kept here."""
    return request.param


@pytest.fixture
def spool(commit, tmp_path) -> Spool:
    """The folder of demands, as that version has left it."""
    return Spool(root=laid_out(commit, 'spool', tmp_path))


@pytest.fixture
def journal(commit, tmp_path) -> MoveJournal:
    """The folder of moves, as that version has left it."""
    return MoveJournal(root=laid_out(commit, 'pool', tmp_path))


@pytest.fixture
def serials(commit, tmp_path) -> Serials:
    """The file of serials, as that version has left it."""
    return Serials(path=laid_out(commit, 'serials', tmp_path) / 'catalogue-serials.json')


def test_each_demand_is_read(commit, spool):
    """With who told it, on whose behalf, and how far it has come; nothing that lies there is passed over."""
    told = spool.told(LATER, LASTS)
    known = {t.demand.id: (t.demand.function, t.source, t.asker, t.progress, t.provider, t.took) for t in told}
    assert {
        'served': ('lz4', 'file', 'project-b', DemandProgress.TAKEN, f'{REGION}3', timedelta(minutes=1)),
        'boot-1': ('gzip', 'nova', PROJECT, DemandProgress.WAITING, None, None),
        'boot-2': ('aes', 'nova', PROJECT, DemandProgress.PROGRAMMING, f'{REGION}1', None),
        'by hand': ('gzip', 'file', None, DemandProgress.SCHEDULABLE, f'{REGION}2', timedelta(seconds=341.5)),
        'büro/7': ('sha-3', 'file', None, DemandProgress.WAITING, None, None),
        'req/1': ('gzip', 'nova', None, DemandProgress.WAITING, None, None),
        'req/2': ('aes', 'nova', None, DemandProgress.WAITING, None, None),
        'req/3': ('aes', 'nova', None, DemandProgress.WAITING, None, None),
    } == known
    assert ['served', 'boot-1', 'boot-2', 'by hand', 'büro/7', 'req/1', 'req/2', 'req/3'] == [t.demand.id for t in told]
    assert len(files(commit, 'spool', '*-*-*.json')) == len(told)
    assert {'boot-1': 'CUSTOM_GOLD', 'by hand': 'gold'} == {
        t.demand.id: t.demand.resource_class for t in told if t.demand.resource_class
    }
    assert [('req', True)] * 3 == [t.demand.request for t in told if t.demand.of == 3]
    assert [NOW + timedelta(seconds=2.5)] == [t.demand.at for t in told if t.demand.function == 'sha-3']
    assert {NOW + timedelta(minutes=1)} == {t.since for t in told if t.progress is not DemandProgress.WAITING}


def test_demands_go_on(spool):
    """The same one told again is that one, another one of its id is refused, and one can be marked and dropped."""
    assert not spool.put(Demand(id='boot-1', function='gzip', at=LATER, resource_class='CUSTOM_GOLD'), 'nova', PROJECT)
    with pytest.raises(DemandDiffers, match='boot-1'):
        spool.put(Demand(id='boot-1', function='aes', at=LATER), 'nova', PROJECT)
    assert spool.put(Demand(id='new', function='gzip', at=LATER))
    assert spool.drop('büro/7')
    assert not spool.drop('büro/7')
    left = {t.demand.id for t in spool.told(LATER, LASTS)}
    assert {'served', 'boot-1', 'boot-2', 'by hand', 'req/1', 'req/2', 'req/3', 'new'} == left


def test_refused_demands_are_still_counted(spool):
    """What the metrics tell does not begin again at 0."""
    assert 2 == spool.refused()


def test_a_demand_of_an_unknown_format_is_named_and_left(commit, tmp_path, caplog):
    """It is no demand of ours to serve, nor to delete; the others are served."""
    root = laid_out(commit, 'spool', tmp_path)
    [path] = [p for p in root.glob('*.json') if json.loads(p.read_text())['told']['demand']['id'] == 'boot-1']
    path.write_text(json.dumps(json.loads(path.read_text()) | {'format': 99}))
    with caplog.at_level(logging.WARNING):
        told = Spool(root=root).told(LATER, LASTS)
    assert ('boot-1' not in {t.demand.id for t in told}, 7) == (True, len(told))
    assert any(path.name in record.getMessage() for record in caplog.records)


def test_each_move_is_read(commit, journal):
    """With its stage, what is to be done to it, why it is undone, and what it offered, number for number."""
    entries = journal.read()
    assert len(files(commit, 'pool', 'moves/*.json')) == len(entries)
    assert [(stage, f'{NODE}{n}', f'rack1-{n}') for n, stage in enumerate(MoveStage)] == [
        (e.stage, e.move.machine, e.move.name) for e in entries
    ]
    claimed = 'claimed: instance 7 has CUSTOM_ACC_FN_GZIP'
    assert {MoveStage.RETURN: claimed, MoveStage.RESTORE: claimed} == {e.stage: e.why for e in entries if e.why is not None}
    for number, entry in enumerate(entries):
        assert NOW + timedelta(minutes=number) == entry.begun
        assert [(None, 'demand boot-2'), ('gzip', 'pool crypto')] == [(c.was, c.why) for c in entry.move.changes]
        assert {('serial:8086-0b2b-PAC0001', 'aes')} == {(c.accelerator, c.function) for c in entry.move.changes}
        first, second = entry.offered
        assert () == second.stocks
        assert [('CUSTOM_ACC_FN_GZIP', 1, 0, 1, 1.0), ('FPGA', 2, 2, 2, 1.5)] == [
            (s.resource_class, s.total, s.reserved, s.max_unit, s.allocation_ratio) for s in first.stocks
        ]


def test_a_move_ends(journal):
    """It is forgotten, and the others are not; nobody else moves machines meanwhile."""
    first, *rest = journal.read()
    with journal.alone():
        journal.drop(first)
        assert tuple(rest) == journal.read()
        journal.write(first)
    assert (first, *rest) == journal.read()


def test_a_move_of_an_unknown_format_is_refused_by_name(commit, tmp_path):
    """Nobody moves machines while one of them may be withdrawn for ever."""
    root = laid_out(commit, 'pool', tmp_path)
    path = root / 'moves' / f'{NODE}3.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | {'format': 99}))
    with pytest.raises(StaleJob, match=f'{NODE}3'):
        MoveJournal(root=root).read()


@pytest.mark.parametrize(
    ('path', 'serial', 'signed', 'said'),
    [
        (ETC / 'catalogue.toml', 41, True, 'has serial 41, but was seen before with serial 42'),
        (ETC / 'catalogue.toml', None, True, 'has no serial, but was seen before with serial 42'),
        (ETC / 'catalogue.toml', 42, True, 'has serial 42, which it had before with other content'),
        (ETC / 'catalogue.toml', 41, False, 'has serial 41, but was seen before with serial 42'),
        (ETC / 'lab.toml', 6, False, 'has serial 6, but was seen before with serial 7'),
        (ETC / 'both.toml', 8, False, 'has serial 8, but was seen before with serial 9'),
        (ETC / 'both.toml', 4, True, 'has serial 4, but was seen before with serial 5'),
        (Path('/srv/acc/katalog für alle.toml'), None, False, 'has no serial, but was seen before with serial 0'),
    ],
)
def test_an_older_catalogue_is_still_refused(serials, path, serial, signed, said):
    """By the highest serial that the earlier version has seen."""
    with pytest.raises(CatalogueRefused, match=said):
        serials.accept(path, serial, 'sha256:other', signed=signed)


def test_a_catalogue_goes_on(serials):
    """The same one, and newer ones, are taken; a signed one is not locked out by a higher serial of an unsigned one."""
    serials.accept(ETC / 'catalogue.toml', 42, f'sha256:{42:064x}', signed=True)
    serials.accept(ETC / 'lab.toml', 1, 'sha256:signed', signed=True)
    serials.accept(ETC / 'both.toml', 6, 'sha256:new', signed=True)
    serials.accept(ETC / 'catalogue.toml', 43, 'sha256:new', signed=True)
    with pytest.raises(CatalogueRefused, match='was seen before with serial 43'):
        serials.accept(ETC / 'catalogue.toml', 42, f'sha256:{42:064x}', signed=True)


def test_serials_of_an_unknown_format_are_refused_by_name(commit, tmp_path):
    """Else an older catalogue would be taken."""
    path = laid_out(commit, 'serials', tmp_path) / 'catalogue-serials.json'
    path.write_text(json.dumps(json.loads(path.read_text()) | {'format': 99}))
    with pytest.raises(AccError, match=r'catalogue-serials\.json'):
        Serials(path=path).accept(ETC / 'catalogue.toml', 43, 'sha256:new', signed=True)
