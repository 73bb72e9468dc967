# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Adding one thing takes two or three files, and each of them is missed when it is left out.

What the docs list is written from the code, so no page is among them.
"""

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.newcomer.apply_patch import MYPY, Check, Copy, files_of, these_tests


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What a newcomer adds.

    :ivar most_files: that a patch of its kind may touch.
    :ivar checks: that pass with the whole patch, with that of types (below).
    :ivar missed: for each file: the check that fails without it, and what it says.
    """

    most_files: int
    checks: tuple[Check, ...]
    missed: Mapping[str, tuple[Check, str]]


FAULTS = these_tests('tests/unit/emulator/test_fault.py', 'tests/unit/emulator/test_docs.py')
BUSY = these_tests('tests/emulator/test_fault_http.py::test_a_resource_that_is_asked_for_again_is_busy')

CARDS = these_tests('tests/unit/bmc/test_devices.py')
KINDS = these_tests(
    'tests/unit/scheduling/test_custom_traits.py', 'tests/unit/policy/test_baseline.py', 'tests/unit/cli/test_samples.py'
)

PASSTHROUGH = these_tests(
    *(
        f'tests/unit/locks/test_switches.py::{name}[dell_os_bmc_passthrough]'
        for name in (
            'test_a_reading_of_a_switch_says_all_that_evidence_needs',
            'test_a_switch_is_written_as_the_kind_of_value_that_it_shows',
        )
    ),
    'tests/faults/test_platform_locks.py::test_a_lock_locks_what_it_declares_and_nothing_else[dell_os_bmc_passthrough]',
    'tests/faults/test_platform_locks.py::test_a_lock_that_lies_is_refused_at_deploy[dell_os_bmc_passthrough-lock-ignored]',
)
MECHANISMS = these_tests(
    'tests/unit/test_packaging.py::test_every_lock_mechanism_is_an_entry_point',
    'tests/faults/test_platform_locks.py::test_every_mechanism_has_its_row',
    'tests/unit/emulator/test_docs.py',
)
INSTALLED = these_tests('tests/unit/test_packaging.py::test_every_lock_mechanism_is_an_entry_point')

ADDITIONS = {
    # The second GET of a resource is answered 503 with Retry-After.
    'add_emulator_fault.patch': Addition(
        most_files=2,
        checks=(FAULTS, BUSY),
        missed={
            'baremetal_acc/emulator/fault.py': (BUSY, r"unknown fault 'busy-again'; the faults are .*absent-while-off"),
            'tests/emulator/test_fault_http.py': (FAULTS, 'fault busy-again: no test makes it; add one to tests/emulator'),
        },
    ),
    # The network between an iDRAC and its host, by a property of Dell's own, which is read back.
    'add_lock_mechanism.patch': Addition(
        most_files=3,
        checks=(PASSTHROUGH, MECHANISMS),
        missed={
            'setup.cfg': (
                INSTALLED,
                'add to baremetal_acc.locks in setup.cfg: '
                'dell_os_bmc_passthrough = baremetal_acc.locks.dell_os_bmc_passthrough:OsBmcPassthrough',
            ),
            'baremetal_acc/locks/dell_os_bmc_passthrough.py': (
                these_tests('tests/wire/test_locks.py::test_all_four_are_installed'),
                "plugin dell_os_bmc_passthrough .* cannot be loaded: .* No module named 'baremetal_acc.locks.dell_os_bmc",
            ),
            'tests/mechanisms/dell_os_bmc_passthrough.py': (
                these_tests('tests/faults/test_platform_locks.py::test_every_mechanism_has_its_row'),
                'dell_os_bmc_passthrough: nobody has tried it; add tests/mechanisms/dell_os_bmc_passthrough.py',
            ),
        },
    ),
    # NPU, with a card of that kind.
    'add_kind.patch': Addition(
        most_files=3,
        checks=(CARDS, KINDS),
        missed={
            'baremetal_acc/model/accelerator.py': (
                these_tests('tests/unit/cli/test_samples.py'),
                r"devices.toml, line \d+: .*'NPU' is none of GPU, FPGA, DPU, NIC, ASIC, none",
            ),
            'baremetal_acc/data/devices.toml': (
                CARDS,
                r'kind NPU: no row of data/devices.toml finds it; add one with pci or names',
            ),
            'tests/unit/bmc/test_devices.py': (CARDS, 'kind NPU: no card of it is tried; add one to CARDS in test_devices.py'),
        },
    ),
}
"""By their patches."""

LEFT_OUT = [(patch, file) for patch, addition in ADDITIONS.items() for file in addition.missed]


@pytest.fixture(scope='module')
def copy(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Copy:
    """The tree, before any patch."""
    return Copy(tree, tmp_path_factory.mktemp('newcomer'))


@pytest.mark.parametrize('patch', ADDITIONS)
def test_it_touches_few_files(patch: str) -> None:
    """And each of them is one that is missed (below)."""
    assert set(ADDITIONS[patch].missed) == set(files_of(patch))
    assert ADDITIONS[patch].most_files >= len(files_of(patch))


@pytest.mark.parametrize('patch', ADDITIONS)
def test_all_checks_pass_with_the_whole_patch(patch: str, copy: Copy) -> None:
    """Nothing else has to be changed."""
    with copy.patched(patch):
        assert copy.complaint(ADDITIONS[patch].checks) is None


def test_types_are_right_with_all_of_them(copy: Copy) -> None:
    """One run of mypy, which takes longer than the other checks; and no patch keeps another from being applied."""
    with contextlib.ExitStack() as applied:
        for patch in ADDITIONS:
            applied.enter_context(copy.patched(patch))
        assert copy.complaint([MYPY]) is None


@pytest.mark.parametrize(('patch', 'left_out'), LEFT_OUT, ids=[Path(file).name for _, file in LEFT_OUT])
def test_a_file_that_is_left_out_is_missed(patch: str, left_out: str, copy: Copy) -> None:
    """The check that fails says what is missing, and where."""
    check, said = ADDITIONS[patch].missed[left_out]
    with copy.patched(patch, left_out):
        complaint = copy.complaint([check])
    assert re.search(said, complaint or 'nothing is said'), complaint
