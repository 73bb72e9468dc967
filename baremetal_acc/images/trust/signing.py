# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load a private key, with its certificates, for signing catalogues and images."""

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from baremetal_acc import input_file
from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust.keys import MAX_SIZE, UNREADABLE, PrivateKey, Untrusted, fingerprint, usable
from baremetal_acc.images.trust.signature import Signer


def signer(key: Path, certificates: Path | None, passphrase: bytes | None, now: datetime | None = None) -> Signer:
    """Load a signer from the file of a private key.

    :param certificates: PEM: the signer's certificate, then those in between. Whether they lead to a trust root is not checked
        here.
    :param now: time at which the certificates have to be valid; None: now.
    :raises DocumentError: the key cannot be read, others may read it, it does not belong to the certificate, or no verifier
        would accept the certificates. ``TypeError``: a passphrase is missing, or was given although none is needed.
    """
    private = _private_key(key, passphrase)
    if certificates is None:
        if not isinstance(private, ed25519.Ed25519PrivateKey):
            what = 'is not an Ed25519 key: other keys need a certificate'
            raise DocumentError(
                path=str(key), what=what, hint='add --certificate, or create an Ed25519 key: openssl genpkey -algorithm ed25519'
            )
        return Signer(key=private)
    try:
        chain = tuple(x509.load_pem_x509_certificates(input_file.read(certificates, MAX_SIZE)))
        chains.check_leaf(chain[0], chains.SIGNER)
        same = fingerprint(usable(chain[0].public_key())) == fingerprint(private.public_key())
    except OSError as exc:
        raise DocumentError(
            path=str(certificates), what=f'cannot be read: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    except Untrusted as exc:
        raise DocumentError(path=str(certificates), what=f'the first certificate would not be accepted: {exc}') from None
    except UNREADABLE:
        raise DocumentError(path=str(certificates), what='contains no certificate in PEM that can be read') from None
    if not same:
        what = f'the first certificate does not belong to the key in {key}'
        raise DocumentError(path=str(certificates), what=what, hint="put the signer's own certificate first")
    if len(chain) > chains.MOST:
        raise DocumentError(path=str(certificates), what=f'contains more than {chains.MOST} certificates')
    try:
        chains.check_path(chain, datetime.now(UTC) if now is None else now, chains.SIGNER)
    except Untrusted as exc:
        hint = 'use a chain that is valid now, each certificate issued by the next one'
        raise DocumentError(
            path=str(certificates), what=f'signatures with this chain would not be accepted: {exc}', hint=hint
        ) from None
    except UNREADABLE as exc:
        raise DocumentError(path=str(certificates), what=f'a certificate is malformed ({type(exc).__name__})') from None
    return Signer(key=private, certificates=chain)


def _private_key(path: Path, passphrase: bytes | None) -> PrivateKey:
    try:
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            if not stat.S_ISREG(mode):
                raise DocumentError(path=str(path), what='is not a regular file', hint='name a file')
            data = stream.read(MAX_SIZE + 1)
    except OSError as exc:
        raise DocumentError(
            path=str(path), what=f'cannot be read: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    if b'PRIVATE KEY-----' not in data:
        what = 'contains no private key in PEM'
        hint = '--key names the file of the private key, --certificate that of its chain'
        raise DocumentError(path=str(path), what=what, hint=hint)
    if mode & (stat.S_IRWXG | stat.S_IRWXO | stat.S_IXUSR):
        what = f'contains a private key, but other users can access the file (mode {stat.S_IMODE(mode):04o})'
        raise DocumentError(path=str(path), what=what, hint=f'chmod 600 {path}')
    try:
        key = serialization.load_pem_private_key(data, passphrase)
        usable(key.public_key())
    except (ValueError, UnsupportedAlgorithm):
        what = 'contains no private key that can be read'
        if passphrase is None:
            raise DocumentError(
                path=str(path), what=f'{what} in PEM', hint=f'to inspect it: openssl pkey -noout -text -in {path}'
            ) from None
        hint = (
            f'the passphrase was typed, or is that of $BAREMETAL_ACC_KEY_PASSPHRASE; to try one: openssl pkey -noout -in {path}'
        )
        raise DocumentError(path=str(path), what=f'{what}, or the passphrase is wrong', hint=hint) from None
    except Untrusted as exc:
        raise DocumentError(path=str(path), what=str(exc)) from None
    if not isinstance(key, PrivateKey):
        raise DocumentError(path=str(path), what='contains a key of a kind that cannot sign')
    return key
