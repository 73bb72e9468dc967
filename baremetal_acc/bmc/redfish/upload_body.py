# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP request bodies that stream a firmware image in pieces (octet stream or multipart), in constant memory.

The file is compared with the size that was checked: an image that has changed length is not sent whole.
"""

import json
import secrets
from collections.abc import Iterator
from pathlib import PurePath
from typing import BinaryIO

from baremetal_acc.errors import ImageMismatch
from baremetal_acc.model.image import Upload

CHUNK = 256 * 1024


class Octets:
    """The bytes of an image as they are, as a request body.

    :ivar content_type: for the Content-Type header.
    :ivar is_sent: the sender has taken every piece; it asks for the next one only once it has sent the last.
    """

    content_type = 'application/octet-stream'

    def __init__(self, upload: Upload, file: BinaryIO, *, head: bytes = b'', tail: bytes = b'') -> None:
        """Create the body; nothing is read.

        :param file: the upload, opened. ``head`` and ``tail``: bytes before and after it.
        """
        self._head, self._tail = head, tail
        self._upload = upload
        self._file = file
        self._pieces = self._all()
        self.is_sent = False

    def __len__(self) -> int:
        return len(self._head) + self._upload.size_bytes + len(self._tail)

    def __iter__(self) -> Iterator[bytes]:
        return self._pieces

    def rewind(self) -> None:
        """Start again at the first byte."""
        self._file.seek(0)
        self._pieces = self._all()
        self.is_sent = False

    def _all(self) -> Iterator[bytes]:
        if self._head:
            yield self._head
        left = self._upload.size_bytes
        self._refuse_more(left)
        while left:
            piece = self._file.read(min(CHUNK, left))
            if not piece:
                raise ImageMismatch(image=self._upload.file, what=f'ends {left} bytes early: it changed since it was checked')
            left -= len(piece)
            # Checked before the last piece is sent: without that piece the BMC does not have a complete image.
            self._refuse_more(left)
            yield piece
        if self._tail:
            yield self._tail
        self.is_sent = True

    def _refuse_more(self, left: int) -> None:
        """Check that the file is not longer than when it was checked.

        :raises ImageMismatch: it is.
        """
        if not left and self._file.read(1):
            raise ImageMismatch(image=self._upload.file, what='has more bytes than when it was checked')


class Multipart(Octets):
    """The body of a multipart push: UpdateParameters, then UpdateFile. Source: DSP0266, section "Software update types"."""

    def __init__(self, parameters: object, upload: Upload, file: BinaryIO) -> None:
        boundary = secrets.token_hex(16)
        name = PurePath(upload.file).name
        safe = ''.join(c if c.isascii() and (c.isalnum() or c in '._-') else '_' for c in name) or 'image'
        head = (
            f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateParameters"\r\n'
            f'Content-Type: application/json\r\n\r\n{json.dumps(parameters)}\r\n'
            f'--{boundary}\r\nContent-Disposition: form-data; name="UpdateFile"; filename="{safe}"\r\n'
            'Content-Type: application/octet-stream\r\n\r\n'
        ).encode()
        super().__init__(upload, file, head=head, tail=f'\r\n--{boundary}--\r\n'.encode())
        self.content_type = f'multipart/form-data; boundary={boundary}'
