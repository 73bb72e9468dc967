# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page on standards names tests that exist, and says of each of the twenty points whether it is met."""

import ast
import re

from tests.support.matrix import TREE

PAGE = TREE / 'doc' / 'source' / 'reference' / 'standards.rst'

POINTS = {f'S{n}' for n in range(1, 21)}


def sections() -> dict[str, str]:
    """The text of each point, by its number."""
    parts = re.split(r'^(S\d+): .*\n-+\n', PAGE.read_text(), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named(text: str) -> list[tuple[str, str]]:
    """Files and names of tests."""
    return re.findall(r'^\* ``(tests/\S+\.py)::(test_\w+)``$', text, flags=re.MULTILINE)


def there(file: str) -> set[str]:
    """The tests of a file, those of its classes included."""
    tree = ast.parse((TREE / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith('test_')}


def test_every_point_is_there_once_and_says_whether_it_is_met() -> None:
    """Met, in part or not met; what is not met says why, in more than a word."""
    found = sections()
    assert POINTS == set(found)
    assert len(POINTS) == len(re.findall(r'^S\d+: ', PAGE.read_text(), flags=re.MULTILINE))
    for point, text in found.items():
        said = re.match(r'\s*\*\*(Met|In part|Not met)(?:\.)?\*\*', text)
        assert said, point
        assert said[1] == 'Met' or 20 < len(text.split('* ``')[0].split()), point


def test_every_test_that_is_named_is_there() -> None:
    """And what is met, be it in part, has at least one."""
    found = {point: named(text) for point, text in sections().items()}
    assert [] == [f'{p}: {file}::{name}' for p, tests in found.items() for file, name in tests if name not in there(file)]
    assert [] == [point for point, tests in found.items() if not tests]
    lines = PAGE.read_text().count('\n* ``')
    assert lines == sum(map(len, found.values())), 'a line that names no test'
