# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A rule says whether the function of a slot stays on offer when somebody who had the machine has left it."""

from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.model.action import Program
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.planning.plan import Part, plan
from baremetal_acc.policy.baseline import parse
from baremetal_acc.policy.baseline_rules import Offering, OnLeave
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.scheduling import schedulable
from tests.unit.planning import values as v

GZIP = v.function_image(name='img-gzip', function='gzip')
SLOT0, SLOT1 = (v.FPGA, 'Slot0'), (v.FPGA, 'Slot1')
OTHER = (AcceleratorId('uuid:somebody-else'), 'Slot0')
SEEN = v.inventory(v.fpga())


def rules(*lines: str):
    return parse('format = 1\n[[rule]]\nname = "r"\n' + '\n'.join(lines) + '\n', 'baseline.toml')


def offered(baseline, *left):
    verdict = Verdict(target='node-1', findings=())
    return dict(schedulable.supply(SEEN, verdict, baseline, v.NODE, (GZIP,), left=frozenset(left)).functions)


def test_what_a_slot_holds_stays_on_offer_unless_a_rule_removes_it():
    """That is what was done before there was the key, and what keeps a shelf full."""
    wanted = demands(rules('block = []'), v.fpga(), v.NODE)
    assert (OnLeave.KEEP, 'default') == (wanted.on_leave, wanted.on_leave_rule)
    assert {SLOT0: 'gzip'} == offered(rules('block = []'), SLOT0)
    assert {SLOT0: 'gzip'} == offered(rules('on_leave = "keep"'), SLOT0)


def test_a_slot_that_somebody_has_left_offers_nothing_where_a_rule_removes_it():
    """That slot, and no other one, and no slot that nobody has had."""
    removing = rules('on_leave = "remove"')
    assert (OnLeave.REMOVE, 'r') == (lambda w: (w.on_leave, w.on_leave_rule))(demands(removing, v.fpga(), v.NODE))
    assert {} == offered(removing, SLOT0)
    assert {SLOT0: 'gzip'} == offered(removing)
    assert {SLOT0: 'gzip'} == offered(removing, SLOT1, OTHER)
    assert frozenset({SLOT0}) == schedulable.removed(SEEN, removing, v.NODE, frozenset({SLOT0, OTHER}))


@pytest.mark.parametrize('how', [h for h in Offering if h is not Offering.FUNCTION])
def test_only_functions_go(how):
    """A region is claimed whatever it holds, and its next tenant chooses; a whole card is not claimed as a function."""
    wanted = replace(demands(rules('on_leave = "remove"'), v.fpga(), v.NODE), offer=how)
    assert not schedulable.goes(v.fpga(), wanted)
    assert schedulable.goes(v.fpga(), replace(wanted, offer=Offering.FUNCTION))
    assert schedulable.goes(v.fpga(), replace(wanted, offer=None))
    assert not schedulable.goes(v.gpu(), replace(wanted, offer=None))


def test_the_first_rule_that_has_the_key_decides():
    """As with every key."""
    text = 'format = 1\n[[rule]]\nmatch = { kind = "GPU" }\non_leave = "remove"\n[[rule]]\non_leave = "keep"\n'
    wanted = demands(parse(text, 'baseline.toml'), v.fpga(), v.NODE)
    assert (OnLeave.KEEP, 'rule-2') == (wanted.on_leave, wanted.on_leave_rule)


def test_what_cannot_be_meant_is_refused_with_its_line():
    """A rule that is misspelt must not keep what was to go."""
    with pytest.raises(DocumentError) as caught:
        rules('on_leave = "delete"')
    assert 'baseline.toml' in str(caught.value)
    assert 'keep, remove' in str(caught.value)


def test_all_slots_of_a_machine_are_remembered():
    """Whatever they hold, since what is in them when they come back is somebody's."""
    assert frozenset({SLOT0, SLOT1}) == schedulable.slots(v.inventory(v.gpu(), v.fpga()))


def test_a_demanded_function_is_written_again_into_a_slot_that_was_left():
    """Though the slot seems to hold it: that is what puts it on offer again."""
    demanding = rules('on_leave = "remove"', 'functions = { "Slot0" = "gzip" }', 'block = []')

    def programs(*left):
        found = plan(SEEN, demanding, v.NODE, (GZIP,), parts=frozenset({Part.FUNCTIONS}), anew=frozenset(left))
        assert () == found.refusals
        return [(a.accelerator, a.slot) for a in found.actions if isinstance(a, Program)]

    assert [] == programs()
    assert [SLOT0] == programs(SLOT0)
    assert [] == programs(SLOT1, OTHER)


def test_only_a_function_that_was_written_well_counts_as_programmed():
    """One that failed, and one that was put back, leave the slot as it was left."""
    demanding = rules('functions = { "Slot0" = "gzip" }', 'block = []')
    made: Plan = plan(SEEN, demanding, v.NODE, (GZIP,), parts=frozenset({Part.FUNCTIONS}), anew=frozenset({SLOT0}))
    job = begin(
        made,
        identity='1',
        node='n',
        flow=Flow.CLEAN,
        step='s',
        lifecycle=1,
        now=v.NOW,
        timeout=timedelta(hours=1),
        requester='x',
        demands_met=False,
    )

    def after(state: ItemState, **changes):
        return schedulable.programmed(replace(job, items=tuple(replace(i, state=state, **changes) for i in job.items)))

    assert frozenset({SLOT0}) == after(ItemState.DONE)
    assert frozenset() == after(ItemState.DONE, restoring=True)
    for state in set(ItemState) - {ItemState.DONE}:
        assert frozenset() == after(state)
