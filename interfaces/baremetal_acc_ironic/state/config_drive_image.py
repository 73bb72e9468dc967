# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Program: add an entry to ``vendor_data2.json`` of an ISO 9660 image, from standard input to standard output.

The image may be hostile, and its sizes and counts decide how long it is read. So :mod:`baremetal_acc_ironic.state.config_drive`
runs this in a process of its own, with limits. Nothing else of Ironic is imported, so that it starts quickly.

The input is one line of JSON, which is the entry, and then the image. The output is the changed image. If the image cannot be
changed, the exit code is :data:`NOT_CHANGED`, and standard error says why, without any content of the image.
"""

import io
import json
import struct
import sys
from typing import Any

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

FOLDER = '/openstack/latest'

FILE = 'vendor_data2.json'

KEY = 'baremetal_acc'
"""Key of ours in vendor_data2.json: an object whose ``certificate`` is the text of the signed certificate."""

MAX_ISO = 64 * 1024 * 1024
"""Most bytes of a config drive that is changed. Ironic's agent takes no larger one (MAX_CONFIG_DRIVE_SIZE_MB)."""

NOT_CHANGED = 3
"""Exit code: the image cannot be changed."""

_MAX_VENDOR_DATA = 4 * 1024 * 1024

_ISO_NAME = 'BMACCVD2.JSN;1'
"""Name of the file for readers of ISO 9660 without extensions; pycdlib takes no long names with small letters there."""


class NotChanged(Exception):
    """A config drive cannot be changed; the text says why."""


class _BoundedFile(io.BytesIO):
    """A file in memory that takes at most :data:`MAX_ISO` bytes, whatever sizes an image claims to have."""

    def write(self, data: Any, /) -> int:
        if self.tell() + len(data) > MAX_ISO:
            raise NotChanged('it is too large')
        return super().write(data)


def main() -> None:
    """Run the program."""
    entry = json.loads(sys.stdin.buffer.readline())
    try:
        made = changed(sys.stdin.buffer.read(MAX_ISO), entry)
    except (NotChanged, MemoryError) as exc:
        sys.stderr.write(str(exc) or 'it takes too much memory to read')
        sys.exit(NOT_CHANGED)
    sys.stdout.buffer.write(made)


def changed(image: bytes, entry: dict[str, str]) -> bytes:
    """Return an ISO 9660 image with an entry in its vendor data.

    :raises NotChanged: the image has a form that cannot be changed.
    :raises MemoryError: the image needs more than there is.
    """
    try:
        return _changed(image, entry)
    except (PyCdlibException, struct.error, LookupError, ValueError, OSError, RecursionError) as exc:
        raise NotChanged(f'it is no ISO 9660 image that can be changed ({type(exc).__name__})') from None


def added(vendor_data: Any, entry: dict[str, str]) -> dict[str, Any]:
    """Return vendor data with an entry of ours.

    :raises NotChanged: the vendor data is no object.
    """
    if not isinstance(vendor_data, dict):
        raise NotChanged(f'its {FILE} is not an object')
    return {**vendor_data, KEY: entry}


def _changed(image: bytes, entry: dict[str, str]) -> bytes:
    """Return an ISO 9660 image with an entry in its vendor data, after it was read back."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    try:
        if not iso.has_rock_ridge():
            raise NotChanged('it has no Rock Ridge names')
        data = json.dumps(added(_read(iso), entry)).encode()
        joliet = f'{FOLDER}/{FILE}' if iso.has_joliet() else None
        folder = iso.full_path_from_dirrecord(iso.get_record(rr_path=FOLDER))
        if FILE in _names(iso):
            record = iso.get_record(rr_path=f'{FOLDER}/{FILE}')
            iso.rm_file(iso.full_path_from_dirrecord(record), rr_name=FILE, joliet_path=joliet)
        iso.add_fp(io.BytesIO(data), len(data), f'{folder}/{_ISO_NAME}', rr_name=FILE, joliet_path=joliet)
        made = _BoundedFile()
        iso.write_fp(made)
    finally:
        iso.close()
    return _read_back(made.getvalue(), entry)


def _read_back(image: bytes, entry: dict[str, str]) -> bytes:
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    try:
        if _read(iso).get(KEY) != entry:
            raise NotChanged('what was read back is not what was written')
    finally:
        iso.close()
    return image


def _names(iso: Any) -> set[str]:
    """Return the Rock Ridge names of the files in the folder."""
    records = (child.rock_ridge for child in iso.list_children(rr_path=FOLDER) if child is not None)
    return {record.name().decode() for record in records if record is not None}


def _read(iso: Any) -> dict[str, Any]:
    """Return the vendor data of an image; empty if there is none."""
    if FILE not in _names(iso):
        return {}
    with iso.open_file_from_iso(rr_path=f'{FOLDER}/{FILE}') as stream:
        data = stream.read(_MAX_VENDOR_DATA + 1)
    if len(data) > _MAX_VENDOR_DATA:
        raise NotChanged(f'its {FILE} is too large')
    found = json.loads(data)
    if not isinstance(found, dict):
        raise NotChanged(f'its {FILE} is not an object')
    return found


if __name__ == '__main__':
    main()
