# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parse a TOML document of the operator into a :class:`~baremetal_acc.model.document.Table`, and check its ``format``."""

import re
import tomllib

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.document import Table, did_you_mean

__all__ = ['MAX_SIZE', 'Table', 'did_you_mean', 'read']

MAX_SIZE = 1024 * 1024
"""Most characters of a document. An operator's document has a few pages; a longer one is a mistake or an attack."""


def read(text: str, path: str, *, format_version: int) -> Table:
    """Parse a TOML document, and check its ``format``.

    :param path: path of the document, for messages.
    :raises DocumentError: the text is no TOML, too long, or of another format.
    """
    if len(text) > MAX_SIZE:
        raise DocumentError(path=path, what=f'longer than {MAX_SIZE} characters', hint='check that it is the right file')
    if text.startswith('\ufeff'):
        raise DocumentError(path=path, line=1, what='begins with a byte order mark', hint='save it as UTF-8 without one')
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        found = re.search(r'at line (\d+)', str(exc))
        raise DocumentError(path=path, line=int(found.group(1)) if found else None, what=f'not valid TOML: {exc}') from None
    except ValueError as exc:
        # Python reads no number of more than 4300 digits, and tomllib raises no TOMLDecodeError for that.
        raise DocumentError(path=path, what=f'not valid TOML: {exc}', hint='check that it is the right file') from None
    except RecursionError:
        raise DocumentError(path=path, what='nested too deeply', hint='check that it is the right file') from None
    table = Table(path, '', 1, data, text)
    found_version = table.integer('format')
    if found_version != format_version:
        found_text = 'nothing' if found_version is None else found_version
        raise table.error('format', f'format = {format_version} expected, {found_text} found')
    return table
