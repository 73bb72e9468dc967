# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which catalogue is believed: the operator's own, and none that is older than the last one."""

import os
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from baremetal_acc.errors import DocumentError, StateError
from baremetal_acc.images import load
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.serials import Serials
from baremetal_acc.images.trust import signature
from baremetal_acc.images.trust.signature import Signer, Trust
from baremetal_acc.model.image import SignatureDemand
from tests.unit.images import keys
from tests.unit.images.keys import NOW
from tests.unit.images.test_catalogue import FIRMWARE

KEY = keys.key()

TRUST = Trust(keys={signature.fingerprint(KEY.public_key()): KEY.public_key()}, authorities=())

HEAD = 'format = 1\nserial = {}\nexpires = 2027-01-31T00:00:00Z\n'


class Desk:
    """A catalogue, as it lies there."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / 'catalogue.toml'
        self.beside = folder / 'catalogue.toml.sig'
        self.serials = Serials(path=folder / 'state' / 'serials.sqlite')

    def write(self, serial: int | str = 1, more: str = '', by=KEY) -> None:
        """The catalogue, signed."""
        data = (HEAD.format(serial) + more + FIRMWARE.removeprefix('format = 1\n')).encode()
        self.path.write_bytes(data)
        self.beside.write_text(Signer(key=by).file(signature.catalogue_statement(data)))

    def load(self, *, trust=TRUST, demand=SignatureDemand.REQUIRED, serials=True, now=NOW):
        """Read it."""
        return load.load(self.path, trust=trust, demand=demand, serials=self.serials if serials else None, now=now)


@pytest.fixture
def desk(tmp_path) -> Desk:
    found = Desk(tmp_path)
    found.write()
    return found


def test_a_signed_catalogue_is_believed(desk):
    """With who signed it, its serial and its end."""
    loaded = desk.load()
    assert f'key {signature.fingerprint(KEY.public_key())}' == loaded.signers[0]
    assert (1, NOW.replace(year=2027, month=1, day=31, hour=0)) == (loaded.catalogue.serial, loaded.catalogue.expires)
    assert ['gpu-2'] == [i.name for i in loaded.catalogue.images]


def test_a_catalogue_of_somebody_else_is_not_even_parsed(desk):
    """What is wrong in it is not told, since it is not looked at."""
    desk.write(by=keys.key(), more='nonsense = 1\n')
    with pytest.raises(
        CatalogueRefused, match=r'its signature is not trusted: catalogue.toml.sig: .* which is not a trust root'
    ):
        desk.load()
    desk.write(more='nonsense = 1\n')
    with pytest.raises(DocumentError, match='nonsense: no such key'):
        desk.load()


@pytest.mark.parametrize(
    'change',
    [
        lambda data: data + b' ',
        lambda data: data + b'\n',
        lambda data: b'\xef\xbb\xbf' + data,
        lambda data: data.replace(b'\n', b'\r\n'),
        lambda data: data.replace(b'security_version = 3', b'security_version = 4'),
        lambda data: data[:-1],
        lambda data: b'',
    ],
)
def test_what_was_changed_after_it_was_signed_is_refused(desk, change):
    """By a single byte, also where TOML would read the same."""
    desk.path.write_bytes(change(desk.path.read_bytes()))
    with pytest.raises(CatalogueRefused, match='does not match: other content was signed'):
        desk.load()


def test_a_signature_of_another_catalogue_is_refused(desk):
    """Both are the operator's own."""
    first = desk.beside.read_bytes()
    desk.write(2)
    desk.beside.write_bytes(first)
    with pytest.raises(CatalogueRefused, match='does not match'):
        desk.load()


def test_a_missing_signature_is_refused_where_one_is_required(desk):
    """And accepted where the operator says that it may be missing; a wrong one is refused there, too."""
    desk.beside.unlink()
    with pytest.raises(CatalogueRefused, match=r'is not signed: there is no .*catalogue sign .* --key FILE'):
        desk.load()
    assert () == desk.load(demand=SignatureDemand.OPTIONAL).signers
    desk.write(by=keys.key())
    with pytest.raises(CatalogueRefused, match='which is not a trust root'):
        desk.load(demand=SignatureDemand.OPTIONAL)


def test_a_link_that_leads_nowhere_is_no_missing_signature(desk):
    """Else a signature could be made optional by breaking it."""
    desk.beside.unlink()
    desk.beside.symlink_to('nowhere')
    with pytest.raises(DocumentError, match=r'catalogue.toml.sig: cannot be read'):
        desk.load(demand=SignatureDemand.OPTIONAL)


def test_without_trust_roots_nothing_can_be_required(desk):
    """And nothing is looked at, as before there were signatures."""
    with pytest.raises(CatalogueRefused, match=r'must be signed, but no trust root is configured.*trust_roots'):
        desk.load(trust=None)
    desk.beside.write_text('nonsense')
    assert () == desk.load(trust=None, demand=SignatureDemand.OPTIONAL).signers


def test_an_old_catalogue_still_loads_where_nobody_asked_for_more(desk):
    """Without serial, without expires, without a signature, and nothing is written for it."""
    desk.path.write_text(FIRMWARE)
    desk.beside.unlink()
    assert 1 == len(desk.load(trust=None, demand=SignatureDemand.OPTIONAL).catalogue.images)
    assert not desk.serials.path.parent.exists()


@pytest.mark.parametrize('key', ['serial', 'expires'])
def test_a_signed_catalogue_has_a_serial_and_an_end(desk, key):
    """Else whoever kept a copy can bring it back for ever."""
    data = b'\n'.join(line for line in desk.path.read_bytes().split(b'\n') if not line.startswith(key.encode()))
    desk.path.write_bytes(data)
    desk.beside.write_text(Signer(key=KEY).file(signature.catalogue_statement(data)))
    with pytest.raises(DocumentError, match=f'is signed, but has no {key}: an old copy could be used for ever'):
        desk.load()


def test_a_signed_catalogue_needs_somebody_who_remembers(desk):
    """A service that forgets which was the last one takes any."""
    with pytest.raises(DocumentError, match=r'its highest serial is stored nowhere.*catalogue_serial_file'):
        desk.load(serials=False)


def test_an_expired_catalogue_is_read(desk):
    """To lock and to verify no image is needed. The store refuses its images one by one: see test_store."""
    assert desk.load(now=NOW + timedelta(days=100)).catalogue.expires < NOW + timedelta(days=100)


@pytest.mark.parametrize('make', [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_no_catalogue(desk, make):
    """Nobody waits for a pipe; the same for the file of signatures."""
    for path in (desk.path, desk.beside):
        desk.write()
        path.unlink()
        make(path)
        with pytest.raises(DocumentError, match=r'is not a regular file|cannot be read: Is a directory'):
            desk.load()
        path.unlink() if path.is_fifo() else path.rmdir()


def test_a_catalogue_without_end_is_not_read_to_its_end(desk):
    """Nor is a file of signatures."""
    os.truncate(desk.beside, signature.MAX_SIZE + 1)
    with pytest.raises(DocumentError, match=r'catalogue.toml.sig: longer than'):
        desk.load()
    os.truncate(desk.path, 2**40)
    with pytest.raises(DocumentError, match='longer than 4194304 bytes'):
        desk.load()


# ---------------------------------------------------------------------------------------------------------------- serials


def highest(desk) -> int:
    """The serial that is remembered of the catalogue, signed."""
    with closing(sqlite3.connect(desk.serials.path)) as db:
        return db.execute('SELECT serial FROM serial WHERE signed AND catalogue = ?', (str(desk.path),)).fetchone()[0]


def sqlite(script: str) -> bytes:
    """The bytes of a database."""
    with closing(sqlite3.connect(':memory:')) as db:
        db.executescript(f'CREATE TABLE first (x); {script}')
        return db.serialize()


def test_an_older_catalogue_does_not_come_back(desk):
    """Though its signature is right; the same one again, and a newer one, are fine."""
    old = desk.path.read_bytes(), desk.beside.read_bytes()
    for serial in (7, 7, 8):
        desk.write(serial)
        desk.load()
    desk.path.write_bytes(old[0])
    desk.beside.write_bytes(old[1])
    with pytest.raises(
        CatalogueRefused,
        match=r'has serial 1, but was seen before with serial 8 \(if the older catalogue is intended, delete its row',
    ):
        desk.load()
    desk.write(9)
    desk.load()
    assert 9 == highest(desk)


def test_two_catalogues_of_one_serial_are_not_both_believed(desk):
    """One serial stands for one content, where it is signed; without a signature people forget to raise it."""
    desk.load()
    desk.write(1, more='# another\n')
    with pytest.raises(CatalogueRefused, match=r'has serial 1, which it had before with other content .increase the serial'):
        desk.load()
    assert desk.load(trust=None, demand=SignatureDemand.OPTIONAL)


def test_a_serial_that_nobody_signed_locks_nobody_out(desk):
    """Where signatures are optional: the next signed one counts again, and an unsigned one is never older than a signed one."""
    desk.write(7)
    desk.load()
    signed = desk.path.read_bytes(), desk.beside.read_bytes()
    desk.write(2**53)
    desk.beside.unlink()
    assert () == desk.load(demand=SignatureDemand.OPTIONAL).signers
    desk.write(6)
    with pytest.raises(CatalogueRefused, match='has serial 6, but was seen before with serial 7'):
        desk.load()
    desk.path.write_bytes(signed[0])
    desk.beside.write_bytes(signed[1])
    desk.load()
    desk.write(6)
    desk.beside.unlink()
    with pytest.raises(CatalogueRefused, match='has serial 6, but was seen before with serial 7'):
        desk.load(demand=SignatureDemand.OPTIONAL)
    desk.write(8)
    desk.beside.unlink()
    assert desk.load(demand=SignatureDemand.OPTIONAL)


def test_a_serial_does_not_vanish(desk):
    """Else an older catalogue, from before there were serials, would come back."""
    desk.load(trust=None, demand=SignatureDemand.OPTIONAL)
    desk.path.write_text(FIRMWARE)
    with pytest.raises(CatalogueRefused, match='has no serial, but was seen before with serial 1'):
        desk.load(trust=None, demand=SignatureDemand.OPTIONAL)


def test_each_catalogue_has_its_own_serial(desk, tmp_path):
    """By its path as the operator names it."""
    desk.write(5)
    desk.load()
    other = tmp_path / 'other'
    other.mkdir()
    second = Desk(other)
    second.write(1)
    second.serials = desk.serials
    assert second.load()


@pytest.mark.parametrize(
    ('content', 'says'),
    [
        (b'', 'it is empty'),
        (b'{}', 'file is not a database'),
        (b'{"format": 1, "catalogues": {}, "unsigned": {}}', 'file is not a database'),
        (b'[' * 100000, 'file is not a database'),
        (sqlite(''), 'it has no tables of baremetal-acc'),
        (sqlite('CREATE TABLE other (x); PRAGMA user_version = 1'), 'no such table: serial'),
        (sqlite('CREATE TABLE other (x); PRAGMA user_version = 2'), 'a newer version of baremetal-acc wrote it'),
    ],
)
def test_a_file_of_serials_that_is_none_is_not_begun_anew(desk, content, says):
    """Whoever can spoil it would otherwise bring an older catalogue back."""
    desk.load()
    desk.serials.path.write_bytes(content)
    with pytest.raises(StateError, match=rf'serials\.sqlite: cannot be used: .*{says}'):
        desk.load()


@pytest.mark.parametrize(
    'content',
    [
        '',
        '{}',
        '{"format": 2, "catalogues": {}, "unsigned": {}}',
        '{"format": 1, "catalogues": {"a": {"serial": 1, "digest": ""}}}',
        '{"format": 1, "catalogues": {"a": {"serial": true, "digest": ""}}, "unsigned": {}}',
        '{"format": 1, "catalogues": {"a": {"serial": 1, "digest": null}}, "unsigned": {}}',
        '{"format": 1, "catalogues": [], "unsigned": {}}',
        '[' * 100000,
    ],
)
def test_a_file_of_an_earlier_release_that_is_none_of_serials_is_not_passed_over(desk, content):
    """It is told by name, and no database is made: nobody knows what was seen."""
    old = desk.serials.path.with_suffix('.json')
    old.parent.mkdir(mode=0o700)
    old.write_text(content)
    with pytest.raises(
        StateError, match=r'serials\.json: cannot be used: it is not a file of catalogue serials .move .*json away'
    ):
        desk.load()
    assert ['serials.json'] == [p.name for p in old.parent.iterdir()]


def test_a_file_of_serials_that_others_may_write_is_not_believed(desk):
    """And one that cannot be written is told, before the catalogue is used."""
    desk.load()
    desk.serials.path.chmod(0o620)
    with pytest.raises(StateError, match='other users may write it, and could have an older catalogue accepted'):
        desk.load()
    desk.serials = Serials(path=desk.path / 'serials.sqlite')
    with pytest.raises(StateError, match='cannot be used: Not a directory'):
        desk.load()


def test_readers_of_two_catalogues_at_once_never_step_back(desk):
    """Whoever comes last, the higher serial stays."""

    def accept(serial: int) -> None:
        try:
            desk.serials.accept(desk.path, serial, f'd{serial}', signed=True)
        except CatalogueRefused:
            refused.append(serial)

    refused: list[int] = []
    threads = [threading.Thread(target=accept, args=(n,)) for n in (3, 9, 1, 7, 5, 8, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 9 == highest(desk)
    assert 9 not in refused
