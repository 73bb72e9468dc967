# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Kill a real conductor by SIGKILL exactly at a stage of a job, or at a store of one.

A folder with a ``sitecustomize.py`` is put on the Python path of the services. In the conductor it wraps the function that
stores a job: as soon as the stage that the file ``die`` in that folder names has been stored as under way, all of Ironic's
processes are killed, or stopped by SIGSTOP. A process that is continued reports the end of the turn in which it was stopped.
The file may also name the n-th store since the file was written, and right before or right after that store. The product has no
code for this.
"""

import os
import signal
from pathlib import Path

from tests.ironic.points import LEFT, TWICE

STAGES = ('withdraw', 'check', 'hold', 'release', 'write', 'engage', 'reset', 'verify', 'publish')
"""In which a conductor can die in the middle of a flash."""

ENDS = 2 * len(STAGES) + 5 + len(STAGES) - len(STAGES[::3])
"""Tests that are left out: killed and taken over, stopped and taken over, three more ways, two that kill at every store, and
two thirds of the stages of those that are killed and started again."""

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))
"""Try all of them."""

_PROGRAM = """\
import contextlib
import importlib.abc
import importlib.machinery
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
DIE = os.path.join(HERE, 'die')
NAMES = ['baremetal_acc_ironic.state.node_store', 'baremetal_acc_ironic.periodics.workers']
stopped = []
stores = []


def reached(state, wanted):
    from baremetal_acc.planning.job_transitions import current
    from baremetal_acc.model.action import stage

    job = state.job
    if job is None or current(job) is None or current(job).name.lower() != wanted:
        return False
    begun = [i for i in job.items if stage(i.action) is current(job) and i.state.value in ('sent', 'running')]
    return bool(begun) or wanted == 'verify'


def strike(node, stage, number):
    with open(os.path.join(HERE, 'who'), 'w') as file:
        file.write(str(os.getpgrp()))
    with open(os.path.join(HERE, 'where'), 'w') as file:
        file.write(f'{stage} {node.provision_state}')
    stopped.append(node.uuid)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(DIE)
    os.killpg(os.getpgrp(), int(number))


def stage_of(state):
    from baremetal_acc.planning.job_transitions import current

    stage = None if state.job is None else current(state.job)
    return 'none' if stage is None else stage.name.lower()


def store(real):
    def wrapper(node, state):
        try:
            with open(DIE) as file:
                since = os.fstat(file.fileno()).st_mtime_ns
                wanted, when, number = file.read().split()
        except FileNotFoundError:
            return real(node, state)
        stores.append(since)
        counted = wanted == str(stores.count(since))
        if counted and when == 'before':
            strike(node, stage_of(state), number)
        real(node, state)
        if counted or (not wanted.isdigit() and reached(state, wanted)):
            strike(node, stage_of(state), number)

    return wrapper


def take(real):
    def wrapper(self, uuid, turn, task):
        try:
            real(self, uuid, turn, task)
        finally:
            if uuid in stopped:
                stopped.remove(uuid)
                with open(os.path.join(HERE, 'over'), 'w'):
                    pass

    return wrapper


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name not in NAMES:
            return None
        NAMES.remove(name)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            if name.endswith('.node_store'):
                module.store = store(module.store)
            else:
                module.Workers._take = take(module.Workers._take)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""


class Death:
    """It waits for a stage, or for a store.

    :ivar folder: for the PYTHONPATH of the services.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / 'sitecustomize.py').write_text(_PROGRAM)

    def at(self, stage: str, number: signal.Signals = signal.SIGKILL) -> None:
        """From now on: the conductor dies once this stage is under way, or gets another signal."""
        self._wait_for(f'{stage} after {int(number)}')

    def at_store(self, store: int, when: str) -> None:
        """From now on: the conductor dies ``before`` or ``after`` the n-th store of a job."""
        self._wait_for(f'{store} {when} {int(signal.SIGKILL)}')

    def _wait_for(self, what: str) -> None:
        for name in ('who', 'where', 'over'):
            (self.folder / name).unlink(missing_ok=True)
        later = self.folder / 'later'
        later.write_text(what)
        later.rename(self.folder / 'die')

    def forget(self) -> None:
        """It waits no more."""
        (self.folder / 'die').unlink(missing_ok=True)

    @property
    def came(self) -> bool:
        """It has died since."""
        return not (self.folder / 'die').exists()

    @property
    def who(self) -> int:
        """The process group that it came to."""
        return int((self.folder / 'who').read_text())

    @property
    def where(self) -> tuple[str, str]:
        """The stage that it came in, and the node's provision state."""
        stage, state = (self.folder / 'where').read_text().split(maxsplit=1)
        return stage, state

    @property
    def over(self) -> bool:
        """The turn in which it came is over."""
        return (self.folder / 'over').exists()


def told() -> str | None:
    """What did not run, in a line; None where everything did."""
    if SOAK:
        return None
    return (
        f'tests/journey: {ENDS} ends of a conductor left out, for they take an hour and most take MariaDB; '
        f'tests/ironic: {TWICE} second deaths and {LEFT} first ones: make soak-crashes soak-takeover runs them'
    )
