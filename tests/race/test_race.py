# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does a small race on SQLite end well, and is a defect of the publisher seen there? ``make soak-race`` runs the large ones."""

import subprocess
import sys
from pathlib import Path

import pytest

SMALL = (
    *('--database', 'sqlite', '--publishers', '6', '--claimers', '6', '--processes', '2', '--machines', '3', '--flat', '1'),
    # Others may have the machine: only the large ones are held to five seconds.
    *('--agrees', '30', '--share', '0.5', '--seed', '7'),
)


def race(tree: Path, *other: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, '-m', 'tests.race.soak', *SMALL, *other]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)


def test_nothing_goes_wrong_in_a_race_with_faults(tree: Path) -> None:
    """Publishers and claimers, and every third request meets a fault: no ghost, nothing held twice, no claim lost."""
    found = race(tree, '--operations', '120', '--round', '120')
    assert 0 == found.returncode, (found.stdout + found.stderr)[-6000:]
    assert '\n0 wrong\n' in found.stdout


@pytest.mark.parametrize(
    ('defect', 'seen'),
    [('slots are forgotten', 'a ghost'), ('roots are written', 'wrote to a root')],
)
def test_a_publisher_that_is_wrong_is_seen(tree: Path, defect: str, seen: str) -> None:
    """With the seed, the machine, and what was called before."""
    found = race(tree, '--operations', '240', '--round', '60', '--break', defect, '--faults', '0.05')
    assert 1 == found.returncode, (found.stdout + found.stderr)[-6000:]
    assert 'WRONG, seed 7, machine' in found.stdout
    assert seen in found.stdout
