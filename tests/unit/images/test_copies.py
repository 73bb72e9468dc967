# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image is copied once for all who have it open, compared again for each of them, and deleted when nobody has it open."""

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from baremetal_acc.errors import ImageError, ImageMismatch, ImageMissing
from baremetal_acc.images import address, store
from baremetal_acc.images.fetch import Web
from baremetal_acc.images.refused import DeniedImageError
from baremetal_acc.images.store import FileStore, ImageFiles, WebStore
from tests.unit.images import web
from tests.unit.images.images import DATA, image
from tests.unit.images.keys import NOW

CARDS = 8


@pytest.fixture
def path(tmp_path) -> Path:
    found = tmp_path / 'gpu.bin'
    found.write_bytes(DATA)
    return found


@pytest.fixture
def server() -> Iterator[web.Server]:
    found = web.Server()
    yield found
    found.stop()


def of(server: web.Server, **how) -> WebStore:
    return WebStore(web=Web(hosts=frozenset({address.origin(server.origin)}), **how))


def copies() -> list[str]:
    """Files without a name that this process has open."""
    found = []
    for number in os.listdir('/proc/self/fd'):
        with suppress(OSError):
            if os.readlink(f'/proc/self/fd/{number}').endswith('(deleted)'):
                found.append(number)
    return found


def test_who_has_an_image_open_shares_it(path):
    """Eight cards: one copy, read by each from its beginning; and what one closes stays open for the others."""
    before = len(copies())
    uploads = [FileStore(folders=(path.parent,)).open(image(path)) for _ in range(CARDS)]
    assert before + 1 == len(copies())
    readers = [upload.open() for upload in uploads]
    assert [DATA[:1000]] * CARDS == [reader.read(1000) for reader in readers]
    readers[0].close()
    del uploads
    assert [DATA[1000:]] * (CARDS - 1) == [reader.read() for reader in readers[1:]]
    readers[1].seek(5)
    assert DATA[5:9] == readers[1].read(4)
    assert before + 1 == len(copies())
    for reader in readers:
        reader.close()
    assert before == len(copies())


def test_a_copy_is_compared_again_for_each_who_gets_it(path):
    """Bytes that changed on our own disk are not sent. The next copy is a new one."""
    here = FileStore(folders=(path.parent,))
    first, known = None, set(copies())
    first = here.open(image(path))
    (number,) = set(copies()) - known
    with open(f'/proc/self/fd/{number}', 'r+b') as copy:
        copy.seek(5000)
        copy.write(b'evil')
    with pytest.raises(ImageMismatch, match=r'temporary copy in .* has changed since it was checked .the image is not sent'):
        here.open(image(path))
    again = here.open(image(path))
    assert DATA == again.open().read()
    assert DATA != first.open().read()


@pytest.mark.parametrize('change', [DATA[:-1], DATA + b'x', DATA[:-1] + b'x', b''])
def test_what_nobody_has_open_is_read_anew(path, change):
    """What changed since it was checked is refused, whoever has sent it before."""
    here = FileStore(folders=(path.parent,))
    here.open(image(path)).open().close()
    path.write_bytes(change)
    with pytest.raises(ImageMismatch):
        here.open(image(path))


def test_what_changes_while_it_is_open_changes_nothing(path):
    """Who opens it then gets what the catalogue describes, as who opened it before."""
    here = FileStore(folders=(path.parent,))
    first = here.open(image(path))
    path.write_bytes(b'evil')
    assert DATA == here.open(image(path)).open().read() == first.open().read()


def test_what_one_may_read_another_may_not(path, tmp_path):
    """A copy that is open is no way around the folders, the size, or what was said of the bytes."""
    first = FileStore(folders=(path.parent,)).open(image(path))
    elsewhere = tmp_path / 'images'
    elsewhere.mkdir()
    with pytest.raises(ImageMissing, match='outside the folders'):
        FileStore(folders=(elsewhere,)).open(image(path))
    with pytest.raises(ImageMismatch, match='exceeds the maximum'):
        FileStore(folders=(path.parent,), largest=1000).open(image(path))
    with pytest.raises(ImageMismatch, match='the catalogue says'):
        FileStore(folders=(path.parent,)).open(image(path, data=DATA + b'x'))
    assert DATA == first.open().read()


def test_an_image_that_is_denied_meanwhile_is_not_shared(path):
    """Nor one whose catalogue has expired since."""
    good = ImageFiles(files=FileStore(folders=(path.parent,)), clock=lambda: NOW)
    first = good.open(image(path))
    with pytest.raises(DeniedImageError, match='it bricks'):
        good.open(replace(image(path), denied='it bricks'))
    with pytest.raises(DeniedImageError, match='which expired'):
        replace(good, expires=NOW).open(image(path))
    assert first.open().read(1)


def test_who_asks_at_the_same_time_waits_for_one_copy(server):
    """The server is asked once."""
    asked = threading.Event()

    def late(connection):
        asked.wait(10)
        web.body(DATA)(connection)

    server.answers['/a'] = late
    before = len(copies())
    with ThreadPoolExecutor(CARDS) as pool:
        opened = [pool.submit(of(server).open, image(f'{server.origin}/a')) for _ in range(CARDS)]
        asked.set()
        uploads = [one.result() for one in opened]
    assert 1 == len(server.requests)
    assert before + 1 == len(copies())
    assert [DATA] * CARDS == [upload.open().read() for upload in uploads]
    del opened, uploads


class Counted:
    """A lock that tells how many have come to it."""

    def __init__(self) -> None:
        self.come = threading.Semaphore(0)
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        self.come.release()
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()


def test_a_failure_is_waited_for_once(server, monkeypatch):
    """Eight workers do not wait one after another for a server that does not answer; who comes later asks it again."""
    lock = Counted()

    class Place(store._Place):
        def __init__(self) -> None:
            super().__init__()
            self.lock = lock

    def broken(connection):
        for _ in range(CARDS):
            assert lock.come.acquire(timeout=10)
        web.body(b'short', length=len(DATA))(connection)

    server.answers['/a'] = broken
    here, wanted = of(server), image(f'{server.origin}/a')
    monkeypatch.setattr(store, '_Place', Place)
    with ThreadPoolExecutor(CARDS) as pool:
        failures = [one.exception() for one in [pool.submit(here.open, wanted) for _ in range(CARDS)]]
    assert 1 == len({str(failure) for failure in failures if isinstance(failure, ImageError)}), failures
    assert CARDS == len({id(failure) for failure in failures})
    assert 1 == len(server.requests)
    server.answers['/a'] = web.body(DATA)
    assert DATA == here.open(wanted).open().read()


def test_copies_are_held_for_a_turn(path, server):
    """Card after card in one turn: read once. With the turn it is gone."""
    server.answers['/a'] = web.body(DATA)
    before = len(copies())
    with store.holding():
        for _ in range(CARDS):
            with of(server).open(image(f'{server.origin}/a')).open() as reader:
                assert DATA == reader.read()
        with store.holding():
            pass
        assert before + 1 == len(copies())
    assert 1 == len(server.requests)
    assert before == len(copies())
    of(server).open(image(f'{server.origin}/a'))
    assert 2 == len(server.requests)


def test_what_is_held_has_a_bound(path, tmp_path, monkeypatch):
    """The latest copies that have room together, and none that has none."""
    other = tmp_path / 'other.bin'
    other.write_bytes(DATA)
    here, before = FileStore(folders=(tmp_path,)), len(copies())
    for most, held in ((2 * len(DATA), 2), (2 * len(DATA) - 1, 1), (len(DATA) - 1, 0)):
        monkeypatch.setattr(store, '_MOST_HELD', most)
        with store.holding():
            here.open(image(path))
            here.open(image(other))
            assert before + held == len(copies())


def test_a_turn_that_fails_holds_nothing(path):
    """Nor is anything held where nobody asked for it."""
    before = len(copies())
    with suppress(KeyError), store.holding():
        FileStore(folders=(path.parent,)).open(image(path))
        assert before + 1 == len(copies())
        raise KeyError
    assert before == len(copies())
    FileStore(folders=(path.parent,)).open(image(path))
    assert before == len(copies())


def test_who_comes_while_the_last_one_goes_gets_a_copy_that_is_open(tmp_path):
    """Many turns at once open and close the same image all the time; no copy is closed under anybody's hands."""
    small = b'a' * 4096
    (tmp_path / 'small.bin').write_bytes(small)
    mine, shown = FileStore(folders=(tmp_path,)), image(tmp_path / 'small.bin', data=small)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def turns() -> int:
        good = 0
        for _ in range(400):
            with mine.open(shown).open() as stream:
                good += stream.read() == small
        return good

    try:
        with ThreadPoolExecutor(8) as pool:
            found = [one.result() for one in [pool.submit(turns) for _ in range(8)]]
    finally:
        sys.setswitchinterval(before)
    assert [400] * 8 == found
