# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render why a hand-over certificate does not hold."""

from datetime import datetime
from typing import assert_never

from baremetal_acc.model import certificate_fault as f
from baremetal_acc.model.certificate_fault import CardFault, CertificateFault


def sentence(fault: CertificateFault) -> str:
    """Say in one sentence why a certificate does not hold."""
    match fault:
        case f.AnotherNode():
            return f'the certificate is for node {fault.node}, not for {fault.expected}'
        case f.AnotherInstance(instance=None):
            return f'the certificate is for no instance, not for {fault.expected}'
        case f.AnotherInstance():
            return f'the certificate is for instance {fault.instance}, not for {fault.expected}'
        case f.AnotherLifecycle():
            since = ': the node has come back since' if fault.lifecycle < fault.expected else ''
            return f'the certificate is for lifecycle {fault.lifecycle} of the node, not for {fault.expected}{since}'
        case f.AnotherDeployment():
            return f'the certificate is for deployment {fault.deployment}, not for {fault.expected}'
        case f.IssuedInFuture():
            return f'the certificate was issued in the future, at {_time(fault.issued)}'
        case f.InspectedAtOtherTime():
            return f'the certificate was issued at {_time(fault.issued)}, from an inspection at {_time(fault.looked)}'
        case f.CertificateExpired():
            return f'the certificate expired at {_time(fault.expires)}'
        case f.NoAcceleratorListed():
            return 'the certificate lists no accelerator'
        case f.AcceleratorListedTwice():
            return 'the certificate lists an accelerator twice'
        case f.AcceleratorNotListed():
            return f'{fault.accelerator} is expected, but is not in the certificate'
        case f.WaiverHasExpired(waiver=waiver):
            lock = f'the lock of {waiver.path} (rule {waiver.rule})'
            return f'{waiver.accelerator}: the waiver of {waiver.role} for {lock} expired at {_time(waiver.expires)}'
        case f.OfCard():
            return f'{fault.label} ({fault.accelerator}): {_of_card(fault)}'
        case _:
            assert_never(fault)


def _of_card(fault: CardFault) -> str:
    chain = 'its chain of custody'
    match fault:
        case f.PathNotBlocked():
            return f'{fault.path} must be blocked (rule {fault.rule}), but is {fault.state}'
        case f.NoUnbrokenChain():
            return f'a chain of custody is required (rule {fault.rule}), but none holds'
        case f.ChainEndsEarly():
            return f'{chain} must reach to the inspection (rule {fault.rule}), but ends before it'
        case f.ChainTooWeak():
            return f'{chain} must be evidenced (rule {fault.rule}), but is {fault.strength}'
        case f.AcceptanceHasExpired():
            return f'the acceptance by {", ".join(fault.by)} expired at {_time(fault.until)}'
        case f.ChainIncomplete():
            return f'{chain} lacks its origin, its beginning, its end or its strength'
        case f.ChainHasGap():
            return f'{chain} has evidence until {_time(fault.reached)}, but continues at {_time(fault.continues)}'
        case f.ChainReachesElsewhere():
            return f'{chain} has evidence until {_time(fault.reached)}, but is said to reach to {_time(fault.reaches)}'
        case f.ChainReachesPastIssue():
            return f'{chain} reaches to {_time(fault.reaches)}, after the certificate was issued'
        case f.ChainOfOtherStrength():
            return f'{chain} is said to be {fault.said}, but its intervals are {fault.found}'
        case f.ChainWithoutEvidence():
            return f'{chain} begins with a write, but has no evidence of the time since then'
        case f.AcceptanceWithoutEnd():
            return f'{chain} begins with an acceptance, but does not say by whom and until when'
        case _:
            assert_never(fault)


def _time(at: datetime) -> str:
    return f'{at:%Y-%m-%d %H:%M:%S}Z'
