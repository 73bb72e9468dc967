# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The operator's folder of the cases: a file for every option of every verb, and files that are none."""

import contextlib
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

from baremetal_acc.certificates import envelope
from tests.cli.desk import BASELINE, CONF, Desk, target_of
from tests.unit.certificates.values import certificate, sealer, write_key
from tests.unit.images.spdm_device import ROOT, pem
from tests.unit.images.test_pldm_package import V1_0

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'

SERVICES = """
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:9

[ironic]
auth_type = none
endpoint_override = http://127.0.0.1:9
"""
"""Placement and Ironic that nobody serves: that a service cannot be reached is an answer like any other."""


TREE = Path(__file__).parents[2]


USER = 54321
"""The user who runs the cases where root runs the test: root could replace /dev/null."""


def prepare(folder: Path, machine: Any) -> None:
    """Write the folder that each case gets a copy of."""
    # The parser of the commands is read from here by unit tests, which run without the libraries of the extra, too.
    from tests.unit.images.manifests import signed_tag

    desk = Desk(folder=folder)
    desk.bmcs({'node-1': target_of(machine) | {'node': NODE}})
    desk.images()
    desk.write('baseline.toml', BASELINE)
    desk.write('acc.conf', f'{CONF}{SERVICES}')
    desk.write('pools.toml', 'format = 1\n[[pool]]\nfunction = "gzip"\nfree = 2\n')
    desk.write('pw', 'hunter2-hunter2\n')
    (folder / 'tray.fwpkg').write_bytes(V1_0)
    (folder / 'gpu.swidtag').write_bytes(signed_tag())
    desk.write('root.pem', pem(ROOT))
    (folder / 'c.json').write_bytes(envelope.seal(certificate(), sealer()) + b'\n')
    write_key(folder / 'key.pem', sealer())
    write_key(folder / 'key.pub', sealer(), public=True)
    desk.write('node.json', json.dumps({'uuid': NODE, 'driver_internal_info': {}}))
    (folder / 'empty').mkdir()
    (folder / 'used').mkdir()
    (folder / 'used' / 'file').touch()
    _odd(folder / 'odd')
    for path in (folder, *folder.rglob('*')):
        own(path)


def _odd(odd: Path) -> None:
    """Files that no option can use."""
    odd.mkdir()
    (odd / 'folder').mkdir()
    (odd / 'folder' / 'file').touch()
    (odd / 'empty').touch(0o600)
    (odd / 'binary').write_bytes(bytes(range(256)) * 16)
    (odd / 'text').write_text('a = 1\n' * 1000)
    with (odd / 'huge').open('wb') as stream:
        stream.truncate(1 << 32)
    (odd / 'deep.json').write_text('[' * 100_000)
    (odd / 'unreadable').touch(0)
    (odd / 'locked').mkdir(0o500)
    (odd / 'loop').symlink_to('loop')
    (odd / 'dangling').symlink_to('nowhere')
    for name in ('binary', 'text', 'deep.json', 'empty'):
        (odd / name).chmod(0o600)
    (odd / 'new\nline').write_text('x\n')
    with contextlib.suppress(OSError):  # not every file system has such names
        os.link(odd / 'binary', os.fsencode(odd) + b'/\xff\xfe')


def own(path: Path) -> None:
    """Give a file to the user who runs the cases."""
    if os.geteuid() == 0:
        os.chown(path, USER, USER, follow_symlinks=False)


def copy(prepared: Path, folder: Path) -> None:
    """A folder for one case. Its files are links: a case replaces files, and writes none in place."""
    shutil.copytree(prepared, folder, copy_function=_link, symlinks=True)
    os.mkfifo(folder / 'odd' / 'fifo', 0o600)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / 'odd' / 'socket'))
    for path in (folder.parent, folder, *(p for p in folder.rglob('*') if not p.is_file() or p.is_symlink())):
        own(path)


def _link(source: str, target: str) -> None:
    os.link(source, target, follow_symlinks=False)


FILES = (
    '',
    '.',
    '-',
    '/',
    'odd/missing',
    'odd/missing/deeper',
    'odd/folder',
    'odd/empty',
    'odd/binary',
    'odd/text',
    'odd/huge',
    'odd/deep.json',
    'odd/unreadable',
    'odd/locked/new',
    'odd/loop',
    'odd/dangling',
    'odd/fifo',
    'odd/socket',
    'odd/new\nline',
    'odd/\udcff\udcfe',
    'odd/' + 'n' * 300,
    'odd/text/below',
    '/dev/zero',
    '/dev/full',
    '/dev/null',
    '/proc/self/mem',
    '/proc/new',
)
"""Values of an option that names a file."""

VALUES = ('', ' ', 'a\nb', '\udcff', '\x1b[2J', 'x' * 100_000, '-1', '0', '1e400', 'nan', '١٢', '../..', '%s{0}', '\U0001f4a5')
"""Values of any other option."""
