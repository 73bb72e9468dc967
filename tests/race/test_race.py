# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A small race on SQLite ends well, and a defect of the publisher is seen. ``make soak-race`` runs the large ones."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.race import hammer, soak

# Few publishers for the machines: what may be claimed is known for sure only while none of them works on a machine.
SMALL = (
    *('--database', 'sqlite', '--publishers', '3', '--claimers', '6', '--processes', '2', '--seed', '7'),
    # Others may have the machine: only the large ones are held to five seconds.
    *('--agrees', '30'),
)

FLOORS = {
    'publishers: publish, ok': 20,
    'publishers: withdraw, ok': 5,
    'publishers: forth, ok': 1,
    'publishers: back, ok': 1,
    'claimers: claimed': 7,
    'judged: claims that were taken': 3,
    'judged: looks at machines of which all is known': 25,
    'judged: writes of publishers': 50,
}
"""How much of each there has to be in the small race: at most half of the poorest of seven runs."""


def race(tree: Path, *other: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, '-m', 'tests.race.soak', *SMALL, *other]
    return subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=600, check=False)


def figures(told: str) -> dict[str, int]:
    """What a race counted, by name."""
    return {m[2]: int(m[1].replace(',', '')) for m in re.finditer(r'^ *([\d,]+) (\w+: .*)$', told, re.MULTILINE)}


def test_nothing_goes_wrong_in_a_race_with_faults(tree: Path) -> None:
    """Publishers and claimers, and every fifth request meets a fault: no ghost, nothing held twice, no claim lost. And it was a
    race: publications came through, claims were taken, and there was something to judge them by.
    """
    found = race(
        tree, *('--machines', '5', '--flat', '1', '--share', '0.35', '--operations', '160', '--round', '160', '--faults', '0.2')
    )
    assert 0 == found.returncode, (found.stdout + found.stderr)[-6000:]
    assert '\n0 wrong\n' in found.stdout
    counted = figures(found.stdout)
    assert {} == {name: counted.get(name, 0) for name, least in FLOORS.items() if counted.get(name, 0) < least}, found.stdout


@pytest.mark.parametrize(
    ('defect', 'flat', 'faults', 'seen'),
    [
        # The others are for ``make soak-race`` with ``--break``: each takes some ten seconds.
        ('slots are forgotten', 0, 0.05, 'a ghost'),
        ('other claims are dropped', 2, 0.05, 'by its own calls it has'),
    ],
)
def test_a_publisher_that_is_wrong_is_seen(tree: Path, defect: str, flat: int, faults: float, seen: str) -> None:
    """With the seed, the machine, and what was called before. The round in which it is seen is the last one."""
    given = {
        'machines': flat or 3,
        'flat': flat,
        'share': 0.3 if flat else 0.5,
        'faults': faults,
        'operations': 1500,
        'round': 60,
    }
    found = race(tree, *('--break', defect, '--agrees', '6'), *(w for k, v in given.items() for w in (f'--{k}', str(v))))
    assert 1 == found.returncode, (found.stdout + found.stderr)[-6000:]
    assert 'WRONG, seed 7, machine' in found.stdout
    assert seen in found.stdout


def test_a_race_in_which_little_happened_is_told():
    """For each thousand operations; one with less of them is judged by who runs it."""
    enough = {name: 5 * each for name, each in soak.A_THOUSAND.items()}
    assert [] == soak.too_little(enough, 5_400)
    few = enough | {'claimers: claimed': 124}
    assert ['124 claimers: claimed, wanted 125'] == soak.too_little(few, 5_000)
    assert ['0 claimers: claimed, wanted 125'] == soak.too_little({k: n for k, n in few.items() if k[0] != 'c'}, 5_000)
    assert [] == soak.too_little({}, 999)


def test_a_hammer_that_hits_nothing_is_told():
    """No claims, no looks, or looks that never saw the node as it was reshaped."""

    def told(claims: int, looks: int, *seen: str) -> list[str]:
        return hammer.too_little(SimpleNamespace(looks=looks, seen=set(seen)), SimpleNamespace(claims=claims))

    assert [] == told(9, 20, 'flat', 'nested')
    assert ['too few claims: 8'] == told(8, 20, 'flat', 'nested')
    assert ["too few looks: 19, at ['flat', 'nested']"] == told(9, 19, 'flat', 'nested')
    assert ["too few looks: 20, at ['flat']"] == told(9, 20, 'flat')
