# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check whether a hand-over certificate holds for a node now. Its signature was checked before.

A certificate of an earlier lifecycle, of another deployment, node or instance does not hold, nor does one that contradicts
itself. Each reason is a class of :mod:`baremetal_acc.model.certificate_fault`.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TypeGuard

from baremetal_acc.model import certificate_fault as fault
from baremetal_acc.model.certificate import Certificate, CertifiedAccelerator, CertifiedCustody, CertifiedPath
from baremetal_acc.model.certificate_fault import CertificateFault
from baremetal_acc.model.custody import CustodyDemand, Origin, Strength, weakest
from baremetal_acc.model.lock import LockState
from baremetal_acc.planning.verify import DEPLOY_ACCEPTS

FRESH = timedelta(minutes=15)
"""Maximum age of the inventory that a certificate is made from. The slowest permitted read takes 5 minutes
(``observe_timeout``), and a lock step before it takes some more; anything read longer ago does not belong to this deploy.
"""

SKEW = timedelta(minutes=5)
"""How far the clocks of two machines may differ: a certificate issued later than that in the future is invalid."""


def holds(
    certificate: Certificate,
    *,
    now: datetime,
    node: str | None = None,
    lifecycle: int | None = None,
    deployment: str | None = None,
    instance: str | None = None,
) -> tuple[CertificateFault, ...]:
    """Return why a certificate does not hold for a node; empty if it does. Parameters that are None are not checked.

    The signature was checked before. The contents are judged again here: a certificate that contradicts itself does not hold,
    whoever signed it.

    :param node: UUID, or the name if the node has no UUID.
    :param instance: instance UUID of the node in Ironic.
    """
    name = certificate.node.uuid or certificate.node.name
    found: list[CertificateFault] = []
    if node is not None and node != name:
        found.append(fault.AnotherNode(node=name, expected=node))
    if lifecycle is not None and lifecycle != certificate.lifecycle:
        found.append(fault.AnotherLifecycle(lifecycle=certificate.lifecycle, expected=lifecycle))
    if deployment is not None and deployment != certificate.deployment:
        found.append(fault.AnotherDeployment(deployment=certificate.deployment, expected=deployment))
    if instance is not None and instance != certificate.node.instance:
        found.append(fault.AnotherInstance(instance=certificate.node.instance, expected=instance))
    return (*found, *_against(certificate, now))


def _against(certificate: Certificate, now: datetime) -> Iterator[CertificateFault]:
    """Yield why a certificate holds for no node."""
    if certificate.issued > now + SKEW:
        yield fault.IssuedInFuture(issued=certificate.issued)
    if not timedelta(0) <= certificate.issued - certificate.looked <= FRESH:
        yield fault.InspectedAtOtherTime(issued=certificate.issued, looked=certificate.looked)
    if certificate.expires is not None and certificate.expires <= now:
        yield fault.CertificateExpired(expires=certificate.expires)
    there = [card.id for card in certificate.accelerators]
    if not there:
        yield fault.NoAcceleratorListed()
    if len(set(there)) != len(there):
        yield fault.AcceleratorListedTwice()
    for missing in sorted(set(certificate.expected.devices) - set(there)):
        yield fault.AcceleratorNotListed(accelerator=missing)
    waived = set()
    for waiver in certificate.waivers:
        if waiver.expires > now:
            waived.add((waiver.accelerator, waiver.path))
        else:
            yield fault.WaiverHasExpired(waiver=waiver)
    for card in certificate.accelerators:
        for path in card.paths:
            if path.demanded and not is_proven(path, (card.id, path.path) in waived):
                yield fault.PathNotBlocked(
                    accelerator=card.id, label=card.label, path=path.path, rule=path.rule, state=path.state
                )
        yield from _chain_against(card, certificate.issued)
        yield from _custody_against(card, certificate.looked, now)


def _custody_against(card: CertifiedAccelerator, looked: datetime, now: datetime) -> Iterator[CertificateFault]:
    """Yield how the custody of a card contradicts the demand in the certificate, or has ended."""
    said = card.custody
    if said is None or said.demand is CustodyDemand.REPORTED:
        return
    if not is_unbroken(said):
        yield fault.NoUnbrokenChain(accelerator=card.id, label=card.label, rule=said.rule)
    elif said.reaches is None or said.reaches < looked:
        yield fault.ChainEndsEarly(accelerator=card.id, label=card.label, rule=said.rule)
    elif said.demand is CustodyDemand.EVIDENCED and said.strength is not Strength.EVIDENCED:
        yield fault.ChainTooWeak(accelerator=card.id, label=card.label, rule=said.rule, strength=said.strength)
    elif said.until is not None and said.until <= now:
        yield fault.AcceptanceHasExpired(accelerator=card.id, label=card.label, by=said.by, until=said.until)


def _chain_against(card: CertifiedAccelerator, issued: datetime) -> Iterator[CertificateFault]:
    """Yield how the custody chain of a card contradicts itself, whatever the rules demand of it.

    Each interval begins where the one before it ended. An interval may end before it began, and the chain may begin after the
    certificate was issued: the clock of the machine that read the card may have been set back.
    """
    said, of, label = card.custody, card.id, card.label
    if said is None:
        return
    if said.origin is None or said.begun is None or said.reaches is None or said.strength is None:
        if (said.origin, said.begun, said.reaches, said.strength, said.broken) != (None,) * 5 or said.intervals:
            yield fault.ChainIncomplete(accelerator=of, label=label)
        return
    reached = said.begun
    for interval in said.intervals:
        if interval.since != reached:
            yield fault.ChainHasGap(accelerator=of, label=label, reached=reached, continues=interval.since)
        reached = interval.until
    if said.reaches != reached:
        yield fault.ChainReachesElsewhere(accelerator=of, label=label, reached=reached, reaches=said.reaches)
    if said.broken is None and said.reaches > issued + SKEW:
        yield fault.ChainReachesPastIssue(accelerator=of, label=label, reaches=said.reaches)
    found = weakest(said.intervals)
    if said.strength is not found:
        yield fault.ChainOfOtherStrength(accelerator=of, label=label, said=said.strength, found=found)
    if said.origin is Origin.WRITTEN and said.broken is None and not said.intervals:
        yield fault.ChainWithoutEvidence(accelerator=of, label=label)
    if said.origin is Origin.ACCEPTED and (said.until is None or not said.by):
        yield fault.AcceptanceWithoutEnd(accelerator=of, label=label)


def is_unbroken(said: CertifiedCustody | None) -> TypeGuard[CertifiedCustody]:
    """Whether a chain of custody holds."""
    return said is not None and said.origin is not None and said.broken is None


def is_proven(path: CertifiedPath, waived: bool) -> bool:
    """Whether a path is proven blocked. A waiver replaces a mechanism that does not exist, never one that is open."""
    return path.state in DEPLOY_ACCEPTS or (waived and path.state is LockState.UNSUPPORTED)
