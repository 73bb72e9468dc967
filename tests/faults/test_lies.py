# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a BMC that lies can make us believe: the limits of reading out of band.

A BMC that shows what was sent, or a lock that is not there, tells the same as an honest one. Only a measurement signed by the
card can tell versions apart, where the card signs and its maker's root is pinned. What is published after that is what was
read, and the pages on locks and faults say so.
"""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256

from baremetal_acc.emulator.image import build_image
from baremetal_acc.images.spdm.signed_measurements import attestor
from baremetal_acc.model.image import ReferenceValue
from baremetal_acc.model.job import Done, Failed
from tests.faults.cases import CARD
from tests.faults.rig import EROT, GPU, ITEM, NEW, OLD, Rig


def test_a_bmc_that_shows_the_version_it_was_sent_is_believed(rig: Callable[..., Rig]) -> None:
    """F33. The old firmware runs, and nobody can see it."""
    found = rig()
    assert () == found.begin()
    found.machine.fault('version-lies', **CARD)
    found.machine.fault('task-completed-version-unchanged', **CARD)
    assert isinstance(found.turn(), Done)
    assert (OLD[EROT], NEW[EROT]) == (found.version(0), found.version(1))
    assert [] == found.open_locks()


def test_a_version_that_lies_is_found_out_where_the_card_signs(rig: Callable[..., Rig]) -> None:
    """F33. The same lie; the card beside it proves that it runs the new firmware, and this one that it does not."""
    found = rig(machine={'features': frozenset({'spdm'})})
    pinned = found.folder / 'maker.pem'
    pinned.write_text(found.machine.spdm_root)
    pinned.chmod(0o600)
    shipped = sha256(f'factory h100 {EROT} {OLD[EROT]}'.encode()).hexdigest()
    known = {f'{EROT}-old': shipped, f'{EROT}-new': next(i.digest.value for i in found.catalogue if i.name == f'{EROT}-new')}
    measured = {
        name: (ReferenceValue(integrity='HGX_ERoT_GPU_*', index=3, values=(('sha256', value),)),)
        for name, value in known.items()
    }
    images = tuple(replace(i, measurements=measured.get(i.name, ())) for i in found.catalogue)
    found.tools = replace(found.tools, catalogue=images, attestor=attestor([str(pinned)]))
    assert () == found.begin()
    found.machine.fault('version-lies', **CARD)
    found.machine.fault('task-completed-version-unchanged', **CARD)
    assert isinstance(found.turn(), Failed)
    assert (OLD[EROT], NEW[EROT]) == (found.version(0), found.version(1))
    says = (
        f'{ITEM[EROT].format(0)} is reported as {NEW[EROT]}, but its measurement is that of image {EROT}-old, version '
        f'{OLD[EROT]}'
    )
    assert says in found.reasons
    assert 'measurement HGX_ERoT_GPU_1' not in found.reasons
    assert [] == found.open_locks()
    found.judge()


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
