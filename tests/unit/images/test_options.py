# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the options of the configuration make of a catalogue and of its images."""

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc import bootstrap
from baremetal_acc.config.settings import Settings
from baremetal_acc.errors import DocumentError
from baremetal_acc.images.refused import BaselineRefused, CatalogueRefused
from baremetal_acc.images.trust import signature
from baremetal_acc.images.trust.signature import Signer
from baremetal_acc.model.image import SignatureDemand
from tests.configured import settings
from tests.unit.images import keys
from tests.unit.images.test_catalogue import FIRMWARE

KEY = keys.key()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A baseline, a signed catalogue and its trust root."""
    end = datetime.now(UTC) + timedelta(days=1)
    text = FIRMWARE.replace('format = 1\n', f'format = 1\nserial = 1\nexpires = {end:%Y-%m-%dT%H:%M:%SZ}\n')
    (tmp_path / 'catalogue.toml').write_text(text)
    (tmp_path / 'catalogue.toml.sig').write_text(Signer(key=KEY).file(signature.catalogue_statement(text.encode())))
    (tmp_path / 'root.pub').write_bytes(keys.public_pem(KEY))
    (tmp_path / 'baseline.toml').write_text('format = 1\n')
    return tmp_path


def options(folder: Path, **changes) -> Settings:
    """As an operator's file has them."""
    values = {'baseline': str(folder / 'baseline.toml'), 'catalogue': str(folder / 'catalogue.toml')}
    return settings(**(values | changes))


def signed(folder: Path, **changes) -> Settings:
    """With a trust root, and a memory."""
    more = {'trust_roots': [str(folder / 'root.pub')], 'catalogue_serial_file': str(folder / 'serials.sqlite')}
    return options(folder, **(more | changes))


def test_a_signature_is_required_as_soon_as_there_is_a_trust_root(folder):
    """Unless the operator says otherwise; required without trust roots is a contradiction, and refused."""
    assert 1 == len(bootstrap.documents(signed(folder)).catalogue)
    (folder / 'catalogue.toml.sig').unlink()
    with pytest.raises(CatalogueRefused, match='is not signed'):
        bootstrap.documents(signed(folder))
    assert bootstrap.documents(signed(folder, catalogue_signature='optional')).catalogue
    assert bootstrap.documents(options(folder)).catalogue
    with pytest.raises(CatalogueRefused, match='no trust root is configured'):
        bootstrap.documents(options(folder, catalogue_signature='required'))


def test_a_conductor_without_a_memory_is_told_to_get_one(folder):
    """At the first node, not when an older catalogue has come back."""
    with pytest.raises(DocumentError, match=r'set option \[baremetal_acc\] catalogue_serial_file'):
        bootstrap.documents(signed(folder, catalogue_serial_file=None))


def test_locks_need_no_catalogue(folder):
    """One that is refused keeps nobody from locking; there are no images then, and none can be opened by accident."""
    (folder / 'catalogue.toml').write_text('forged')
    made = signed(folder, image_hosts=['https://h/path'])
    with pytest.raises(CatalogueRefused):
        bootstrap.documents(made)
    read = bootstrap.documents(made, images=False)
    assert ((), ()) == (read.catalogue, read.folders)
    assert frozenset() == bootstrap.store(made, read).web.web.hosts


def test_the_store_is_what_the_options_say(folder):
    """Servers, bounds, trust, end and deny-list: what is forgotten here is not checked anywhere."""
    made = signed(
        folder,
        image_hosts=['Images.example', 'http://127.0.0.1:8080'],
        image_ca='/ca.pem',
        image_timeout=5,
        image_max_size=1000,
        image_signature='required',
        image_folders=['/images'],
    )
    read = bootstrap.documents(made)
    store = bootstrap.store(made, read)
    assert {'https://images.example:443', 'http://127.0.0.1:8080'} == {str(host) for host in store.web.web.hosts}
    assert ('/ca.pem', timedelta(seconds=5), 1000, 1000) == (
        store.web.web.authorities,
        store.web.web.timeout,
        store.web.largest,
        store.files.largest,
    )
    assert (folder, Path('/images')) == store.files.folders
    assert (SignatureDemand.REQUIRED, read.trust, read.expires, read.denials) == (
        store.signatures,
        store.trust,
        store.expires,
        store.denials,
    )
    assert store.trust is not None
    assert store.expires is not None
    with pytest.raises(DocumentError, match=r"image_hosts: 'https://h/path' is not a server .write HOST or HOST:PORT"):
        bootstrap.documents(signed(folder, image_hosts=['https://h/path']))


def test_who_vouches_for_images_signs_no_catalogue(folder):
    """With image_trust_roots the vendor's key is good for images alone; without them trust_roots are good for both."""
    vendor = keys.key()
    (folder / 'vendor.pub').write_bytes(keys.public_pem(vendor))
    theirs = f'key {signature.fingerprint(vendor.public_key())}'
    statement = signature.image_statement(next(iter(bootstrap.documents(signed(folder)).catalogue)))
    made = Signer(key=vendor).file(statement)
    both = bootstrap.documents(signed(folder)).trust
    apart = bootstrap.documents(signed(folder, image_trust_roots=[str(folder / 'vendor.pub')])).trust
    assert (theirs,) == apart.check(statement, made, 'a.sig', keys.NOW)
    with pytest.raises(signature.Untrusted, match='not a trust root'):
        both.check(statement, made, 'a.sig', keys.NOW)
    (folder / 'catalogue.toml.sig').write_text(
        Signer(key=vendor).file(signature.catalogue_statement((folder / 'catalogue.toml').read_bytes()))
    )
    with pytest.raises(CatalogueRefused, match='not a trust root'):
        bootstrap.documents(signed(folder, image_trust_roots=[str(folder / 'vendor.pub')]))


def sign(folder: Path, name: str, *signers) -> None:
    """Sign a document with each of these keys."""
    statements = {'catalogue.toml': signature.catalogue_statement, 'baseline.toml': signature.baseline_statement}
    text = None
    for private in signers:
        kept = None if text is None else (text, name)
        text = Signer(key=private).file(statements[name]((folder / name).read_bytes()), kept)
    (folder / f'{name}.sig').write_text(text or '')


def write_baseline(folder: Path, serial: int, *signers, more: str = '') -> None:
    """A baseline with a serial that ends tomorrow, signed."""
    end = datetime.now(UTC) + timedelta(days=1)
    text = f'format = 1\nserial = {serial}\nexpires = {end:%Y-%m-%dT%H:%M:%SZ}\n{more}'
    (folder / 'baseline.toml').write_text(text)
    sign(folder, 'baseline.toml', *signers)


def test_as_many_keys_as_the_option_says_have_to_sign(folder):
    """Those of the catalogue; images need one signature, as before."""
    other = keys.key()
    (folder / 'root.pub').write_bytes(keys.public_pem(KEY) + keys.public_pem(other) + keys.public_pem(keys.key()))
    two = signed(folder, signature_threshold=2)
    with pytest.raises(CatalogueRefused, match=r'1 of 2 required keys has signed .*baremetal-acc catalogue sign .* --add'):
        bootstrap.documents(two)
    sign(folder, 'catalogue.toml', KEY, other)
    assert bootstrap.documents(two).catalogue
    image = next(iter(bootstrap.documents(two).catalogue))
    statement = signature.image_statement(image)
    assert bootstrap.documents(two).trust.check(statement, Signer(key=other).file(statement), 'a.sig', keys.NOW)
    with pytest.raises(DocumentError, match='requires 4 keys, but option trust_roots names 3 different keys'):
        bootstrap.documents(signed(folder, signature_threshold=4))
    with pytest.raises(DocumentError, match='requires 2 keys, but option trust_roots names 0 different keys'):
        bootstrap.documents(options(folder, signature_threshold=2))


def test_a_baseline_has_to_be_signed_where_the_option_says_so(folder):
    """Also for what only locks: what is locked is what the baseline says."""
    required = signed(folder, baseline_signature='required')
    for images in (True, False):
        with pytest.raises(BaselineRefused, match=r'is not signed: .* \(sign it: baremetal-acc baseline sign '):
            bootstrap.documents(required, images=images)
    with pytest.raises(BaselineRefused, match='no trust root is configured'):
        bootstrap.documents(options(folder, baseline_signature='required'))
    write_baseline(folder, 1, KEY)
    read = bootstrap.documents(required)
    digest = hashlib.sha256((folder / 'baseline.toml').read_bytes()).hexdigest()
    assert ('baseline.toml', f'sha256:{digest}') == (read.papers[0].name, read.papers[0].digest)
    store = bootstrap.store(required, read)
    assert (str(folder / 'baseline.toml'), read.baseline.expires) == (store.baseline, store.baseline_expires)
    assert store.baseline_expires is not None


def test_a_baseline_is_used_without_a_signature_by_default(folder):
    """As before; a signature file that is there is checked where there are trust roots."""
    assert bootstrap.documents(signed(folder)).catalogue
    write_baseline(folder, 1, keys.key())
    assert bootstrap.documents(options(folder)).catalogue
    with pytest.raises(BaselineRefused, match='not a trust root'):
        bootstrap.documents(signed(folder))
    (folder / 'baseline.toml.sig').unlink()
    assert bootstrap.documents(signed(folder)).catalogue


def test_an_older_baseline_is_refused(folder):
    """Its serial is stored with those of catalogues, and neither is taken for the other."""
    required = signed(folder, baseline_signature='required')
    write_baseline(folder, 3, KEY)
    assert bootstrap.documents(required, images=False)
    write_baseline(folder, 2, KEY)
    for images in (True, False):
        with pytest.raises(BaselineRefused, match='has serial 2, but was seen before with serial 3'):
            bootstrap.documents(required, images=images)
    write_baseline(folder, 3, KEY, more='# another\n')
    with pytest.raises(BaselineRefused, match='has serial 3, which it had before with other content'):
        bootstrap.documents(required)
    write_baseline(folder, 4, KEY)
    assert bootstrap.documents(required).catalogue
    with pytest.raises(DocumentError, match=r'highest serial is stored nowhere: an older baseline'):
        bootstrap.documents(signed(folder, baseline_signature='required', catalogue_serial_file=None))


def test_locks_need_neither_trust_roots_nor_serials_where_no_baseline_is_signed(folder):
    """A trust root that is gone, or a database that is damaged, keeps nobody from locking."""
    (folder / 'root.pub').unlink()
    (folder / 'serials.sqlite').write_text('damaged')
    assert () == bootstrap.documents(signed(folder), images=False).catalogue
