# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the operator's trust roots: Ed25519 public keys and CA certificates in PEM files and folders."""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.trust import chains
from baremetal_acc.images.trust.keys import MAX_SIZE, UNREADABLE, fingerprint
from baremetal_acc.images.trust.signature import Trust

_HINT = 'name files with Ed25519 public keys or CA certificates in PEM, or a folder of such files'

_SUFFIXES = ('.pem', '.crt', '.pub')
"""Suffixes of the files that are read in a folder of trust roots."""

_PEM = re.compile(r'-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----', re.DOTALL)


def trust(paths: Sequence[Path], threshold: int = 1) -> Trust:
    """Return the trust roots in these files and folders.

    :param threshold: how many different keys must have signed a document.
    :raises DocumentError: a file cannot be read, contains something else, or contains no trust root; or there are fewer
        different keys than have to sign.
    """
    keys: dict[str, ed25519.Ed25519PublicKey] = {}
    authorities: list[x509.Certificate] = []
    for path in _files(paths):
        text = _read(path)
        blocks = list(_PEM.finditer(text))
        if not blocks:
            raise DocumentError(path=str(path), what='contains neither a public key nor a certificate in PEM', hint=_HINT)
        for block in blocks:
            line = text.count('\n', 0, block.start()) + 1
            try:
                match block[1]:
                    case 'PUBLIC KEY':
                        key = serialization.load_pem_public_key(block[0].encode())
                        if not isinstance(key, ed25519.Ed25519PublicKey):
                            raise ValueError(
                                'only an Ed25519 public key can be a trust root; for other keys use a CA certificate'
                            )
                        keys[fingerprint(key)] = key
                    case 'CERTIFICATE':
                        authorities.append(_authority(x509.load_pem_x509_certificate(block[0].encode())))
                    case kind if 'PRIVATE' in kind:
                        raise ValueError('a private key, which only the signer may have')
                    case _:
                        raise ValueError('neither a public key nor a certificate')
            except UNREADABLE as exc:
                raise DocumentError(path=str(path), line=line, what=f'not a trust root: {exc}', hint=_HINT) from None
    found = Trust(keys=keys, authorities=tuple(authorities), threshold=threshold)
    if threshold > 1 and threshold > (known := len(found.roots)):
        raise too_few(threshold, known)
    return found


def too_few(threshold: int, known: int) -> DocumentError:
    """Return the error for trust roots with fewer different keys than have to sign a document."""
    different = 'different key' if known == 1 else 'different keys'
    return DocumentError(
        path='option [baremetal_acc] signature_threshold',
        what=f'requires {threshold} keys, but option trust_roots names {known} {different}: no document could ever be used',
        hint='lower it, or add the public keys of further signers to trust_roots; a CA counts as one key',
    )


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if not path.is_dir():
            _check_around(path)
            yield path
            continue
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # Whoever may add a file here becomes a trusted signer; a sticky bit does not prevent that.
                _check(path, os.fstat(folder), 'write to it')
                names = os.listdir(folder)
            finally:
                os.close(folder)
        except OSError as exc:
            raise DocumentError(
                path=str(path), what=f'cannot be read: {exc.strerror}', hint='name a file that you may read'
            ) from exc
        found = sorted(p for p in map(path.joinpath, names) if p.suffix in _SUFFIXES and not p.name.startswith('.'))
        if not found:
            what = f'contains no trust root: no file name ends with {", ".join(_SUFFIXES)}'
            raise DocumentError(path=str(path), what=what, hint=_HINT)
        for one in found:
            if one.is_symlink():
                _check_around(one)
            yield one


def _check_around(path: Path) -> None:
    """Check the folder of a file: whoever may write it can replace the file, unless the sticky bit protects it.

    :raises DocumentError: others may write the folder.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        found = folder.stat()
    except OSError:
        return  # the error is raised when the file is read
    if not found.st_mode & stat.S_ISVTX:
        _check(folder, found, 'write to it')


def _check(path: Path, found: os.stat_result, do: str) -> None:
    """Check that only root and the user of this process may write a file or folder.

    :raises DocumentError: others may.
    """
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        what = f'other users can {do}, and could add trust roots'
        hint = f'chown root {path}; chmod go-w {path}'
        raise DocumentError(path=str(path), what=what, hint=hint)


def _read(path: Path) -> str:
    hint = 'set by option [baremetal_acc] trust_roots, image_trust_roots or spdm_trust_roots'
    try:
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            found = os.fstat(stream.fileno())
            data = stream.read(MAX_SIZE + 1) if stat.S_ISREG(found.st_mode) else b''
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    if not stat.S_ISREG(found.st_mode):
        raise DocumentError(path=str(path), what='is not a regular file', hint=hint)
    _check(path, found, 'write it')
    if len(data) > MAX_SIZE:
        raise DocumentError(path=str(path), what=f'longer than {MAX_SIZE} bytes', hint=hint)
    return data.decode('latin-1')  # around the blocks, tools write names in any alphabet


def _authority(certificate: x509.Certificate) -> x509.Certificate:
    basic = chains.extension(certificate, x509.BasicConstraints)
    if basic is None or not basic.ca:
        raise ValueError(
            'a certificate must be that of a CA; to trust a single signer, use its Ed25519 public key instead '
            '(openssl x509 -pubkey)'
        )
    return certificate
