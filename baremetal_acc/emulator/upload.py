# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The reader of an update upload to an emulated BMC: an image for one component, or a PLDM package.

The first bytes tell the two apart.
"""

import hashlib

from baremetal_acc.emulator.image import BadImage, EmulatedImage, ImageReader
from baremetal_acc.emulator.pldm import IDENTIFIER_BYTES, PackageMaker, PackageReader, is_package

Upload = EmulatedImage | PackageMaker | BadImage


class UploadReader:
    """Reads an upload as it arrives, in constant memory: ``feed`` the chunks, then ``finish``."""

    def __init__(self) -> None:
        self._begin = b''
        self._reader: ImageReader | PackageReader | None = None

    @property
    def received_bytes(self) -> int:
        """The number of bytes so far."""
        return len(self._begin) if self._reader is None else self._reader.received_bytes

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        if self._reader is None:
            self._begin += chunk
            if len(self._begin) < IDENTIFIER_BYTES:
                return
            self._reader = PackageReader() if is_package(self._begin) else ImageReader()
            chunk, self._begin = self._begin, b''
        self._reader.feed(chunk)

    def digest(self) -> str:
        """Return the SHA-256 of all bytes so far, as ``sha256:...``."""
        return f'sha256:{hashlib.sha256(self._begin).hexdigest()}' if self._reader is None else self._reader.digest()

    def finish(self) -> Upload:
        """Return the image or package; a BadImage where the upload is neither, or not whole."""
        if self._reader is None:
            return BadImage('the upload is too short to be an image or a package')
        try:
            return self._reader.finish()
        except BadImage as exc:
            return exc
