# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the options of the configuration make of a catalogue and of its images."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc import bootstrap
from baremetal_acc.config.settings import Settings
from baremetal_acc.errors import DocumentError
from baremetal_acc.images.refused import CatalogueRefused
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
