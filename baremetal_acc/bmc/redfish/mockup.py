# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where does a resource lie in a folder of the DMTF's mockup layout, and how does such a folder come to be whole or not at all?

One folder for each URI with the resource in ``index.json``. URIs come from a BMC and are hostile: what is no plain path below
``/redfish/v1`` has no place.
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

    :ivar harmless: nothing is there (404), or it leads off the BMC.
    """

    uri: str
    reason: str
    harmless: bool = False


class NoPlace(ValueError):
    """A URI that cannot be a folder; the message says why."""


def place(uri: str) -> tuple[str, ...]:
    """The folders of a URI, below the top. Each part is decoded once, as servers of such folders do.

    :raises NoPlace: it would lie elsewhere, or could not be a folder's name everywhere.
    """
    parts = tuple(unquote(part) for part in uri.strip('/').split('/'))
    if parts[:2] != ROOT or len(parts) > _DEEPEST or sum(len(p.encode('utf-8', 'replace')) + 1 for p in parts) > _LONGEST_PATH:
        raise NoPlace('is no path below /redfish/v1' if parts[:2] != ROOT else 'is too long')
    for part in parts:
        if part in ('', '.', '..') or re.search(r'[/\\<>"|?*\0]', part) or not part.isprintable():
            raise NoPlace('has a part that is no name of a folder')
        if part[-1] in '. ' or _RESERVED.fullmatch(part) or re.fullmatch('[A-Za-z]:', part) or part.casefold() == INDEX:
            raise NoPlace('has a part that means something else on some systems')
        if '%' in part or len(part.encode('utf-8', 'replace')) > _LONGEST_NAME:
            raise NoPlace('has a part that is too long, or encoded twice')
    return parts


class Folder:
    """A new folder while it is written. It has its name only when it is whole."""

    def __init__(self, partial: Path) -> None:
        self.path = partial
        self._taken: dict[tuple[str, ...], str] = {}
        self.bytes = 0

    def resource(self, uri: str, body: Any) -> None:
        """Write one resource.

        :raises NoPlace: its URI has no place here, or another one has it.
        :raises OSError: it cannot be written.
        """
        parts = place(uri)
        slot = tuple(part.casefold() for part in parts)
        if slot in self._taken:
            raise NoPlace(f'differs from {self._taken[slot]} only in the case of letters')
        text = encoded(body)
        self._taken[slot] = uri
        folder = self.path
        for part in parts:
            folder /= part
            if not folder.is_dir():
                folder.mkdir(mode=0o700)
        self._write(folder / INDEX, text)

    def file(self, name: str, text: str) -> None:
        """Write a file beside the tree.

        :raises OSError: it cannot be written.
        """
        self._write(self.path / name, text.encode('utf-8', 'backslashreplace'))

    def texts(self) -> Iterator[tuple[Path, str]]:
        """What was written, read back."""
        for path in sorted(self.path.rglob('*')):
            if path.is_file():
                yield path.relative_to(self.path), path.read_text('utf-8')

    def _write(self, path: Path, data: bytes) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), 'wb') as file:
            file.write(data)
        self.bytes += len(data)


def encoded(body: Any) -> bytes:
    """A resource as it is written.

    :raises NoPlace: it holds what is no text.
    """
    try:
        return (json.dumps(body, indent=2, ensure_ascii=False) + '\n').encode()
    except UnicodeEncodeError:
        return (json.dumps(body, indent=2) + '\n').encode()
    except (ValueError, RecursionError) as exc:
        raise NoPlace('its body cannot be written as JSON') from exc


def is_free(path: Path) -> bool:
    """A folder of that name can be made: nothing is there, or an empty folder."""
    return not path.is_symlink() and (not path.exists() or (path.is_dir() and not any(path.iterdir())))


@contextlib.contextmanager
def new_folder(path: Path) -> Iterator[Folder]:
    """Make a folder. It appears under its name when the block has ended well; else nothing of it is left.

    :raises OSError: it cannot be made, or something has appeared there meanwhile.
    """
    path = path.absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f'.{path.name}.{secrets.token_hex(4)}.partial')
    partial.mkdir(mode=0o700)
    try:
        yield Folder(partial)
        os.rename(partial, path)  # takes the place of an empty folder, and of nothing else
    finally:
        shutil.rmtree(partial, ignore_errors=True)
