# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the tables, blocks of code and commands of the pages in doc/source, which tests compare with the code and run."""

import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import TREE

README = 'README'
"""The page that lies at the top of the tree."""

PROGRAMS = ('baremetal', 'baremetal-acc', 'baremetal-acc-ironic-conf', 'baremetal-acc-status', 'curl', 'kolla-build', 'make')
PROGRAMS += ('openssl pkeyutl', 'openssl pkey -pubin', 'openstack', 'pip', 'python', 'python3', 'qemu-system-x86_64', 'sqlite3')
"""The programs of the commands on our pages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageCommand:
    """One command of a page.

    :ivar words: as a shell reads it: with its further lines, without the prompt.
    :ivar output: the lines below it in its block, which show what it prints; empty where the page shows nothing.
    """

    page: str
    line: int
    words: str
    output: str


def path_of(page: str) -> Path:
    """Where a page is, in whichever part of the documentation.

    :param page: its name, without ``.rst``; no two pages share one.
    """
    if page == README:
        return TREE / 'README.rst'
    [path] = (TREE / 'doc' / 'source').rglob(f'{page}.rst')
    return path


def commands(page: str, *, after: str = '', before: str = '') -> list[PageCommand]:
    """The commands of a page, in their order: what has the prompt ``$`` in a block of code.

    A command goes on in the next line after a backslash, and while a quotation mark is open.

    :param page: its name, without ``.rst``.
    :param after: the title of a section; the commands below it, to the end of the page.
    :param before: the title of a section; the commands above it.
    """
    lines = path_of(page).read_text(encoding='utf-8').splitlines()
    first = _line_of(lines, after) if after else 0
    last = _line_of(lines, before) if before else len(lines)
    found = []
    number = first
    while number < last:
        begin = re.match(r'( +)\$ (.*)', lines[number])
        number += 1
        if begin is None:
            continue
        indent, words = begin.groups()
        at = number
        while words.endswith('\\') or _is_open(words):
            words += '\n' + lines[number].removeprefix(indent)
            number += 1
        output = []
        while number < last and lines[number].startswith(indent) and not lines[number].startswith(f'{indent}$ '):
            output.append(lines[number].removeprefix(indent))
            number += 1
        found.append(PageCommand(page=page, line=at, words=words, output='\n'.join(output)))
    return found


def without_prompt(page: str) -> list[str]:
    """The lines of a page that begin like a command, without the prompt by which a reader, and a test, sees that it is one."""
    text = path_of(page).read_text(encoding='utf-8')
    known = {line for command in commands(page) for line in f'{command.words}\n{command.output}'.splitlines()}
    begins = re.compile(rf'(?:{"|".join(map(re.escape, PROGRAMS))}) ')
    indented = (line for line in text.splitlines() if line.startswith('    '))
    return [line for line in indented if begins.match(line.strip()) and line.strip() not in {k.strip() for k in known}]


def _is_open(words: str) -> bool:
    try:
        shlex.split(words, comments=True)
    except ValueError:
        return True
    return False


def _line_of(lines: list[str], title: str) -> int:
    [number] = [n for n, line in enumerate(lines[:-1]) if line == title and re.fullmatch(r'([=~^-])\1*', lines[n + 1])]
    return number


def blocks(page: str, language: str) -> list[str]:
    """The blocks of code of a page that are of a language."""
    text = path_of(page).read_text(encoding='utf-8')
    found = re.findall(rf'^\.\. code-block:: {language}\n\n((?:(?: +.*)?\n)+)', text, re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def block_with(page: str, language: str, word: str) -> str:
    """The one block of code of a page that has a word."""
    [block] = (block for block in blocks(page, language) if word in block)
    return block


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
