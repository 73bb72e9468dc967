# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is handed over, in writing: the document that says what was proven of a node before somebody else gets it.

It is about one node, one life of it and one deployment. Who signs it, and how it is checked, is not its business
(:mod:`baremetal_acc.handover.seal`); what may be written into it neither (:mod:`baremetal_acc.decide.certificate`).
"""

from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

from baremetal_acc.errors import CertificateInvalid, StaleJob
from baremetal_acc.model import codec
from baremetal_acc.model.accelerator import IdentitySource, Kind, PciIds
from baremetal_acc.model.custody import Break, Interval, Origin, Strength
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.measurement import MeasurementReading
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.waiver import Relaxation, Waived

FORMAT = 1

_LEFT_OUT = 'left-out'
"""Of a field: it is left out of the document where it is None, so that older documents stay what they were signed as."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedNode:
    """Which machine.

    :ivar uuid: as Ironic knows it; None for a target of the command line, which has no other name than ``name``.
    :ivar instance: what Ironic calls the instance on it, or None.
    """

    uuid: str | None
    name: str
    instance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document of the operator by which it was judged.

    :ivar name: of the file.
    :ivar digest: ``sha256:...`` of its bytes.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedComponent:
    """What a firmware component runs. ``rule`` demands this very version; None: no rule speaks of it."""

    id: str | None
    ref: Ref
    version: str | None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedFunction:
    """What a slot holds; ``slot`` is None for a function of a card without slots. ``rule`` as for components."""

    slot: str | None
    id: str | None
    name: str | None = None
    version: str | None = None
    uuid: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedPath:
    """How one write path to a card is blocked, at its weakest place. ``unsupported``: nothing there can block it.

    :ivar demanded: the rules demand that it is blocked; ``rule`` is the one that says so, or that leaves it out.
    """

    path: WritePath
    demanded: bool
    rule: str
    state: LockState


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedLock:
    """One reading of one mechanism; the fields are those of :class:`~baremetal_acc.model.lock.LockReading`.

    :ivar engaged: when we engaged it, for those that were; the reading is younger and went over another session.
    :ivar lifecycle: of the node when it was engaged.
    """

    mechanism: str
    scope: Scope
    part: str | None
    blocks: frozenset[WritePath]
    ref: Ref
    field: str
    value: str | None
    state: LockState
    reason: str | None
    at: datetime
    session: str
    needs: ResetKind
    engaged: datetime | None = None
    lifecycle: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCustody:
    """The chain of custody of a card; the fields are those of :class:`~baremetal_acc.model.custody.Chain`.

    :ivar origin: None: no chain has begun. Then ``begun`` and ``reaches`` are None, too.
    :ivar demand: what the rules make of it: ``evidenced``, ``required`` or ``reported``; ``rule`` is the one that says so.
    """

    demand: str
    rule: str
    origin: Origin | None = None
    begun: datetime | None = None
    by: tuple[str, ...] = ()
    until: datetime | None = None
    reason: str | None = None
    reaches: datetime | None = None
    strength: Strength | None = None
    covers_own_processor: bool = True
    intervals: tuple[Interval, ...] = ()
    broken: Break | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedAccelerator:
    """One card.

    :ivar custody: None, and left out of the document, in those that were issued before there was such a field.
    """

    id: AcceleratorId
    identity: IdentitySource
    kind: Kind
    label: str
    vendor: str | None
    model: str | None
    part_number: str | None
    serial: str | None
    uuid: str | None
    location: str | None
    pci: PciIds
    ref: Ref
    firmware: tuple[CertifiedComponent, ...]
    functions: tuple[CertifiedFunction, ...]
    paths: tuple[CertifiedPath, ...]
    locks: tuple[CertifiedLock, ...]
    measurements: tuple[MeasurementReading, ...]
    custody: CertifiedCustody | None = field(default=None, metadata={_LEFT_OUT: True})


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCount:
    """How many devices a rule demands, and as many there are."""

    rule: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """Which devices had to be there; all of them were.

    :ivar devices: seen when the node was last found as it should be.
    :ivar rules: that count devices.
    """

    devices: tuple[AcceleratorId, ...]
    rules: tuple[CertifiedCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedGap:
    """Something that could not be read, and that hides no device."""

    ref: Ref
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """By what a certificate is found again; the fields are those of :class:`Certificate`."""

    node: CertifiedNode
    lifecycle: int
    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """What was proven of a node for one deployment.

    :ivar lifecycle: of the node while it is handed over; it ends when the node comes back.
    :ivar proven_in: the life of the node in which the locks were engaged: the one before, where a hand-over begins a new one.
    :ivar deployment: made for this deployment alone; a later one has another, whatever becomes of the counter.
    :ivar looked: when the look began that all of it is from, UTC.
    :ivar key: SHA-256 of the public key that it is signed with.
    :ivar exposure: whose code runs on the node.
    :ivar waivers: paths that are open by leave of somebody.
    :ivar relaxations: what the rules ask less than they ask of a tenant's node by default.
    """

    node: CertifiedNode
    lifecycle: int
    proven_in: int
    flow: Flow
    deployment: str
    looked: datetime
    issued: datetime
    expires: datetime | None
    issuer: str
    key: str
    requester: str | None
    exposure: str
    baseline: Paper
    catalogue: Paper
    expected: Expected
    accelerators: tuple[CertifiedAccelerator, ...]
    waivers: tuple[Waived, ...] = ()
    relaxations: tuple[Relaxation, ...] = ()
    gaps: tuple[CertifiedGap, ...] = ()
    format: int = FORMAT

    @property
    def reference(self) -> Reference:
        """By what it is found again."""
        return Reference(node=self.node, lifecycle=self.lifecycle, deployment=self.deployment)


def document(certificate: Certificate) -> Any:
    """Its JSON: objects with the names of the fields."""
    return _plain(certificate)


def read(data: object) -> Certificate:
    """The certificate that :func:`document` made the JSON from.

    :raises CertificateInvalid: it is none of this format; or it says something in another way than we would.
    """
    if not isinstance(data, dict):
        raise CertificateInvalid('it is no object')
    if data.get('format') != FORMAT or isinstance(data.get('format'), bool):
        raise CertificateInvalid(f'it has another format than {FORMAT}', hint='check it with the version that issued it')
    try:
        certificate = codec.decode(Certificate, data)
    except StaleJob as exc:
        raise CertificateInvalid(f'it is no certificate: {exc.message}') from None
    if document(certificate) != data:
        # A time in another zone, a set in another order, a field that was left out: readers might differ about it.
        raise CertificateInvalid('it says the same in another way than its issuer does')
    return certificate


def _plain(value: object) -> Any:
    """As :func:`baremetal_acc.model.codec.encode`, without the names of classes: nowhere is there a choice of several."""
    if is_dataclass(value) and not isinstance(value, type):
        named = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _plain(held) for f, held in named if held is not None or _LEFT_OUT not in f.metadata}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return codec.encode(value)
