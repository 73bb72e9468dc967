# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The judge of a race sees what is wrong, and only that. Records written by hand."""

from typing import Any

import pytest

from tests.race import judge
from tests.race.oracle import Snapshot
from tests.race.proxy import Delivery
from tests.race.publishers import Op
from tests.race.world import NODE_CLASS, Machine, Place, Truth

MACHINE = Machine(0, flat=False, seed=1)
TRUE = MACHINE.offers(Truth())
GPU = (MACHINE.gpus[0], 'PGPU')
SLOT = (MACHINE.slots[0], 'CUSTOM_ACC_FN_GZIP')


def published(start: float, end: float, **other: Any) -> Op:
    values = {'who': 'p00', 'kind': 'publish', 'offers': TRUE, 'writer': 'a'} | other
    return Op(machine=0, start=start, end=end, **values)


def withdrawn(start: float, end: float, **other: Any) -> Op:
    return published(start, end, **{'kind': 'withdraw all', 'offers': None, 'scope': MACHINE.ours} | other)


def claimed(at: float, place: Place, status: int = 204, had: dict[Place, int] | None = {}) -> Delivery:  # noqa: B006
    body = {'allocations': {place[0]: {'resources': {place[1]: 1}}}, 'consumer_generation': 1 if had else None}
    return Delivery('c00', 'PUT', '/allocations/x', body, at, '', answered=at + 0.1, status=status, had=had)


def seen(at: float, offers: dict[Place, int], generation: int = 1) -> Snapshot:
    stocks = {place: (n, 0, 1) for place, n in offers.items()} | {(MACHINE.root, NODE_CLASS): (1, 0, 1)}
    return Snapshot(at, at + 0.01, {MACHINE.root: (generation, MACHINE.root, None)}, stocks, {}, {})


def wrong(ops: list[Op], deliveries: list[Delivery] = [], snapshots: list[Snapshot] = []) -> list[str]:  # noqa: B006
    verdict = judge.judge([MACHINE], ops, deliveries, snapshots, 0.0, 100.0, {0: {}})
    return [text for _, _, text in verdict.wrong]


def test_what_was_published_may_be_claimed() -> None:
    """Once it is, and while it becomes so."""
    ops = [published(10, 12)]
    assert [] == wrong(ops, [claimed(11, GPU), claimed(20, SLOT)], [seen(20, TRUE)])


def test_a_claim_after_a_withdrawal_is_a_ghost() -> None:
    """And one that was under way when the withdrawal was is none."""
    ops = [published(10, 12), withdrawn(20, 22)]
    assert [] == wrong(ops, [claimed(21.95, GPU)])
    (text,) = wrong(ops, [claimed(22.5, GPU)])
    assert text.startswith('a ghost was claimed: 1 PGPU of GPU 0, after p00 withdraw all: ok')


def test_what_a_consumer_has_it_may_claim_again_after_a_withdrawal() -> None:
    """Placement asks for no more than it has; what it has of another device does not count, and of one it has too little."""
    ops = [published(10, 12), withdrawn(20, 22, outcome='busy', left=(SLOT[0],))]
    assert [] == wrong(ops, [claimed(30, GPU, had={GPU: 1})])
    assert 1 == len(wrong(ops, [claimed(30, GPU, had={SLOT: 1})]))
    assert 1 == len(wrong(ops, [claimed(30, GPU, had={GPU: 0})]))


def test_nothing_is_said_of_a_consumer_that_nobody_knows() -> None:
    """Placement stumbled over a claim of it: it may have what it claims now."""
    assert [] == wrong([published(10, 12), withdrawn(20, 22)], [claimed(30, GPU, had=None)])


def test_an_offer_after_a_withdrawal_is_a_ghost_before_anybody_claims_it() -> None:
    """The database shows it."""
    ops = [published(10, 12), withdrawn(20, 22)]
    (text,) = wrong(ops, [], [seen(30, {GPU: 1})])
    assert text.startswith('a ghost is on offer: 1 PGPU of GPU 0')


def test_what_nobody_published_is_a_ghost() -> None:
    """A function that the slot does not hold."""
    assert 1 == len(wrong([published(10, 12)], [claimed(20, (MACHINE.slots[0], 'CUSTOM_ACC_FN_AES'))]))


def test_a_refused_claim_is_no_ghost() -> None:
    """Placement kept it away."""
    assert [] == wrong([published(10, 12), withdrawn(20, 22)], [claimed(30, GPU, status=409)])


def test_what_was_taken_off_the_shelf_and_put_back_is_there_as_it_was() -> None:
    """All of it; where somebody has published meanwhile, that. What was not taken off after all is there, too."""
    ops = [published(10, 12), withdrawn(20, 22, kind='shelve'), published(30, 32, kind='put back')]
    assert [] == wrong(ops, [claimed(40, GPU)], [seen(25, {}), seen(50, TRUE)])
    (text,) = wrong(ops, [], [seen(50, {GPU: 1})])
    assert text.startswith('not as it was said')
    (text,) = wrong(ops, [claimed(25, GPU)])
    assert text.startswith('a ghost was claimed')
    between = published(26, 28, who='p01', offers={GPU: 1})
    assert [] == wrong([*ops[:2], between, ops[2]], [], [seen(50, {GPU: 1})])
    refused = withdrawn(20, 22, kind='shelve', outcome='busy', scope=None)
    assert [] == wrong([ops[0], refused], [claimed(40, GPU)])


def test_of_two_at_once_the_last_one_wins_whichever_it_is() -> None:
    """A conductor that was thought dead publishes while another one withdraws: nobody can promise anything."""
    ops = [withdrawn(20, 22), published(21, 23, who='p01')]
    assert [] == wrong(ops, [claimed(30, GPU)], [seen(40, {})])


def test_after_a_failed_publication_all_of_it_may_be_there_and_after_a_withdrawal_nothing() -> None:
    """Whatever of it is on its way still."""
    lost = published(10, 12, outcome='lost')
    assert [] == wrong([lost], [claimed(20, GPU)], [seen(30, {})])
    assert 1 == len(wrong([lost, withdrawn(13, 14)], [claimed(15, GPU)]))


def test_what_somebody_holds_may_stay_when_it_is_withdrawn() -> None:
    """The refusal named it; all else is gone."""
    ops = [published(10, 12), withdrawn(20, 22, outcome='busy', left=(GPU[0],))]
    assert [] == wrong(ops, [claimed(30, GPU)])
    assert 1 == len(wrong(ops, [claimed(30, SLOT)]))


def test_what_was_published_and_is_not_there_is_wrong() -> None:
    """Success is that placement agrees."""
    (text,) = wrong([published(10, 12)], [], [seen(20, {GPU: 1})])
    assert text.startswith('not as it was said')


def test_a_write_to_a_root_is_wrong() -> None:
    """It is Nova's; its generation moves when somebody claims of it."""
    note = Delivery('p00', 'PUT', f'/resource_providers/{MACHINE.root}/traits', {'traits': []}, 20, '', answered=21, status=200)
    assert wrong([], [note])[0].startswith('wrote to a root')
    looks = [seen(20, {}, generation=1), seen(21, {}, generation=2)]
    assert ['the generation of its root moved without a claim'] == wrong([], [], looks)
    assert [] == wrong([], [claimed(20.5, (MACHINE.root, NODE_CLASS))], looks)


@pytest.mark.parametrize('method', ['PUT', 'DELETE'])
def test_a_publisher_that_claims_is_wrong(method: str) -> None:
    """Never for anybody."""
    note = Delivery('p00', method, '/allocations/x', {'allocations': {}}, 20, '', answered=21, status=204)
    assert wrong([], [note])[0].startswith('claims')


def test_hardware_that_two_hold_is_seen_whatever_it_was_claimed_as() -> None:
    """A card whole and by its slots; GPUs together and one by one."""
    whole, several = (MACHINE.card, 'FPGA'), (MACHINE.several, 'PGPU')
    assert [] == MACHINE.promised_twice({GPU: 1, several: 1, SLOT: 1})
    assert 1 == len(MACHINE.promised_twice({whole: 1, SLOT: 1}))
    assert 1 == len(MACHINE.promised_twice({several: 2, GPU: 1}))
    assert 1 == len(MACHINE.promised_twice({SLOT: 1, (SLOT[0], 'FPGA'): 1}))
    assert 1 == len(MACHINE.promised_twice({(MACHINE.root, NODE_CLASS): 2}))
