# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which files of a folder make a key or CA trusted, and which other files may be there."""

import os
import subprocess

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import roots
from baremetal_acc.images.trust.keys import MAX_SIZE, fingerprint
from tests.unit.images import keys
from tests.unit.images.keys import certificate, key

OWN, ROOT = key(), key()


def test_trust_roots_are_files_and_folders(tmp_path):
    """Keys and certificates mixed, with whatever tools write around them; other files of a folder are not looked at."""
    folder = tmp_path / 'roots'
    folder.mkdir()
    first, second = key(), key()
    (folder / 'a.pub').write_bytes('# schlüssel\n'.encode() + keys.public_pem(first))
    (folder / 'b.crt').write_bytes(keys.pem(certificate('Root', ROOT, ca=True)) + keys.public_pem(second))
    (folder / 'README').write_text('-----BEGIN NONSENSE-----\n')
    found = roots.trust([folder, folder / 'a.pub'])
    assert {fingerprint(k.public_key()) for k in (first, second)} == set(found.keys)
    assert ['CN=Root'] == [a.subject.rfc4514_string() for a in found.authorities]


@pytest.mark.parametrize(
    ('data', 'says'),
    [
        (b'', 'contains neither a public key nor a certificate in PEM'),
        (keys.private_pem(OWN), 'line 1: not a trust root: a private key, which only the signer may have'),
        (
            b'\n\n' + keys.public_pem(key('p256')),
            'line 3: not a trust root: only an Ed25519 public key .*; for other keys use a CA certificate',
        ),
        (keys.pem(certificate('R', OWN)), 'a certificate must be that of a CA.*openssl x509 -pubkey'),
        (b'-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n', 'not a trust root'),
        (b'-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n', 'not a trust root'),
        (b'-----BEGIN PKCS7-----\nAAAA\n-----END PKCS7-----\n', 'neither a public key nor a certificate'),
        (b' ' * (MAX_SIZE + 1), 'longer than'),
    ],
)
def test_what_is_no_trust_root_is_told(tmp_path, data, says):
    """Silently left out it would be missed much later."""
    path = tmp_path / 'root.pem'
    path.write_bytes(data)
    with pytest.raises(DocumentError, match=says) as caught:
        roots.trust([path])
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize('mode', [0o666, 0o664, 0o646])
def test_a_trust_root_that_others_may_write_is_refused(tmp_path, mode):
    """Whoever writes there signs in the operator's name."""
    keys.secret_file(tmp_path / 'a.pem', keys.public_pem(OWN), mode=mode)
    for named in (tmp_path, tmp_path / 'a.pem'):
        with pytest.raises(DocumentError, match=r'a\.pem: other users can write it, .*chmod go-w'):
            roots.trust([named])


@pytest.mark.parametrize('mode', [0o777, 0o775, 0o1777])
def test_a_folder_of_trust_roots_that_others_may_write_is_refused(tmp_path, mode):
    """Whoever adds a file there becomes a signer, and the sticky bit does not keep him from it."""
    (tmp_path / 'a.pem').write_bytes(keys.public_pem(OWN))
    tmp_path.chmod(mode)
    with pytest.raises(DocumentError, match=r'other users can write to it, and could add trust roots.*chmod go-w'):
        roots.trust([tmp_path])


def test_the_folder_around_a_trust_root_counts_also_behind_a_link(tmp_path):
    """Whoever may write it puts another file in its place; with the sticky bit he cannot."""
    shared, own = tmp_path / 'shared', tmp_path / 'own'
    shared.mkdir()
    own.mkdir()
    (shared / 'a.pem').write_bytes(keys.public_pem(OWN))
    (own / 'a.pem').symlink_to(shared / 'a.pem')
    shared.chmod(0o777)
    for named in (shared / 'a.pem', own, own / 'a.pem'):
        with pytest.raises(DocumentError, match='shared: other users can write to it'):
            roots.trust([named])
    shared.chmod(0o1777)
    assert 1 == len(roots.trust([own]).keys) == len(roots.trust([shared / 'a.pem']).keys)


def test_a_trust_root_of_another_user_is_refused(tmp_path, monkeypatch):
    """He may make it writable whenever he likes."""
    path = tmp_path / 'a.pem'
    path.write_bytes(keys.public_pem(OWN))
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    else:  # only root gives files away; to another user it is another's
        monkeypatch.setattr(os, 'geteuid', lambda: 65534)
    with pytest.raises(DocumentError, match='other users can write'):
        roots.trust([path])


def test_trust_roots_that_are_not_there_are_told(tmp_path):
    """An empty folder, no file, and a pipe that would be waited for."""
    (tmp_path / 'empty').mkdir()
    with pytest.raises(DocumentError, match='contains no trust root: no file name ends with'):
        roots.trust([tmp_path / 'empty'])
    with pytest.raises(DocumentError, match=r'cannot be read: No such file.*trust_roots'):
        roots.trust([tmp_path / 'absent'])
    subprocess.run(['mkfifo', tmp_path / 'pipe'], check=True)
    with pytest.raises(DocumentError, match='is not a regular file'):
        roots.trust([tmp_path / 'pipe'])
