# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The guest that QEMU boots: a kernel of Debian, and an initramfs with a shell and ipmitool that is made here.

Nothing of it is installed to be booted by the machine that this runs on: ``tests/tools/programs.sh guest`` unpacks the kernel.

Source: the kernel's Documentation/driver-api/early-userspace/buffer-format.rst, for the format ``newc`` of cpio.
"""

import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

INIT = Path(__file__).with_name('guest_init.sh')
MODULES = ('ipmi_msghandler', 'ipmi_devintf', 'ipmi_si')
PROGRAMS = {'busybox': 'busybox-static', 'ipmitool': 'ipmitool'}
"""What the guest has, with the packages of Debian that they come from."""

EMPTY = ('bin', 'dev', 'proc', 'sys', 'tmp')

_CONSOLE = (5, 1)
_TRAILER = 'TRAILER!!!'
_ALIGNED = 4
_LIBRARY = re.compile(r'(?:=> )?(/\S+) \(0x')


class Missing(Exception):
    """There is no such thing on this machine, and no guest without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel, and the modules of it that are wanted, in the order in which they are loaded."""

    image: Path
    modules: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One thing of an archive: a folder, a file, or a device.

    :ivar mode: type and permissions, as :mod:`stat` has them.
    :ivar device: major and minor number.
    """

    path: str
    mode: int
    content: bytes = b''
    device: tuple[int, int] = (0, 0)


def kernel(folder: Path) -> Kernel:
    """The one that was unpacked there.

    :raises Missing: there is none, or it is not whole.
    """
    for image in sorted(folder.glob('boot/vmlinuz-*'), reverse=True):
        drivers = folder / 'lib/modules' / image.name.removeprefix('vmlinuz-') / 'kernel/drivers/char/ipmi'
        modules = tuple(drivers / f'{name}.ko' for name in MODULES)
        if all(module.exists() for module in modules):
            return Kernel(image=image, modules=modules)
    raise Missing(f'no kernel with {", ".join(MODULES)} in {folder}: run tests/tools/programs.sh guest')


def program(name: str) -> Path:
    """Where a program is.

    :raises Missing: it is not on this machine.
    """
    found = shutil.which(name)
    if found is None:
        raise Missing(f'{name} is not here: apt-get install {PROGRAMS.get(name, name)}')
    return Path(found)


def libraries(told: str) -> tuple[str, ...]:
    """The files that a program needs, from what ldd says; a static one needs none."""
    return tuple(dict.fromkeys(_LIBRARY.findall(told)))


def _closure(path: Path) -> Iterator[Path]:
    """A program with all that it needs, at the places where it looks for them."""
    yield path
    told = subprocess.run(['ldd', path], capture_output=True, text=True, check=False)
    yield from map(Path, libraries(told.stdout))


def guest(of: Kernel, more: Mapping[str, bytes]) -> bytes:
    """The initramfs.

    :param more: further files, by path.
    :raises Missing: a program of it is not on this machine.
    """
    programs = {name: program(name) for name in PROGRAMS}
    executable = {'init': INIT, **{f'bin/{name}': path for name, path in programs.items()}}
    for path in programs.values():
        executable |= {str(one).lstrip('/'): one for one in _closure(path)}
    entries = [Entry(path=path, mode=stat.S_IFREG | 0o755, content=file.read_bytes()) for path, file in executable.items()]
    entries += [Entry(path=f'modules/{one.name}', mode=stat.S_IFREG | 0o644, content=one.read_bytes()) for one in of.modules]
    entries += [Entry(path=path.lstrip('/'), mode=stat.S_IFREG | 0o644, content=content) for path, content in more.items()]
    folders = [Entry(path=path, mode=stat.S_IFDIR | 0o755) for path in EMPTY]
    console = Entry(path='dev/console', mode=stat.S_IFCHR | 0o600, device=_CONSOLE)
    return archive([*folders, *entries, console])


def archive(entries: Iterable[Entry]) -> bytes:
    """A cpio archive, owned by root. Folders that are not named are made, each before what is in it."""
    out = bytearray()
    known = {'.'}
    number = 0
    for entry in entries:
        above = [str(one) for one in reversed(PurePosixPath(entry.path).parents)]
        for one in (*(Entry(path=path, mode=stat.S_IFDIR | 0o755) for path in above), entry):
            if one.path not in known:
                known.add(one.path)
                number += 1
                out += _encoded(number, one)
    return bytes(out + _encoded(0, Entry(path=_TRAILER, mode=0)))


def _encoded(number: int, entry: Entry) -> bytes:
    name = entry.path.encode() + b'\0'
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (number, entry.mode, 0, 0, links, 0, len(entry.content), 0, 0, *entry.device, len(name), 0)
    return _padded(b'070701' + b''.join(b'%08X' % field for field in fields) + name) + _padded(entry.content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % _ALIGNED)
