# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Add the hand-over certificate to the config drive of an instance, where the tenant finds it in ``vendor_data2.json``.

Ironic stores the config drive of a deploy in ``instance_info['configdrive']`` until the image is written: as an object of which
it builds the drive itself, as a gzipped ISO 9660 image in base64 (which is what Nova sends), or as a URL. Only the first two
are changed here. The drive comes from the tenant: whatever cannot be read as expected stays as it is, and an image is read in a
process of its own, with limits. That never fails a deploy, since the certificate is stored with the node in any case.

Source: Nova, "Vendordata" in its administrator guide (vendor_data2.json); ironic/conductor/configdrive_utils.py, 39.0.0.
"""

import base64
import gzip
import json
import sys
import zlib
from typing import Any

from oslo_concurrency import processutils

from baremetal_acc_ironic import settings
from baremetal_acc_ironic.state import config_drive_image, node_store, provision_state
from baremetal_acc_ironic.state.config_drive_image import MAX_ISO, NotChanged, added

CPU_SECONDS = 10
"""Processor time in which an image has to be changed: an honest one of the most bytes takes less than a second."""

MEMORY_BYTES = 1024 * 1024 * 1024
"""Address space in which an image has to be changed: it is held a few times."""

_LONGEST_REASON = 200

_GZIP = 16 + zlib.MAX_WBITS


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
        return {**drive, 'vendor_data': added(drive.get('vendor_data') or {}, entry)}
    if not isinstance(drive, str):
        raise NotChanged('it is neither an object nor a text')
    if drive.startswith(('http://', 'https://')):
        raise NotChanged('it is stored in an object store')
    return _packed(_changed(_unpacked(drive), entry))


def _unpacked(drive: str) -> bytes:
    if len(drive) > 2 * MAX_ISO:
        raise NotChanged('it is too large')
    unpacker = zlib.decompressobj(_GZIP)
    try:
        data = unpacker.decompress(base64.b64decode(drive), MAX_ISO + 1)
    except (ValueError, zlib.error):
        raise NotChanged('it is not gzipped data in base64') from None
    if len(data) > MAX_ISO:
        raise NotChanged('it is too large')
    if not unpacker.eof:
        raise NotChanged('it is truncated')
    return data


def _packed(image: bytes) -> str:
    return base64.b64encode(gzip.compress(image)).decode()


def _changed(image: bytes, entry: dict[str, str]) -> bytes:
    """Run the program that changes an image, with limits: it may be made to be read for minutes, or to fill the memory.

    :raises NotChanged: the image cannot be changed, or not within the limits.
    """
    limits = processutils.ProcessLimits(cpu_time=CPU_SECONDS, address_space=MEMORY_BYTES, core_file_size=0)
    command = (sys.executable, '-P', '-m', config_drive_image.__name__)
    sent = json.dumps(entry).encode() + b'\n' + image
    try:
        made, _ = processutils.execute(*command, process_input=sent, binary=True, prlimit=limits)
    except processutils.ProcessExecutionError as exc:
        if exc.exit_code == config_drive_image.NOT_CHANGED:
            raise NotChanged(str(exc.stderr)[:_LONGEST_REASON]) from None
        if isinstance(exc.exit_code, int) and exc.exit_code < 0:  # a signal, such as at the end of its time
            raise NotChanged(f'it takes more than {CPU_SECONDS} s to read, or breaks the program that reads it') from None
        raise NotChanged(f'the program that changes it has failed with exit code {exc.exit_code}') from None
    except OSError as exc:
        raise NotChanged(f'the program that changes it cannot be run ({exc.strerror})') from None
    return bytes(made)
