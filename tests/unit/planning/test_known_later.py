# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan cannot know before it is executed is listed in it, and told by its cause where it comes to pass."""

from dataclasses import replace

import pytest

from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.job import Failed
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.planning.plan import plan
from tests.unit.execution.bench import Bench, Connection, Machine
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

TEXT = 'the BMC may hide cards while the host is off, which is seen only then; hidden cards are not changed'


def notes(*, hold: bool, power: PowerState = PowerState.ON, version: str = v.OLD) -> list[str]:
    """The texts of a plan to write a card, on a host that is held off or not."""
    inventory = v.inventory(v.gpu(firmware=(v.component(version=version),)))
    inventory = replace(inventory, bmcs=tuple(replace(b, power=power) for b in inventory.bmcs))
    made = plan(inventory, v.baseline(), v.NODE, (v.image(reset=ResetKind.NONE),), hold=hold)
    return [note.text for note in refusal_words.notes(made.notes)]


def test_a_plan_that_powers_the_host_off_says_what_is_seen_only_then():
    """And no other: a host that is off already has shown its cards so, and nothing is written to a card that is right."""
    assert TEXT in notes(hold=True)
    for other in ({'hold': False}, {'hold': True, 'power': PowerState.OFF}, {'hold': True, 'version': v.NEW}):
        assert TEXT not in notes(**other)


@pytest.mark.parametrize('hold', [True, False])
def test_a_card_that_is_hidden_while_the_host_is_off_fails_with_that_reason(hold):
    """Nothing was sent. A card that is gone on a host that nobody has powered off is only that."""
    machine = Machine(protects_all=True)

    class Hides(Connection):
        def look(self, now):
            found = super().look(now)
            gone = machine.power is PowerState.OFF or (bench.now > v.NOW and not hold)
            return replace(found, accelerators=() if gone else found.accelerators)

    bench = Bench(machine=machine)
    bench.tools = replace(bench.tools, connect=lambda _: Hides(machine))
    _, outcome = bench.run(bench.job(hold=hold))
    assert isinstance(outcome, Failed)
    assert not any(entry.startswith('push') for entry in machine.log)
    told = [reason for reason in outcome.reasons if 'the BMC no longer shows the card' in reason]
    assert told
    assert hold is any('now that its host is off, and nothing on the card was changed' in reason for reason in told)
