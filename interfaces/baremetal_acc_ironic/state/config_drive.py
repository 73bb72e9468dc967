# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Add the hand-over certificate to the config drive of an instance, where the tenant finds it in ``vendor_data2.json``.

Ironic stores the config drive of a deploy in ``instance_info['configdrive']`` until the image is written: as an object of which
it builds the drive itself, as a gzipped ISO 9660 image in base64 (which is what Nova sends), or as a URL. Only the first two
are changed here. The drive comes from the tenant: whatever cannot be read as expected stays as it is. That never fails a
deploy, since the certificate is stored with the node in any case.

Source: Nova, "Vendordata" in its administrator guide (vendor_data2.json); ironic/conductor/configdrive_utils.py, 39.0.0.
"""

import base64
import binascii
import gzip
import io
import json
import struct
import zlib
from typing import Any

import pycdlib
from pycdlib.pycdlibexception import PyCdlibException

from baremetal_acc_ironic import settings
from baremetal_acc_ironic.state import node_store, provision_state

FOLDER = '/openstack/latest'

FILE = 'vendor_data2.json'

KEY = 'baremetal_acc'
"""Key of ours in vendor_data2.json: an object whose ``certificate`` is the text of the signed certificate."""

MAX_ISO = 64 * 1024 * 1024
"""Most bytes of a config drive that is changed. Ironic's agent takes no larger one (MAX_CONFIG_DRIVE_SIZE_MB)."""

_MAX_VENDOR_DATA = 4 * 1024 * 1024

_GZIP = 16 + zlib.MAX_WBITS

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


def hand_over(node: Any, certificate: bytes) -> None:
    """Add a certificate to the config drive of a node, where the option says so and the node has one.

    The node's history says why a config drive stays as it is. The task holds the node exclusively.

    :raises NodeLocked: another conductor has taken the node over.
    """
    drive = node.instance_info.get('configdrive')
    if not drive or not settings.guest().certificate_config_drive:
        return
    try:
        changed = with_certificate(drive, certificate)
    except NotChanged as exc:
        provision_state.told(node, f'the hand-over certificate is not in the config drive, which stays as it is: {exc}')
        return
    node_store.held(node)
    node.instance_info = {**node.instance_info, 'configdrive': changed}
    node.save()


def with_certificate(drive: Any, certificate: bytes) -> Any:
    """Return a config drive with a certificate, in the form of the drive.

    :param drive: as Ironic stores it.
    :param certificate: the signed certificate, which is ASCII.
    :raises NotChanged: the drive has a form that cannot be changed.
    """
    entry = {'certificate': certificate.decode()}
    if isinstance(drive, dict):
        return {**drive, 'vendor_data': _added(drive.get('vendor_data') or {}, entry)}
    if not isinstance(drive, str):
        raise NotChanged('it is neither an object nor a text')
    if drive.startswith(('http://', 'https://')):
        raise NotChanged('it is stored in an object store')
    try:
        return _packed(_changed(_unpacked(drive), entry))
    except (PyCdlibException, struct.error, LookupError, ValueError, OSError, RecursionError, MemoryError) as exc:
        raise NotChanged(f'it is no ISO 9660 image that can be changed ({type(exc).__name__})') from None


def _added(vendor_data: Any, entry: dict[str, str]) -> dict[str, Any]:
    if not isinstance(vendor_data, dict):
        raise NotChanged(f'its {FILE} is not an object')
    return {**vendor_data, KEY: entry}


def _unpacked(drive: str) -> bytes:
    if len(drive) > 2 * MAX_ISO:
        raise NotChanged('it is too large')
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(base64.b64decode(drive), MAX_ISO + 1)
    except (binascii.Error, zlib.error):
        raise NotChanged('it is not gzipped data in base64') from None
    if len(data) > MAX_ISO:
        raise NotChanged('it is too large')
    if not unpacker.eof:
        raise NotChanged('it is truncated')
    return data


def _packed(image: bytes) -> str:
    return base64.b64encode(gzip.compress(image)).decode()


def _changed(image: bytes, entry: dict[str, str]) -> bytes:
    """Return an ISO 9660 image with an entry in its vendor data, after it was read back."""
    iso = pycdlib.PyCdlib()
    iso.open_fp(io.BytesIO(image))
    try:
        if not iso.has_rock_ridge():
            raise NotChanged('it has no Rock Ridge names')
        data = json.dumps(_added(_read(iso), entry)).encode()
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
