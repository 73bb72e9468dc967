# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a bundle writes to no card is read back and told, by the items that can be meant and by no others."""

from dataclasses import replace

import pytest

from baremetal_acc.model.action import Flash
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.bundle_parts import is_awaited, read_back, told
from tests.unit.planning import values as v
from tests.unit.planning.test_bundles import OLDER, ROOT, begun, bundle, tray

SWITCHES = 'HGX_FW_NVSwitch_*'


def with_switches(name, gpu, restore_to=None):
    """A bundle that is for the switches of the baseboard, too."""
    images = bundle(name, gpu, restore_to=restore_to)
    switch = replace(images[0], name=f'{name}.switch', component=SWITCHES, version='2.0', identifier=0x70, restore=None)
    return (*images, switch)


CATALOGUE = (*with_switches('new', v.NEW, 'old'), *with_switches('old', v.OLD))
LOOK = tray(v.NEW, v.NEW)


def item(name: str, version: str | None, software_id: str | None = '0x0070') -> Component:
    return Component(id=name, ref=v.ref(f'UpdateService/FirmwareInventory/{name}'), version=version, software_id=software_id)


def job_of(state: ItemState = ItemState.DONE, **changes):
    """A job whose bundle ended in that state for all cards."""
    job = begun(tray(v.OLD, v.OLD), CATALOGUE)
    items = (
        replace(i, state=state, action=replace(i.action, **changes)) if isinstance(i.action, Flash) else i for i in job.items
    )
    return replace(job, items=tuple(items))


def lines(job, *items: Component):
    """What is told after a look that shows these items of no card."""
    seen = read_back(job, CATALOGUE, LOOK, {HOST: items})
    return [line for one in seen.items for line in told(one.others)]


def test_what_shows_what_was_sent_is_told_together_and_once():
    """Though the bundle has written two cards."""
    assert [
        'the parts that belong to no card show the versions of the bundle: HGX_FW_NVSwitch_0 2.0, HGX_FW_NVSwitch_1 2.0'
    ] == lines(job_of(), item('HGX_FW_NVSwitch_1', '2.0'), item('HGX_FW_NVSwitch_0', '2.0'), item('HGX_FW_BMC_0', '1'))


@pytest.mark.parametrize(('shows', 'said'), [(OLDER, f'shows {OLDER}'), (None, 'shows no version')])
def test_each_part_that_shows_something_else_is_told_with_its_place(shows, said):
    """What, where, and what to do."""
    (line,) = lines(job_of(), item('HGX_FW_NVSwitch_0', shows))
    assert line.startswith(f'HGX_FW_NVSwitch_0 {said}, but the bundle has 2.0')
    assert 'read host:/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_NVSwitch_0 again' in line


@pytest.mark.parametrize('items', [(), (item('HGX_FW_NVSwitch_0', '2.0', '0x0071'),), (item('HGX_FW_NVSwitchX', '2.0'),)])
def test_a_part_of_which_no_item_is_shown_is_told(items):
    """One with another SoftwareId is another part."""
    (line,) = lines(job_of(), *items)
    assert line.startswith(f'the BMC shows no firmware item {SWITCHES}, so it is unknown whether 2.0 was written')


def test_an_item_without_a_version_is_awaited():
    """One with the old version is not: what a task has refused stays as it is."""

    def is_awaited_with(*items: Component) -> bool:
        return is_awaited(read_back(job_of(), CATALOGUE, LOOK, {HOST: items}))

    assert is_awaited_with(item('HGX_FW_NVSwitch_0', None))
    assert not is_awaited_with(item('HGX_FW_NVSwitch_0', OLDER))
    assert not is_awaited_with()


def test_nothing_is_told_of_what_was_not_written():
    """No bundle was sent, it reached nothing, it went to one component alone, or nobody has read such items."""
    switch = item('HGX_FW_NVSwitch_0', OLDER)
    assert [] == lines(job_of(ItemState.FAILED), switch)
    assert [] == lines(job_of(alone=True), switch)
    assert [] == lines(job_of(bundle=None), switch)
    assert job_of() == read_back(job_of(), CATALOGUE, LOOK, {})
    assert ROOT == LOOK.accelerators[0].firmware[1].version
