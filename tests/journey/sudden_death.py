# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a real conductor die by SIGKILL at a stage of a job, and not a moment before or after?

A folder with a ``sitecustomize.py`` goes on the path of the services. In the conductor it wraps what stores a job: as soon as
the stage that the file ``die`` in that folder names has been stored as under way, all of Ironic's processes are killed. Nothing
of the product knows of it.
"""

from pathlib import Path

_PROGRAM = """\
import importlib.abc
import importlib.machinery
import os
import signal
import sys

DIE = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'die')
NAME = 'baremetal_acc_ironic.node'


def reached(mind, wanted):
    from baremetal_acc.decide.advance import current
    from baremetal_acc.model.job import stage

    job = mind.job
    if job is None or current(job) is None or current(job).name.lower() != wanted:
        return False
    begun = [i for i in job.items if stage(i.action) is current(job) and i.state.value in ('sent', 'running')]
    return bool(begun) or wanted == 'verify'


def store(real):
    def wrapper(node, mind):
        real(node, mind)
        try:
            with open(DIE) as file:
                wanted = file.read().strip()
        except FileNotFoundError:
            return
        if wanted and reached(mind, wanted):
            os.unlink(DIE)
            os.killpg(os.getpgrp(), signal.SIGKILL)

    return wrapper


class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != NAME:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            module.store = store(module.store)

        spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder())
"""


class Death:
    """It waits for a stage.

    :ivar folder: for the PYTHONPATH of the services.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        (folder / 'sitecustomize.py').write_text(_PROGRAM)

    def at(self, stage: str) -> None:
        """From now on: the conductor dies once this stage is under way."""
        (self.folder / 'die').write_text(stage)

    @property
    def came(self) -> bool:
        """It has died since."""
        return not (self.folder / 'die').exists()
