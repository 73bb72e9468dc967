# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which findings fail a step of Ironic, and which fail a command: the same ones."""

import pytest

from baremetal_acc.cli import target_verdict
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning.relevance import FIRMWARE, FUNCTIONS, LOCKING, relevant
from baremetal_acc_ironic.steps import definitions
from tests.unit.planning import values as v


def finding(about: str, accelerator=v.GPU) -> Finding:
    fact = FindingText(expected='a', found='b')
    return Finding(accelerator=accelerator, label='x', subject=Subject.from_text(about), fact=fact, met=Met.NO, rule='r')


UNMET = (
    finding('firmware GPU_0'),
    finding('lock host-device'),
    finding('rule r', v.FPGA),
    finding('lock host-device', v.FPGA),
    finding('function Slot0', v.FPGA),
    finding('function Slot1', v.FPGA),
    finding('function'),
    finding('present', None),
    finding('users of BMC host'),
)


@pytest.mark.parametrize(
    ('kinds', 'devices', 'slots', 'expected'),
    [
        (None, None, (), '|'.join(str(f.subject) for f in UNMET)),
        (frozenset(), None, (), ''),
        (None, {v.GPU}, (), 'firmware GPU_0|lock host-device|function|present|users of BMC host'),
        (LOCKING, None, (), 'lock host-device|rule r|lock host-device|present|users of BMC host'),
        (LOCKING, {v.FPGA}, (), 'rule r|lock host-device|present'),
        (FIRMWARE, None, (), 'firmware GPU_0|lock host-device|rule r|lock host-device|present'),
        (FUNCTIONS, {v.FPGA}, (), 'rule r|lock host-device|function Slot0|function Slot1|present'),
        (FUNCTIONS, {v.FPGA}, ('SLOT1',), 'rule r|lock host-device|function Slot1|present'),
        (FUNCTIONS, {v.FPGA}, ('slot[1-9]', 'Slot0'), 'rule r|lock host-device|function Slot0|function Slot1|present'),
        (FUNCTIONS, {v.GPU}, ('Slot0',), 'lock host-device|function|present'),
    ],
)  # fmt: skip
def test_what_fails_it_is_about_it_or_is_hidden(kinds, devices, slots, expected):
    """A device that no rule can be told of, and one that is hidden, fail whatever closes locks, also where others are named."""
    found = relevant(UNMET, kinds, None if devices is None else frozenset(devices), slots)
    assert expected == '|'.join(str(f.subject) for f in found)


@pytest.mark.parametrize(
    ('verb', 'step'),
    [
        (Verb.APPLY, definitions.RECONCILE),
        (Verb.LOCK, definitions.LOCK),
        (Verb.PROGRAM, definitions.PROGRAM),
        (Verb.UNLOCK, definitions.UNLOCK),
    ],
)
@pytest.mark.parametrize('devices', [None, frozenset({v.GPU}), frozenset({v.FPGA})])
def test_a_command_fails_by_what_fails_its_step(verb, step, devices):
    """Where one of them was met by what the other one was not, a card could be taken for locked by the command alone."""
    assert relevant(UNMET, step.concerns, devices) == target_verdict.relevant(
        verb, Verdict(target='node-1', findings=UNMET), devices
    )
