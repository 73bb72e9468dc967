# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A file is written as a whole or not at all, for the intended readers only."""

import os
import stat
from pathlib import Path

import pytest

from baremetal_acc import atomic_file


@pytest.fixture
def umask():
    """As on most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures('umask')
def test_a_file_is_its_owners_alone_unless_it_is_said_to_be_for_others(tmp_path: Path):
    """Nothing else lies beside it, and what a process that died has left there is no hindrance."""
    for name, more, mode in (('mine', {}, 0o600), ('for all', {'mode': 0o644}, 0o644)):
        path = tmp_path / name / 'file'
        path.parent.mkdir()
        path.with_name(f'.file.{os.getpid()}').write_text('half of i')
        atomic_file.write(path, b'all of it', **more)
        assert (b'all of it', mode) == (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        assert [path] == list(path.parent.iterdir())


def test_a_file_that_cannot_be_written_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """And nothing of the new one is left."""

    def full(at: int) -> None:
        raise OSError(28, 'No space left on device')

    path = tmp_path / 'file'
    path.write_bytes(b'before')
    monkeypatch.setattr(os, 'fsync', full)
    with pytest.raises(OSError, match='No space left'):
        atomic_file.write(path, b'after')
    assert (b'before', [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


def test_what_is_no_regular_file_is_not_replaced(tmp_path: Path):
    """Root would replace ``/dev/null`` by a file, for all programs of the machine."""
    os.mkfifo(tmp_path / 'fifo')
    (tmp_path / 'folder').mkdir()
    (tmp_path / 'link').symlink_to('/dev/null')
    for name in ('fifo', 'folder', 'link'):
        with pytest.raises(OSError, match='not a regular file'):
            atomic_file.write(tmp_path / name, b'x')
    assert {'fifo', 'folder', 'link'} == {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / 'fifo').is_fifo()
    assert (tmp_path / 'link').is_symlink()
