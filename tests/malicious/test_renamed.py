# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What if a new catalogue calls another image by a planned name? A job writes what was planned, or nothing.

The operator's files are changed when every image has been checked, and read anew, as each turn in Ironic does and each command
that goes on with a job. Nothing sleeps.
"""

from collections.abc import Callable

import pytest

from baremetal_acc.emulator.image import build_image
from baremetal_acc.model.job import CheckImage, Failed, ItemState, Job
from baremetal_acc.run import Tools
from tests.malicious.test_swapped import turned
from tests.malicious.workshop import NEW, Workshop, reached


def another_card(shop: Workshop) -> None:
    shop.images['fpga-new'] = dict(shop.images['gpu-new'])


def an_older_version(shop: Workshop) -> None:
    data = build_image(model='d5005', component='fpga', version='1.0.0', security_version=1, size_bytes=20_000)
    shop.path('older.img').write_bytes(data)
    shop.describe('fpga-new', data)
    shop.images['fpga-new'] |= {'source': '"older.img"', 'security_version': '1', 'version': '"1.0.0"'}


def other_bytes_of_the_same_version(shop: Workshop) -> None:
    data = build_image(model='d5005', component='fpga', version=NEW, security_version=1, size_bytes=30_000)
    shop.path('other.img').write_bytes(data)
    shop.describe('fpga-new', data)
    shop.images['fpga-new'] |= {'source': '"other.img"', 'security_version': '1'}


def a_revocation(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'kind': '"revocation"', 'restore': '"none"'}


def the_same_bytes_as_another_version(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'version': '"9.9.9"'}


def the_same_bytes_for_other_cards(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'fits': '[{ pci = "0x8086:0x0001" }]'}


def the_same_bytes_for_another_component(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'component': '"FPGA1_BMC"'}


def nothing_any_more(shop: Workshop) -> None:
    del shop.images['fpga-new']


TABLE: tuple[tuple[Callable[[Workshop], None], str], ...] = (
    (another_card, 'is another one than was planned'),
    (an_older_version, 'is another one than was planned'),
    (other_bytes_of_the_same_version, 'is another one than was planned'),
    (a_revocation, 'is another one than was planned'),
    (the_same_bytes_as_another_version, f'is version 9.9.9 now, and {NEW} was planned'),
    (the_same_bytes_for_other_cards, 'is not for this device, as catalogue and BMC have it now'),
    (the_same_bytes_for_another_component, 'is not for this device, as catalogue and BMC have it now'),
    (nothing_any_more, 'is not in the catalogue any more'),
)


@pytest.mark.parametrize(('strike', 'says'), TABLE, ids=[row[0].__name__ for row in TABLE])
def test_a_name_that_stands_for_something_else_now_is_not_written(strike, says, clocked):
    """The job fails with the image and the reason; nothing has reached a BMC, and no host was restarted for it."""
    left = [strike]

    def between(job: Job, tools: Tools) -> Tools:
        checks = [i.state for i in job.items if isinstance(i.action, CheckImage)]
        assert checks
        if left and all(state is ItemState.DONE for state in checks):
            left.pop()(clocked)
            clocked.lay()
            return clocked.session()[1]
        return tools

    outcome = turned(clocked, lambda tools: tools, between)
    assert not left, 'the catalogue was changed'
    assert isinstance(outcome, Failed)
    assert [r for r in outcome.reasons if 'fpga-new' in r and says in r], outcome.reasons
    assert [] == reached(clocked.machine)
    assert 0 == clocked.machine.truth()['systems']['host']['resets']
