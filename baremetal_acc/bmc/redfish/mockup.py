# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write a folder in the DMTF's Redfish mockup layout: map URIs to safe paths, and rename the folder into place once complete.

There is one folder for each URI, with the resource in ``index.json``. URIs come from a BMC and may be hostile: a URI that is
not a plain path below ``/redfish/v1`` is refused (:class:`NoPlace`).
"""

import contextlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

ROOT = ('redfish', 'v1')

TOP = '/redfish/v1'

INDEX = 'index.json'

_LONGEST_NAME = 200
_LONGEST_PATH = 1000
_DEEPEST = 40
_RESERVED = re.compile(r'(con|prn|aux|nul|clock\$|com\d|lpt\d)(\..*)?', re.IGNORECASE)
"""Names that are devices on Windows, with any extension."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A URI that is not in the recording.

    :ivar harmless: nothing is there (HTTP 404), or the URI is not followed: off the BMC, or not below ``/redfish/v1``.
    """

    uri: str
    reason: str
    harmless: bool = False


class NoPlace(ValueError):
    """A URI that cannot be mapped to a folder; the message says why."""


def place(uri: str) -> tuple[str, ...]:
    """The path of a URI's folder, below the top folder. Each segment is decoded once, as servers of mockups do.

    :raises NoPlace: the folder would be outside, or its name is not valid on every system.
    """
    parts = tuple(unquote(part) for part in uri.strip('/').split('/'))
    if parts[:2] != ROOT or len(parts) > _DEEPEST or sum(len(p.encode('utf-8', 'replace')) + 1 for p in parts) > _LONGEST_PATH:
        raise NoPlace('not a path below /redfish/v1' if parts[:2] != ROOT else 'too long')
    for part in parts:
        if part in ('', '.', '..') or re.search(r'[/\\<>"|?*\0]', part) or not part.isprintable():
            raise NoPlace('a part of the path is not a valid folder name')
        if part[-1] in '. ' or _RESERVED.fullmatch(part) or re.fullmatch('[A-Za-z]:', part) or part.casefold() == INDEX:
            raise NoPlace('a part of the path has another meaning on some operating systems')
        if '%' in part or len(part.encode('utf-8', 'replace')) > _LONGEST_NAME:
            raise NoPlace('a part of the path is too long, or encoded twice')
    return parts


class MockupFolder:
    """A mockup folder while it is written, under a temporary name.

    :ivar path: the temporary folder.
    :ivar bytes: bytes written so far.
    """

    def __init__(self, partial: Path) -> None:
        self.path = partial
        self._taken: dict[tuple[str, ...], str] = {}
        self.bytes = 0

    def resource(self, uri: str, body: Any) -> None:
        """Write one resource.

        :raises NoPlace: its URI cannot be mapped to a folder, or differs only in letter case from another one.
        :raises OSError: it cannot be written.
        """
        parts = place(uri)
        slot = tuple(part.casefold() for part in parts)
        if slot in self._taken:
            raise NoPlace(f'differs from {self._taken[slot]} only in case')
        text = encoded(body)
        self._taken[slot] = uri
        folder = self.path
        for part in parts:
            folder /= part
            if not folder.is_dir():
                folder.mkdir(mode=0o700)
        self._write(folder / INDEX, text)

    def file(self, name: str, text: str) -> None:
        """Write a file next to the tree.

        :raises OSError: it cannot be written.
        """
        self._write(self.path / name, text.encode('utf-8', 'backslashreplace'))

    def texts(self) -> Iterator[tuple[Path, str]]:
        """The files that were written, read back: relative path and text."""
        for path in sorted(self.path.rglob('*')):
            if path.is_file():
                yield path.relative_to(self.path), path.read_text('utf-8')

    def _write(self, path: Path, data: bytes) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), 'wb') as file:
            file.write(data)
        self.bytes += len(data)


def encoded(body: Any) -> bytes:
    """A resource as the bytes of its ``index.json``.

    :raises NoPlace: it cannot be written as JSON.
    """
    try:
        return (json.dumps(body, indent=2, ensure_ascii=False) + '\n').encode()
    except UnicodeEncodeError:
        return (json.dumps(body, indent=2) + '\n').encode()
    except (ValueError, RecursionError) as exc:
        raise NoPlace('the body cannot be written as JSON') from exc


def is_free(path: Path) -> bool:
    """Whether a folder of that name can be created: the path does not exist, or is an empty folder."""
    return not path.is_symlink() and (not path.exists() or (path.is_dir() and not any(path.iterdir())))


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[MockupFolder]:
    """Create a folder: it gets its name when the block ends without an exception; otherwise nothing of it remains.

    :raises OSError: it cannot be created, or the path exists by now.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'.{path.name}.{secrets.token_hex(4)}.partial')
    partial.mkdir(mode=0o700)
    try:
        yield MockupFolder(partial)
        os.rename(partial, path)  # replaces an empty folder, and nothing else
    finally:
        shutil.rmtree(partial, ignore_errors=True)
