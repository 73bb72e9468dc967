# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a failed flow: what does not fit into it is logged, and it says so."""

import logging

import pytest

from baremetal_acc_ironic.state import provision_state

LOG = 'baremetal_acc_ironic.state.provision_state'


def test_reasons_that_fit_are_all_said_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Up to eight."""
    with caplog.at_level(logging.WARNING, LOG):
        text = provision_state.sentence('n', 'lock_accelerators', [f'card {i} is open' for i in range(8)], 'lock it')
    assert text.startswith('node n: lock_accelerators: card 0 is open; card 1 is open; ')
    assert text.endswith('card 7 is open (lock it)')
    assert [] == caplog.records


def test_reasons_after_the_eighth_are_counted_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    """The text says how many, and where they are; the log has every one."""
    reasons = [f'card {i} is open' for i in range(11)]
    with caplog.at_level(logging.WARNING, LOG):
        text = provision_state.sentence('n', 'lock_accelerators', reasons)
    assert text.endswith('card 7 is open; and 3 more, which the log of the conductor lists')
    assert reasons == [r.getMessage().partition(' of 11: ')[2] for r in caplog.records]
    assert 'Node n: lock_accelerators: reason 11 of 11: card 10 is open' == caplog.records[-1].getMessage()


def test_a_long_reason_is_cut_and_logged_whole(caplog: pytest.LogCaptureFixture) -> None:
    """A message of a BMC may be as long as it likes."""
    reason = 'x' * 5000
    with caplog.at_level(logging.WARNING, LOG):
        text = provision_state.sentence('n', 's', [reason], 'do this')
    assert text.endswith('x... (cut: the log of the conductor has all of it) (do this)')
    assert len(text) < 4100
    assert [f'Node n: s: reason 1 of 1: {reason}'] == [r.getMessage() for r in caplog.records]
