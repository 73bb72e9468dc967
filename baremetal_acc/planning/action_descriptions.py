# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Describe actions, and what BMCs report against them, in a few words for logs and errors."""

from baremetal_acc.model.action import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.inventory import Complaint
from baremetal_acc.model.job_item import Item
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.planning import activation


def objected(item: Item) -> str:
    """Return the objection with which a BMC accepted a request, as the end of a sentence; empty if it made none."""
    return '' if item.objection is None else f' (the BMC accepted it with the message: {item.objection.text})'


def complained(complaint: Complaint) -> str:
    """Return what a task reports against a component, with the names of the component where the text lacks them."""
    named = any(name in complaint.text for name in complaint.names)
    return complaint.text if named else f'{", ".join(complaint.names)}: {complaint.text}'


def describe(action: Action) -> str:
    """Describe an action in a few words, for logs and errors."""
    match action:
        case Flash():
            return f'flash {action.component} of {action.accelerator} with {action.image}'
        case Program():
            return f'program {action.slot} of {action.accelerator} with {action.function}'
        case Reset():
            if action.kind is ResetKind.AUX_POWER_CYCLE:
                return f'cycle the standby power of {action.system}'
            if action.kind is activation.BY_HAND:
                return f'wait for a person to unplug and replug the power cord of {action.system}'
            verb = {ResetPurpose.HOLD: 'power off', ResetPurpose.RESUME: 'power on', ResetPurpose.ENFORCE: 'reset'}
            return f'{verb[action.purpose]} {action.system}'
        case Release():
            return f'release {action.mechanism} of {_protected(action)} at {action.ref}'
        case Engage():
            return f'engage {action.mechanism} of {_protected(action)} at {action.ref}'
        case RestoreSetting():
            return f'restore {action.setting} of BMC {action.ref.bmc} at {action.ref.uri}'
        case SetCardSetting():
            return f'set {action.setting} of {action.accelerator} to {action.value} at {action.ref}'
        case CheckImage():
            return f'check image {action.image}'
        case Withdraw():
            return 'withdraw from placement'
        case Publish():
            return 'publish to placement'


def _protected(action: Release | Engage) -> str:
    """Name what a lock protects: a lock of a whole machine protects its BMC, though it is engaged in the name of one card."""
    return f'BMC {action.ref.bmc}' if action.scope is Scope.BMC else action.accelerator
