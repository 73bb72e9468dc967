# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the fields of a PLDM firmware update package, each within its bounds."""

from baremetal_acc.errors import PackageMalformed
from baremetal_acc.images.pldm import PldmString, StringType


class FieldReader:
    """Reads fields, one after the other.

    :param within: prefix of the field names, for messages: ``FirmwareDeviceIDRecords[2].``.
    """

    def __init__(self, data: bytes, name: str, *, at: int = 0, end: int | None = None, within: str = '') -> None:
        self._data = data
        self._name = name
        self._at = self._begin = at
        self._end = len(data) if end is None else end
        self._within = within

    @property
    def left(self) -> int:
        """Number of bytes that were not read yet."""
        return self._end - self._at

    @property
    def done(self) -> int:
        """Number of bytes that were read."""
        return self._at - self._begin

    @property
    def _rest(self) -> str:
        return f'{self.left} {"byte is" if self.left == 1 else "bytes are"} left'

    def wrong(self, field: str, found: str, expected: str, *, back: int = 0) -> PackageMalformed:
        """Return the error for a field.

        :param back: how many bytes before the present position the field began.
        """
        where = f'{self._within}{field}'
        return PackageMalformed(image=self._name, field=where, offset=self._at - back, found=found, expected=expected)

    def take(self, length: int, field: str) -> bytes:
        """Read that many bytes.

        :raises PackageMalformed: there are fewer.
        """
        if length > self.left:
            raise self.wrong(field, self._rest, f'{length} bytes')
        found = self._data[self._at : self._at + length]
        self._at += length
        return found

    def u8(self, field: str) -> int:
        """Read a number of one byte."""
        return self.take(1, field)[0]

    def u16(self, field: str) -> int:
        """Read a number of two bytes."""
        return int.from_bytes(self.take(2, field), 'little')

    def u32(self, field: str) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self.take(4, field), 'little')

    def part(self, length: int, field: str, within: str) -> 'FieldReader':
        """Return a reader of the next bytes.

        :raises PackageMalformed: there are fewer.
        """
        if length > self.left:
            raise self.wrong(field, self._rest, f'{length} bytes')
        found = FieldReader(self._data, self._name, at=self._at, end=self._at + length, within=f'{self._within}{within}')
        self._at += length
        return found

    def string_type(self, field: str) -> StringType:
        """Read a string type."""
        number = self.u8(field)
        try:
            return StringType(number)
        except ValueError:
            raise self.wrong(field, str(number), f'a number from 0 to {max(StringType)}', back=1) from None

    def string(self, kind: StringType, length: int, field: str) -> PldmString:
        """Read a string of a known type."""
        found = PldmString(type=kind, raw=self.take(length, field))
        try:
            found.text  # noqa: B018 - it decodes
        except UnicodeDecodeError:
            raise self.wrong(field, f'0x{found.raw[:16].hex()}', f'valid {kind.name} text', back=length) from None
        return found
