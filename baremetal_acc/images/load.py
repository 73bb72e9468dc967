# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load a catalogue after its signature and its serial were checked. The bytes that were checked are the bytes that are read."""

import hashlib
import os
import stat
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue
from baremetal_acc.images.catalogue import Catalogue
from baremetal_acc.images.refused import CatalogueRefused
from baremetal_acc.images.serials import Serials
from baremetal_acc.model import toml
from baremetal_acc.model.image import SignatureDemand

SUFFIX = '.sig'
"""Suffix of a signature file, after the full name of the signed file."""

_MAX_SIZE = 4 * toml.MAX_SIZE
"""Most bytes of a catalogue: the most characters of a document, in UTF-8."""


class Trusting(Protocol):
    """The interface of trust roots; see :class:`baremetal_acc.images.trust.signature.Trust`."""

    def check(self, statement: bytes, text: str, path: str, now: datetime) -> str:
        """Return who signed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A catalogue that may be used.

    :ivar signer: who signed it; None where nobody did, or no signature was checked.
    :ivar digest: SHA-256 of its bytes.
    """

    catalogue: Catalogue
    signer: str | None
    digest: str


def load(
    path: Path,
    *,
    trust: Trusting | None,
    demand: SignatureDemand,
    serials: Serials | None,
    now: datetime,
    hint: str | None = None,
) -> Loaded:
    """Read a catalogue after checking its signature and its serial.

    Expiry is checked when an image is opened: work that needs no image, such as locking, continues.

    :param trust: the trust roots, None where there are none; then no signature is checked.
    :param serials: the database of the highest serials.
    :param hint: where the path is configured, for messages.
    :raises CatalogueRefused: the catalogue is not signed as required, or is older than one that was seen.
    :raises DocumentError: the catalogue is missing or wrong.
    """
    data = read(path, hint)
    signer = None
    if trust is not None:
        signer = _signer(path, data, trust, demand, now)
    elif demand is SignatureDemand.REQUIRED:
        hint = 'set option [baremetal_acc] trust_roots'
        raise CatalogueRefused(path=str(path), what='must be signed, but no trust root is configured', hint=hint)
    found = catalogue.read(_text(path, data), str(path))
    if signer is not None and (found.serial is None or found.expires is None):
        what = f'is signed, but has no {"serial" if found.serial is None else "expires"}: an old copy could be used for ever'
        raise DocumentError(path=str(path), line=1, what=what, hint='add serial and expires, and sign it again')
    digest = f'sha256:{hashlib.sha256(data).hexdigest()}'
    if serials is not None:
        serials.accept(path, found.serial, digest, signed=signer is not None)
    elif signer is not None:
        what = 'is signed, but its highest serial is stored nowhere: an older catalogue would be accepted'
        raise DocumentError(path=str(path), what=what, hint='set option [baremetal_acc] catalogue_serial_file')
    return Loaded(catalogue=found, signer=signer, digest=digest)


def read(path: Path, hint: str | None = None, limit: int = _MAX_SIZE) -> bytes:
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


def _signer(path: Path, data: bytes, trust: Trusting, demand: SignatureDemand, now: datetime) -> str | None:
    """Return who signed these bytes; None where nobody did, and no signature is required."""
    # Imported here: without trust roots the import would only take time.
    from baremetal_acc.images.trust import signature

    beside = path.with_name(path.name + SUFFIX)
    if not os.path.lexists(beside):
        if demand is SignatureDemand.OPTIONAL:
            return None
        hint = f'sign it: baremetal-acc catalogue sign {path} --key FILE'
        raise CatalogueRefused(path=str(path), what=f'is not signed: there is no {beside}', hint=hint)
    try:
        text = _text(beside, read(beside, limit=signature.MAX_SIZE))
        return trust.check(signature.catalogue_statement(data), text, str(beside), now)
    except signature.Untrusted as exc:
        what = f'its signature is not trusted: {beside.name}: {exc}'
        raise CatalogueRefused(path=str(path), what=what, hint='the catalogue is not used') from None


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode('utf-8')
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8', hint='save it as UTF-8') from None
