# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Can anybody make the newest catalogue be forgotten, or everybody wait?"""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from baremetal_acc.catalogue import serials as module
from baremetal_acc.catalogue.serials import Serials
from baremetal_acc.errors import AccError

CATALOGUE = Path('/etc/baremetal_acc/catalogue.toml')


@pytest.fixture
def serials(tmp_path) -> Serials:
    """With serial 9 seen."""
    found = Serials(path=tmp_path / 'state' / 'serials.json')
    found.accept(CATALOGUE, 9, 'sha256:9', signed=True)
    return found


def test_a_folder_where_others_may_write_is_refused(serials):
    """They could take the file away, and an older catalogue would be new again."""
    serials.path.parent.chmod(0o777)
    serials.path.unlink()
    with pytest.raises(AccError, match=r'state: others may write there, and could bring back an older catalogue .chmod go-w'):
        serials.accept(CATALOGUE, 3, 'sha256:3', signed=True)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can give a folder to somebody else')
def test_a_folder_of_somebody_else_is_refused(serials):
    """Whatever its mode."""
    os.chown(serials.path.parent, 65534, 65534)
    with pytest.raises(AccError, match='others may write there'):
        serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)


def test_a_lock_that_is_held_is_not_waited_for_for_ever(serials, monkeypatch):
    """Each turn in a conductor would wait, until no worker is left."""
    monkeypatch.setattr(module, 'PATIENCE', 0.1)
    with serials.path.with_name('serials.json.lock').open('rb') as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(AccError, match=r'serials\.json\.lock: another process has held it for more than'):
            serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)
    serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)


def test_a_file_that_cannot_be_written_stays_as_it_was(serials, monkeypatch):
    """And nothing beside it."""
    before = serials.path.read_bytes()

    def fails(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, 'fsync', fails)
    with pytest.raises(AccError, match='cannot be written: No space left on device'):
        serials.accept(CATALOGUE, 10, 'sha256:10', signed=True)
    assert before == serials.path.read_bytes()
    assert ['serials.json', 'serials.json.lock'] == sorted(p.name for p in serials.path.parent.iterdir())
