# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A request that was given up does no harm when placement executes it later. A queue in front of it may hold it for minutes."""

import itertools
import json
from typing import Any

import pytest
from keystoneauth1 import exceptions

from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.subject import PRESENT
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.retries import LOST, LOST_SECONDS
from tests.unit.planning.values import GPU
from tests.wire.test_placement import HELD, Adapter, Cloud, gpu_of, slot_of, wanted, writes


class Slow(Adapter):
    """Holds back writes of inventory, and the sender gets no answer.

    :ivar holding: how many more it holds back.
    """

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.holding = 0
        self._held: list[tuple[str, str, dict[str, Any]]] = []

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        if self.holding and method != 'GET' and (url.endswith('/inventories') or url == '/reshaper'):
            self.holding -= 1
            self._held.append((url, method, kwargs))
            raise exceptions.ConnectFailure('gave up')
        return super().request(url, method, **kwargs)

    def arrive(self) -> list[int]:
        """What was held back arrives. :returns: the statuses that placement answers with."""
        held, self._held = self._held, []
        return [super(Slow, self).request(url, method, **kwargs).status_code for url, method, kwargs in held]


def made(adapter: Adapter) -> Publisher:
    return Publisher(PlacementClient(adapter), sleep=lambda seconds: None)


@pytest.fixture
def cloud(url: str) -> Cloud:
    return Cloud(url)


@pytest.fixture
def root(cloud: Cloud) -> str:
    return cloud.root()


@pytest.fixture
def slow(url: str) -> Slow:
    return Slow(url)


def test_an_offer_that_arrives_after_the_withdrawal_is_refused(slow: Slow, cloud: Cloud, root: str) -> None:
    """The publication failed, and its node was withdrawn: there was nothing to withdraw, and the offer was on its way still."""
    publisher = made(slow)
    slow.holding = LOST + 1
    with pytest.raises(PlacementUnreachable):
        publisher.publish(wanted(root))
    publisher.withdraw(root)
    assert {409} == set(slow.arrive())
    assert ({}, {}) == (cloud.offers(gpu_of(root)), cloud.offers(slot_of(root)))


def test_an_offer_of_a_conductor_that_died_is_refused_after_a_withdrawal(slow: Slow, url: str, cloud: Cloud, root: str) -> None:
    """The next conductor cannot know what the dead one has sent, and withdraws the card all the same for good."""
    slow.holding = LOST + 1
    with pytest.raises(PlacementUnreachable):
        made(slow).publish(wanted(root))
    made(Adapter(url)).withdraw(root, frozenset({gpu_of(root)}))
    assert {409} == set(slow.arrive())
    assert {} == cloud.offers(gpu_of(root))


def test_an_offer_that_was_given_up_does_not_undo_what_was_published_since(slow: Slow, cloud: Cloud, root: str) -> None:
    """The card does not hold up any more, and offers nothing: the older publication, which said otherwise, comes too late."""
    publisher = made(slow)
    slow.holding = LOST + 1
    with pytest.raises(PlacementUnreachable):
        publisher.publish(wanted(root))
    unmet = Finding(
        accelerator=GPU, label='H100', subject=PRESENT, fact=FindingText(expected='2.0', found='1.0'), met=Met.NO, rule='all'
    )
    publisher.publish(wanted(root, verdict=Verdict(target='node-1', findings=(unmet,))))
    assert {409} == set(slow.arrive())
    assert {} == cloud.offers(gpu_of(root))
    assert {HELD: (1, 0)} == cloud.offers(slot_of(root))


def test_a_withdrawal_that_was_given_up_does_not_undo_what_was_published_since(slow: Slow, cloud: Cloud, root: str) -> None:
    """The machine is offered again, and stays so."""
    publisher = made(slow)
    publisher.publish(wanted(root))
    slow.holding = LOST + 1
    with pytest.raises(PlacementUnreachable):
        publisher.withdraw(root, frozenset({gpu_of(root)}))
    publisher.publish(wanted(root))
    assert {409} == set(slow.arrive())
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))


def test_an_answer_that_is_lost_is_found_out_by_looking(slow: Slow, cloud: Cloud, root: str) -> None:
    """A server is restarted under us: what was done is seen, what was not is sent again, and what is late is refused."""
    slow.holding = LOST
    made(slow).publish(wanted(root))
    assert ({'PGPU': (1, 0)}, {HELD: (1, 0)}) == (cloud.offers(gpu_of(root)), cloud.offers(slot_of(root)))
    assert {409} == set(slow.arrive())
    assert ({'PGPU': (1, 0)}, {HELD: (1, 0)}) == (cloud.offers(gpu_of(root)), cloud.offers(slot_of(root)))


def test_who_has_waited_for_long_fails_at_the_first_answer_that_is_lost(slow: Slow, root: str) -> None:
    """A timeout of a minute is not waited for four times, with the node's lock in hand."""
    ticks = itertools.count(0.0, LOST_SECONDS)
    publisher = Publisher(PlacementClient(slow), sleep=lambda seconds: None, clock=lambda: next(ticks))
    slow.holding = 1
    with pytest.raises(PlacementUnreachable):
        publisher.publish(wanted(root))


def test_what_was_withdrawn_is_written_once(slow: Slow, root: str) -> None:
    """Nothing more has to be kept away then: one look, and no write."""
    publisher = made(slow)
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    slow.sent.clear()
    assert not publisher.withdraw(root).changed
    assert ['GET /resource_providers'] == slow.sent


def test_a_publication_keeps_nothing_away_that_it_does_not_know_of(slow: Slow, url: str, root: str) -> None:
    """A new process that finds all as it should be writes nothing."""
    made(slow).publish(wanted(root))
    fresh = Adapter(url)
    made(fresh).publish(wanted(root))
    assert [] == writes(fresh.sent)


def test_a_refusal_of_all_offers_for_a_claim_that_is_gone_is_met_by_another_try(slow: Slow, cloud: Cloud, root: str) -> None:
    """Offers take nothing away: whoever was in the way had claimed what is there no more."""
    real, refused = slow.request, []

    def refuse_once(url: str, method: str, **kwargs: Any) -> Any:
        answer = real(url if url != '/reshaper' or refused else '/resource_providers/none/inventories', method, **kwargs)
        if url == '/reshaper' and not refused:
            refused.append(url)
            answer.status_code = 409
            answer._content = json.dumps({'errors': [{'status': 409, 'code': 'placement.inventory.inuse'}]}).encode()
        return answer

    slow.request = refuse_once
    made(slow).publish(wanted(root))
    assert ['/reshaper'] == refused
    assert {'PGPU': (1, 0)} == cloud.offers(gpu_of(root))


def test_a_write_that_changes_nothing_is_tried_again_when_it_is_refused(slow: Slow, cloud: Cloud, root: str) -> None:
    """Whatever placement, or what stands in front of it, says of a claim: nobody can be in the way of it."""
    publisher = made(slow)
    publisher.publish(wanted(root))
    publisher.withdraw(root)
    fresh, refused = made(slow), []
    real = slow.request

    def refuse_once(url: str, method: str, **kwargs: Any) -> Any:
        if method == 'PUT' and not refused:
            refused.append(url)
            answer = real(f'/resource_providers/{root}', 'GET', raise_exc=False)
            answer.status_code = 409
            answer._content = json.dumps({'errors': [{'status': 409, 'code': 'placement.inventory.inuse'}]}).encode()
            return answer
        return real(url, method, **kwargs)

    slow.request = refuse_once
    assert not fresh.withdraw(root).changed
    assert 1 == len(refused)
    assert {} == cloud.offers(gpu_of(root))
