# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What can a BMC that lies make us believe? These tests put down where reading out of band ends.

A BMC that shows what was sent, or a lock that is not there, tells the same as an honest one. Only a measurement signed by the
card could tell them apart. What is published after that is what was read, and the pages on locks and faults say so.
"""

from collections.abc import Callable

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.job import Done
from tests.faults.cases import CARD
from tests.faults.rig import EROT, GPU, NEW, OLD, Rig


def test_a_bmc_that_shows_the_version_it_was_sent_is_believed(rig: Callable[..., Rig]) -> None:
    """F33. The old firmware runs, and nobody can see it."""
    found = rig()
    assert () == found.begin()
    found.machine.fault('version-lies', **CARD)
    found.machine.fault('task-completed-version-unchanged', **CARD)
    assert isinstance(found.turn(), Done)
    assert (OLD[EROT], NEW[EROT]) == (found.version(0), found.version(1))
    assert [] == found.open_locks()


def test_a_bmc_whose_items_alone_show_the_version_that_was_sent_is_believed(rig: Callable[..., Rig]) -> None:
    """F33. Processor and PCIeDevice show what runs; nobody compares them with the item."""
    found = rig(what=GPU)
    assert () == found.begin()
    found.machine.fault('version-lies', item_only=True, **CARD)
    found.machine.fault('task-completed-version-unchanged', **CARD)
    assert isinstance(found.turn(), Done)
    assert (OLD[GPU], NEW[GPU]) == (found.version(0), found.version(1))
    assert [OLD[GPU], NEW[GPU]] == [found.shown(f'/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_{n}') for n in (0, 1)]


def test_a_lock_that_is_shown_and_not_there_is_believed(rig: Callable[..., Rig]) -> None:
    """F35. It reads closed over a fresh session, and the host's write succeeds."""
    found = rig()
    assert () == found.begin()
    found.machine.fault('lock-reports-locked', **CARD)
    assert isinstance(found.turn(), Done)
    image = build_image(model='h100', component=GPU, version='6.6.6')
    assert found.machine.tenant_write('GPU_0', image)['written']
    assert not found.machine.tenant_write('GPU_1', image)['written']
