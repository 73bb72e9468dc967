# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the tables of the pages in doc/source, which tests compare with the code."""

import re
from pathlib import Path

from tests.conftest import TREE


def path_of(page: str) -> Path:
    """Where a page is, in whichever part of the documentation.

    :param page: its name, without ``.rst``; no two pages share one.
    """
    [path] = (TREE / 'doc' / 'source').rglob(f'{page}.rst')
    return path


def rows(page: str, title: str) -> list[str]:
    """The first cells of a table, each as far as its first line goes; without the header.

    :param page: its name, without ``.rst``.
    """
    text = path_of(page).read_text(encoding='utf-8')
    _, found, after = text.partition(f'.. list-table:: {title}\n')
    assert found, f'{page}.rst has no table {title!r}'
    table = re.split(r'^(?=\S)', after, maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r'^ {3}\* - (.+)$', table, flags=re.MULTILINE)[1:]


def messages(page: str) -> list[str]:
    """Those of a page's table of messages."""
    found = rows(page, 'Messages')
    assert all(re.fullmatch('``[^`]+``', row) for row in found), f'{page}.rst: a message is between double backquotes'
    return [row.strip('`') for row in found]


def pattern(message: str, *names: str) -> str:
    """What is said where a page has a message: an ellipsis may be anything, and each of these words is any name."""
    any_text = re.escape(message).replace(r'\.\.\.', '.+')
    return re.sub(rf'\b(?:{"|".join(names)})\b', r'[\\w-]+', any_text)
