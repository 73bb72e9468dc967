# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""No user of the command line can reach an internal error: a sample of what ``make soak-verbs`` runs.

Each condition is here once, each command and each program at least once, and some wrong values of options. The seed is
``BAREMETAL_ACC_CONDITIONS_SEED``, else 1.
"""

import itertools
import os
import random
from collections.abc import Iterator
from configparser import ConfigParser

import pytest

from tests.conditions import cases, desk, runs
from tests.conditions.soak import machine

VALUES = 10
"""Wrong values of options that are tried."""

SLOW = ('complete', 'demo', 'pool apply', 'pool plan', 'pool watch', 'reshape apply', 'reshape plan', *cases.PROGRAMS)
"""Programs and commands that import much, or wait for a service: they are tried in a few conditions only."""


MACHINES = ('SIG', 'clock', 'few', 'no threads', 'several', 'state')
"""How the names of conditions begin that need a command which reads machines and their stored state."""


def sample() -> list[tuple[str, str]]:
    """The verbs and the names of their conditions."""
    rng = random.Random(int(os.environ.get('BAREMETAL_ACC_CONDITIONS_SEED', '1')))
    quick = [verb for verb in cases.VERBS if verb not in SLOW]
    reading = [verb for verb in quick if '--bmcs' in cases.options_of(verb)]
    names = rng.sample(list(cases.CONDITIONS), len(cases.CONDITIONS))
    about_machines = [name for name in names if name.startswith(MACHINES)]
    others = [name for name in names if name not in about_machines]
    others.sort(key='no arguments'.__eq__)  # the slow commands come first, and the demo would run
    found = [*zip(itertools.cycle(rng.sample(reading, len(reading))), about_machines, strict=False)]
    found += zip([*SLOW, *itertools.islice(itertools.cycle(rng.sample(quick, len(quick))), len(others))], others, strict=False)
    values = [
        (verb, name) for verb in quick if verb not in cases.SERVING for name, _ in cases.of_verb(verb) if name not in names
    ]
    return [*found, *rng.sample(values, VALUES)]


@pytest.fixture(scope='module')
def run() -> Iterator[runs.Runs]:
    """The command, imported once, and a machine that it reads."""
    with machine() as served, runs.Runs(served) as started:
        yield started


@pytest.mark.parametrize(('verb', 'name'), sample())
def test_no_internal_error_no_traceback_and_no_hang(run, verb, name):
    """It ends with an exit code for the user, and each error says what is wrong and what to do."""
    condition = dict(cases.of_verb(verb))[name]
    case, ended = run.run(verb, condition)
    assert [] == runs.judge(verb, case, ended), (case.arguments, ended)


def test_every_command_and_every_condition_is_in_the_sample(tree):
    """The commands are those of the entry points, and the programs those of the package; each option with a value is known."""
    tried = sample()
    assert set(cases.VERBS) == {verb for verb, _ in tried}
    assert set(cases.CONDITIONS) <= {name for _, name in tried}
    setup = ConfigParser()
    setup.read(tree / 'setup.cfg')
    groups = setup['options.entry_points']
    named = {line.partition(' = ')[0] for line in groups['baremetal_acc.cli'].strip().splitlines()}
    programs = {line.partition(' = ')[0] for line in groups['console_scripts'].strip().splitlines()}
    assert named | programs - {'baremetal-acc'} | {'help'} == set(cases.VERBS)
    assert {'--key', '--certificate', 'file', '--image'} <= set(cases.options_of('catalogue sign'))


def test_what_is_wrong_is_found():
    """The judge knows a traceback, an internal error, a hang, a wrong exit code, silence, and an error without a hint."""
    case = cases.made('verify', cases.CONDITIONS['ordinary'], desk.TREE)

    def judged(
        code: int = 2, err: str = 'baremetal-acc: error: x: y (do z)\n', out: str = '', *, hung: bool = False
    ) -> list[str]:
        ended = runs.Ended(codes=[code], out=out, err=err, shown='', hung=hung, seconds=0)
        return runs.judge('verify', case, ended)

    assert [] == judged()
    assert [] == judged(0, '')
    assert judged(code=1)
    assert judged(code=120)
    assert judged(code=-11)
    assert judged(code=130)
    assert judged(hung=True)
    assert judged(err='')
    assert judged(err='baremetal-acc: error: x: y\n')
    assert judged(err='Traceback (most recent call last):\n')
    assert judged(err='baremetal-acc: error: internal error: x (y)\n')
    assert judged(err='baremetal-acc: error: \x1b[2J (x)\n')
    assert judged(0, '', '\x1b[2J')
