# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every source file states its licence."""

from collections.abc import Iterator
from pathlib import Path

import pytest

HEADER = '# SPDX-FileCopyrightText: The baremetal-acc authors\n# SPDX-License-Identifier: Apache-2.0\n'
FOLDERS = ('baremetal_acc', 'interfaces', 'tests', 'benchmarks', 'tools', 'doc')


def sources(tree: Path) -> Iterator[Path]:
    """Every Python file of ours."""
    for folder in FOLDERS:
        yield from sorted((tree / folder).rglob('*.py'))


def test_every_python_file_begins_with_the_licence(tree: Path) -> None:
    """The two SPDX lines are the first two lines, literally."""
    files = list(sources(tree))
    assert tree / 'baremetal_acc' / '__init__.py' in files
    assert [] == [str(path.relative_to(tree)) for path in files if not path.read_text().startswith(HEADER)]


def test_every_module_says_what_it_answers(tree: Path) -> None:
    """Right after the licence comes the docstring of the module."""
    lacking = [
        path for path in sources(tree) if not path.read_text().removeprefix(HEADER).lstrip('\n').startswith(('"""', 'r"""'))
    ]
    assert [] == [str(path.relative_to(tree)) for path in lacking]


@pytest.mark.parametrize('name', ['Makefile', '.ci/run'])
def test_scripts_carry_the_licence_too(tree: Path, name: str) -> None:
    """What is no Python has it as a comment among its first lines."""
    assert 'SPDX-License-Identifier: Apache-2.0' in (tree / name).read_text()[:300]


def test_the_licence_itself_is_there(tree: Path) -> None:
    """LICENSE is the text of the Apache License 2.0."""
    text = (tree / 'LICENSE').read_text()
    assert 'Apache License' in text
    assert 'Version 2.0, January 2004' in text
