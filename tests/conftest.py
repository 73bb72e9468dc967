# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures of all tests: the path of the shared folder, and the option to fail a run in which a test is skipped."""

import importlib.util
import json
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

if importlib.util.find_spec('oslo_service') is not None:  # the core does without it
    from oslo_service import backend

    # Before anything else that uses oslo.service, which would choose eventlet: Ironic's test code needs this one, and which
    # file is collected first depends on which tests have failed last.
    backend.init_backend(backend.BackendType.THREADING)

if 'CI' not in os.environ:  # there Hypothesis is patient by itself, and each of some hundred processes would import it
    from hypothesis import HealthCheck, settings

    # An example that takes long says that the machine is busy.
    settings.register_profile('patient', deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile('patient')

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
    # So a shell starts what runs in the background, and whatever is started here would ignore it, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

TREE = Path(__file__).parents[1]

LEFT_OUT = ('tests.faults.left_out', 'tests.journey.sudden_death', 'tests.mutants.left_out', 'tests.nova_end_to_end.left_out')
LEFT_OUT += ('tests.cyborg.left_out',)
"""Who tells, by ``told()``, what takes too long for every run."""


LONG = ('tests/journey/', 'tests/mutants/test_guards.py', 'tests/ironic/', 'tests/cli/', 'tests/faults/', 'tests/malicious/')
LONG += ('tests/wire/test_ipmi_', 'tests/race/', 'tests/hostile/', 'tests/unit/test_histories.py')
"""Files that take longest, in the order in which they are begun. Begun last, they kept one core idle for minutes."""

SHORT = ('tests/unit/',)
"""Files of a second or two, which are begun last: all cores have something to do to the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first (``--no-loadscope-reorder`` lets that stand); the tests of a file keep their order."""

    def turn(item: pytest.Item) -> int:
        otherwise = len(LONG) + item.nodeid.startswith(SHORT)
        return next((n for n, begin in enumerate(LONG) if item.nodeid.startswith(begin)), otherwise)

    items.sort(key=turn)


@pytest.fixture(scope='session')
def tree() -> Path:
    """The top of the checkout."""
    return TREE


@pytest.fixture(scope='session')
def shared() -> Path:
    """The folder with recordings and schemas: ``BAREMETAL_ACC_SHARED``, else ``../shared``. Without it the test is skipped."""
    folder = Path(os.environ.get('BAREMETAL_ACC_SHARED') or TREE.parent / 'shared')
    if not folder.is_dir():
        pytest.skip(f'{folder} is not there: recordings and schemas come with the shared folder (BAREMETAL_ACC_SHARED)')
    return folder


def _skipped(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin('terminalreporter')
    return len(reporter.stats.get('skipped', [])) if reporter else 0


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With ``BAREMETAL_ACC_NO_SKIPS`` set, a skipped test fails the run: CI sets it where everything is at hand."""
    skipped = _skipped(session.config) if os.environ.get('BAREMETAL_ACC_NO_SKIPS') else 0
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    cache = getattr(session.config, 'cache', None)  # -p no:cacheprovider takes it away
    if cache is not None and not hasattr(session.config, 'workerinput'):
        cache.set('baremetal_acc/skipped', skipped)  # .ci/run asks before it tries what failed again


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was skipped and what was left out, above the line that counts."""
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        for name in LEFT_OUT:
            line = importlib.import_module(name).told()
            if line is not None:
                terminalreporter.write_line(line)
    if os.environ.get('BAREMETAL_ACC_NO_SKIPS') and _skipped(config):
        terminalreporter.write_line(f'FAILED: {_skipped(config)} skipped, and BAREMETAL_ACC_NO_SKIPS is set', red=True)


@pytest.fixture(autouse=True)
def loggers_that_speak() -> None:
    """Tests of real services and of commands set up logging as those do, which silences loggers for whoever comes after."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith('baremetal_acc') and isinstance(logger, logging.Logger):
            logger.disabled = False
    logging.getLogger('baremetal_acc').setLevel(logging.NOTSET)  # a command that was run in this process has set it


@pytest.fixture(scope='module')
def placement_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where :func:`placement` keeps its database, ``placement.sqlite``."""
    return tmp_path_factory.mktemp('placement')


@pytest.fixture(scope='module')
def placement(placement_folder: Path) -> Iterator[str]:
    """URL of a real placement, which is a process of its own and ends with the tests of the module."""
    command = [sys.executable, '-m', 'baremetal_acc.demo.services', '--state', str(placement_folder), '--placement']
    # It ends with its standard input: a test run that is killed leaves nothing behind.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout is not None else ''
        yield json.loads(line)['placement'] if line else pytest.fail(process.communicate()[1])
    finally:
        process.terminate()
        process.communicate(timeout=90)
