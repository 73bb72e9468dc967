# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The hand-over certificate: a document that states what was proven of a node before a tenant gets it.

A certificate is about one node, one lifecycle of the node and one deployment. :mod:`baremetal_acc.certificates.envelope` signs
and checks it; :mod:`baremetal_acc.certificates.statement` decides what may be written into it.
"""

from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime
from typing import Any

from baremetal_acc.errors import CertificateInvalid, StaleJob
from baremetal_acc.model import codec
from baremetal_acc.model.accelerator import IdentitySource, Kind, PciIds
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.custody import Break, CustodyDemand, Interval, Origin, Strength
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.measurement import MeasurementReading
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.waiver import Relaxation, Waived

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedNode:
    """The machine that a certificate is about.

    :ivar uuid: UUID of the node in Ironic; None for a target of the command line, which has no other name than ``name``.
    :ivar instance: instance UUID of the node in Ironic, or None.
    """

    uuid: str | None
    name: str
    instance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Paper:
    """A document of the operator that the node was verified against: the baseline or the catalogue.

    :ivar name: name of the file.
    :ivar digest: ``sha256:...`` of the bytes of the file.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedComponent:
    """The running version of a firmware component. ``rule`` demands this version; None where no rule names the component."""

    id: str | None
    ref: Ref
    version: str | None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedFunction:
    """The function in a slot; ``slot`` is None for a function of a card without slots. ``rule`` as for components."""

    slot: str | None
    id: str | None
    name: str | None = None
    version: str | None = None
    uuid: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedPath:
    """How one write path to a card is blocked, at its weakest place. ``unsupported``: no mechanism there can block it.

    :ivar demanded: the rules demand that the path is blocked; ``rule`` is the one that demands it, or that leaves it out.
    """

    path: WritePath
    demanded: bool
    rule: str
    state: LockState


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedLock:
    """One lock reading of one mechanism; the fields are those of :class:`~baremetal_acc.model.lock.LockReading`.

    :ivar engaged: when we engaged the lock, for locks that we engaged; the reading is younger and went over another session.
    :ivar lifecycle: lifecycle of the node in which the lock was engaged.
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

    :ivar origin: None where no chain has begun. Then ``begun`` and ``reaches`` are None, too.
    :ivar demand: what the rules demand of the chain: ``evidenced``, ``required`` or ``reported``; ``rule`` is the rule that
        demands it.
    """

    demand: CustodyDemand
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

    :ivar custody: None, and left out of the document, in certificates of releases without this field.
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
    custody: CertifiedCustody | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCount:
    """The number of devices that a rule demands, which is the number that was found."""

    rule: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The devices that had to be there; all of them were.

    :ivar devices: devices that were there when the node was last verified.
    :ivar rules: rules that count devices.
    """

    devices: tuple[AcceleratorId, ...]
    rules: tuple[CertifiedCount, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedGap:
    """A resource that could not be read, and that hides no device."""

    ref: Ref
    field: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """The key by which a certificate is found; the fields are those of :class:`Certificate`."""

    node: CertifiedNode
    lifecycle: int
    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The certificate of a node for one deployment.

    :ivar lifecycle: lifecycle of the node while it is handed over; it ends when the node comes back.
    :ivar proven_in: lifecycle of the node in which the locks were engaged: the one before, where a hand-over begins a new one.
    :ivar deployment: id of this deployment; a later deployment has another id, whatever happens to the lifecycle counter.
    :ivar looked: when the read began that the certificate rests on, UTC.
    :ivar key: SHA-256 of the public key that the certificate is signed with.
    :ivar exposure: whose code runs on the node.
    :ivar waivers: paths that are open by a waiver.
    :ivar relaxations: demands of the rules that are weaker than the default for a tenant's node.
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
        """The key by which the certificate is found."""
        return Reference(node=self.node, lifecycle=self.lifecycle, deployment=self.deployment)


def document(certificate: Certificate) -> Any:
    """Return the JSON of a certificate: objects with the names of the fields."""
    return _plain(certificate)


def read(data: object) -> Certificate:
    """Return the certificate that :func:`document` made the JSON from.

    :raises CertificateInvalid: the JSON is no certificate of this format, or is not written exactly as :func:`document` writes
        it.
    """
    if not isinstance(data, dict):
        raise CertificateInvalid('the certificate is not an object')
    if data.get('format') != FORMAT or isinstance(data.get('format'), bool):
        raise CertificateInvalid(
            f'the certificate does not have format {FORMAT}', hint='check it with the version that issued it'
        )
    try:
        certificate = codec.decode(Certificate, data)
    except StaleJob as exc:
        raise CertificateInvalid(f'not a certificate: {exc.message}') from None
    if document(certificate) != data:
        # Such as a time in another zone, a set in another order, or a missing field: readers might interpret it differently.
        raise CertificateInvalid('the certificate is not written as its issuer writes it')
    return certificate


def _plain(value: object) -> Any:
    """Encode like :func:`baremetal_acc.model.codec.encode`, without class names: no field can hold one of several classes.

    A field that is left out where it has its default, such as one that a later release has added, is left out here, too: older
    documents stay as they were signed.
    """
    if is_dataclass(value) and not isinstance(value, type):
        named = ((f, getattr(value, f.name)) for f in fields(value))
        return {f.name: _plain(held) for f, held in named if not codec.is_left_out(f, held)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return codec.encode(value)
