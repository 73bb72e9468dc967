# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A host that has to be off before its BMC is read counts as off only when its power state is read as off."""

import contextlib
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from baremetal_acc.errors import BmcBusy, BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.model.inventory import PowerState
from baremetal_acc_ironic.state import handover
from tests.unit.planning import values as v

ON, OFF = PowerState.ON, PowerState.OFF
REFUSED = BmcRefused(bmc='host', what='not now', reason=BmcRefusalReason.INVALID_REQUEST)
CHANGING = BmcRefused(bmc='host', what='it changes', reason=BmcRefusalReason.CONFLICT)
BUSY = BmcBusy(bmc='host', what='the power state does not allow Off now')
LOST = BmcUnreachable(bmc='host', what='no answer')
UNSENT = BmcUnreachable(bmc='host', what='no connection', sent=False)


@pytest.mark.parametrize(
    ('shown', 'answer', 'expected'),
    [
        ([OFF], None, True),
        ([ON, OFF], None, True),
        ([ON, ON], None, False),
        ([ON, OFF, OFF], REFUSED, True),
        ([ON, PowerState.POWERING_OFF, ON], REFUSED, False),
        ([ON, ON], REFUSED, REFUSED),
        ([ON, ON], CHANGING, False),
        ([ON, OFF, OFF], BUSY, True),
        ([ON, ON], BUSY, False),
        ([ON, OFF, OFF], LOST, True),
        ([ON, ON], LOST, False),
        ([ON, ON], UNSENT, UNSENT),
    ],
)
def test_a_host_is_off_when_it_is_read_off(
    shown: list[PowerState], answer: Exception | None, expected: bool | Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was answered to the order; one that may have arrived is waited for, and one that has not fails."""
    states, told = iter(shown), []

    class Bmc:
        def power(self, _: object) -> PowerState:
            return next(states)

        def set_power(self, _: object, wanted: PowerState) -> None:
            told.append(wanted)
            if answer is not None:
                raise answer

    @contextlib.contextmanager
    def sessions(*_: object) -> Iterator[dict[str, Bmc]]:
        yield {'host': Bmc()}

    monkeypatch.setattr(handover, 'sessions', sessions)
    monkeypatch.setattr(handover, 'target_of', lambda _: None)
    monkeypatch.setattr(handover.node_store, 'held', lambda _: None)
    task: Any = SimpleNamespace(node=SimpleNamespace())
    tools: Any = SimpleNamespace(polling=None, power_changed=lambda *_: None)
    if isinstance(expected, Exception):
        with pytest.raises(type(expected)):
            handover.locked_out(task, tools, v.SYSTEM)
    else:
        assert expected is handover.locked_out(task, tools, v.SYSTEM)
    assert [OFF] * (len(shown) > 1) == told
