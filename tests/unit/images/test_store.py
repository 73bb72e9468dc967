# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The bytes that were checked are the bytes that are sent, and nothing else can be read by a catalogue."""

import hashlib
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from baremetal_acc.errors import ImageMismatch, ImageMissing
from baremetal_acc.images.deny import Denial
from baremetal_acc.images.refused import DeniedImageError, ImageUntrusted
from baremetal_acc.images.store import FileStore, ImageFiles
from baremetal_acc.images.trust import signature
from baremetal_acc.images.trust.signature import Signer, Trust
from baremetal_acc.model.image import Digest, DigestAlgorithm, SignatureDemand
from tests.unit.images import keys
from tests.unit.images.images import DATA, image
from tests.unit.images.keys import NOW
from tests.unit.planning import values as v


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
        (DATA[:-1] + b'x', 'has sha256 .*, the catalogue says .*restore the right file or correct the catalogue'),
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
    with pytest.raises(ImageMissing, match='is not a regular file'):
        store.open(image(tmp_path / 'pipe'))


def test_a_link_that_is_put_in_place_while_the_file_is_opened_leads_nowhere(path, tmp_path, monkeypatch):
    """What was opened is looked at, not only its name."""
    inside, real = tmp_path / 'images', os.open
    (inside / 'sub').mkdir(parents=True)
    (inside / 'sub' / 'gpu.bin').write_bytes(DATA)

    def swapping(name, flags, *more, **how):
        if str(name).endswith('sub/gpu.bin') and (inside / 'sub').is_dir() and not (inside / 'sub').is_symlink():
            (inside / 'sub').rename(inside / 'old')
            (inside / 'sub').symlink_to(tmp_path)
        return real(name, flags, *more, **how)

    monkeypatch.setattr(os, 'open', swapping)
    with pytest.raises(ImageMissing, match=f'{path} is outside the folders'):
        FileStore(folders=(inside,)).open(image(inside / 'sub' / 'gpu.bin'))


@pytest.mark.parametrize(
    ('name', 'sent'),
    [
        ('gpu 1.bin', 'gpu_1.bin'),
        ('a";filename="b.bin', 'a__filename__b.bin'),
        ('ünïcode.bin', '_n_code.bin'),
        ('x' * 200 + '.fwpkg', 'x' * 94 + '.fwpkg'),
    ],
)
def test_the_name_that_is_sent_is_harmless(tmp_path, name, sent):
    """It stands in a header, and in the URL that a BMC fetches from."""
    (tmp_path / name).write_bytes(DATA)
    assert sent == FileStore(folders=(tmp_path,)).open(image(tmp_path / name)).file


def test_a_full_disk_is_told_as_such(path, monkeypatch):
    """It is our copy that has no room, not the image that cannot be read."""
    monkeypatch.setattr('tempfile.TemporaryFile', lambda **_: open('/dev/full', 'r+b', buffering=0))  # noqa: SIM115
    with pytest.raises(ImageMissing, match=r'its temporary copy in .* cannot be written: No space left on device .*TMPDIR'):
        FileStore(folders=(path.parent,)).open(image(path))


KEY = keys.key()

TRUST = Trust(keys={signature.fingerprint(KEY.public_key()): KEY.public_key()}, authorities=())


def store(path: Path, **how) -> ImageFiles:
    return ImageFiles(files=FileStore(folders=(path.parent,)), catalogue='/etc/x/catalogue.toml', clock=lambda: NOW, **how)


def signed(path: Path, by=KEY, **changes):
    """An image with a signature beside it, changed after it was signed."""
    made = replace(image(path), signature=str(path.with_suffix('.sig')))
    Path(made.signature).write_text(Signer(key=by).file(signature.image_statement(made)))
    return replace(made, **changes)


def test_what_is_denied_is_not_opened(path):
    """Not even a job that was begun before it was denied gets it."""
    with pytest.raises(DeniedImageError, match=r'image gpu-new: denied by /etc/x/catalogue.toml: it bricks'):
        store(path).open(replace(image(path), denied='it bricks'))


def test_bytes_that_are_denied_by_another_algorithm_are_not_opened(path):
    """The catalogue names them by SHA-512, the deny-list by SHA-256: only the bytes tell."""
    digest = image(path).digest
    wanted = image(path, DigestAlgorithm.SHA512)
    found = store(path, denials=(Denial(reason='it bricks', digest=digest),))
    before = len(os.listdir('/proc/self/fd'))
    with pytest.raises(
        DeniedImageError, match=r'image gpu-new: denied by /etc/x/catalogue\.toml, by the digest of its bytes: it bricks'
    ):
        found.open(wanted)
    assert before == len(os.listdir('/proc/self/fd'))
    others = (
        Denial(reason='x', digest=replace(digest, value='0' * 64)),
        Denial(reason='x', digest=digest, component='CPU_*'),
        Denial(reason='x', version='9', component='*'),
    )
    assert DATA == store(path, denials=others).open(wanted).open().read()


def test_nothing_of_an_expired_catalogue_is_opened(path):
    """To the second."""
    with pytest.raises(DeniedImageError, match=r'/etc/x/catalogue.toml, which expired at 2026-11-21 12:00:00Z'):
        store(path, expires=NOW).open(image(path))
    assert DATA == store(path, expires=NOW + timedelta(seconds=1)).open(image(path)).open().read()


def test_nothing_is_opened_by_an_expired_baseline(path):
    """As by an expired catalogue."""
    with pytest.raises(DeniedImageError, match=r'/etc/x/baseline.toml expired at 2026-11-21 12:00:00Z'):
        store(path, baseline='/etc/x/baseline.toml', baseline_expires=NOW).open(image(path))
    assert DATA == store(path, baseline_expires=NOW + timedelta(seconds=1)).open(image(path)).open().read()


def test_a_signed_image_is_opened(path):
    """By whom is told."""
    found = store(path, trust=TRUST, signatures=SignatureDemand.REQUIRED)
    assert DATA == found.open(signed(path)).open().read()
    assert f'key {signature.fingerprint(KEY.public_key())}' == found.signers(signed(path), NOW)[0]


@pytest.mark.parametrize(
    ('made', 'says'),
    [
        (
            lambda path: image(path),
            'has no signature of its own .sign it: baremetal-acc catalogue sign /etc/x/catalogue.toml --image',
        ),
        (lambda path: signed(path, by=keys.key()), 'its signature is not trusted: .*gpu.sig: .* which is not a trust root'),
        (lambda path: signed(path, name='gpu-other'), 'its signature is not trusted: .* does not match'),
        (lambda path: signed(path, size_bytes=1), 'its signature is not trusted: .* does not match'),
        (lambda path: signed(path, digest=v.image().digest), 'its signature is not trusted: .* does not match'),
        (lambda path: replace(image(path), signature=str(path)), 'its signature cannot be read: .*gpu.bin is longer than'),
        (lambda path: replace(image(path), signature=__file__), 'outside the folders that are allowed for images'),
        (lambda path: replace(image(path), signature=str(path) + '.sig'), 'cannot be read: No such file'),
    ],
)
def test_an_image_whose_signature_proves_nothing_is_not_opened(path, made, says):
    """Missing, somebody else's, of another image, or no signature at all."""
    with pytest.raises((ImageUntrusted, ImageMissing), match=says):
        store(path, trust=TRUST, signatures=SignatureDemand.REQUIRED).open(made(path))


def test_a_signature_that_is_named_is_checked_in_any_case(path):
    """Also where none is required; and without trust roots nobody can."""
    with pytest.raises(ImageUntrusted, match='which is not a trust root'):
        store(path, trust=TRUST).open(signed(path, by=keys.key()))
    with pytest.raises(ImageUntrusted, match=r'is signed, but no trust root is configured .*trust_roots'):
        store(path).open(signed(path))
    assert store(path, trust=TRUST).open(image(path))


def test_a_signature_that_is_no_toml_is_told(path):
    """As a fault of the image, which is refused."""
    made = signed(path)
    Path(made.signature).write_bytes(b'\xff\xfe')
    with pytest.raises(ImageUntrusted, match='is not UTF-8'):
        store(path, trust=TRUST).open(made)
    Path(made.signature).write_text('nonsense')
    with pytest.raises(ImageUntrusted, match=r'its signature cannot be read: .*not valid TOML'):
        store(path, trust=TRUST).open(made)
