# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store signed certificates in a folder: a file for each lifecycle and deployment of a node, and a link by the node's name.

::

    NODE/7-DEPLOYMENT.json              the current one
    NODE/superseded/5-DEPLOYMENT.json   those that were put away, when the node came back
    by-name/NAME.json                   a link to the current one

NODE is the UUID, or the name of a node that has none. A reader sees a file as a whole or not at all. Superseded certificates
are kept, the newest :data:`KEPT` of each node.
"""

import os
import re
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from baremetal_acc.certificates.envelope import MAX_SIZE
from baremetal_acc.errors import StateError
from baremetal_acc.model.certificate import Reference

KEPT = 100
"""Most superseded certificates of a node: some years of tenants, and 5 MiB."""

_NAME = re.compile(r'[A-Za-z0-9_~][A-Za-z0-9._~-]{0,254}')
"""Matches names of Ironic nodes (RFC 3986's unreserved characters), names of command line targets, and UUIDs.

No name that is a hidden file, and none that leads out of the folder.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFolder:
    """A folder of certificates.

    :ivar root: the folder, created when it is needed, for its owner and the owner's group.
    """

    SUPERSEDED: ClassVar[str] = 'superseded'
    BY_NAME: ClassVar[str] = 'by-name'

    root: Path

    def put(self, which: Reference, data: bytes) -> Path:
        """Store a signed certificate, and read it back. A node has one current certificate: any other one is superseded.

        :returns: the path of the file.
        :raises StateError: the file does not hold the certificate as it was given.
        """
        path = self.path(which)
        with _told(path):
            self._make(path.parent)
            _write(path, data + b'\n')
            found = self._read(path)
        if found != data + b'\n':
            raise StateError(f'{path}: the file read back differs from what was written', hint='check the disk')
        with _told(path):
            # Also a certificate of an attempt that was killed before the certificate was stored with the node.
            self._move([p for p in path.parent.iterdir() if p.suffix == '.json' and p != path])
        if _NAME.fullmatch(which.node.name):
            with _told(path):
                self._make(self.root / self.BY_NAME)
                _link(self._link(which), os.path.relpath(path, self.root / self.BY_NAME))
        return path

    def get(self, which: Reference) -> bytes:
        """Return the bytes of a certificate, current or superseded.

        :raises StateError: there is no such certificate.
        """
        path = self.path(which)
        with _told(path):
            try:
                return self._read(path)
            except FileNotFoundError:
                return self._read(path.parent / self.SUPERSEDED / path.name)

    def put_away(self, which: Reference) -> None:
        """Move a certificate to the superseded ones, where it is kept. Does nothing where it was moved before.

        :raises StateError: the file could not be moved.
        """
        path = self.path(which)
        with _told(path):
            if path.exists():
                self._move([path])
            link = self._link(which)
            if _NAME.fullmatch(which.node.name) and _leads_to(link) == os.path.relpath(path, link.parent):
                link.unlink(missing_ok=True)
            self._thin_out(path.parent / self.SUPERSEDED)

    def _move(self, over: Iterable[Path]) -> None:
        """Move files to the superseded certificates."""
        for path in over:
            old = path.parent / self.SUPERSEDED
            self._make(old)
            os.replace(path, old / path.name)
            _sync(path.parent)
            _sync(old)

    def path(self, which: Reference) -> Path:
        """Return the path of a current certificate.

        :raises StateError: node or deployment of the certificate cannot be used in a file name.
        """
        node = which.node.uuid or which.node.name
        if not _NAME.fullmatch(node) or node in (self.BY_NAME, self.SUPERSEDED) or not _NAME.fullmatch(which.deployment):
            raise StateError(f'{self.root}: node {node} and deployment {which.deployment} cannot be used in a file name')
        return self.root / node / f'{which.lifecycle}-{which.deployment}.json'

    def _link(self, which: Reference) -> Path:
        return self.root / self.BY_NAME / f'{which.node.name}.json'

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise StateError(f'{folder}: is not a folder')
        for one in (self.root, folder):
            if one.stat().st_mode & stat.S_IWOTH:
                raise StateError(f'{one}: other users can write to it', hint=f'chmod o-w {one}')

    def _read(self, path: Path) -> bytes:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), 'rb') as stream:
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise StateError(f'{path}: is not a regular file')
            data = stream.read(MAX_SIZE + 2)
        if len(data) > MAX_SIZE + 1:
            raise StateError(f'{path}: longer than {MAX_SIZE} bytes')
        return data

    def _thin_out(self, old: Path) -> None:
        """Delete the oldest superseded certificates beyond :data:`KEPT`."""
        if not old.is_dir():
            return
        found = sorted((p for p in old.iterdir() if p.suffix == '.json'), key=lambda p: p.lstat().st_mtime_ns)
        for path in found[: max(0, len(found) - KEPT)]:
            path.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Convert errors of the operating system to :class:`~baremetal_acc.errors.StateError`.

    :raises StateError: the operating system raised an error.
    """
    try:
        yield
    except OSError as exc:
        hint = 'set by option [baremetal_acc] certificate_folder; see that it has space and that this user may write to it'
        raise StateError(f'{path}: the certificate cannot be stored or read: {exc.strerror}', hint=hint) from exc


def _write(path: Path, data: bytes) -> None:
    """Write a file atomically and durably, readable for the owner and the owner's group."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix='.', suffix='.new')
    try:
        with open(handle, 'wb') as stream:
            os.fchmod(stream.fileno(), 0o640)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    _sync(path.parent)


def _link(path: Path, target: str) -> None:
    """Make a symbolic link atomically: it leads to the old target or to the new one at any time."""
    beside = path.with_name(f'.{path.name}.{os.getpid()}-{os.urandom(4).hex()}')
    os.symlink(target, beside)
    try:
        os.replace(beside, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(beside)
        raise
    _sync(path.parent)


def _leads_to(link: Path) -> str | None:
    try:
        return os.readlink(link)
    except OSError:
        return None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
