# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fault rules apply to what they name, as often as they say; each fault comes to pass, and has a test."""

from pathlib import Path

import pytest

from baremetal_acc.emulator.fault import ANSWERS, NAMES, BadFault, Faults
from baremetal_acc.emulator.habit import HABITS


def test_a_rule_fits_by_globs_and_only_what_it_names():
    """A rule for a device does not touch what belongs to no device."""
    faults = Faults()
    faults.add({'name': 'slow', 'device': 'GPU_*', 'uri': '/redfish/v1/Chassis/*'})
    assert faults.find('slow', bmc='host', device='GPU_1', uri='/redfish/v1/Chassis/HGX_GPU_1')
    assert None is faults.find('slow', bmc='host', device='FPGA1', uri='/redfish/v1/Chassis/x')
    assert None is faults.find('slow', bmc='host', device=None, uri='/redfish/v1/Chassis/x')
    assert None is faults.find('slow', bmc='host', device='GPU_1', uri='/redfish/v1/Systems/x')


def test_a_count_is_used_up_and_looking_does_not_use_it():
    """Looking at a rule for what is shown must not spend it."""
    faults = Faults()
    faults.add({'name': 'refuse', 'count': 1})
    assert faults.find('refuse', bmc='host', use=False)
    assert faults.find('refuse', bmc='host')
    assert None is faults.find('refuse', bmc='host')
    assert [1] == [rule['hits'] for rule in faults.describe()]


@pytest.mark.parametrize(
    ('rule', 'words'),
    [
        ({'name': 'sloow'}, 'unknown fault'),
        ({}, 'unknown fault'),
        ({'name': 'slow', 'second': 1}, "unknown parameter 'second'"),
        ({'name': 'slow', 'seconds': 'long'}, 'seconds must be a number'),
        ({'name': 'slow', 'seconds': True}, 'seconds cannot be'),
        ({'name': 'refuse', 'after': 1}, 'after cannot be'),
        ({'name': 'slow', 'count': 0}, 'count must be'),
        ({'name': 'slow', 'uri': 3}, 'uri must be a glob'),
        ({'name': 'version-lies', 'version': 3}, 'version must be a string'),
    ],
)
def test_a_rule_that_cannot_be_is_refused_and_names_the_item(rule, words):
    """A misspelt fault that silently does nothing would make a test pass that shows nothing."""
    with pytest.raises(BadFault, match=words):
        Faults().add(rule)


@pytest.mark.parametrize('name', sorted(NAMES))
def test_every_name_can_be_added_with_its_defaults_and_taken_away(name):
    """The table of names is what the documentation promises."""
    faults = Faults()
    rule = faults.add({'name': name})
    assert dict(NAMES[name][0]) == rule.parameters
    assert 1 == faults.remove(rule.id)
    assert not faults.any(name)


def text_of(folder: Path, *but: str) -> str:
    """The text of all modules below a folder, but for some files and folders."""
    return '\n'.join(
        path.read_text() for path in folder.rglob('*.py') if not set(but).intersection(path.relative_to(folder).parts)
    )


def test_every_fault_comes_to_pass(tree: Path) -> None:
    """A fault that is declared, and that nothing asks for, would be taken and do nothing."""
    code = text_of(tree / 'baremetal_acc' / 'emulator', 'fault.py', 'habit.py')
    missed = [name for name in NAMES if name not in ANSWERS and f"'{name}'" not in code]
    assert [] == [
        f'fault {name}: nothing does it; ask for it by Faults.find, or give it an answer in ANSWERS' for name in missed
    ]
    assert [] == [f'fault {name}: it has an answer, and is not declared; add it to NAMES' for name in ANSWERS.keys() - NAMES]


def test_every_fault_is_made_by_a_test(tree: Path) -> None:
    """Itself, or as a habit."""
    tests = text_of(tree / 'tests', 'test_fault.py', 'newcomer')
    by_habit = {rule['name'] for habit in HABITS.values() if f"'{habit.name}'" in tests for rule in habit.rules}
    missed = [name for name in NAMES if name not in by_habit and f"'{name}'" not in tests]
    assert [] == [
        f'fault {name}: no test makes it; add one to tests/emulator that asks for what then happens' for name in missed
    ]
