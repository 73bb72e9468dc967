# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Mutation testing is what it says: every module has tests, every survivor still exists, and some changes are tried."""

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.mutants import trying
from tests.mutants.trying import SURVIVORS, TESTS, TREE, Mutant, Source, Survivor, chosen, modules, noticed_by_mypy, outcomes

SAMPLED = ('planning/update_states.py', 'planning/host_interference.py', 'planning/merge.py')
"""What the sample in make test is of: their own tests take a second."""

SEED, SAMPLE = 20261122, 8


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """mutmut looks for its options where it is called."""
    monkeypatch.chdir(TREE)


def test_every_module_that_decides_or_locks_has_its_tests() -> None:
    """A new module comes in by itself; one that is gone has no tests."""
    assert {'planning/plan.py', 'locks/write_protected.py'} < set(modules())
    assert set() == set(TESTS) - {'policy', 'planning', 'scheduling', 'locks'} - set(modules())
    assert all(trying.tests_of(module) for module in modules())
    assert [] == [path for paths in TESTS.values() for path in paths if not (TREE / path).exists()]


def lines_of(module: str) -> dict[str, list[str]]:
    """The lines of each function and method, without blanks around them."""
    text = trying.file_of(module).read_text()
    lines = [line.strip() for line in text.splitlines()]
    found = {}
    for node in ast.parse(text).body:
        inner = [(f'{node.name}.', one) for one in node.body] if isinstance(node, ast.ClassDef) else [('', node)]
        for begin, one in inner:
            if isinstance(one, ast.FunctionDef):
                found[f'{begin}{one.name}'] = lines[one.lineno - 1 : one.end_lineno]
    return found


def test_what_survives_is_still_in_the_code() -> None:
    """An entry whose lines have changed says nothing of the code as it is, and none stands there without a reason.

    That mutmut still makes that change of them is asked by the run of all changes, which takes longer.
    """
    listed = trying.survivors()
    known = {module: lines_of(module) for module in {s.module for s in listed}}
    assert [] == [s for s in listed if not set(s.was.splitlines()) <= set(known[s.module].get(s.function, ()))]
    assert [] == [s for s in listed if len(s.why.split()) < 3]
    assert len(listed) == len(set(listed))
    assert SURVIVORS.is_file()


def test_what_is_listed_and_no_change_any_more_is_named() -> None:
    """Of modules that were tried; of others nobody knows."""
    one = Survivor(module='planning/merge.py', function='f', was='a', now='b', why='for the test alone')
    changes = [Mutant(module='planning/merge.py', function='f', number=1, was='a', now=now) for now in 'cb']
    assert [] == trying.stale([one], {'planning/merge.py': changes})
    assert [one] == trying.stale([one], {'planning/merge.py': changes[:1]})
    assert [] == trying.stale([one], {'planning/update_states.py': []})


def sampled(folder: str) -> None:
    """Print what became of the sample, as JSON: how many changes, and those that nothing noticed and that are not listed."""
    tests = tuple(f'tests/unit/{Path(module).parent}/test_{Path(module).stem}.py' for module in SAMPLED)
    trying.TESTS = dict.fromkeys(SAMPLED, tests)
    work = chosen(SAMPLED, seed=SEED, sample=SAMPLE)
    listed = trying.survivors()
    found = outcomes(work, Path(folder), 1)
    left = [m for mutants in work.values() for m in mutants if found[m.name] is None]
    sys.stdout.write(json.dumps([len(found), [str(m) for m in left if not any(s.fits(m) for s in listed)]]) + '\n')


@pytest.mark.slow
def test_a_sample_of_the_changes_is_noticed(tmp_path: Path) -> None:
    """Those that are listed are not asked of: all others of the sample are noticed, by a test or by mypy.

    In a process of its own: the runner forks, which a process with threads of other tests must not.
    """
    script = 'import sys; from tests.mutants.test_trying import sampled; sampled(sys.argv[1])'
    done = subprocess.run(
        [sys.executable, '-c', script, str(tmp_path)], cwd=TREE, capture_output=True, text=True, timeout=600, check=False
    )
    assert 0 == done.returncode, done.stderr[-2000:]
    assert [SAMPLE, []] == json.loads(done.stdout.splitlines()[-1])


def test_a_changed_function_is_the_one_that_is_called() -> None:
    """The runner gives a function in use another code, and a default another value; else everything would survive."""
    module = ModuleType('of_a_test')
    module.__file__ = 'of_a_test.py'
    text = 'def one(*, n=1):\n    return n + 1\n\n\nclass Two:\n    @property\n    def three(self):\n        return 3\n'
    exec(compile(text, 'of_a_test.py', 'exec'), module.__dict__)
    kept = module.one
    trying.replace_function(module, 'one', text.replace('n=1', 'n=5'))
    assert 6 == kept()
    trying.replace_function(module, 'one', text.replace('n + 1', 'n - 1'))
    assert 4 == kept()
    trying.replace_function(module, 'Two.three', text.replace('return 3', 'return 4'))
    assert 4 == module.Two().three
    with pytest.raises(LookupError):
        trying.replace_function(module, 'nobody', text)


def test_a_change_that_is_an_error_of_type_is_told_from_one_that_is_none(tmp_path: Path) -> None:
    """One mypy run for all: a line of its output is of the function that it stands in."""
    source = Source('planning/update_states.py')
    wrong = [m for m in source.mutants if m.now.endswith('return Next(state=None, effect=Effect.FAIL, why=why)')]
    right = [m for m in source.mutants if m.now.endswith('return Next(state=ItemState.FAILED, effect=Effect.FAIL, why=None)')]
    assert wrong
    assert right
    assert {m.name for m in wrong} == noticed_by_mypy(source, [*wrong, *right], tmp_path)


def test_what_came_of_a_change_is_kept_for_this_state_and_guides_the_next(tmp_path: Path) -> None:
    """An interrupted run goes on; after a change of any file everything is tried again, the test that noticed it first."""
    mutants = Source('planning/update_states.py').mutants[:3]
    first = trying.Kept(tmp_path)
    for mutant, by in zip(mutants, ('t.py::slow', 'mypy', None), strict=True):
        first.keep(mutant, by)
    with first.path.open('a') as file:
        file.write('["cut in the mid')
    assert {mutants[0].name: 't.py::slow', mutants[1].name: 'mypy', mutants[2].name: None} == trying.Kept(tmp_path).found
    first.path.rename(tmp_path / 'another-state.jsonl')
    later = trying.Kept(tmp_path)
    assert {} == later.found
    seconds = {'t.py::slow': 1.0, 't.py::quick': 0.1, 't.py::other': 0.2, 't.py::hours': 3600.0}
    assert ['t.py::slow', 't.py::quick', 't.py::other'] == later.in_order(mutants[0], seconds, seconds)
    assert mutants[0].place == mutants[1].place
    assert ['t.py::slow', 't.py::quick', 't.py::other'] == later.in_order(mutants[1], seconds, seconds)
    assert ['t.py::quick', 't.py::other', 't.py::slow'] == later.in_order(
        Source('planning/merge.py').mutants[0], seconds, seconds
    )


def test_a_survivor_is_one_change_of_one_function() -> None:
    """Not of the same line elsewhere."""
    mutant = Source('planning/update_states.py').mutants[0]
    same = Survivor(module=mutant.module, function=mutant.function, was=mutant.was, now=mutant.now, why='nothing')
    assert same.fits(mutant)
    other = Survivor(module=mutant.module, function='other', was=mutant.was, now=mutant.now, why='nothing')
    assert not other.fits(mutant)
