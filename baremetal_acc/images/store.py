# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Open images of the catalogue from files or web servers, and check their size, digest, signature and the deny-list.

What was checked is what is sent. Whoever opens an image while somebody else has it open gets the same private copy, after its
bytes were compared again: an image for a hundred cards is on the disk once. The copy is deleted when nobody has it open any
more.
"""

import functools
import hashlib
import io
import os
import re
import stat
import tempfile
import threading
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from baremetal_acc.errors import DocumentError, ImageError, ImageMismatch, ImageMissing
from baremetal_acc.images import address, pldm_image
from baremetal_acc.images.deny import Denial
from baremetal_acc.images.fetch import NotFetched, Web
from baremetal_acc.images.refused import DeniedImageError, ImageUntrusted
from baremetal_acc.images.signed_document import Trusting
from baremetal_acc.model.image import Image, SignatureDemand, Upload

_CHUNK = 1024 * 1024

_LARGEST = 8 * 1024**3
"""Most bytes of an image. The largest known bundle of firmware for a machine with eight cards has 1.5 GB."""

_MOST_HELD = 2 * 1024**3
"""Most bytes of copies that are kept open although nobody sends them at present (:func:`holding`)."""

_IN_A_NAME = re.compile(r'[^A-Za-z0-9._+-]')


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """Images in local files.

    :ivar folders: the only folders that may contain images, after symbolic links are followed.
    :ivar largest: most bytes of an image.
    """

    folders: tuple[Path, ...]
    largest: int = _LARGEST

    def open(self, image: Image) -> Upload:
        """Return a private copy of the image's bytes. Size and digest are checked while the copy is made.

        The copy has no file name, so that nobody can change it between the check and the upload.

        :raises ImageMissing: the file cannot be read, or is outside the folders.
        :raises ImageMismatch: size or digest differ.
        """

        def copied() -> '_Copy':
            with self.reading(image, image.source) as (path, source):
                return _copied(image, str(path), path.name, _chunks(image, path, source), self.largest)

        return _COPIES.upload(self, image, copied)

    @contextmanager
    def reading(self, image: Image, name: str) -> Iterator[tuple[Path, BinaryIO]]:
        """Open a file of an image: its own, or that of its signature.

        :raises ImageMissing: the file cannot be read, or is outside the folders.
        """
        path = Path(os.path.realpath(name))
        self._allowed(image, path)
        try:
            # Non-blocking, so that a pipe in place of the image cannot block a conductor.
            source = open(path, 'rb', buffering=0, opener=lambda n, flags: os.open(n, flags | os.O_NONBLOCK))  # noqa: SIM115
        except OSError as exc:
            raise ImageMissing(image=image.name, what=f'{path} cannot be read: {exc.strerror}') from exc
        with source:
            # Checked on the open file: a folder may have been replaced by a link since.
            self._allowed(image, Path(os.path.realpath(f'/proc/self/fd/{source.fileno()}')))
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise ImageMissing(image=image.name, what=f'{path} is not a regular file')
            yield path, source

    def _allowed(self, image: Image, path: Path) -> None:
        if not any(path.is_relative_to(os.path.realpath(folder)) for folder in self.folders):
            hint = 'images must be in the folder of the catalogue, or in one of option [baremetal_acc] image_folders'
            raise ImageMissing(image=image.name, what=f'{path} is outside the folders that are allowed for images', hint=hint)


@dataclass(frozen=True, slots=True, kw_only=True)
class WebStore:
    """Images on web servers.

    :ivar web: the servers that may be contacted.
    """

    web: Web = field(default_factory=Web)
    largest: int = _LARGEST

    def open(self, image: Image) -> Upload:
        """Return a private copy of the image's bytes. Size and digest are checked while they are received.

        :raises ImageMissing: the image cannot be fetched, or the server may not be contacted.
        :raises ImageMismatch: size or digest differ.
        """
        where = address.parse(image.source)

        def copied() -> '_Copy':
            try:
                with self.web.open(image.source, size=image.size_bytes) as chunks:
                    return _copied(image, str(where), where.file or image.file, chunks, self.largest)
            except NotFetched as exc:
                raise ImageMissing(image=image.name, what=f'{where} cannot be read: {exc}', hint=exc.hint) from None

        return _COPIES.upload(self, image, copied)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageFiles:
    """Images in files and on web servers, as the catalogue names them. Jobs open images here.

    :ivar trust: the trust roots, None where there are none.
    :ivar signatures: whether each image needs a signature of its own; a signature that is named is checked in any case.
    :ivar catalogue: path of the catalogue, for messages; ``expires`` is its expiry, None for never.
    :ivar baseline: likewise of the baseline, with ``baseline_expires``.
    :ivar denials: the deny-list: a digest of another algorithm than the image's can only be compared with the bytes.
    """

    files: FileStore
    web: WebStore = field(default_factory=WebStore)
    trust: Trusting | None = None
    signatures: SignatureDemand = SignatureDemand.OPTIONAL
    catalogue: str = 'the catalogue'
    expires: datetime | None = None
    baseline: str = 'the baseline'
    baseline_expires: datetime | None = None
    denials: tuple[Denial, ...] = ()
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def open(self, image: Image) -> Upload:
        """Return a private copy of the bytes of an image that may be written now.

        :raises ImageDenied: the image is denied, or the catalogue or the baseline has expired.
        :raises ImageUntrusted: its signature is missing, or proves nothing.
        :raises ImageMissing: its bytes cannot be read. ``ImageMismatch``: they differ from the catalogue.
        :raises PackageMalformed: it is a PLDM package that violates its specification.
        """
        now = self.clock()
        if image.denied is not None:
            raise DeniedImageError(image=image.name, what=f'denied by {self.catalogue}: {image.denied}')
        if self.expires is not None and now >= self.expires:
            what = f'listed in {self.catalogue}, which expired at {self.expires:%Y-%m-%d %H:%M:%S}Z'
            raise DeniedImageError(image=image.name, what=what, hint='install the current catalogue')
        if self.baseline_expires is not None and now >= self.baseline_expires:
            what = f'not to be written: {self.baseline} expired at {self.baseline_expires:%Y-%m-%d %H:%M:%S}Z'
            raise DeniedImageError(image=image.name, what=what, hint='install the current baseline')
        self.signers(image, now)
        upload = (self.web if '://' in image.source else self.files).open(image)
        why = self._denial(image, upload)
        error = pldm_image.contradiction(image, upload) if why is None else None
        if why is None and error is None:
            return upload
        del upload  # the error must not keep the copy open
        raise error or DeniedImageError(image=image.name, what=f'denied by {self.catalogue}, by the digest of its bytes: {why}')

    def _denial(self, image: Image, upload: Upload) -> str | None:
        """Return why the image's bytes are denied; None where they are not."""
        for denial in self.denials:
            if denial.digest is None or not denial.may_concern(image):
                continue
            found = hashlib.new(denial.digest.algorithm)
            with upload.open() as copy:
                while chunk := copy.read(_CHUNK):
                    found.update(chunk)
            if found.hexdigest() == denial.digest.value:
                return denial.reason
        return None

    def signers(self, image: Image, now: datetime) -> tuple[str, ...]:
        """Return who signed the image itself; nobody where it is not signed, and no signature is required.

        :raises ImageUntrusted: its signature is missing, or proves nothing. ``ImageMissing``: the signature cannot be read.
        """
        if image.signature is None:
            if self.signatures is SignatureDemand.REQUIRED:
                hint = f'sign it: baremetal-acc catalogue sign {self.catalogue} --image {image.file} --key FILE'
                raise ImageUntrusted(image=image.name, what='has no signature of its own', hint=hint)
            return ()
        if self.trust is None:
            hint = 'set option [baremetal_acc] trust_roots'
            raise ImageUntrusted(image=image.name, what='is signed, but no trust root is configured', hint=hint)
        # Imported here: without trust roots the import would only take time.
        from baremetal_acc.images.trust import signature

        where, text = self._signature(image, image.signature, signature.MAX_SIZE)
        try:
            return self.trust.check(signature.image_statement(image), text, where, now)
        except signature.Untrusted as exc:
            raise ImageUntrusted(image=image.name, what=f'its signature is not trusted: {where}: {exc}') from None
        except DocumentError as exc:
            raise ImageUntrusted(image=image.name, what=f'its signature cannot be read: {exc}') from None

    def _signature(self, image: Image, source: str, largest: int) -> tuple[str, str]:
        """Return the path or URL of the signature, and its text."""
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
    """Return the bytes, at most one more than ``largest``."""
    found = b''
    for piece in pieces:
        found = (found + piece)[: largest + 1]
        if len(found) > largest:
            break
    return found


def _copied(image: Image, where: str, name: str, chunks: Iterable[bytes], largest: int) -> '_Copy':
    """Return a private copy of the chunks, after size and digest were checked."""
    if image.size_bytes > largest:
        what = f'its size, {image.size_bytes} bytes, exceeds the maximum of {largest} bytes'
        raise ImageMismatch(image=image.name, what=what, hint='the maximum is set by option [baremetal_acc] image_max_size')
    try:
        copy = tempfile.TemporaryFile(prefix='baremetal-acc-')  # noqa: SIM115 - it lives as long as the copy
    except OSError as exc:
        raise _no_room(image, exc) from exc
    try:
        _copy(image, where, chunks, copy)
    except BaseException:
        # On any exception, also Ctrl-C: an incomplete copy is discarded.
        copy.close()
        raise
    return _Copy(_IN_A_NAME.sub('_', PurePosixPath(name).name)[-100:], copy)


def _copy(image: Image, where: str, chunks: Iterable[bytes], copy: BinaryIO) -> None:
    digest = hashlib.new(image.digest.algorithm)
    left = image.size_bytes
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ImageMismatch(
                image=image.name, what=f'{where} is longer than {image.size_bytes} bytes, its size in the catalogue'
            )
        digest.update(chunk)
        _write(image, copy, chunk)
    if left:
        found = image.size_bytes - left
        raise ImageMismatch(image=image.name, what=f'{where} has {found} bytes, the catalogue says {image.size_bytes}')
    if digest.hexdigest() != image.digest.value:
        what = f'{where} has {image.digest.algorithm} {digest.hexdigest()}, the catalogue says {image.digest.value}'
        raise ImageMismatch(
            image=image.name, what=what, hint='the image is not sent; restore the right file or correct the catalogue'
        )


def _write(image: Image, copy: BinaryIO, chunk: bytes) -> None:
    try:
        copy.write(chunk)
        copy.flush()
    except OSError as exc:
        raise _no_room(image, exc) from exc


def _no_room(image: Image, exc: OSError) -> ImageMissing:
    where = tempfile.tempdir or 'a folder for temporary files'  # set when the first temporary file is made
    what = f'its temporary copy in {where} cannot be written: {exc.strerror}'
    return ImageMissing(image=image.name, what=what, hint='free space there, or set TMPDIR to a folder with more space')


class _Copy:
    """The bytes of an image in a file without a name, which stays open as long as somebody refers to the copy.

    :ivar file: the file name that is sent with the bytes.
    :ivar place: the source of the bytes, known while the copy is open.
    """

    def __init__(self, file: str, stream: BinaryIO) -> None:
        self.file = file
        self.place: _Place | None = None
        self._stream = stream
        # Not in __del__: while that runs, others can still find the copy, and would read a closed file.
        weakref.finalize(self, stream.close)

    def at(self, position: int, size: int) -> bytes:
        """Read bytes at a position, independent of other readers."""
        return os.pread(self._stream.fileno(), size, position)


class _Reading(io.RawIOBase):
    """A stream that reads a copy from its beginning, with a position of its own: others may read the same copy."""

    def __init__(self, copy: _Copy, size_bytes: int) -> None:
        super().__init__()
        self._copy: _Copy | None = copy
        self._size = size_bytes
        self._position = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes."""
        if self._copy is None:
            raise ValueError('the image is closed')
        room = memoryview(buffer).cast('B')
        found = self._copy.at(self._position, len(room))
        room[: len(found)] = found
        self._position += len(found)
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Set the position."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def close(self) -> None:
        """Release the copy."""
        self._copy = None
        super().close()


class _Place:
    """The source of one image. Whoever holds its lock may look for a copy, and make one.

    :ivar failed: returns the error that a failed copy gives: each of those who waited for the copy raises an error of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.failed: Callable[[], ImageError] | None = None
        self._copy: weakref.ref[_Copy] | None = None

    @property
    def copy(self) -> _Copy | None:
        """The copy that somebody has open; None where nobody has."""
        return None if self._copy is None else self._copy()

    def has(self, copy: _Copy) -> None:
        """Register a copy, until nobody has it open."""
        copy.place = self
        self._copy = weakref.ref(copy)


class _Copies:
    """The open copies of the whole process.

    No copy is kept here, except within :meth:`holding`: once nobody refers to a copy, it is deleted, and its disk space is
    free.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._places: weakref.WeakValueDictionary[Hashable, _Place] = weakref.WeakValueDictionary()
        self._holders = 0
        self._held: dict[_Copy, int] = {}

    def upload(self, store: Hashable, image: Image, copied: Callable[[], _Copy]) -> Upload:
        """Return a copy that was checked just now: an open one, or else a new one.

        A caller that asks for an image while it is being copied waits for the copy, and fails with it: a server that does not
        answer is waited for once.

        :param store: the store of the image with all its permissions: what one store may read, another may not.
        :raises ImageError: the image cannot be read, or the bytes of the open copy have changed since it was made.
        """
        key = (store, image.file, image.source, image.digest, image.size_bytes)
        with self._lock:
            place = self._places.setdefault(key, _Place())
        with place.lock:
            if place.failed is not None:
                raise place.failed()
            copy = place.copy
            is_new = copy is None
            if copy is None:
                try:
                    copy = copied()
                except ImageError as exc:
                    what = exc.message.removeprefix(f'image {image.name}: ')
                    place.failed = functools.partial(type(exc), image=image.name, what=what, hint=exc.hint)
                    self._leave(key, place)
                    raise
                place.has(copy)
        if not is_new and not _is_still(image, copy):
            self._leave(key, place, copy)
            what = f'its temporary copy in {tempfile.gettempdir()} has changed since it was checked'
            raise ImageMismatch(image=image.name, what=what, hint='the image is not sent; check the disk of this host')
        self._hold(copy, image.size_bytes)
        return _upload(image, copy)

    def _leave(self, key: Hashable, place: _Place, copy: _Copy | None = None) -> None:
        """Forget a place, so that the next caller starts over."""
        with self._lock:
            if self._places.get(key) is place:
                del self._places[key]
            if copy is not None:
                self._held.pop(copy, None)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Keep copies open until the end of the block: the latest ones, as far as they have room."""
        with self._lock:
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                let_go = {} if self._holders else self._held
                if not self._holders:
                    self._held = {}
            let_go.clear()

    def _hold(self, copy: _Copy, size_bytes: int) -> None:
        with self._lock:
            if not self._holders or size_bytes > _MOST_HELD:
                return
            self._held.pop(copy, None)
            while self._held and sum(self._held.values()) + size_bytes > _MOST_HELD:
                del self._held[next(iter(self._held))]
            self._held[copy] = size_bytes


_COPIES = _Copies()

holding = _COPIES.holding
"""Use it around a turn in which several cards get one image: the image is copied once for all of them."""


def _upload(image: Image, copy: _Copy) -> Upload:
    size = image.size_bytes

    def opened() -> BinaryIO:
        return cast('BinaryIO', _Reading(copy, size))

    return Upload(file=copy.file, size_bytes=size, open=opened)


def _is_still(image: Image, copy: _Copy) -> bool:
    """Tell whether a copy can be read to its end, and its bytes are those that the catalogue describes."""
    found, position = hashlib.new(image.digest.algorithm), 0
    try:
        while piece := copy.at(position, _CHUNK):
            found.update(piece)
            position += len(piece)
    except OSError:
        return False
    return position == image.size_bytes and found.hexdigest() == image.digest.value
