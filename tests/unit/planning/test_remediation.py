# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a plan mends, and what it has to say that it does not."""

import pytest

from baremetal_acc.model.finding import FindingText
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.refusal import MayHideDevices, NoAccelerators, NoSlot, Refusal
from baremetal_acc.model.subject import Subject
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.planning import remediation
from baremetal_acc.planning.plan import EVERYTHING, Part, plan
from tests.unit.planning import refusal_words
from tests.unit.planning import values as v

OTHER = AcceleratorId('uuid:another')


def finding(subject, accelerator=v.GPU, **other):
    what = {'label': 'H100', 'fact': FindingText(expected='this', found='that'), 'met': Met.NO, 'rule': 'r'}
    return Finding(accelerator=accelerator, subject=Subject.from_text(subject), **(what | other))


def planned(*locks, **rule):
    rules = v.baseline(functions=(('Slot0', 'gzip'),), **rule)
    cards = (v.gpu(locks=locks), v.fpga(slots=(v.slot(0, function=None),)))
    images = (v.image(), v.function_image())
    return plan(v.inventory(*cards), rules, v.NODE, images, parts=EVERYTHING - {Part.PUBLISH})


OPEN = v.reading(LockState.UNLOCKED)


@pytest.mark.parametrize(
    ('found', 'mends'),
    [
        (finding('firmware GPU_0'), True),
        (finding('firmware RoT_0'), False),
        (finding('firmware GPU_0', OTHER), False),
        (finding('function Slot0', v.FPGA), True),
        (finding('function Slot1', v.FPGA), False),
        (finding('lock'), True),
        (finding('lock host-device'), True),
        (finding('lock host-bmc-ipmi'), False),
        (finding('lock host-device', OTHER), False),
        (finding('lock rot'), False),
        (finding('users of BMC host'), False),
        (finding('present', OTHER), False),
        (finding('rule gpus'), False),
        (finding('measurement GPU_0'), True),
        (finding('measurement FPGA_0', v.FPGA), False),
        (finding('quarantine'), True),
        (finding('quarantine', OTHER), False),
        (finding('custody'), True),
        (finding('custody', OTHER), False),
    ],
)
def test_an_action_mends_what_it_writes_and_nothing_else(found, mends):
    """A lock that is not shown any more, an account, a card that is away: no action is for them."""
    made = planned(OPEN)
    assert mends == bool(remediation.mendable([found], made))
    assert mends != bool(list(remediation.left([found], made)))


def test_a_lock_of_a_machine_is_engaged_for_all_its_devices():
    """In the name of one of them."""
    whole = v.reading(LockState.UNLOCKED, mechanism='kcs', blocks=frozenset({WritePath.HOST_BMC_IPMI}), scope=Scope.BMC)
    made = planned(whole, block=frozenset({WritePath.HOST_BMC_IPMI}))
    assert remediation.mendable([finding('lock host-bmc-ipmi', OTHER)], made)


def test_what_is_left_names_what_who_and_by_which_rule():
    """The account, its BMC and the rule: whoever reads the plan has to see to it."""
    account = finding(
        'users of BMC host', fact=FindingText(expected='no accounts but admin', found='mallory (administrator)'), rule='all'
    )
    (note,) = remediation.left([account], planned())
    told = 'no action fixes users of BMC host: expected no accounts but admin, found mallory (administrator) (rule all)'
    assert ('H100', told) == refusal_words.notes([note])[0]


def test_what_a_refusal_tells_is_told_once():
    """By it; what else does not hold is told beside it."""

    def refusal(subject, accelerator=None, reason=None):
        return Refusal(accelerator=accelerator, label='x', subject=Subject.from_text(subject), reason=reason or NoSlot())

    hidden = MayHideDevices(gap=Gap(ref=v.ref('Chassis/X'), field=None, reason='HTTP 500', hides=True))
    found = (
        finding('present', None, rule='gpus'),
        finding('present', None, label='/redfish/v1/Chassis/X', rule='default', fact=hidden),
        finding('present', None, label='node', rule='default', fact=NoAccelerators(host_is_off=False)),
        finding('present', None, label='/redfish/v1/Chassis/Y', rule='default', fact=hidden),
        finding('firmware GPU_0'),
        finding('lock host-device'),
        finding('users of BMC host'),
        finding('present', OTHER, rule='default', label=str(OTHER)),
    )
    refusals = (
        refusal('rule gpus'),
        refusal('/redfish/v1/Chassis/X', reason=hidden),
        refusal('accelerators', reason=NoAccelerators(host_is_off=True)),
        refusal('firmware GPU_0', v.GPU),
        refusal('lock host-device', OTHER),
    )
    left = list(remediation.left(found, Plan(target='node-1', actions=(), refusals=refusals)))
    told = [(note.label, str(note.content.subject)) for note in left]
    expected = [
        ('/redfish/v1/Chassis/Y', 'present'),
        ('H100', 'lock host-device'),
        ('H100', 'users of BMC host'),
        (OTHER, 'present'),
    ]
    assert expected == told
