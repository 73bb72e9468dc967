# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the services of a cloud by a program of its own while tests run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import TREE
from tests.journey.api import Json


def keep_logs(state: Path) -> None:
    """Copy the logs of the services to the folder that ``NOVA_LOGS`` names, if it names one."""
    folder = os.environ.get('NOVA_LOGS')
    for path in state.glob('*.log') if folder else ():
        shutil.copy(path, str(folder))


@contextmanager
def running(program: str, state: Path, documents: Path) -> Iterator[Json]:
    """What the program prints when all answers. The services end with the block, and with the run if that is killed.

    :param program: the module that starts them.
    :param state: folder for all of their files; made, and removed in the end.
    :param documents: has Ironic's further configuration file.
    """
    process = subprocess.Popen(
        [sys.executable, '-W', 'ignore', '-m', program, '--state', str(state), '--conf', str(documents / 'ironic.conf')],
        cwd=TREE,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            said = process.communicate(timeout=180)[1]
            pytest.fail(f'the cloud did not start, exit code {process.returncode}: {said}')
        yield json.loads(line)
    finally:
        process.communicate(timeout=180)
        keep_logs(state)
        shutil.rmtree(state, ignore_errors=True)
