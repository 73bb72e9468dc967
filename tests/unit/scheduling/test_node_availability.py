# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Only a node that could be deployed now has anything on offer; what cleaning says of it stands while cleaning gets on."""

import pytest
from ironic.common import states

from baremetal_acc.scheduling.node_availability import AVAILABLE, FLOWS, Due, NodeAvailability, due, unfit

FIT = NodeAvailability(state=AVAILABLE)


def test_the_names_are_ironics():
    """They are written out, since what is decided knows nothing of Ironic."""
    assert AVAILABLE == states.AVAILABLE
    assert {states.CLEANING, states.CLEANWAIT} == FLOWS


def test_an_available_node_is_fit():
    """What was withdrawn of it is offered again, and what is on offer stays."""
    assert unfit(FIT) is None
    assert Due.OFFER is due(FIT, withdrawn=True)
    assert Due.NOTHING is due(FIT, withdrawn=False)


@pytest.mark.parametrize(
    ('standing', 'why'),
    [
        (NodeAvailability(state=AVAILABLE, maintenance=True), 'it is in maintenance'),
        (NodeAvailability(state='clean wait', maintenance=True), 'it is in maintenance'),
        (NodeAvailability(state='clean wait', retired=True), 'it is retired'),
        (NodeAvailability(state=AVAILABLE, retired=True), 'it is retired'),
        (NodeAvailability(state=AVAILABLE, claimed=True), 'an instance is assigned to it'),
        (NodeAvailability(state=AVAILABLE, exposed=True), 'its cards may have been written since its last cleaning'),
        (NodeAvailability(state=AVAILABLE, exposed=True, retired=True), 'it is retired'),
        (NodeAvailability(state='manageable'), 'it is in state manageable'),
        (NodeAvailability(state='clean failed'), 'it is in state clean failed'),
        (NodeAvailability(state='active', claimed=True), 'it is in state active'),
    ],
)
def test_a_node_that_cannot_be_deployed_is_withdrawn_once(standing, why):
    """And nobody is asked again while it stays so."""
    assert why == unfit(standing)
    assert Due.WITHDRAW is due(standing, withdrawn=False)
    assert Due.NOTHING is due(standing, withdrawn=True)


def test_of_all_states_of_ironic_only_one_may_offer():
    """Those in which a node stays, and those that a later Ironic invents."""
    known = {value for name, value in vars(states).items() if name.isupper() and isinstance(value, str)}
    for state in known - FLOWS - {AVAILABLE}:
        assert Due.WITHDRAW is due(NodeAvailability(state=state), withdrawn=False)


@pytest.mark.parametrize('state', sorted(FLOWS))
@pytest.mark.parametrize('withdrawn', [True, False])
def test_while_a_node_is_cleaned_its_steps_say_what_is_on_offer(state, withdrawn):
    """They know more: what they have just written, and what they have verified."""
    assert unfit(NodeAvailability(state=state, said=True)) is None
    assert Due.NOTHING is due(NodeAvailability(state=state, said=True), withdrawn=withdrawn)
    assert Due.NOTHING is due(NodeAvailability(state=state, said=True, claimed=True), withdrawn=withdrawn)


@pytest.mark.parametrize('state', sorted(FLOWS))
def test_until_one_of_them_has_said_it_nothing_is(state):
    """What is there was said before this cleaning: the node went from available to it within one round."""
    assert 'it is being cleaned and is not verified yet' == unfit(NodeAvailability(state=state))
    assert Due.WITHDRAW is due(NodeAvailability(state=state), withdrawn=False)
    assert Due.NOTHING is due(NodeAvailability(state=state), withdrawn=True)


def test_what_somebody_was_about_to_offer_again_counts_as_neither():
    """A conductor may die in between: an unfit node is withdrawn again, a fit one offered."""
    assert Due.WITHDRAW is due(NodeAvailability(state='manageable'), withdrawn=True, doubtful=True)
    assert Due.OFFER is due(FIT, withdrawn=True, doubtful=True)
    assert Due.NOTHING is due(FIT, withdrawn=False, doubtful=True)
