# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every command of the pages has its prompt, and a test that runs it or a reason why none does."""

import re
from importlib import metadata
from pathlib import Path

import pytest

from tests import pages
from tests.page_runs import CI, NOT_RUN, RUN_BY, run_on


@pytest.mark.parametrize('page', RUN_BY)
def test_a_command_has_its_prompt(page: str) -> None:
    """Otherwise nobody, and no test, can tell it from what it prints."""
    assert [] == pages.without_prompt(page)


@pytest.mark.parametrize('page', RUN_BY)
def test_a_page_has_its_test(tree: Path, page: str) -> None:
    """Each file that is named reads the commands of the page."""
    readers = [name for name in RUN_BY[page] if re.search(rf"(?:run_on|commands)\('{page}'", (tree / name).read_text())]
    assert [*RUN_BY[page]] == readers
    assert bool(run_on(page)) <= bool(readers), f'no test runs the commands of {page}.rst'


def test_what_is_not_run_is_on_a_page() -> None:
    """A reason whose command is gone says nothing."""
    found = [(page, command.words) for page in RUN_BY for command in pages.commands(page)]
    assert [] == [key for key in NOT_RUN if not any(key[0] == page and words.startswith(key[1]) for page, words in found)]


def test_ci_runs_what_is_left_to_it(tree: Path) -> None:
    """Word by word."""
    script = (tree / '.ci/run').read_text()
    assert [] == [words for words in CI if words not in script]


def test_commands_are_read_with_their_lines_and_what_they_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a backslash, and while a quotation mark is open; not what has no prompt."""
    page = tmp_path / 'page.rst'
    page.write_text(
        "One\n===\n\n::\n\n    $ make demo \\\n        A=1\n    done\n    $ python -c 'a\n      b'\n\n"
        "Two\n---\n\n    $ curl x   # y's\n    curl no\n    pip install x\n\n    make it\n"
    )
    monkeypatch.setattr(pages, 'path_of', lambda _: page)
    first, second, third = pages.commands('page')
    assert ('make demo \\\n    A=1', 'done', 6) == (first.words, first.output, first.line)
    assert ("python -c 'a\n  b'", '') == (second.words, second.output)
    assert ("curl x   # y's", 'curl no\npip install x') == (third.words, third.output)
    assert [third] == pages.commands('page', after='Two')
    assert [first, second] == pages.commands('page', before='Two')
    assert ['    make it'] == pages.without_prompt('page')


INLINE = re.compile(r'``((?:baremetal|baremetal-acc) [a-z](?![^`]* 1``)[^`]*)``')
"""A command in the text. ``baremetal-acc image 1`` is what a signature covers."""


def known_commands() -> set[str]:
    """What the client of Ironic and our command line have, by the entry points of both."""
    theirs = {point.name.replace('_', ' ') for point in metadata.entry_points(group='openstack.baremetal.v1')}
    ours = {f'baremetal-acc {point.name}' for point in metadata.entry_points(group='baremetal_acc.cli')}
    return theirs | ours


def test_a_command_in_the_text_exists(tree: Path) -> None:
    """On every page: a reader types it as it stands there. A group of commands (``baremetal-acc pool``) counts as one."""
    known = known_commands()
    groups = {name.rsplit(' ', 1)[0] for name in known if name.count(' ') > 1} | {*known}
    unknown = []
    found = 0
    for path in [tree / 'README.rst', *(tree / 'doc' / 'source').rglob('*.rst')]:
        for words in INLINE.findall(' '.join(path.read_text(encoding='utf-8').split())):
            found += 1
            if not any(words == name or words.startswith(f'{name} ') for name in groups):
                unknown.append(f'{path.name}: {words}')
    assert [] == unknown
    assert found > 50
