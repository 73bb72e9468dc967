# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Comments, docstrings and pages cite only files, tests, modules and sections of this repository that exist.

A citation of ours is a path from the top of the repository (``tests/unit/test_floors.py``), a test in it (``...::test_name``),
a section of a page (the path, a comma and the title in quotation marks) or a module in a role of Sphinx. Files of other
projects have the repository's name in front, or a path that does not begin like one of ours. In Python only comments and
docstrings are read; of other files all is.

What is kept outside the repository (fact sheets, recordings with their descriptions, notes of the design) is not cited at all.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import pytest

FOLDERS = ('baremetal_acc', 'interfaces', 'tests', 'benchmarks', 'doc', 'etc', 'releasenotes', '.ci')

TOP_LEVEL = ('README.rst', 'Makefile', 'setup.cfg', 'setup.py', 'pyproject.toml', 'ruff.toml', 'constraints.txt', 'tox.ini')
"""Names of files that prose cites as ours, without a folder."""

READ = frozenset({'.py', '.rst', '.toml', '.cfg', '.yaml', '.sample', ''})
"""Endings of files that hold prose of ours; what is recorded or generated (JSON, transcripts, patches) is not read."""

GENERATED = ('doc/build', 'doc/build/doctrees', 'doc/build/html', 'doc/build/man', 'doc/build/man/baremetal-acc.1')
"""Folders that a command makes."""

_AHEAD = r'(?<![\w./*{}<>~$%#-])'

PATH = re.compile(rf'{_AHEAD}((?:{"|".join(map(re.escape, FOLDERS))})/[\w./*{{}}<>-]*)(?:::(\w+))?')

ALONE = re.compile(rf'{_AHEAD}({"|".join(map(re.escape, TOP_LEVEL))})\b')

OUTSIDE = re.compile(
    rf'{_AHEAD}(?:\.\./)?((?:facts|recordings)/[\w./*-]*\.md|(?:DESIGN|STYLE|BRIEF\d*)(?:\.md|\b(?![_-]))|/work/[\w./-]+)'
)

MODULE = re.compile(r':(mod|class|func|data|meth|attr|exc):`~?((?:baremetal_acc\w*|tests|benchmarks)\.[\w.]+|\.\w+)`')

DEPTHS = {'mod': 0, 'class': 1, 'func': 1, 'data': 1, 'exc': 1, 'meth': 2, 'attr': 2}
"""How many names after that of its module a role may have."""

SECTION = re.compile(r'((?:doc|tests)/[\w/]+\.rst),[ \0]+("[^"]+"(?:[ \0]+and[ \0]+"[^"]+")*)')

TITLE = re.compile(r'^(\S.*)\n(?:=+|-+|~+|\^+)$', re.MULTILINE)

PLACEHOLDER = re.compile(r'[{}<>]|/COMMIT\b')
"""``tests/mechanisms/{name}.py``, ``tests/stored/COMMIT``."""


OTHERS = re.compile(r'(?<![\w./])([\w.-]+)/[\w.-]+ `*$')
"""The name of another repository, in front of a path."""

SEARCHED: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (PATH, tuple(f'{folder}/' for folder in FOLDERS)),
    (ALONE, TOP_LEVEL),
    (OUTSIDE, ('facts/', 'recordings/', 'DESIGN', 'STYLE', 'BRIEF', '/work/')),
    (MODULE, (':`',)),
)
"""What is searched for. A text that has none of the words is not searched, which is several times faster."""


class Citation(NamedTuple):
    """A citation that leads nowhere, with the line and column where it begins."""

    line: int
    column: int
    what: str


class Repository:
    """The files of the repository."""

    def __init__(self, top: Path) -> None:
        self.top = top
        found = [top / name for name in TOP_LEVEL if (top / name).is_file()]
        for folder in FOLDERS:
            found += (p for p in (top / folder).rglob('*') if p.is_file() and '__pycache__' not in p.parts)
        self.files = {path.relative_to(top).as_posix() for path in found}
        self.folders = {str(parent) for name in self.files for parent in Path(name).parents[:-1]} | {*GENERATED}
        self.modules = set(self._modules())
        self._texts: dict[str, str] = {}

    def _modules(self) -> Iterator[str]:
        for name in self.files | self.folders:
            path = Path(name.removeprefix('interfaces/'))
            if path.suffix == '.py' or name in self.folders:
                yield '.'.join(path.with_suffix('').parts).removesuffix('.__init__')

    def text(self, name: str) -> str:
        """The content of a file."""
        if name not in self._texts:
            self._texts[name] = (self.top / name).read_text(errors='replace')
        return self._texts[name]

    def list_prose(self) -> Iterator[str]:
        """The files that are read."""
        for name in sorted(self.files):
            if not name.startswith(GENERATED) and Path(name).suffix in READ:
                yield name

    def has(self, path: str) -> bool:
        """Whether there is such a file or folder, or one that fits a pattern."""
        path = path.rstrip('./-')
        if path in self.files or path in self.folders or PLACEHOLDER.search(path):
            return True
        return '*' in path and any(fnmatchcase(name, path) for name in self.files)

    def has_test(self, path: str, name: str) -> bool:
        """Whether a file has a function or class of that name."""
        return path not in self.files or re.search(rf'(?:def|class) {name}\b', self.text(path)) is not None

    def has_section(self, page: str, title: str) -> bool:
        """Whether a page has a section of that title."""
        return page not in self.files or title in TITLE.findall(self.text(page))

    def has_module(self, role: str, name: str, importer: str) -> bool:
        """Whether there is such a module; roles other than ``mod`` name something of one, which is not looked for.

        :param importer: the file that cites it, in whose package a name with a dot in front is.
        """
        if name.startswith('.'):
            package = '.'.join(Path(importer.removeprefix('interfaces/')).parent.parts)
            return role != 'mod' or package + name in self.modules
        parts = name.split('.')
        return any('.'.join(parts[: len(parts) - cut]) in self.modules for cut in range(DEPTHS[role] + 1))

    def find_dangling(self, name: str, text: str) -> list[Citation]:
        """The citations in a text that lead nowhere.

        :param name: the file that the text is of.
        """
        found = [*self._find(name, text)]
        if not found or not name.endswith('.py'):
            return found
        begins = prose_columns(text)  # only now, as this takes a thousand times longer
        return [one for one in found if one.column >= begins.get(one.line, one.column + 1)]

    def _find(self, name: str, text: str) -> Iterator[Citation]:
        for pattern, words in SEARCHED:
            if any(word in text for word in words):
                for found in pattern.finditer(text):
                    if not self._leads_somewhere(pattern, found, name):
                        yield _citation(text, found.start(1), found[0])
        if any(f'.rst,{blank}' in text for blank in ' \n'):
            flat = re.sub(r'\n\s*(?:# )?', lambda gap: ' ' + '\0' * (len(gap[0]) - 1), text)  # of the same length
            for found in SECTION.finditer(flat):
                for title in re.findall(r'"([^"]+)"', found[2]):
                    said = title.replace('\0', '')
                    if not self.has_section(found[1], said):
                        yield _citation(text, found.start(1), f'{found[1]}, "{said}"')

    def _leads_somewhere(self, pattern: re.Pattern[str], found: re.Match[str], name: str) -> bool:
        if pattern is PATH:
            before = OTHERS.search(found.string[max(0, found.start() - 100) : found.start()])
            if before is not None and before[1] not in FOLDERS:
                return True
            return self.has(found[1]) and (found[2] is None or self.has_test(found[1], found[2]))
        if pattern is ALONE:
            return found[1] in self.files
        return pattern is MODULE and self.has_module(found[1], found[2], name)


def _citation(text: str, place: int, what: str) -> Citation:
    return Citation(text.count('\n', 0, place) + 1, place - text.rfind('\n', 0, place) - 1, what)


def prose_columns(source: str) -> dict[int, int]:
    """The lines of a Python file that are comments, or strings that stand alone, and the column where each of them begins."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    begins = dict(token.start for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                begins |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), 0)
    return begins


@pytest.fixture(scope='module')
def repository(tree: Path) -> Repository:
    """The files of this repository."""
    return Repository(tree)


def test_what_is_cited_is_there(repository: Repository) -> None:
    """Every comment, docstring and page of the repository."""
    files = [*repository.list_prose()]
    assert {'README.rst', 'Makefile', '.ci/run', 'doc/source/index.rst', 'baremetal_acc/__init__.py'} <= {*files}
    assert [] == [
        f'{name}:{line}: {what}' for name in files for line, _, what in repository.find_dangling(name, repository.text(name))
    ]


@pytest.mark.parametrize(
    'text',
    [
        'Source: facts/redfish.md, section 4.2.',
        'See ../facts/ipmi.md.',
        'as recordings/nvidia/gh200/README.md has it',
        'DESIGN.md allows it',
        'rule 7 of DESIGN',
        'The style is that of STYLE.md.',
        'lies in /work/shared/cases',
        'shown by tests/unit/test_flours.py',
        'shown by ``tests/unit/test_floors.py::test_nothing_of_the_kind``',
        'baremetal_acc/decide/meanwhile.py decides it',
        'interfaces/baremetal_acc_ironic/node.py',
        'doc/source/nowhere.rst has more',
        'doc/source/contributor/developing.rst, "No such section", has more',
        'doc/source/contributor/developing.rst, "Run the tests" and "No such section"',
        'etc/baremetal_acc/none.sample',
        'benchmarks/*/nothing_*.py',
        'tox.ini says so',
        ':mod:`baremetal_acc.decide.meanwhile` decides it',
        ':mod:`.agenda` sends them',
        ':func:`~baremetal_acc.run.patience.wait` waits',
    ],
)
def test_a_citation_that_leads_nowhere_is_found(repository: Repository, text: str) -> None:
    """In a page, a docstring and a comment."""
    page = 'doc/source/page.rst' if ':mod:`.' not in text else 'baremetal_acc/bmc/redfish/page.rst'
    assert 1 == len(repository.find_dangling(page, text))
    module = 'baremetal_acc/bmc/redfish/sample.py'
    assert [1] == [one.line for one in repository.find_dangling(module, f'"""{text}\n"""\n')]
    assert [2] == [one.line for one in repository.find_dangling(module, f'A = 1\nB = 2  # {text}\n')]


def test_a_title_may_go_on_in_the_next_line(repository: Repository) -> None:
    """The lines of a docstring or of a comment are put together; the citation is where the path is."""
    cited = '# doc/source/contributor/developing.rst, "No\n# such section"\n'
    found = repository.find_dangling('tests/x.py', 'A = 1\n' + cited)
    assert [Citation(2, 2, 'doc/source/contributor/developing.rst, "No such section"')] == found


@pytest.mark.parametrize(
    'text',
    [
        'NVIDIA/libredfish src/dell.rs; openbmc/bmcweb redfish-core/lib/update_service.hpp',
        'NVIDIA/libredfish tests/mockups/dell and NVIDIA/libredfish ``tests/mockups/hpe``',
        'ironic 39.0.0, drivers/modules/redfish/utils.py; ironic/tests/base.py',
        'sushy: sushy/tests/unit/test_connector.py; https://example.org/doc/source/none.rst',
        'NVIDIA/open-nvfwupd firmware_update_guide/docs/examples/gb200NVL.rst',
        'recording nvidia/gh200; ``README.md`` of the folder; a DESIGN_CHOICE',
        'tests/unit/test_floors.py, and tests/unit/.',
        'tests/unit/test_citations.py::test_what_is_cited_is_there',
        'tests/mechanisms/{name}.py, tests/stored/COMMIT, tests/ironic/test_crash_*.py',
        'doc/source/reference/redfish_notes.rst, "Locks of NVIDIA" and "Firmware updates".',
        ':mod:`baremetal_acc.model.lock`, :class:`~baremetal_acc.model.lock.LockReading`, :func:`mine`',
        ':attr:`baremetal_acc.model.lock.LockReading.state`; setup.cfg, Makefile and .ci/run',
    ],
)
def test_what_exists_and_what_others_have_is_left_alone(repository: Repository, text: str) -> None:
    """Paths of other projects, patterns, placeholders, and citations that lead somewhere."""
    assert [] == repository.find_dangling('doc/source/page.rst', text)
    assert [] == repository.find_dangling('tests/sample.py', f'"""{text}\n"""\n')


def test_code_is_no_citation(repository: Repository) -> None:
    """A path in an expression is what the program works with."""
    assert [] == repository.find_dangling('tests/sample.py', "open('tests/none/sample.txt')  # what for\nhost = 'facts/x.md'\n")
