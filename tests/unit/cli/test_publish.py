# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Of which devices it is said that somebody else may have proven their locks."""

import pytest

from baremetal_acc.cli.commands.publish import _may_be_proven
from baremetal_acc.model.lock import LockState
from baremetal_acc.planning.verify import verify
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.scheduling.offer_report import OfferedBy, OfferReport, Withheld
from tests.unit.planning import values as v


@pytest.mark.parametrize(
    ('state', 'expected'), [(LockState.LOCKED_REPORTED, True), (LockState.UNLOCKED, False), (LockState.UNKNOWN, False)]
)
def test_a_lock_that_reads_closed_may_be_proven_by_somebody_else(state, expected):
    """An open one is not, though a rule that takes locked-reported is told with that word."""
    accept = frozenset({LockState.LOCKED_VERIFIED} | ({LockState.LOCKED_REPORTED} if not expected else set()))
    seen = v.inventory(v.gpu(firmware=(v.component(version=v.NEW),), locks=(v.reading(state),)))
    found = verify(seen, v.baseline(accept=accept), v.NODE, (), (), lifecycle=v.LIFECYCLE)
    why = Withheld(is_shared=False, findings=found.unmet)
    device = OfferReport(label='x', provider='p', offers=(), why=why)
    assert found.unmet
    assert expected is _may_be_proven(device)


def test_what_is_offered_or_shared_is_not_waited_for():
    """Nothing of it is withdrawn for a lock."""
    for why in (Withheld(is_shared=True, findings=()), OfferedBy(how=Offering.DEVICE, rule='r')):
        assert not _may_be_proven(OfferReport(label='x', provider='p', offers=(), why=why))
