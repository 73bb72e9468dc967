# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Note which tests passed that show something of the page ``support`` (``doc/support.py``).

A test that shows something says so:
``@pytest.mark.shows('flash', 'verify', hardware=('hgx-gpu',), how='cli', on='emulator', mechanisms=('write_protected',))``.
``nox -s support-matrix`` runs all of them, and notes those that passed in ``tried.json``.
"""

import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from doc.support import TRIED, Shown

TREE = Path(__file__).parents[2]


def marked(folder: Path = TREE / 'tests') -> tuple[Shown, ...]:
    """What every test that is marked says of itself, read from the files and not run."""
    found = []
    for path in sorted(folder.rglob('test_*.py')):
        text = path.read_text()
        if 'mark.shows' not in text:
            continue
        for outer in ast.parse(text).body:
            names = [outer.name] if isinstance(outer, ast.ClassDef) else []
            for node in outer.body if isinstance(outer, ast.ClassDef) else [outer]:
                if isinstance(node, ast.FunctionDef):
                    test = '::'.join([str(path.relative_to(TREE)), *names, node.name])
                    found += [_shown(test, mark) for mark in _marks(node)]
    return tuple(sorted(found, key=repr))


def _marks(node: ast.FunctionDef) -> Iterator[ast.Call]:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == 'pytest.mark.shows':
            yield decorator


def _shown(test: str, mark: ast.Call) -> Shown:
    more = {k.arg: ast.literal_eval(k.value) for k in mark.keywords if k.arg is not None}
    return Shown(test=test, verbs=tuple(ast.literal_eval(a) for a in mark.args), **more)


# ------------------------------------------------------------------------------------------------------------------- running


class Passed:
    """A plugin of pytest: which tests passed, in all their variants."""

    def __init__(self) -> None:
        self.passed: set[str] = set()
        self.not_passed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid.partition('[')[0]
        if report.outcome != 'passed':
            self.not_passed.add(name)
        elif report.when == 'call':
            self.passed.add(name)


def note(found: Iterable[Shown], commit: str, date: str) -> str:
    """The text of tried.json."""
    shown = [{k: v for k, v in vars(one).items() if v not in (None, ())} for one in sorted(found, key=repr)]
    return json.dumps({'commit': commit, 'date': date, 'shown': shown}, indent=1) + '\n'


def main() -> int:
    """Run what is marked, and note what passed."""
    shown = marked()
    wrong = [f'{one.test}: {word}' for one in shown for word in one.wrong()]
    if wrong:
        sys.stderr.write('\n'.join(['unknown words:', *wrong, '']))
        return 2
    seen = Passed()
    status = pytest.main(['-q', '-m', 'shows', '-p', 'no:cacheprovider', *sorted({s.test for s in shown})], plugins=[seen])
    good = [one for one in shown if one.test in seen.passed - seen.not_passed]
    command = ['git', 'rev-parse', '--short', 'HEAD']
    commit = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=True).stdout.strip()
    TRIED.write_text(note(good, commit, f'{datetime.now(UTC):%Y-%m-%d}'))
    left = sorted({s.test for s in shown} - {s.test for s in good})
    sys.stderr.write(f'{len(good)} of {len(shown)} noted in {TRIED}\n' + ''.join(f'did not pass: {t}\n' for t in left))
    return int(status)


if __name__ == '__main__':
    sys.exit(main())
