# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check the signatures and the serial of a document of the operator: a catalogue or a baseline.

The signatures are in a file next to the document. How many keys must have signed is a property of the trust roots, which come
from the configuration.
"""

import hashlib
import os
import stat
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from baremetal_acc.errors import DocumentError
from baremetal_acc.images.refused import REFUSALS
from baremetal_acc.images.serials import Serials
from baremetal_acc.model import toml
from baremetal_acc.model.image import SignatureDemand, SignedKind

SUFFIX = '.sig'
"""Suffix of a signature file, after the full name of the signed file."""

MAX_SIZE = 4 * toml.MAX_SIZE
"""Most bytes of a document: the most characters of a document, in UTF-8."""


class Trusting(Protocol):
    """The interface of trust roots; see :class:`baremetal_acc.images.trust.signature.Trust`."""

    @property
    def threshold(self) -> int:
        """How many different keys must have signed."""

    def check(self, statement: bytes, text: str, path: str, now: datetime) -> tuple[str, ...]:
        """Return who signed."""


def signature_path(path: Path) -> Path:
    """Return the path of the signature file of a document."""
    return path.with_name(path.name + SUFFIX)


def statement(kind: SignedKind, data: bytes) -> bytes:
    """Return the signed bytes of a document. A signature of one kind of document is none of another."""
    from baremetal_acc.images.trust import signature

    makers: dict[SignedKind, Callable[[bytes], bytes]] = {
        SignedKind.CATALOGUE: signature.catalogue_statement,
        SignedKind.BASELINE: signature.baseline_statement,
    }
    return makers[kind](data)


def signers(
    kind: SignedKind, path: Path, data: bytes, *, trust: Trusting | None, demand: SignatureDemand, now: datetime
) -> tuple[str, ...]:
    """Return who signed these bytes; nobody where no signature was checked.

    :param trust: the trust roots, None where there are none; then no signature is checked.
    :raises DocumentRefused: the document is not signed as required.
    :raises DocumentError: the signature file is none.
    """
    if trust is not None:
        return _signers(kind, path, data, trust, demand, now)
    if demand is SignatureDemand.REQUIRED:
        hint = 'set option [baremetal_acc] trust_roots'
        raise REFUSALS[kind](path=str(path), what='must be signed, but no trust root is configured', hint=hint)
    return ()


def _signers(
    kind: SignedKind, path: Path, data: bytes, trust: Trusting, demand: SignatureDemand, now: datetime
) -> tuple[str, ...]:
    # Imported here: without trust roots the import would only take time.
    from baremetal_acc.images.trust import signature

    beside = signature_path(path)
    sign = f'baremetal-acc {kind} sign {path} --key FILE'
    if not os.path.lexists(beside):
        if demand is SignatureDemand.OPTIONAL:
            return ()
        raise REFUSALS[kind](path=str(path), what=f'is not signed: there is no {beside}', hint=f'sign it: {sign}')
    try:
        text = decoded(beside, read(beside, limit=signature.MAX_SIZE))
        return trust.check(statement(kind, data), text, str(beside), now)
    except signature.TooFewSigners as exc:
        what = f'too few trusted keys have signed it: {beside.name}: {exc}'
        hint = f'let the holder of a key that is missing add a signature: {sign} --add'
        raise REFUSALS[kind](path=str(path), what=what, hint=hint) from None
    except signature.Untrusted as exc:
        what = f'its signature is not trusted: {beside.name}: {exc}'
        raise REFUSALS[kind](path=str(path), what=what, hint=f'the {kind} is not used') from None


def check_age(
    kind: SignedKind,
    path: Path,
    data: bytes,
    *,
    serial: int | None,
    expires: datetime | None,
    signed: bool,
    serials: Serials | None,
) -> str:
    """Refuse a document that is older than one that was seen, store its serial, and return the SHA-256 of its bytes.

    Expiry is checked when an image is opened: work that needs no image, such as locking, continues.

    :param serials: the database of the highest serials; None where there is none.
    :raises DocumentRefused: the document is older than one that was seen.
    :raises DocumentError: it is signed, and has no serial or no expiry, or its serial is stored nowhere.
    """
    if signed and (serial is None or expires is None):
        what = f'is signed, but has no {"serial" if serial is None else "expires"}: an old copy could be used for ever'
        raise DocumentError(path=str(path), line=1, what=what, hint='add serial and expires, and sign it again')
    digest = f'sha256:{hashlib.sha256(data).hexdigest()}'
    if serials is not None:
        serials.accept(path, serial, digest, signed=signed, kind=kind)
    elif signed:
        older = f'an older {kind} would be accepted'
        what = f'is signed, but its highest serial is stored nowhere: {older}'
        raise DocumentError(path=str(path), what=what, hint='set option [baremetal_acc] catalogue_serial_file')
    return digest


def read(path: Path, hint: str | None = None, limit: int = MAX_SIZE) -> bytes:
    """Read a regular file once, and return its bytes.

    :raises DocumentError: the file cannot be read, is no regular file, or is too long.
    """
    hint = hint or 'name a file that you may read'
    try:
        # Non-blocking, so that a pipe in place of the file cannot block the process.
        with open(path, 'rb', opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_CLOEXEC)) as stream:
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            data = stream.read(limit + 1) if regular else b''
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    if not regular:
        raise DocumentError(path=str(path), what='is not a regular file', hint=hint)
    if len(data) > limit:
        raise DocumentError(path=str(path), what=f'longer than {limit} bytes', hint='check that it is the right file')
    return data


def decoded(path: Path, data: bytes) -> str:
    """Return the text of a file.

    :raises DocumentError: it is not UTF-8.
    """
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8', hint='save it as UTF-8') from None
