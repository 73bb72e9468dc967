# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""If a new catalogue gives a planned name to another image, a job writes what was planned, or nothing.

The operator's files are changed when every image has been checked, and read anew, as each turn in Ironic does and each command
that goes on with a job. Nothing sleeps.
"""

import hashlib
from collections.abc import Callable

import pytest

from baremetal_acc.emulator.image import build_image
from baremetal_acc.execution import Tools
from baremetal_acc.model.action import CheckImage, Flash
from baremetal_acc.model.job import Failed, Job
from baremetal_acc.model.job_item import ItemState
from tests.malicious.attack import Attack
from tests.malicious.test_swapped import turned
from tests.malicious.workshop import FPGA, NEW, OLD, Workshop, entry, pushed, reached, told


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


def the_same_bytes_of_a_lower_security_version(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'security_version': '1'}


def the_same_bytes_over_another_version_only(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'apply': '{ reset = "power-cycle", via = ["1.5.0"] }'}


def the_same_bytes_by_name_only(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'fits': '[{ vendor = "Intel", model = "FPGA PAC D5005" }]'}


def the_same_bytes_below_a_floor_that_was_raised(shop: Workshop) -> None:
    shop.baseline += 'security_floor = 3\n'


def nothing_any_more(shop: Workshop) -> None:
    del shop.images['fpga-new']


def denied_since(name: str, table: str) -> Callable[[Workshop], None]:
    """The operator has revoked something meanwhile."""

    def strike(shop: Workshop) -> None:
        shop.tail += f'\n[[deny]]\nreason = "it burns"\n{table}\n'

    strike.__name__ = name
    return strike


def denied_since_by_its_digest(shop: Workshop) -> None:
    denied_since('', f'digest = {shop.new["digest"]}')(shop)


def a_twin_denied_since_by_its_digest(shop: Workshop) -> None:
    """Other bytes of the same version: nobody can tell which of the two a card would run."""
    shop.images['fpga-twin'] = dict(shop.new) | {'digest': f'"sha256:{"a" * 64}"'}
    denied_since('', f'digest = "sha256:{"a" * 64}"')(shop)


def denied_since_by_a_digest_of_another_algorithm(shop: Workshop) -> None:
    digest = hashlib.sha512(shop.new_file.read_bytes()).hexdigest()
    denied_since('', f'digest = "sha512:{digest}"')(shop)


def denied_since_with_a_new_image_for_it(shop: Workshop) -> None:
    """The new one, by another name, is what the next plan takes; this job goes on with neither."""
    data = build_image(model='d5005', component='fpga', version='2.1.5', security_version=2, size_bytes=20_000)
    shop.images['fpga-newer'] = shop.new | entry(shop.path('newer.img'), data, version='"2.1.5"', component='"FPGA1_FW"')
    denied_since_by_its_digest(shop)


def the_way_back_in_its_place(shop: Workshop) -> None:
    shop.images['fpga-new'] = dict(shop.images['fpga-old'])


def the_same_bytes_as_a_function(shop: Workshop) -> None:
    shop.images['fpga-new'] |= {'kind': '"function"', 'function': '"fpga"'}
    del shop.images['fpga-new']['restore']


TABLE: tuple[tuple[Attack, Callable[[Workshop], None], str], ...] = (
    (Attack.SWAPPED, another_card, 'has changed since it was planned'),
    (Attack.SWAPPED, an_older_version, 'has changed since it was planned'),
    (Attack.SWAPPED, other_bytes_of_the_same_version, 'has changed since it was planned'),
    (Attack.SWAPPED, a_revocation, 'has changed since it was planned'),
    (Attack.SWAPPED, the_same_bytes_as_another_version, f'is now version 9.9.9, but {NEW} was planned'),
    (Attack.SWAPPED, the_same_bytes_for_other_cards, 'does not fit this device, as catalogue and BMC are now'),
    (Attack.SWAPPED, the_same_bytes_for_another_component, 'does not fit this device, as catalogue and BMC are now'),
    (Attack.SWAPPED, the_same_bytes_of_a_lower_security_version, 'has changed since it was planned'),
    (Attack.SWAPPED, the_same_bytes_over_another_version_only, 'may be written over 1.5.0 only'),
    (Attack.SWAPPED, the_same_bytes_by_name_only, 'fits this device by vendor and model only'),
    (Attack.DOWNGRADE, the_same_bytes_below_a_floor_that_was_raised, 'has security version 2, the floor is 3'),
    (Attack.SWAPPED, nothing_any_more, 'is no longer in the catalogue'),
    (Attack.SWAPPED, the_way_back_in_its_place, 'has changed since it was planned'),
    (Attack.SWAPPED, the_same_bytes_as_a_function, 'has changed since it was planned'),
    (
        Attack.REVOKED,
        denied_since('denied_since_by_its_version', 'component = "FPGA1_*"\nversion = "v2.1.4"'),
        f'version {NEW} is denied: it burns',
    ),
    (
        Attack.REVOKED,
        denied_since('denied_since_by_its_card', f'fits = {FPGA}\nversion = "{NEW}"'),
        f'version {NEW} is denied: it burns',
    ),
    (Attack.REVOKED, denied_since_by_its_digest, f'version {NEW} is denied: it burns'),
    (Attack.REVOKED, denied_since_by_a_digest_of_another_algorithm, 'by the digest of its bytes: it burns'),
    (Attack.REVOKED, a_twin_denied_since_by_its_digest, f'version {NEW} is denied: it burns'),
    (Attack.REVOKED, denied_since_with_a_new_image_for_it, f'version {NEW} is denied: it burns'),
)


def checked(job: Job) -> bool:
    """All images have been."""
    checks = [i.state for i in job.items if isinstance(i.action, CheckImage)]
    assert checks
    return all(state is ItemState.DONE for state in checks)


def failed(job: Job) -> bool:
    """The flash has."""
    return any(isinstance(i.action, Flash) and i.state is ItemState.FAILED for i in job.items)


def once(shop: Workshop, strike: Callable[[Workshop], None], when: Callable[[Job], bool]) -> Callable[[Job, Tools], Tools]:
    """The operator's files are changed at that moment, and read anew from then on."""
    left = [strike]

    def between(job: Job, tools: Tools) -> Tools:
        if left and when(job):
            left.pop()(shop)
            shop.lay()
            return shop.session()[1]
        return tools

    return between


@pytest.mark.parametrize(('_', 'strike', 'says'), TABLE, ids=[row[1].__name__ for row in TABLE])
def test_a_name_that_stands_for_something_else_now_is_not_written(_, strike, says, clocked):
    """The job fails with the image and the reason; nothing has reached a BMC, and no host was restarted for it."""
    outcome = turned(clocked, lambda tools: tools, once(clocked, strike, checked))
    assert isinstance(outcome, Failed)
    assert [r for r in outcome.reasons if 'fpga-new' in r and says in r], outcome.reasons
    assert [] == reached(clocked.machine)
    assert 0 == clocked.machine.truth()['systems']['host']['resets']


def older_bytes(shop: Workshop) -> None:
    data = build_image(model='d5005', component='fpga', version='1.0.0', security_version=1, size_bytes=20_000)
    shop.path('older.img').write_bytes(data)
    shop.describe('fpga-old', data)
    shop.images['fpga-old'] |= {'source': '"older.img"', 'security_version': '1', 'version': '"1.0.0"'}


def a_twin_that_is_denied(shop: Workshop) -> None:
    shop.tail += f'\n[[deny]]\nfits = [{{ pci = "0x8086:0x0b2b" }}]\nversion = "{OLD}"\nreason = "it burns"\n'


def denied_meanwhile_by_its_digest(shop: Workshop) -> None:
    denied_since('', f'digest = {shop.images["fpga-old"]["digest"]}')(shop)


def denied_meanwhile_by_a_digest_of_another_algorithm(shop: Workshop) -> None:
    digest = hashlib.sha512(shop.path('fpga-old.img').read_bytes()).hexdigest()
    denied_since('', f'digest = "sha512:{digest}"')(shop)


def by_name_only(shop: Workshop) -> None:
    shop.images['fpga-old'] |= {'fits': '[{ vendor = "Intel", model = "FPGA PAC D5005" }]'}


def below_a_floor_that_was_raised(shop: Workshop) -> None:
    shop.baseline += 'security_floor = 3\n'


WAY_BACK: tuple[tuple[Attack, Callable[[Workshop], None], str], ...] = (
    (Attack.SWAPPED, older_bytes, 'has changed since it was planned'),
    (Attack.REVOKED, a_twin_that_is_denied, 'it burns'),
    (Attack.REVOKED, denied_meanwhile_by_its_digest, 'it burns'),
    (Attack.REVOKED, denied_meanwhile_by_a_digest_of_another_algorithm, 'by the digest of its bytes: it burns'),
    (Attack.SWAPPED, by_name_only, 'fits this device by vendor and model only'),
    (Attack.DOWNGRADE, below_a_floor_that_was_raised, 'has security version 2, the floor is 3'),
)


@pytest.mark.parametrize(('_', 'strike', 'says'), WAY_BACK, ids=[row[1].__name__ for row in WAY_BACK])
def test_a_way_back_that_the_operator_would_not_go_any_more_is_not_gone(_, strike, says, clocked):
    """The flash has failed, and what would put it back is refused by now: nobody uses the card, and that is said."""
    clocked.machine.fault('task-fails', count=1)
    outcome = turned(clocked, lambda tools: tools, once(clocked, strike, failed))
    assert isinstance(outcome, Failed), outcome
    assert [r for r in outcome.reasons if 'fpga-old' in r and says in r], outcome.reasons
    assert [told(clocked.new_file)] == pushed(clocked.machine)
    assert 1 == len(outcome.quarantined)
