# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Changes of the code that decides, of the locks and of the gate that nobody would notice: mutation testing.

mutmut says what can be changed (a comparison turned round, an argument left out, a text altered); its own runner would take a
pytest process for each of the thousands. Here the tests of a module are collected once, and each is run once, to learn which
functions it calls and how long it takes. Then a process is forked for each change: in it the code of that one function is
replaced, and the tests that call it run, the quick ones first, till one fails. What no test notices is shown to mypy, which
``make lint`` asks as well: all changes of a module at once, each as a function of its own.

    python -m tests.mutants.trying [--only planning/update_states.py ...] [--seed N --sample K] [--processes 2]

What came of a change is kept in the folder. A run that was interrupted goes on where it was if no file of the product or of the
tests has changed since; otherwise each change is tried again, first with the test that noticed it the last time.

:file:`survivors.toml` names what nobody notices, with the reason why that is no harm. A run ends badly where the code has no
such change any more; test_trying.py asks whether it still has those lines.
"""
# ruff: noqa: T201

import argparse
import difflib
import hashlib
import importlib
import importlib.util
import itertools
import json
import os
import platform
import random
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import libcst
import pytest
from hypothesis import HealthCheck, settings
from mutmut.mutation.file_mutation import create_mutations

TREE = Path(__file__).parents[2]

SURVIVORS = Path(__file__).with_name('survivors.toml')

WANTED = 0.95
"""Share of the changes that somebody has to notice."""

QUICK, BUDGET = 1.5, 6.0
"""Seconds of a test, and of all that are tried on one change, at most: the quick ones come first, and what plays a thousand
histories cannot run for each of a thousand changes.
"""

TESTS: Mapping[str, tuple[str, ...]] = {
    'policy': ('tests/unit/policy', 'tests/unit/planning', 'tests/unit/execution'),
    'scheduling': ('tests/unit/scheduling', 'tests/unit/planning', 'tests/unit/execution'),
    'policy/baseline.py': ('tests/unit/planning', 'tests/unit/execution', 'tests/unit/images'),
    'policy/baseline_rules.py': ('tests/unit/planning', 'tests/unit/execution', 'tests/unit/images'),
    'policy/device_demands.py': ('tests/unit/planning', 'tests/unit/execution', 'tests/unit/images'),
    'planning/lock_evidence.py': (
        'tests/unit/planning',
        'tests/unit/execution',
        'tests/wire/test_locks.py',
        'tests/wire/test_card_locks.py',
    ),
    'planning/image_selection.py': ('tests/unit/planning', 'tests/unit/execution', 'tests/unit/images'),
    'locks': (
        'tests/unit/locks',
        'tests/wire/test_locks.py',
        'tests/wire/test_card_locks.py',
        'tests/wire/test_whole_locks.py',
        'tests/hostile/test_locks.py',
    ),
    'planning': ('tests/unit/planning', 'tests/unit/execution'),
    'ironic/host_power/gate.py': ('tests/ironic/test_gate.py',),
}
"""The tests that are to notice a change of a module, or of any in that folder. No slow ones: each may run for each of a
thousand changes.
"""


def tests_of(module: str) -> tuple[str, ...]:
    """The tests of a module."""
    return TESTS.get(module) or TESTS[module.partition('/')[0]]


def modules() -> tuple[str, ...]:
    """Every module of policy/, planning/, scheduling/ and locks/, and the pure ones of the guest, as modules are named here."""
    package = TREE / 'baremetal_acc'
    found = sorted(
        str(p.relative_to(package))
        for part in ('policy', 'planning', 'scheduling', 'locks')
        for p in (package / part).rglob('*.py')
    )
    return (*found, *(name for name in TESTS if name.startswith(f'{GUEST}/')))


GUEST = 'ironic'
"""What stands for the folder of the guest in the names of its modules; those that are in :data:`TESTS` are changed."""

_FOLDERS = {GUEST: 'interfaces/baremetal_acc_ironic'}


def file_of(module: str) -> Path:
    """The file of a module."""
    part, _, rest = module.partition('/')
    return TREE / _FOLDERS[part] / rest if part in _FOLDERS else TREE / 'baremetal_acc' / module


# ------------------------------------------------------------------------------------------------------------- what to change


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One change of one function.

    :ivar function: qualified name; ``number`` counts the changes of this function from 1.
    :ivar was: the lines that are changed, without blanks around them, and what they become in ``now``.
    """

    module: str
    function: str
    number: int
    was: str
    now: str

    @property
    def name(self) -> str:
        return f'{self.module}:{self.function}:{self.number}'

    @property
    def place(self) -> str:
        """The function, in its module."""
        return f'{self.module}:{self.function}'


class Source:
    """The text of one module, and its changes."""

    def __init__(self, module: str) -> None:
        self.module = module
        self.path = file_of(module)
        self.text = self.path.read_text()
        self._tree, mutations, _, _ = create_mutations(str(self.path), self.text)
        self._mutations = [m for m in mutations if isinstance(m.contained_by_top_level_function, libcst.FunctionDef)]

    @staticmethod
    def name_of(module: str) -> str:
        """As it is imported."""
        path = str(file_of(module).relative_to(TREE)).removeprefix('interfaces/')
        return path.removesuffix('.py').replace('/', '.')

    @cached_property
    def _functions(self) -> dict[libcst.CSTNode, str]:
        """Qualified names of functions and methods, by their node."""
        found: dict[libcst.CSTNode, str] = {}
        for node in self._tree.body:
            if isinstance(node, libcst.FunctionDef):
                found[node] = node.name.value
            elif isinstance(node, libcst.ClassDef):
                for inner in node.body.body:
                    if isinstance(inner, libcst.FunctionDef):
                        found[inner] = f'{node.name.value}.{inner.name.value}'
        return found

    @cached_property
    def _places(self) -> dict[Mutant, int]:
        return {mutant: n for n, mutant in enumerate(self.mutants)}

    @cached_property
    def mutants(self) -> tuple[Mutant, ...]:
        """All changes, in the order of the text."""
        return self.mutants_of(frozenset(self._functions.values()))

    def mutants_of(self, functions: frozenset[str]) -> tuple[Mutant, ...]:
        """Those of some functions: to write each of them down takes some milliseconds."""
        counts: dict[str, int] = {}
        made = []
        for mutation in self._mutations:
            outer = mutation.contained_by_top_level_function
            function = self._functions[outer]
            if function not in functions:
                continue
            counts[function] = counts.get(function, 0) + 1
            was, now = self._lines(outer, mutation)
            made.append(Mutant(module=self.module, function=function, number=counts[function], was=was, now=now))
        return tuple(made)

    def _lines(self, outer: Any, mutation: Any) -> tuple[str, str]:
        before = self._tree.code_for_node(outer).splitlines()
        after = self._tree.code_for_node(self._changed(outer, mutation)).splitlines()
        was, now = [], []
        for line in difflib.ndiff(before, after):
            if line.startswith('- '):
                was.append(line[2:].strip())
            elif line.startswith('+ '):
                now.append(line[2:].strip())
        return '\n'.join(was), '\n'.join(now)

    @staticmethod
    def _changed(outer: Any, mutation: Any) -> Any:
        return outer.deep_replace(mutation.original_node, mutation.mutated_node)

    def changed(self, mutant: Mutant) -> str:
        """The whole text with one change."""
        mutation = self._mutations[self._places[mutant]]
        outer = mutation.contained_by_top_level_function
        was = self._tree.code_for_node(outer)
        if self.text.count(was) == 1:
            return self.text.replace(was, self._tree.code_for_node(self._changed(outer, mutation)))
        return str(self._tree.deep_replace(mutation.original_node, mutation.mutated_node).code)

    def side_by_side(self, mutants: Iterable[Mutant]) -> tuple[str, dict[str, Mutant]]:
        """The text with a function of its own for each change, and which change each name of a function stands for."""
        more: dict[str, list[Any]] = {}
        names = {}
        for n, mutant in enumerate(mutants):
            mutation = self._mutations[self._places[mutant]]
            outer = mutation.contained_by_top_level_function
            name = f'{outer.name.value}_changed_{n}'
            names[name] = mutant
            function = self._changed(outer, mutation).with_changes(name=libcst.Name(name))
            more.setdefault(mutant.function.rpartition('.')[0], []).append(function)
        body = []
        for node in self._tree.body:
            if isinstance(node, libcst.ClassDef) and node.name.value in more:
                inner = node.body.with_changes(body=[*node.body.body, *more[node.name.value]])
                node = node.with_changes(body=inner)
            body.append(node)
        return self._tree.with_changes(body=[*body, *more.get('', ())]).code, names


@cache
def source_of(module: str) -> Source:
    """Read once: to find the changes takes a while."""
    return Source(module)


# ------------------------------------------------------------------------------------------------------------ how it is tried


def replace_function(module: ModuleType, function: str, text: str) -> None:
    """Give a function of a module that is in use the code that it has in another text.

    :raises LookupError: it is not in one of the two.
    """
    code = next((c for c in _codes(compile(text, module.__file__ or '?', 'exec')) if c.co_qualname == function), None)
    live = _live(module, function)
    if code is None or live is None:
        raise LookupError(f'{module.__name__}.{function} cannot be replaced')
    if code == live.__code__:
        # A default is changed, which is no part of the code: the whole text says what it is.
        other = ModuleType(module.__name__)
        other.__file__, other.__package__ = module.__file__, module.__package__
        sys.modules[module.__name__] = other
        try:
            exec(compile(text, module.__file__ or '?', 'exec'), other.__dict__)
        finally:
            sys.modules[module.__name__] = module
        made = _live(other, function)
        if made is not None:
            live.__defaults__, live.__kwdefaults__ = made.__defaults__, made.__kwdefaults__
    live.__code__ = code


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _live(module: ModuleType, function: str) -> FunctionType | None:
    outer, _, name = function.rpartition('.')
    holder = vars(vars(module)[outer]) if outer else vars(module)
    found: Any = holder.get(name)
    if isinstance(found, property):
        found = found.fget
    found = getattr(found, '__func__', found)
    while hasattr(found, '__wrapped__'):
        found = found.__wrapped__
    return found if isinstance(found, FunctionType) else None


_ENDED = (-signal.SIGPROF, -signal.SIGALRM, -signal.SIGKILL, -signal.SIGSEGV)
"""How a process ends that goes on for ever, or down for ever."""


class Kept:
    """What came of the changes, in a folder: a file for each state of product and tests.

    :ivar found: by name of a change, what noticed it in this very state: the test, ``time``, ``mypy``, or None for nothing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / f'{self.state()}.jsonl'
        self.found: dict[str, str | None] = {}
        self._before: dict[str, str] = {}
        self._kills: dict[str, Counter[str]] = {}
        for path in sorted(folder.glob('*.jsonl'), key=lambda p: (p == self.path, p.stat().st_mtime)):
            self._read(path)

    @staticmethod
    def state() -> str:
        """Of every file of the product and of the tests, but for the list of survivors."""
        digest = hashlib.sha256()
        for part in ('baremetal_acc', 'interfaces', 'etc', 'tests'):
            for path in sorted((TREE / part).rglob('*')):
                if path.is_file() and path != SURVIVORS and '__pycache__' not in path.parts and '.egg-info' not in str(path):
                    digest.update(f'{path.relative_to(TREE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n'.encode())
        return digest.hexdigest()[:12]

    def _read(self, path: Path) -> None:
        lines = path.read_text().splitlines(keepends=True)
        # Somebody may have ended the run in the middle of a line.
        for line in lines if not lines or lines[-1].endswith('\n') else lines[:-1]:
            name, place, change, by = json.loads(line)
            if path == self.path:
                self.found[name] = by
            if by and '::' in by:
                self._before[f'{place} {change}'] = by
                self._kills.setdefault(place, Counter())[by] += 1

    def again(self) -> None:
        """Read what others have kept of this state since."""
        if self.path.exists():
            self._read(self.path)

    def keep(self, mutant: Mutant, by: str | None) -> None:
        """Several processes may do so at a time."""
        line = json.dumps([mutant.name, mutant.place, f'{mutant.was} > {mutant.now}', by]) + '\n'
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
        if by and '::' in by:
            self._kills.setdefault(mutant.place, Counter())[by] += 1

    def in_order(self, mutant: Mutant, tests: Iterable[str], seconds: Mapping[str, float]) -> list[str]:
        """The tests that can be tried on a change, within the budget.

        The one that noticed it before comes first, then those that noticed other changes of the function, then the quick ones.
        """
        last = self._before.get(f'{mutant.place} {mutant.was} > {mutant.now}')
        kills = self._kills.get(mutant.place, Counter())
        quick = {t for t in tests if seconds[t] <= QUICK}
        known = sorted((t for t in kills if t in quick and t != last), key=lambda t: -kills[t] / (seconds[t] + 0.01))
        first = [last] if last in quick else []
        rest = sorted(quick.difference(first, known), key=lambda t: (seconds[t], t))
        return list(_within([*first, *known, *rest], seconds))


class Trial:
    """A plugin of pytest: in place of the tests it tries the changes on them, and keeps what came of it."""

    def __init__(self, sources: Mapping[str, Source], mutants: Sequence[Mutant], kept: Kept, processes: int) -> None:
        self.sources, self.mutants, self.kept, self.processes = sources, mutants, kept, processes
        self.ended = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        modules = {name: importlib.import_module(Source.name_of(name)) for name, source in self.sources.items()}
        seconds, calls = self._learn(session, {str(m.__file__): name for name, m in modules.items()})
        items = {i.nodeid: i for i in session.items}

        def work(n: int) -> int:
            for mutant in self.mutants[n :: self.processes]:
                able = self.kept.in_order(mutant, (i for i in items if mutant.place in calls[i]), seconds)
                self.kept.keep(mutant, self._try(session, modules[mutant.module], mutant, [items[i] for i in able], seconds))
            return 0

        children = []
        for n in range(self.processes):
            child = os.fork()
            if child == 0:
                status = 70
                try:
                    status = work(n)
                except BaseException as exc:  # noqa: BLE001 (it must not get out of this process)
                    os.write(2, f'{exc!r}\n'.encode())
                finally:
                    os._exit(status)
            children.append(child)
        failed = [c for c in children if os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) != 0]
        if failed:
            raise pytest.UsageError('the changes could not be tested: see the errors above')
        self.ended = True
        return True

    def _learn(self, session: pytest.Session, files: Mapping[str, str]) -> tuple[dict[str, float], dict[str, set[str]]]:
        """How long each test takes, and which functions of the modules it calls."""

        def learn(pipe: int) -> int:
            seconds, calls = {}, {}
            for item in session.items:
                seen: set[tuple[str, str]] = set()

                def note(frame: Any, event: str, _: object, seen: set[tuple[str, str]] = seen) -> None:
                    if event == 'call' and frame.f_code.co_filename in files:
                        seen.add((files[frame.f_code.co_filename], frame.f_code.co_qualname))

                began = time.process_time()
                sys.setprofile(note)
                try:
                    session.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
                finally:
                    sys.setprofile(None)
                seconds[item.nodeid] = time.process_time() - began
                calls[item.nodeid] = [f'{m}:{name.partition(".<locals>")[0]}' for m, name in sorted(seen)]
                if session.testsfailed:
                    os.write(pipe, item.nodeid.encode())
                    return 1
            with os.fdopen(os.dup(pipe), 'w') as stream:
                json.dump({'seconds': seconds, 'calls': calls}, stream)
            return 0

        status, said = _forked(learn, limit=1800)
        if status != 0:
            raise pytest.UsageError(f'a test fails on the unchanged code: {said[-500:].decode()}')
        known = json.loads(said)
        return known['seconds'], {k: set(v) for k, v in known['calls'].items()}

    def _try(
        self,
        session: pytest.Session,
        module: ModuleType,
        mutant: Mutant,
        items: Sequence[pytest.Item],
        seconds: Mapping[str, float],
    ) -> str | None:
        text = self.sources[mutant.module].changed(mutant)
        if not items:
            # What is called while the module is imported, as what fills a table, was called before the change.
            return tried_afresh(mutant, text, self.kept.folder)

        def attempt(pipe: int) -> int:
            replace_function(module, mutant.function, text)
            for item, following in itertools.pairwise([*items, None]):
                # Of the processor: how busy the machine is does not count. What goes on for ever is ended by the signal.
                signal.setitimer(signal.ITIMER_PROF, 2 + 5 * seconds[item.nodeid])
                session.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed:
                    os.write(pipe, item.nodeid.encode())
                    return 1
            return 0

        status, said = _forked(attempt, limit=900)
        if status == 0:
            return None
        if status == 1:
            return said.decode()
        if status in _ENDED:
            return 'time'
        raise RuntimeError(f'{mutant.name} could not be tested: {status}, {said[-500:]!r}')


def _within(tests: Iterable[str], seconds: Mapping[str, float]) -> Iterator[str]:
    """As many of them as fit into the budget."""
    left = BUDGET
    for test in tests:
        left -= seconds[test]
        if left < 0:
            return
        yield test


def _forked(what: Any, *, limit: int) -> tuple[int, bytes]:
    """Do something in a process of its own, silently: what it returned, and what it wrote into its pipe.

    :param limit: seconds, after which it is ended.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 70
        try:
            signal.alarm(limit)
            os.close(reading)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.dup2(null, 2)
            status = what(writing)
        except BaseException as exc:  # noqa: BLE001 (whatever it is, it must not get out of this process)
            os.write(writing, repr(exc).encode()[:2000])
        finally:
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, 'rb') as pipe:
        said = pipe.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), said


def tried(mutants: Sequence[Mutant], tests: Sequence[str], kept: Kept, processes: int) -> None:
    """Try each change, and keep what noticed it. It takes a process of its own: pytest is run in it, once.

    :raises RuntimeError: the tests could not be collected, or fail as they are.
    """
    sources = {name: source_of(name) for name in sorted({m.module for m in mutants})}
    trial = Trial(sources, mutants, kept, processes)
    # Under a profile, on a machine that is busy, everything is slower than its tests expect.
    settings.register_profile('trying', deadline=None, suppress_health_check=list(HealthCheck))
    settings.load_profile('trying')
    quiet = ['-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', '--no-header', '--no-summary']
    code = pytest.main([*quiet, *tests], plugins=[trial])
    if not trial.ended:
        raise RuntimeError(f'pytest ended with {code}')


def tried_afresh(mutant: Mutant, text: str, folder: Path) -> str | None:
    """What notices a change of a function that no test calls: the tests of that very module, with the changed text imported."""
    own = f'test_{Path(mutant.module).stem}.py'
    places = [TREE / path for path in tests_of(mutant.module)]
    files = [str(f) for p in places for f in ([p] if p.name == own else p.glob(f'**/{own}'))]
    if not files:
        return None
    changed = folder / f'{mutant.name.replace("/", "-").replace(":", "-")}.py'
    changed.write_text(text)
    code = 'import sys; from tests.mutants.trying import run_changed; sys.exit(run_changed(*sys.argv[1:]))'
    command = [sys.executable, '-c', code, Source.name_of(mutant.module), str(changed), *files]
    try:
        said = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False, timeout=300)
    except subprocess.TimeoutExpired:
        return 'time'
    finally:
        changed.unlink()
    if said.returncode not in (0, 1, 2):
        raise RuntimeError(f'{mutant.name} could not be tested: {said.stdout[-500:]}{said.stderr[-500:]}')
    # 2: it cannot even be imported.
    return None if said.returncode == 0 else own


def run_changed(dotted: str, changed: str, *files: str) -> int:
    """Run tests with another text of a module, in this process."""

    class Finder:
        @staticmethod
        def find_spec(name: str, *_: object) -> Any:
            return importlib.util.spec_from_file_location(name, changed) if name == dotted else None

    sys.meta_path.insert(0, Finder)  # type: ignore[arg-type]
    # pytest would import the package of its plugins by itself, to rewrite its assertions.
    return int(pytest.main(['--assert=plain', '-x', '-q', '-p', 'no:cacheprovider', '-p', 'no:xdist', *files]))


def noticed_by_mypy(source: Source, mutants: Sequence[Mutant], folder: Path) -> set[str]:
    """Names of the changes that are errors of type."""
    if not mutants:
        return set()
    text, names = source.side_by_side(mutants)
    shadow = folder / source.path.name
    shadow.write_text(text)
    place = str(source.path.relative_to(TREE))
    command = [sys.executable, '-m', 'mypy', '--shadow-file', place, str(shadow), '--no-error-summary', '--hide-error-context']
    command += ['--cache-dir', str(folder / 'mypy'), '--no-pretty', place]
    said = subprocess.run(command, cwd=TREE, capture_output=True, text=True, check=False)
    if said.returncode not in (0, 1):
        raise RuntimeError(f'mypy could not be run: {said.stdout[-500:]}{said.stderr[-500:]}')
    lines = {n: name for name in names for n in _span(text, name)}
    found = set()
    for line in said.stdout.splitlines():
        match = re.match(rf'{re.escape(place)}:(\d+):.*error:', line)
        if match and int(match[1]) in lines:
            found.add(names[lines[int(match[1])]].name)
    return found


def _span(text: str, name: str) -> range:
    """The lines of a function."""
    lines = text.splitlines()
    first = next(n for n, line in enumerate(lines) if re.match(rf'\s*def {name}\(', line))
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = first
    for n in range(first + 1, len(lines)):
        stripped = lines[n].strip()
        depth = len(lines[n]) - len(lines[n].lstrip())
        if stripped and depth <= indent and not stripped.startswith((')', ']', '}')):
            break
        last = n
    return range(first + 1, last + 2)


# ------------------------------------------------------------------------------------------------------------ what came of it


@dataclass(frozen=True, kw_only=True)
class Survivor:
    """A change that nobody notices, and why that is no harm."""

    module: str
    function: str
    was: str
    now: str
    why: str

    def fits(self, mutant: Mutant) -> bool:
        """It is this change."""
        return (self.module, self.function, self.was, self.now) == (mutant.module, mutant.function, mutant.was, mutant.now)


def survivors() -> tuple[Survivor, ...]:
    """Those that are listed."""
    found = []
    for group in tomllib.loads(SURVIVORS.read_text()).get('reason', ()):
        found += [Survivor(**one, why=group['why']) for one in group['mutant']]
    return tuple(found)


def stale(listed: Sequence[Survivor], work: Mapping[str, Sequence[Mutant]]) -> list[Survivor]:
    """Those that are listed and are no change of their module any more, of the modules all of whose changes are given."""
    return [s for s in listed if s.module in work and not any(s.fits(m) for m in work[s.module])]


def chosen(only: Sequence[str], *, seed: int | None, sample: int | None) -> dict[str, list[Mutant]]:
    """The changes to try, by module; some of them by a seed."""
    found = {m: list(source_of(m).mutants) for m in modules() if not only or m in only}
    if sample is None:
        return {m: mutants for m, mutants in found.items() if mutants}
    every = [mutant for mutants in found.values() for mutant in mutants]
    some = random.Random(seed).sample(every, min(sample, len(every)))
    return {m: [x for x in some if x.module == m] for m in found if any(x.module == m for x in some)}


def outcomes(work: Mapping[str, Sequence[Mutant]], folder: Path, processes: int) -> dict[str, str | None]:
    """What noticed each change: a test, ``time``, ``mypy``, or None. Modules with the same tests are tried together."""
    kept = Kept(folder)
    groups: dict[tuple[str, ...], list[Mutant]] = {}
    for module, mutants in work.items():
        groups.setdefault(tests_of(module), []).extend(m for m in mutants if m.name not in kept.found)
    for n, (tests, mutants) in enumerate((tests, mutants) for tests, mutants in groups.items() if mutants):
        place = folder / f'group-{n}'
        place.mkdir(exist_ok=True)

        def work_on(_: int, mutants: list[Mutant] = mutants, tests: tuple[str, ...] = tests, place: Path = place) -> int:
            log = os.open(place / 'log', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            tried(mutants, tests, kept, processes)
            return 0

        status, said = _forked(work_on, limit=0)
        if status != 0:
            raise RuntimeError(f'{said[-500:].decode()}; {place / "log"}: {(place / "log").read_text()[-1500:]}')
    kept.again()
    found = dict(kept.found)
    for module, mutants in work.items():
        left = {m.name: m for m in mutants if found[m.name] is None}
        for name in noticed_by_mypy(source_of(module), list(left.values()), kept.folder):
            found[name] = 'mypy'
            kept.keep(left[name], 'mypy')
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog='python -m tests.mutants.trying', description=__doc__.splitlines()[0])
    parser.add_argument(
        '--only', nargs='*', default=[], metavar='MODULE', help='modules to change, such as planning/update_states.py'
    )
    parser.add_argument('--seed', type=int, default=1, help='seed of the sample (default: 1)')
    parser.add_argument('--sample', type=int, help='number of changes to test, chosen by the seed (default: all)')
    parser.add_argument('--processes', type=int, default=2)
    parser.add_argument('--folder', type=Path, required=True, help='folder for the results, which are kept')
    given = parser.parse_args(argv)
    unknown = sorted(set(given.only).difference(modules()))
    if unknown:
        parser.error(f'{", ".join(unknown)}: no such module')
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(TREE)
    work = chosen(given.only, seed=given.seed, sample=given.sample)
    began = time.monotonic()
    commit = subprocess.run(['git', 'rev-parse', '--short', 'HEAD'], capture_output=True, text=True, check=False).stdout.strip()
    machine = f'{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}'
    print(f'commit {commit or "?"}, {machine}, seed {given.seed}', flush=True)
    found = outcomes(work, folder, given.processes)
    (folder / 'outcome.json').write_text(json.dumps(found, indent=1))
    for module, mutants in work.items():
        by = Counter('mypy' if found[m.name] == 'mypy' else 'tests' if found[m.name] else 'nobody' for m in mutants)
        share = 100 * (len(mutants) - by['nobody']) / len(mutants)
        print(f'{module}: {len(mutants)} changes, {by["tests"]} detected by tests, {by["mypy"]} by mypy: {share:.1f} %')
    every = [m for mutants in work.values() for m in mutants]
    left = [m for m in every if found[m.name] is None]
    (folder / 'survivors.json').write_text(json.dumps([asdict(m) for m in left], indent=1))
    listed = survivors()
    new = [m for m in left if not any(s.fits(m) for s in listed)]
    for mutant in new:
        print(f'{mutant.name}\n  - {mutant.was}\n  + {mutant.now}')
    gone = [] if given.sample else stale(listed, work)
    for one in gone:
        print(f'{one.module}:{one.function} no longer has this change; remove it from {SURVIVORS.name}:')
        print(f'  - {one.was}\n  + {one.now}')
    share = 1 - len(left) / len(every) if every else 0.0
    print(
        f'{len(every)} changes in {time.monotonic() - began:.0f} s: {100 * share:.1f} % detected; '
        f'{len(left)} not detected, {len(new)} of these not in survivors.toml'
    )
    return 0 if share >= WANTED and not new and not gone else 1


if __name__ == '__main__':
    sys.exit(main())
