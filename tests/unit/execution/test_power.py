# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A switch of power that its BMC refuses fails only where the System is not as it was wanted."""

from types import SimpleNamespace

import pytest

from baremetal_acc.errors import BmcNotAuthorised, BmcRefusalReason, BmcRefused, BmcUnreachable, BmcUnsupported
from baremetal_acc.execution.power import switch
from baremetal_acc.model.inventory import PowerState
from tests.unit.planning import values as v

ON, OFF = PowerState.ON, PowerState.OFF


class Bmc:
    """Answers every switch with an error, and shows a power state after it, or raises another error."""

    def __init__(self, error, shows):
        self.error, self.shows, self.asked = error, shows, []

    def set_power(self, system, wanted):
        self.asked.append(wanted)
        raise self.error

    def power(self, system):
        self.asked.append('power')
        if isinstance(self.shows, Exception):
            raise self.shows
        return self.shows


def switched(bmc, wanted):
    """What the shell was told."""
    told = []
    tools = SimpleNamespace(polling=None, power_changed=lambda system, power: told.append((system, power)))
    switch(bmc, v.SYSTEM, wanted, tools)
    return told


def refusal(reason):
    return BmcRefused(bmc='host', what='it is so already', reason=reason)


@pytest.mark.parametrize('reason', BmcRefusalReason)
@pytest.mark.parametrize(
    ('wanted', 'shows'), [(OFF, OFF), (OFF, PowerState.POWERING_OFF), (ON, ON), (ON, PowerState.POWERING_ON)]
)
def test_a_refused_switch_of_a_system_that_is_so_already_or_becomes_so_is_no_failure(wanted, shows, reason):
    """Asked once, read once, and the shell is told as of any other."""
    bmc = Bmc(refusal(reason), shows)
    assert [(v.SYSTEM, wanted)] == switched(bmc, wanted)
    assert [wanted, 'power'] == bmc.asked


@pytest.mark.parametrize(
    ('wanted', 'shows'),
    [
        (OFF, ON),
        (OFF, PowerState.POWERING_ON),
        (OFF, PowerState.PAUSED),
        (OFF, PowerState.UNKNOWN),
        (OFF, BmcUnreachable(bmc='host', what='no answer')),
        (ON, OFF),
        (ON, PowerState.POWERING_OFF),
        (ON, PowerState.UNKNOWN),
    ],
)
def test_a_refused_switch_of_a_system_that_is_not_so_fails_with_the_refusal(wanted, shows):
    """Also where nobody knows: what is not read off is not off."""
    error = refusal(BmcRefusalReason.INVALID_REQUEST)
    with pytest.raises(BmcRefused) as caught:
        switched(Bmc(error, shows), wanted)
    assert error is caught.value


@pytest.mark.parametrize(
    'error',
    [
        BmcUnsupported(bmc='host', what='no'),
        BmcNotAuthorised(bmc='host', what='no'),
        BmcUnreachable(bmc='host', what='no', sent=False),
    ],
)
def test_what_is_no_refusal_of_the_switch_is_told_as_it_is(error):
    """Without another read."""
    bmc = Bmc(error, OFF)
    with pytest.raises(type(error)):
        switched(bmc, OFF)
    assert [OFF] == bmc.asked


@pytest.mark.parametrize(
    ('wanted', 'shows', 'arrived'), [(OFF, OFF, True), (OFF, ON, False), (ON, PowerState.POWERING_ON, True)]
)
def test_a_switch_whose_answer_is_lost_is_looked_at_again(wanted, shows, arrived):
    """It may have arrived."""
    lost = BmcUnreachable(bmc='host', what='no answer; it may have arrived')
    bmc = Bmc(lost, shows)
    if arrived:
        assert [(v.SYSTEM, wanted)] == switched(bmc, wanted)
    else:
        with pytest.raises(BmcUnreachable, match='may have arrived'):
            switched(bmc, wanted)
    assert [wanted, 'power'] == bmc.asked
