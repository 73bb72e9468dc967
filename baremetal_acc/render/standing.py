# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a device or an FPGA slot is available in placement, or why it is not."""

from typing import assert_never

from baremetal_acc.planning import image_selection
from baremetal_acc.policy.baseline_rules import Offering
from baremetal_acc.render import findings
from baremetal_acc.scheduling import offer_report

_SHARED = 'another machine of its BMC also shows it, and both would offer it'


def why(reason: offer_report.Why) -> str:
    """Say by which rule a device or slot is available in placement, or what keeps it from that."""
    match reason:
        case offer_report.Withheld():
            bad = [f'{f.subject}: {findings.clause(f.fact, f.rule)}' for f in reason.findings]
            return '; '.join([_SHARED, *bad] if reason.is_shared else bad)
        case offer_report.OfferedBy(how=Offering.TOGETHER):
            return f'counted together with all identical devices: {_rule(reason)}'
        case offer_report.OfferedBy():
            return f'its slots are offered: {_rule(reason)}' if reason.by_slots else _rule(reason)
        case offer_report.SlotOffered():
            return f'{_slot(reason)}: {_rule(reason.by)}'
        case offer_report.CardNotMet():
            return 'its card does not meet the rules'
        case offer_report.SlotAmbiguous():
            return 'the BMC shows two slots with this id'
        case _:
            assert_never(reason)


def _rule(by: offer_report.OfferedBy) -> str:
    return f'offer = "{by.how}" of rule {by.rule}'


def _slot(slot: offer_report.SlotOffered) -> str:
    if slot.function is not None:
        return f'it holds {slot.function}'
    if slot.held is None:
        return 'it is empty'
    return f'it holds {image_selection.shown(slot.held)}, which no function of the catalogue certainly is'
