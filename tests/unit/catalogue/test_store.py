# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The bytes that were checked are the bytes that are sent, and nothing else can be read by a catalogue."""

import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest

from baremetal_acc.catalogue.store import FileStore
from baremetal_acc.errors import ImageMismatch, ImageMissing
from baremetal_acc.model.image import Digest, DigestAlgorithm
from tests.unit.decide import values as v

DATA = bytes(range(256)) * 9000
"""More than two chunks of reading."""


def image(path: Path, algorithm: DigestAlgorithm = DigestAlgorithm.SHA256, data: bytes = DATA):
    digest = Digest(algorithm=algorithm, value=hashlib.new(algorithm, data).hexdigest())
    return v.image(source=str(path), size_bytes=len(data), digest=digest)


@pytest.fixture
def path(tmp_path) -> Path:
    found = tmp_path / 'gpu.bin'
    found.write_bytes(DATA)
    return found


@pytest.mark.parametrize('algorithm', DigestAlgorithm)
def test_an_image_that_is_what_it_says_is_given(path, algorithm):
    """By its basename, with its size, and as often as it is opened from its beginning."""
    upload = FileStore(folders=(path.parent,)).open(image(path, algorithm))
    assert ('gpu.bin', len(DATA)) == (upload.file, upload.size_bytes)
    assert DATA == upload.open().read()
    assert DATA == upload.open().read()


def test_what_changes_after_the_check_is_not_sent(path):
    """The copy is private: writing to the file, or replacing it, changes nothing any more."""
    upload = FileStore(folders=(path.parent,)).open(image(path))
    with path.open('r+b') as stream:
        stream.write(b'evil')
    assert DATA == upload.open().read()


def test_a_folder_in_place_of_an_image_is_refused_and_leaves_nothing_open(path, tmp_path):
    """A conductor runs for months: a file left open by each try would end it."""
    wrong = replace(image(path), source=str(tmp_path))
    for _ in range(2):
        before = len(os.listdir('/proc/self/fd'))
        with pytest.raises(ImageMissing, match='cannot be read: Is a directory'):
            FileStore(folders=(tmp_path,)).open(wrong)
        assert before == len(os.listdir('/proc/self/fd'))


@pytest.mark.parametrize(
    ('data', 'says'),
    [
        (DATA[:-1], 'the catalogue says 2304000'),
        (DATA + b'x', 'is longer than 2304000 bytes'),
        (DATA[:-1] + b'x', 'has sha256 .*, the catalogue says .*put back the right file or correct the catalogue'),
        (b'', 'has 0 bytes'),
    ],
)
def test_other_bytes_are_refused(path, data, says):
    """Shorter, longer, or one byte different."""
    path.write_bytes(data)
    with pytest.raises(ImageMismatch, match=says):
        FileStore(folders=(path.parent,)).open(image(path))


def test_the_named_algorithm_counts(path):
    """A digest of another algorithm never fits by chance."""
    wrong = Digest(algorithm=DigestAlgorithm.SHA512, value=hashlib.sha256(DATA).hexdigest())
    with pytest.raises(ImageMismatch):
        FileStore(folders=(path.parent,)).open(replace(image(path), digest=wrong))


def test_a_file_outside_of_the_folders_is_not_read(path, tmp_path):
    """Also not by .. or by a symbolic link."""
    inside = tmp_path / 'images'
    inside.mkdir()
    (inside / 'link').symlink_to(path)
    for source in (path, inside / '..' / 'gpu.bin', inside / 'link'):
        with pytest.raises(ImageMissing, match='outside the folders'):
            FileStore(folders=(inside,)).open(image(source))


def test_what_is_no_file_is_refused(tmp_path):
    """Absent, a folder, or a pipe that would be waited for."""
    os.mkfifo(tmp_path / 'pipe')
    (tmp_path / 'folder').mkdir()
    store = FileStore(folders=(tmp_path,))
    with pytest.raises(ImageMissing, match='cannot be read'):
        store.open(image(tmp_path / 'absent'))
    with pytest.raises(ImageMissing, match='cannot be read'):
        store.open(image(tmp_path / 'folder'))
    with pytest.raises(ImageMissing, match='is no regular file'):
        store.open(image(tmp_path / 'pipe'))
