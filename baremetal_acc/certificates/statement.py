# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Issue the hand-over certificate of a node, and check whether a certificate holds for a node now.

A certificate is made from one inventory read, the verdict on it and our own records of locks. No certificate is issued while
any demand is not met. The locks are judged again here: a write path that the rules want blocked and that is neither
``locked-verified`` nor waived by name prevents the certificate, whatever the verdict says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TypeGuard

from baremetal_acc.errors import NotMet
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.certificate import (
    Certificate,
    CertifiedAccelerator,
    CertifiedComponent,
    CertifiedCount,
    CertifiedCustody,
    CertifiedFunction,
    CertifiedGap,
    CertifiedLock,
    CertifiedNode,
    CertifiedPath,
    Expected,
    Paper,
)
from baremetal_acc.model.custody import NO_CUSTODY, CardCustody, Custody, CustodyDemand, Origin, Strength, weakest
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement, LockReading, LockState, Scope, WritePath
from baremetal_acc.model.measurement import MeasurementState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.planning import lock_evidence
from baremetal_acc.planning.verify import DEPLOY_ACCEPTS, components_wanted, slots_wanted
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, Baseline, NodeFacts
from baremetal_acc.policy.device_demands import HOST_PATHS, Demands, demands

FRESH = timedelta(minutes=15)
"""Maximum age of the inventory that a certificate is made from. The slowest permitted read takes 5 minutes
(``observe_timeout``), and a lock step before it takes some more; anything read longer ago does not belong to this deploy.
"""

SKEW = timedelta(minutes=5)
"""How far the clocks of two machines may differ: a certificate issued later than that in the future is invalid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """For which node, when and by whom a certificate is issued.

    The fields are those of :class:`~baremetal_acc.model.certificate.Certificate`.

    :ivar known: devices that have to be present.
    :ivar custody: custody of the cards, after the inventory read that the certificate is made from.
    """

    node: CertifiedNode
    lifecycle: int
    proven_in: int
    flow: Flow
    deployment: str
    issued: datetime
    issuer: str
    key: str
    requester: str | None
    baseline: Paper
    catalogue: Paper
    expires: datetime | None = None
    known: frozenset[AcceleratorId] = frozenset()
    custody: Custody = NO_CUSTODY


def issue(
    inventory: Inventory,
    verdict: Verdict,
    baseline: Baseline,
    node: NodeFacts,
    engagements: Iterable[Engagement],
    occasion: Occasion,
    sentence: Callable[[Finding], str],
) -> Certificate:
    """Issue the certificate of what was proven.

    :param inventory: as it was read, not yet judged; its measurements say what they were compared with.
    :param engagements: our own records: only they make a reading ``locked-verified``.
    :param sentence: renders an unmet finding.
    :raises NotMet: not everything was proven; each reason names card and path.
    """
    records = lock_evidence.Records(engagements)
    reasons = list(map(sentence, verdict.unmet))
    reasons += _not_this_look(inventory, verdict, occasion)
    cards = []
    for accelerator in inventory.accelerators:
        wanted = demands(baseline, accelerator, node)
        card = _card(accelerator, wanted, records, occasion)
        reasons += _open(card, verdict, occasion)
        cards.append(card)
    if reasons:
        raise NotMet(dict.fromkeys(reasons), hint='no certificate is issued, and the node is not handed over without one')
    return Certificate(
        node=occasion.node,
        lifecycle=occasion.lifecycle,
        proven_in=occasion.proven_in,
        flow=occasion.flow,
        deployment=occasion.deployment,
        looked=inventory.at,
        issued=occasion.issued,
        expires=occasion.expires,
        issuer=occasion.issuer,
        key=occasion.key,
        requester=occasion.requester,
        exposure=str(node.exposure),
        baseline=occasion.baseline,
        catalogue=occasion.catalogue,
        expected=Expected(
            devices=tuple(sorted(occasion.known or {a.id for a in inventory.accelerators})),
            rules=tuple(
                CertifiedCount(rule=r.name, count=r.count) for r in baseline.rules if r.count is not None and r.match.node(node)
            ),
        ),
        accelerators=tuple(cards),
        waivers=verdict.waived,
        relaxations=verdict.relaxed,
        gaps=tuple(CertifiedGap(ref=g.ref, field=g.field, reason=g.reason) for g in inventory.gaps),
    )


def holds(
    certificate: Certificate,
    *,
    now: datetime,
    node: str | None = None,
    lifecycle: int | None = None,
    deployment: str | None = None,
) -> tuple[str, ...]:
    """Return why a certificate does not hold for a node; empty if it does. Parameters that are None are not checked.

    The signature was checked before. The contents are judged again here: a certificate that contradicts itself does not hold,
    whoever signed it.

    :param node: UUID, or the name if the node has no UUID.
    """
    return tuple(_against(certificate, now, node, lifecycle, deployment))


def _against(
    certificate: Certificate, now: datetime, node: str | None, lifecycle: int | None, deployment: str | None
) -> Iterator[str]:
    name = certificate.node.uuid or certificate.node.name
    if node is not None and node != name:
        yield f'the certificate is for node {name}, not for {node}'
    if lifecycle is not None and lifecycle != certificate.lifecycle:
        since = ': the node has come back since' if certificate.lifecycle < lifecycle else ''
        yield f'the certificate is for lifecycle {certificate.lifecycle} of the node, not for {lifecycle}{since}'
    if deployment is not None and deployment != certificate.deployment:
        yield f'the certificate is for deployment {certificate.deployment}, not for {deployment}'
    if certificate.issued > now + SKEW:
        yield f'the certificate was issued in the future, at {_time(certificate.issued)}'
    if not timedelta(0) <= certificate.issued - certificate.looked <= FRESH:
        yield f'the certificate was issued at {_time(certificate.issued)}, from an inspection at {_time(certificate.looked)}'
    if certificate.expires is not None and certificate.expires <= now:
        yield f'the certificate expired at {_time(certificate.expires)}'
    there = [card.id for card in certificate.accelerators]
    if not there:
        yield 'the certificate lists no accelerator'
    if len(set(there)) != len(there):
        yield 'the certificate lists an accelerator twice'
    for missing in sorted(set(certificate.expected.devices) - set(there)):
        yield f'{missing} is expected, but is not in the certificate'
    waived = set()
    for waiver in certificate.waivers:
        if waiver.expires > now:
            waived.add((waiver.accelerator, waiver.path))
        else:
            yield (
                f'{waiver.accelerator}: the waiver of {waiver.role} for the lock of {waiver.path} (rule {waiver.rule}) expired '
                f'at {_time(waiver.expires)}'
            )
    for card in certificate.accelerators:
        for path in card.paths:
            if path.demanded and not _proven(path, (card.id, path.path) in waived):
                yield f'{card.label} ({card.id}): {path.path} must be blocked (rule {path.rule}), but is {path.state}'
        yield from _chain_against(card, certificate.issued)
        yield from _custody_against(card, certificate.looked, now)


def _custody_against(card: CertifiedAccelerator, looked: datetime, now: datetime) -> Iterator[str]:
    """Yield how the custody of a card contradicts the demand in the certificate, or has ended."""
    said = card.custody
    if said is None or said.demand is CustodyDemand.REPORTED:
        return
    name = f'{card.label} ({card.id})'
    if not _unbroken(said):
        yield f'{name}: a chain of custody is required (rule {said.rule}), but none holds'
    elif said.reaches is None or said.reaches < looked:
        yield f'{name}: its chain of custody must reach to the inspection (rule {said.rule}), but ends before it'
    elif said.demand is CustodyDemand.EVIDENCED and said.strength is not Strength.EVIDENCED:
        yield f'{name}: its chain of custody must be evidenced (rule {said.rule}), but is {said.strength}'
    elif said.until is not None and said.until <= now:
        yield f'{name}: the acceptance by {", ".join(said.by)} expired at {_time(said.until)}'


def _chain_against(card: CertifiedAccelerator, issued: datetime) -> Iterator[str]:
    """Yield how the custody chain of a card contradicts itself, whatever the rules demand of it.

    Each interval begins where the one before it ended. An interval may end before it began, and the chain may begin after the
    certificate was issued: the clock of the machine that read the card may have been set back.
    """
    said = card.custody
    if said is None:
        return
    chain = f'{card.label} ({card.id}): its chain of custody'
    if said.origin is None or said.begun is None or said.reaches is None or said.strength is None:
        if (said.origin, said.begun, said.reaches, said.strength, said.broken) != (None,) * 5 or said.intervals:
            yield f'{chain} lacks its origin, its beginning, its end or its strength'
        return
    reached = said.begun
    for interval in said.intervals:
        if interval.since != reached:
            yield f'{chain} has evidence until {_time(reached)}, but continues at {_time(interval.since)}'
        reached = interval.until
    if said.reaches != reached:
        yield f'{chain} has evidence until {_time(reached)}, but is said to reach to {_time(said.reaches)}'
    if said.broken is None and said.reaches > issued + SKEW:
        yield f'{chain} reaches to {_time(said.reaches)}, after the certificate was issued'
    if said.strength is not weakest(said.intervals):
        yield f'{chain} is said to be {said.strength}, but its intervals are {weakest(said.intervals)}'
    if said.origin is Origin.WRITTEN and said.broken is None and not said.intervals:
        yield f'{chain} begins with a write, but has no evidence of the time since then'
    if said.origin is Origin.ACCEPTED and (said.until is None or not said.by):
        yield f'{chain} begins with an acceptance, but does not say by whom and until when'


def _unbroken(said: CertifiedCustody | None) -> TypeGuard[CertifiedCustody]:
    return said is not None and said.origin is not None and said.broken is None


def _proven(path: CertifiedPath, waived: bool) -> bool:
    """Whether a path is proven blocked. A waiver replaces a mechanism that does not exist, never one that is open."""
    return path.state in DEPLOY_ACCEPTS or (waived and path.state is LockState.UNSUPPORTED)


def _not_this_look(inventory: Inventory, verdict: Verdict, occasion: Occasion) -> Iterator[str]:
    """Yield why a verdict and an inventory do not belong to this occasion."""
    if verdict.target != inventory.target:
        yield f'the verdict is on {verdict.target}, but the inspection is of {inventory.target}'
    if not timedelta(0) <= occasion.issued - inventory.at <= FRESH:
        yield f'{inventory.target} was inspected at {_time(inventory.at)}, which is too far from now ({_time(occasion.issued)})'
    if not inventory.accelerators:
        yield f'{inventory.target}: no accelerator was found'
    for vanished in sorted(occasion.known - {a.id for a in inventory.accelerators}):
        yield f'{vanished}: the card was found before, but is absent now'
    for gap in inventory.gaps:
        if gap.hides:
            yield f'{gap.ref}: there may be devices behind this resource, which could not be read: {gap.reason}'


def _open(card: CertifiedAccelerator, verdict: Verdict, occasion: Occasion) -> Iterator[str]:
    """Yield the paths that the rules want blocked and that were not proven so, whatever the verdict says."""
    waived = {(w.accelerator, w.path) for w in verdict.waived if w.expires > occasion.issued}
    for path in card.paths:
        if path.demanded and not _proven(path, (card.id, path.path) in waived):
            yield f'{card.label}, lock {path.path}: expected locked-verified, found {path.state} (rule {path.rule})'


def _card(
    accelerator: Accelerator,
    wanted: Demands,
    records: lock_evidence.Records,
    occasion: Occasion,
) -> CertifiedAccelerator:
    flow = occasion.flow if occasion.flow is Flow.DEPLOY else None
    judged = tuple(lock_evidence.judge(r, records.at(r), lifecycle=occasion.proven_in, flow=flow) for r in accelerator.locks)
    return CertifiedAccelerator(
        id=accelerator.id,
        identity=accelerator.identity,
        kind=accelerator.kind,
        label=accelerator.label,
        vendor=accelerator.vendor,
        model=accelerator.model,
        part_number=accelerator.part_number,
        serial=accelerator.serial,
        uuid=accelerator.uuid,
        location=accelerator.location,
        pci=accelerator.pci,
        ref=accelerator.primary,
        firmware=_firmware(accelerator, wanted),
        functions=_functions(accelerator, wanted),
        paths=tuple(_path(accelerator, wanted, path, judged) for path in WritePath),
        locks=tuple(_lock(reading, records, occasion) for reading in judged),
        measurements=accelerator.measurements or (),
        custody=_custody(occasion.custody.of(accelerator.id), wanted),
    )


def _custody(card: CardCustody, wanted: Demands) -> CertifiedCustody:
    said = CertifiedCustody(demand=wanted.custody, rule=wanted.custody_rule)
    chain = card.chain
    if chain is None:
        return said
    return replace(
        said,
        origin=chain.origin,
        begun=chain.begun,
        by=chain.by,
        until=chain.until,
        reason=chain.reason,
        reaches=chain.reaches,
        strength=chain.strength,
        covers_own_processor=chain.covers_own_processor,
        intervals=chain.intervals,
        broken=chain.broken,
    )


def _firmware(accelerator: Accelerator, wanted: Demands) -> tuple[CertifiedComponent, ...]:
    demanded = {component for component, _, _ in components_wanted(accelerator, wanted)}
    return tuple(
        CertifiedComponent(id=c.id, ref=c.ref, version=c.version, rule=wanted.firmware_rule if c in demanded else None)
        for c in accelerator.firmware
    )


def _functions(accelerator: Accelerator, wanted: Demands) -> tuple[CertifiedFunction, ...]:
    demanded = {slot for slot, _ in slots_wanted(accelerator, wanted)}
    in_slots = [(s.slot_id, s.function, wanted.functions_rule if s in demanded else None) for s in accelerator.slots]
    held = {f.ref for _, f, _ in in_slots if f is not None}
    loose = [(None, f, None) for f in accelerator.functions if f.ref not in held]
    return tuple(
        CertifiedFunction(
            slot=slot,
            id=None if function is None else function.id,
            name=None if function is None else function.name,
            version=None if function is None else function.version,
            uuid=None if function is None else function.uuid,
            rule=rule,
        )
        for slot, function, rule in (*in_slots, *loose)
    )


def _path(accelerator: Accelerator, wanted: Demands, path: WritePath, judged: tuple[LockReading, ...]) -> CertifiedPath:
    covered = lock_evidence.coverage(accelerator, path, judged)
    # A part that a waiver may cover must not hide a part that it may not.
    closable = [c for c in covered if c.state not in DEPLOY_ACCEPTS and c.state is not LockState.UNSUPPORTED]
    state = lock_evidence.weakest(closable or covered).state
    return CertifiedPath(path=path, demanded=path in wanted.block, rule=wanted.block_rule, state=state)


def _lock(reading: LockReading, records: lock_evidence.Records, occasion: Occasion) -> CertifiedLock:
    ours = [
        e
        for e in records.at(reading)
        if e.part == reading.part
        and (
            reading.scope is Scope.BMC or e.accelerator == reading.accelerator
        )  # a lock of a whole machine is engaged once for all cards
        and e.lifecycle == occasion.proven_in
        and (occasion.flow is not Flow.DEPLOY or e.flow == occasion.flow)
    ]
    record = max(ours, key=lambda e: e.at) if ours else None
    return CertifiedLock(
        mechanism=reading.mechanism,
        scope=reading.scope,
        part=reading.part,
        blocks=reading.blocks,
        ref=reading.ref,
        field=reading.field,
        value=reading.value,
        state=reading.state,
        reason=reading.reason,
        at=reading.at,
        session=reading.session,
        needs=reading.needs,
        engaged=None if record is None else record.at,
        lifecycle=None if record is None else record.lifecycle,
    )


_ORIGINS: Mapping[Origin, str] = {
    Origin.WRITTEN: 'the operator has written these cards',
    Origin.MEASURED: 'these cards have signed measurements of what they ran',
    Origin.ACCEPTED: 'these persons answer for what these cards ran',
}


def _custody_text(card: CertifiedAccelerator) -> str:
    """Describe a card: when its chain began, by what, and how strong the evidence is."""
    said = card.custody
    if said is None or said.begun is None:
        return card.label
    by = f' by {", ".join(said.by)}' if said.origin is Origin.ACCEPTED else ''
    why = '' if said.reason is None else f': {said.reason}'
    until = '' if said.until is None else f' until {_time(said.until)}'
    covers = ', '.join(dict.fromkeys(i.cover for i in said.intervals))
    return f'{card.label} ({_time(said.begun)}{by}{until}{why}; {said.strength}{": " if covers else ""}{covers})'


def _time(at: datetime) -> str:
    return f'{at:%Y-%m-%d %H:%M:%S}Z'


# ------------------------------------------------------------------------------------------------------------------- claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What a certificate that holds proves to its reader, and what it does not prove; one sentence each."""

    proves: tuple[str, ...]
    does_not_prove: tuple[str, ...]


def claims(certificate: Certificate) -> Claims:
    """Say for people what follows from a certificate. The certificate is not judged here; see :func:`holds`."""
    return Claims(proves=tuple(_proves(certificate)), does_not_prove=tuple(_does_not_prove(certificate)))


def _proves(c: Certificate) -> Iterator[str]:
    name = c.node.name if c.node.uuid is None else f'{c.node.name} ({c.node.uuid})'
    found = f'{len(c.accelerators)} {"accelerator" if len(c.accelerators) == 1 else "accelerators"}'
    yield (
        f'{c.issuer} inspected {name} through its BMCs at {_time(c.looked)}, and found {found}, '
        'with none of the expected ones missing'
    )
    yield f'everything met {c.baseline.name} ({c.baseline.digest}) with {c.catalogue.name} ({c.catalogue.digest})'
    for path in WritePath:
        cards = [card.label for card in c.accelerators for p in card.paths if p.path is path and p.state in DEPLOY_ACCEPTS]
        if cards:
            yield f'{path} was blocked by locks that were engaged in this lifecycle and read back: {", ".join(cards)}'
    firmware = [f'{card.label} {f.id} {f.version}' for card in c.accelerators for f in card.firmware if f.rule is not None]
    if firmware:
        yield f'this firmware ran, as the BMC reports and as rules demand: {", ".join(firmware)}'
    functions = [f'{card.label} {f.slot} {f.name or f.id}' for card in c.accelerators for f in card.functions if f.rule]
    if functions:
        yield f'these functions were in their slots, as rules demand: {", ".join(functions)}'
    for origin in Origin:
        by_paths: dict[tuple[WritePath, ...], list[str]] = {}
        for card in c.accelerators:
            if card.custody is not None and card.custody.origin is origin and _unbroken(card.custody):
                blocked = sorted(p.path for p in card.paths if p.demanded and p.path in HOST_PATHS)
                by_paths.setdefault(tuple(blocked), []).append(_custody_text(card))
        for paths, told in by_paths.items():
            # Locks cover only the paths that rules want blocked.
            by = f' by {", ".join(paths)}' if paths else ''
            text = f'since then, until the inspection, no other code on the host could write them{by}'
            yield f'{_ORIGINS[origin]}, and {text}: {", ".join(told)}'
    measured = sorted({card.label for card in c.accelerators for m in card.measurements if m.state is MeasurementState.PROVEN})
    if measured:
        yield f'what runs was measured and signed by the roots of trust of these devices: {", ".join(measured)}'


def _does_not_prove(c: Certificate) -> Iterator[str]:
    yield f'anything after {_time(c.looked)}, which the watch checks'
    yield 'that a write from the host fails: only the configuration of the locks was read back'
    yield 'what a BMC does not report, or reports wrongly, unless a device has signed it'
    for path in sorted(HOST_PATHS):  # the operator's own path (bmc-network) need not be closed
        cards = [
            f'{card.label} ({p.state}, rule {p.rule})'
            for card in c.accelerators
            for p in card.paths
            if p.path is path and not p.demanded and p.state not in DEPLOY_ACCEPTS
        ]
        if cards:
            yield f'that {path} is blocked, which no rule demands: {", ".join(cards)}'
    for w in c.waivers:
        waived = f'{w.role} has waived it until {_time(w.expires)} (rule {w.rule}): {w.reason}'
        yield f'that {w.path} of {w.label} is blocked: {waived}'
    for r in c.relaxations:
        whose = '' if r.rule == DEFAULT_RULE else f'rule {r.rule}: '
        yield f'as much as the default rules for a tenant: {whose}{r.text}'
    unknown = [card.label for card in c.accelerators if not _unbroken(card.custody)]
    if unknown:
        yield f'who has written what runs, since no chain of custody holds: {", ".join(unknown)}'
    written = [card.label for card in c.accelerators if _unbroken(card.custody) and card.custody.origin is Origin.WRITTEN]
    if written:
        yield f'that a card has stored the image that it was sent, which only its own updater reports: {", ".join(written)}'
    own = [card.label for card in c.accelerators if card.custody is not None and not card.custody.covers_own_processor]
    if own:
        yield f'what the processor of the card itself runs: {", ".join(own)}'
    unmeasured = [
        card.label for card in c.accelerators if not any(m.state is MeasurementState.PROVEN for m in card.measurements)
    ]
    if unmeasured:
        yield f'what the device runs by its own signature: {", ".join(unmeasured)}'
    signed = [(card.label, m) for card in c.accelerators for m in card.measurements if m.state is MeasurementState.PROVEN]
    alone = dict.fromkeys(f'{label} ({m.integrity})' for label, m in signed if not m.is_compared)
    if alone:
        yield f'that these signed measurements belong to the versions, since none has a reference value: {", ".join(alone)}'
    if c.gaps:
        first = c.gaps[0]
        more = f', and {len(c.gaps) - 1} more' if len(c.gaps) > 1 else ''
        where = first.ref if first.field is None else f'{first.ref} {first.field}'
        yield f'what could not be read: {where}: {first.reason}{more}'
