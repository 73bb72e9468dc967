# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A device is not promised twice because two providers stand for it."""

from dataclasses import replace

from baremetal_acc.model.provider import ProviderTree
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling import provider_names, providers
from baremetal_acc.scheduling.providers import overlapping
from baremetal_acc.scheduling.schedulable import Offer
from tests.unit.planning.values import FPGA, GPU, fpga, gpu, inventory

NODE = '5a5b5c5d-0000-4000-8000-000000000001'
SECOND = AcceleratorId('uuid:gpu-1')
TOGETHER = Offer(how=Offering.TOGETHER)


def tree(offers: dict[AcceleratorId, Offer] | None = None) -> ProviderTree:
    seen = inventory(gpu(), gpu(id=SECOND), fpga())
    return providers.tree(seen, Verdict(target='node-1', findings=()), NODE, {}, offers or {})


CARD = provider_names.card_uuid(NODE, FPGA)
SLOTS = {provider_names.slot_uuid(NODE, FPGA, name) for name in ('Slot0', 'Slot1')}
GPUS = {provider_names.card_uuid(NODE, GPU), provider_names.card_uuid(NODE, SECOND)}
ALL = provider_names.together_uuid(NODE, gpu())
COUNTED = tree({GPU: TOGETHER, SECOND: TOGETHER})


def test_a_card_and_its_slots_are_one_device() -> None:
    """And slots beside each other are not."""
    assert SLOTS == overlapping({CARD}, tree())
    for slot in SLOTS:
        assert {CARD} == overlapping({slot}, tree())
    assert SLOTS == overlapping({CARD, GPU}, tree())


def test_who_is_asked_for_is_no_answer() -> None:
    """Neither alone nor beside what it overlaps with."""
    assert frozenset() == overlapping(GPUS, tree())
    assert frozenset() == overlapping({CARD, *SLOTS}, tree())
    assert frozenset() == overlapping((), tree(), COUNTED)


def test_what_stands_for_several_stands_for_each_of_their_kind() -> None:
    """One tree has them alone, and the other one together: both count."""
    assert {ALL} == overlapping({provider_names.card_uuid(NODE, GPU)}, tree(), COUNTED)
    assert GPUS == overlapping({ALL}, tree(), COUNTED)
    assert GPUS == overlapping({ALL}, COUNTED, tree())


def test_another_make_of_a_kind_may_be_the_same_devices() -> None:
    """A BMC shows a model at one time and PCI ids at another, and the number of devices goes by either."""
    nameless = inventory(*(replace(g, model=None) for g in (gpu(), gpu(id=SECOND))))
    other = providers.tree(nameless, Verdict(target='node-1', findings=()), NODE, {}, {GPU: TOGETHER, SECOND: TOGETHER})
    assert {p.uuid for p in other.providers} == overlapping({ALL}, COUNTED, other)


def test_a_parent_counts_as_it_is_and_as_it_is_wanted() -> None:
    """A slot that lies below a wrong card in placement is still of that card until it is moved."""
    slot = min(SLOTS)
    wrong = min(GPUS)
    moved = tuple(replace(p, parent_uuid=wrong) if p.uuid == slot else p for p in tree().providers)
    actual = replace(tree(), providers=moved)
    assert {CARD, wrong} == overlapping({slot}, actual, tree())
    assert {slot} == overlapping({wrong}, actual, tree())
