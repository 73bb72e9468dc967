# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The house: names that one can search for, files of one subject, and a page that says where things are."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

SHIPPED = ('baremetal_acc', 'interfaces')
WRITTEN = (*SHIPPED, 'tests', 'benchmarks', 'doc/source')
MOST_LINES = 500
TABLES = {
    'baremetal_acc/config/options.py': 'the options, one after the other',
    'baremetal_acc/model/refusal.py': 'the reasons for a refusal, one after the other',
}
"""Files that may be longer, for they are tables."""


def modules(tree: Path, *folders: str) -> Iterator[tuple[str, str]]:
    """Each file of Python below these folders, with its text."""
    for folder in folders:
        for path in sorted((tree / folder).rglob('*.py')):
            yield str(path.relative_to(tree)), path.read_text(encoding='utf-8')


def shared_names(sources: Iterator[tuple[str, str]]) -> dict[str, list[str]]:
    """Public classes of the top level that have the name of another one."""
    found = defaultdict(list)
    for name, text in sources:
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith('_'):
                found[node.name].append(name)
    return {name: files for name, files in found.items() if len(files) > 1}


def questions(sources: Iterator[tuple[str, str]]) -> list[str]:
    """Docstrings whose first line is a question."""
    found = []
    for name, text in sources:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                first = (ast.get_docstring(node) or '').partition('\n')[0]
                if first.endswith('?'):
                    found.append(f'{name}:{getattr(node, "lineno", 1)}: {first}')
    return found


def test_no_two_public_classes_share_a_name(tree: Path) -> None:
    """Otherwise a search finds what nobody has looked for."""
    assert {} == shared_names(modules(tree, *SHIPPED))


def test_a_shared_name_is_found() -> None:
    """And a private one is nobody's."""
    sources = iter((('a.py', 'class Place: ...\nclass _Own: ...'), ('b.py', 'class Place: ...'), ('c.py', 'class _Own: ...')))
    assert {'Place': ['a.py', 'b.py']} == shared_names(sources)


def test_no_docstring_begins_with_a_question(tree: Path) -> None:
    """The first line says what a thing does or holds."""
    assert [] == questions(modules(tree, *WRITTEN))


def test_a_question_is_found() -> None:
    """Of a module, a class and a function."""
    text = '"""What is it?"""\nclass A:\n    """Why?\n\n    So."""\n    def f(self):\n        """It is. Is it?"""\n'
    assert ['a.py:1: What is it?', 'a.py:2: Why?', 'a.py:6: It is. Is it?'] == questions(iter([('a.py', text)]))


def test_a_file_has_one_subject(tree: Path) -> None:
    """None that is longer holds but one; tables are named."""
    lengths = {name: text.count('\n') for name, text in modules(tree, *SHIPPED)}
    too_long = {name: length for name, length in lengths.items() if length > MOST_LINES}
    assert {} == {name: length for name, length in too_long.items() if name not in TABLES}
    assert set() == TABLES.keys() - too_long.keys(), 'these are short enough by now'


@pytest.fixture
def page(tree: Path) -> str:
    """The page on the layout."""
    return (tree / 'doc/source/contributor/layout.rst').read_text(encoding='utf-8')


def test_the_page_on_the_layout_names_every_room(tree: Path, page: str) -> None:
    """What is directly below the core, and below the plugin."""
    for folder in ('baremetal_acc', 'interfaces/baremetal_acc_ironic'):
        for path in (tree / folder).iterdir():
            is_room = path.is_dir() and path.name != '__pycache__'
            if is_room or (path.suffix == '.py' and path.name != '__init__.py'):
                assert f'``{path.relative_to(tree)}``' in page, f'{path.relative_to(tree)} has no line there'


def test_what_the_page_on_the_layout_names_is_there(tree: Path, page: str) -> None:
    """Each path, and each file that a room's line names."""
    paths = re.findall(r'``((?:baremetal_acc|interfaces|tests|doc)/[^`]+)``', page)
    assert len(paths) > 50
    assert [] == [path for path in paths if not (tree / path).exists()]
    room = ''
    for found in re.findall(r'``([^`\s]+)``', page.partition('The path of a job')[0]):
        if found.startswith(('baremetal_acc/', 'interfaces/')):
            room = found
        elif found.endswith(('.py', '/', '.toml')) and found != 'baremetal_acc' and 'baseline.toml' != found:
            assert any((folder / found).exists() for folder in (tree / room, (tree / room).parent)), f'{room}: {found}'
