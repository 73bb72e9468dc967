# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Are the bytes of an image those that the catalogue describes? The bytes that were checked are the bytes that are sent."""

import hashlib
import os
import re
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from baremetal_acc.catalogue import address
from baremetal_acc.catalogue.deny import Denial
from baremetal_acc.catalogue.fetch import NotFetched, Web
from baremetal_acc.catalogue.load import Demand, Trusting
from baremetal_acc.catalogue.refused import ImageDenied, ImageUntrusted
from baremetal_acc.errors import DocumentError, ImageMismatch, ImageMissing
from baremetal_acc.model.image import Image, Upload

_CHUNK = 1024 * 1024

_LARGEST = 8 * 1024**3
"""Bytes. The largest bundle of firmware of a machine with eight cards that we know of has 1.5 GB."""

_IN_A_NAME = re.compile(r'[^A-Za-z0-9._+-]')


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """Images that are files.

    :ivar folders: the only folders that images may lie in, symbolic links followed.
    :ivar largest: size of an image in bytes, at most.
    """

    folders: tuple[Path, ...]
    largest: int = _LARGEST

    def open(self, image: Image) -> Upload:
        """A private copy of the image's bytes, compared with size and digest while it was made.

        The copy has no name, so that nobody can change it between the check and the sending.

        :raises ImageMissing: the file cannot be read, or lies outside the folders.
        :raises ImageMismatch: size or digest differ.
        """
        with self.reading(image, image.source) as (path, source):
            return _upload(image, str(path), path.name, _chunks(image, path, source), self.largest)

    @contextmanager
    def reading(self, image: Image, name: str) -> Iterator[tuple[Path, BinaryIO]]:
        """A file that an image may have: its own, or its signature's.

        :raises ImageMissing: it cannot be read, or lies outside the folders.
        """
        path = Path(os.path.realpath(name))
        self._allowed(image, path)
        try:
            # Not blocking, so that a pipe put in place of the image cannot hold a conductor.
            source = open(path, 'rb', buffering=0, opener=lambda n, flags: os.open(n, flags | os.O_NONBLOCK))  # noqa: SIM115
        except OSError as exc:
            raise ImageMissing(image=image.name, what=f'{path} cannot be read: {exc.strerror}') from exc
        with source:
            # Asked of what was opened: a link may have been put in place of a folder since.
            self._allowed(image, Path(os.path.realpath(f'/proc/self/fd/{source.fileno()}')))
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise ImageMissing(image=image.name, what=f'{path} is no regular file')
            yield path, source

    def _allowed(self, image: Image, path: Path) -> None:
        if not any(path.is_relative_to(os.path.realpath(folder)) for folder in self.folders):
            hint = 'images lie beside the catalogue, or in a folder of [baremetal_acc] image_folders'
            raise ImageMissing(image=image.name, what=f'{path} is outside the folders that images may lie in', hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStore:
    """Images that web servers have.

    :ivar web: the servers that may be asked.
    """

    web: Web = field(default_factory=Web)
    largest: int = _LARGEST

    def open(self, image: Image) -> Upload:
        """A private copy of the image's bytes, compared with size and digest while they came.

        :raises ImageMissing: they do not come, or the server may not be asked.
        :raises ImageMismatch: size or digest differ.
        """
        where = address.parse(image.source)
        try:
            with self.web.open(image.source, size=image.size_bytes) as chunks:
                return _upload(image, str(where), where.file or image.name, chunks, self.largest)
        except NotFetched as exc:
            raise ImageMissing(image=image.name, what=f'{where} cannot be read: {exc}', hint=exc.hint) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Images wherever a catalogue says they are: the way to them that a job takes.

    :ivar trust: the trust roots, None where there are none.
    :ivar signatures: whether each image needs a signature of its own; one that is named is checked in any case.
    :ivar catalogue: path of the catalogue, for messages; ``expires`` when it does, None for never.
    :ivar denials: its deny-list: a digest of another algorithm than the image's can be compared with the bytes alone.
    """

    files: FileStore
    web: WebStore = field(default_factory=WebStore)
    trust: Trusting | None = None
    signatures: Demand = Demand.OPTIONAL
    catalogue: str = 'the catalogue'
    expires: datetime | None = None
    denials: tuple[Denial, ...] = ()
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def open(self, image: Image) -> Upload:
        """A private copy of the bytes of an image that may be written now.

        :raises ImageDenied: the image is denied, or the catalogue has expired.
        :raises ImageUntrusted: its signature is missing, or proves nothing.
        :raises ImageMissing: ``ImageMismatch``: its bytes cannot be had, or are others.
        """
        now = self.clock()
        if image.denied is not None:
            raise ImageDenied(image=image.name, what=f'{self.catalogue} denies it: {image.denied}')
        if self.expires is not None and now >= self.expires:
            what = f'{self.catalogue}, which lists it, has expired at {self.expires:%Y-%m-%d %H:%M:%S}Z'
            raise ImageDenied(image=image.name, what=what, hint='put the present catalogue in its place')
        self.signer(image, now)
        upload = (self.web if '://' in image.source else self.files).open(image)
        self._not_denied(image, upload)
        return upload

    def _not_denied(self, image: Image, upload: Upload) -> None:
        for denial in self.denials:
            if denial.digest is None or not denial.may_concern(image):
                continue
            copy, found = upload.open(), hashlib.new(denial.digest.algorithm)
            while chunk := copy.read(_CHUNK):
                found.update(chunk)
            if found.hexdigest() == denial.digest.value:
                copy.close()
                raise ImageDenied(image=image.name, what=f'{self.catalogue} denies its bytes: {denial.reason}')

    def signer(self, image: Image, now: datetime) -> str | None:
        """Who signed the image itself; None where nobody did, and nobody has to.

        :raises ImageUntrusted: its signature is missing, or proves nothing. ``ImageMissing``: it cannot be read.
        """
        if image.signature is None:
            if self.signatures is Demand.REQUIRED:
                hint = f'sign it: baremetal-acc catalogue sign {self.catalogue} --image {image.name} --key FILE'
                raise ImageUntrusted(image=image.name, what='has no signature of its own', hint=hint)
            return None
        if self.trust is None:
            hint = 'set option [baremetal_acc] trust_roots'
            raise ImageUntrusted(image=image.name, what='is signed, and no trust root says by whom', hint=hint)
        # Imported here: who has no trust roots does not wait for it.
        from baremetal_acc.catalogue import signature

        where, text = self._signature(image, image.signature, signature.MAX_SIZE)
        try:
            return self.trust.check(signature.image_statement(image), text, where, now)
        except signature.Untrusted as exc:
            raise ImageUntrusted(image=image.name, what=f'its signature proves nothing: {where}: {exc}') from None
        except DocumentError as exc:
            raise ImageUntrusted(image=image.name, what=f'its signature cannot be read: {exc}') from None

    def _signature(self, image: Image, source: str, largest: int) -> tuple[str, str]:
        """Where the signature lies, and its text."""
        if '://' in source:
            where = str(address.parse(source))
            try:
                with self.web.web.open(source) as pieces:
                    data = _bounded(pieces, largest)
            except NotFetched as exc:
                raise ImageMissing(image=image.name, what=f'{where} cannot be read: {exc}', hint=exc.hint) from None
        else:
            with self.files.reading(image, source) as (path, stream):
                where, data = str(path), _bounded(_chunks(image, path, stream), largest)
        try:
            if len(data) <= largest:
                return where, data.decode('utf-8')
            what = f'{where} is longer than {largest} bytes'
        except UnicodeDecodeError:
            what = f'{where} is not UTF-8'
        raise ImageUntrusted(image=image.name, what=f'its signature cannot be read: {what}')


def _chunks(image: Image, path: Path, source: BinaryIO) -> Iterator[bytes]:
    try:
        while chunk := source.read(_CHUNK):
            yield chunk
    except OSError as exc:
        raise ImageMissing(image=image.name, what=f'{path} cannot be read: {exc.strerror}') from exc


def _bounded(pieces: Iterable[bytes], largest: int) -> bytes:
    """The bytes, one more than the largest number at most."""
    found = b''
    for piece in pieces:
        found = (found + piece)[: largest + 1]
        if len(found) > largest:
            break
    return found


def _upload(image: Image, where: str, name: str, chunks: Iterable[bytes], largest: int) -> Upload:
    if image.size_bytes > largest:
        hint = 'option [baremetal_acc] image_max_size'
        raise ImageMismatch(image=image.name, what=f'{image.size_bytes} bytes are more than {largest}, the most', hint=hint)
    copy = tempfile.TemporaryFile(prefix='baremetal-acc-')  # noqa: SIM115 - it lives as long as the upload
    try:
        _copy(image, where, chunks, copy)
    except BaseException:
        copy.close()
        raise
    file = _IN_A_NAME.sub('_', PurePosixPath(name).name)[-100:]
    return Upload(file=file, size_bytes=image.size_bytes, open=lambda: _rewound(copy))


def _copy(image: Image, where: str, chunks: Iterable[bytes], copy: BinaryIO) -> None:
    digest = hashlib.new(image.digest.algorithm)
    left = image.size_bytes
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ImageMismatch(image=image.name, what=f'{where} is longer than {image.size_bytes} bytes')
        digest.update(chunk)
        _write(image, copy, chunk)
    if left:
        found = image.size_bytes - left
        raise ImageMismatch(image=image.name, what=f'{where} has {found} bytes, the catalogue says {image.size_bytes}')
    if digest.hexdigest() != image.digest.value:
        what = f'{where} has {image.digest.algorithm} {digest.hexdigest()}, the catalogue says {image.digest.value}'
        raise ImageMismatch(
            image=image.name, what=what, hint='it is not sent; put back the right file or correct the catalogue'
        )


def _write(image: Image, copy: BinaryIO, chunk: bytes) -> None:
    try:
        copy.write(chunk)
        copy.flush()
    except OSError as exc:
        what = f'its private copy in {tempfile.gettempdir()} cannot be written: {exc.strerror}'
        raise ImageMissing(image=image.name, what=what, hint='make room there, or set TMPDIR to where there is some') from exc


def _rewound(copy: BinaryIO) -> BinaryIO:
    copy.seek(0)
    return copy
