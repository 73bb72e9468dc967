# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Are the bytes of an image those that the catalogue describes? The bytes that were checked are the bytes that are sent."""

import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from baremetal_acc.errors import ImageMismatch, ImageMissing
from baremetal_acc.model.image import Image, Upload

_CHUNK = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStore:
    """Images that are files.

    :ivar folders: the only folders that images may lie in, symbolic links followed.
    """

    folders: tuple[Path, ...]

    def open(self, image: Image) -> Upload:
        """A private copy of the image's bytes, compared with size and digest while it was made.

        The copy has no name, so that nobody can change it between the check and the sending.

        :raises ImageMissing: the file cannot be read, or lies outside the folders.
        :raises ImageMismatch: size or digest differ.
        """
        path = self._allowed(image)
        copy = tempfile.TemporaryFile(prefix='baremetal-acc-')  # noqa: SIM115 - it lives as long as the upload
        try:
            _copy(image, path, copy)
        except BaseException:
            copy.close()
            raise
        return Upload(file=path.name, size_bytes=image.size_bytes, open=lambda: _rewound(copy))

    def _allowed(self, image: Image) -> Path:
        path = Path(os.path.realpath(image.source))
        if not any(path.is_relative_to(os.path.realpath(folder)) for folder in self.folders):
            hint = 'images lie beside the catalogue, or in a folder of [baremetal_acc] image_folders'
            raise ImageMissing(image=image.name, what=f'{path} is outside the folders that images may lie in', hint=hint)
        return path


def _copy(image: Image, path: Path, copy: BinaryIO) -> None:
    digest = hashlib.new(image.digest.algorithm)
    left = image.size_bytes
    try:
        # Not blocking, so that a pipe put in place of the image cannot hold a conductor.
        with open(path, 'rb', buffering=0, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as source:
            while chunk := source.read(_CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise ImageMismatch(image=image.name, what=f'{path} is longer than {image.size_bytes} bytes')
                digest.update(chunk)
                copy.write(chunk)
    except OSError as exc:
        raise ImageMissing(image=image.name, what=f'{path} cannot be read: {exc.strerror}') from exc
    if left:
        found = image.size_bytes - left
        raise ImageMismatch(image=image.name, what=f'{path} has {found} bytes, the catalogue says {image.size_bytes}')
    if digest.hexdigest() != image.digest.value:
        what = f'{path} has {image.digest.algorithm} {digest.hexdigest()}, the catalogue says {image.digest.value}'
        raise ImageMismatch(
            image=image.name, what=what, hint='it is not sent; put back the right file or correct the catalogue'
        )


def _rewound(copy: BinaryIO) -> BinaryIO:
    copy.seek(0)
    return copy
