# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Issue the hand-over certificate of a node, and say what a certificate proves and what it does not.

A certificate is made from one inventory read, the verdict on it and our own records of locks. No certificate is issued while
any demand is not met. The locks are judged again here: a write path that the rules want blocked and that is neither
``locked-verified`` nor waived by name prevents the certificate, whatever the verdict says.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from baremetal_acc.certificates.validity import FRESH, is_proven, is_unbroken
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
from baremetal_acc.model.custody import NO_CUSTODY, CardCustody, Custody, Origin
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
        if path.demanded and not is_proven(path, (card.id, path.path) in waived):
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
            if card.custody is not None and card.custody.origin is origin and is_unbroken(card.custody):
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
    unknown = [card.label for card in c.accelerators if not is_unbroken(card.custody)]
    if unknown:
        yield f'who has written what runs, since no chain of custody holds: {", ".join(unknown)}'
    written = [card.label for card in c.accelerators if is_unbroken(card.custody) and card.custody.origin is Origin.WRITTEN]
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
