# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Nobody can make the serial of the newest catalogue be forgotten, or make all others wait."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from baremetal_acc import state_file
from baremetal_acc.errors import StateError
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.serials import Serials

CATALOGUE = Path('/etc/baremetal_acc/catalogue.toml')


@pytest.fixture
def serials(tmp_path) -> Serials:
    """With serial 9 seen."""
    found = Serials(path=tmp_path / 'state' / 'serials.sqlite')
    found.accept(CATALOGUE, 9, 'sha256:9', signed=True)
    return found


def test_a_folder_where_others_may_write_is_refused(serials):
    """They could take the file away, and an older catalogue would be new again."""
    serials.path.parent.chmod(0o777)
    serials.path.unlink()
    says = r'state: other users may write there, and could have an older catalogue accepted .chmod 700'
    with pytest.raises(StateError, match=says):
        serials.accept(CATALOGUE, 3, 'sha256:3', signed=True)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give a folder to somebody else')
def test_a_folder_of_somebody_else_is_refused(serials):
    """Whatever its mode."""
    os.chown(serials.path.parent, 65534, 65534)
    with pytest.raises(StateError, match='other users may write there'):
        serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)


def test_a_database_that_is_held_is_not_waited_for_for_ever(serials, monkeypatch):
    """Each turn in a conductor would wait, until no worker is left."""
    monkeypatch.setattr(state_file, 'BUSY_SECONDS', 0.1)
    with closing(sqlite3.connect(serials.path, isolation_level=None)) as held:
        held.execute('BEGIN IMMEDIATE')
        serials.accept(CATALOGUE, 9, 'sha256:9', signed=True)
        with pytest.raises(StateError, match=r'serials\.sqlite: another process has locked it for more than'):
            serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)
    serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)


def test_what_cannot_be_remembered_is_not_accepted(serials, monkeypatch):
    """What was seen stays as it was, and nothing lies beside it."""

    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(state_file.StateFile, '_connect', full)
    with pytest.raises(StateError, match='cannot be used: No space left on device'):
        serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)
    monkeypatch.undo()
    serials.accept(CATALOGUE, 9, 'sha256:9', signed=True)
    with pytest.raises(CatalogueRefused, match='has serial 8, but was seen before with serial 9'):
        serials.accept(CATALOGUE, 8, 'sha256:8', signed=True)
    assert ['serials.json', 'serials.sqlite'] == sorted(p.name for p in serials.path.parent.iterdir())


@pytest.mark.parametrize('named', ['serials.json', 'serials.sqlite', 'serials'])
def test_the_database_has_the_configured_name(tmp_path, named):
    """With another end. What earlier releases look for there is refused by them."""
    Serials(path=tmp_path / named).accept(CATALOGUE, 9, 'sha256:9', signed=True)
    assert 'serials.sqlite' in {p.name for p in tmp_path.iterdir() if not p.is_symlink()}
    [link] = [p for p in tmp_path.iterdir() if p.is_symlink()]
    assert ('serials.json' if named == 'serials.sqlite' else named) == link.name
