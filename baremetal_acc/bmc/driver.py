# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Contracts (protocols) of BMC drivers, connections, readers and writers, and the types that they exchange with callers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, Upload, UploadProgress
from baremetal_acc.model.inventory import (
    BmcFacts,
    Gap,
    HostReading,
    ManagerReading,
    Objection,
    PlatformDevice,
    PowerState,
    TaskReading,
    UpdateActivity,
)
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.measurement import MeasurementReading, SignedMeasurements
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import BmcName, Ref

JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageServer:
    """Address at which BMCs that fetch images themselves reach this process.

    :ivar host: our address as BMCs reach it.
    :ivar listen: the address to listen on; empty for all addresses of this machine.
    :ivar ports: first and last port that may be used; 0 and 0 for any.
    :ivar certificate: PEM file, for HTTPS; None for HTTP.
    :ivar key: PEM file of its private key; None when the key is in the certificate's file.
    """

    host: str
    listen: str = ''
    ports: tuple[int, int] = (0, 0)
    certificate: str | None = None
    key: str | None = None


class Setting(StrEnum):
    """Connection settings of a BMC that hints refer to. Only the shell (CLI or Ironic) knows how each one is set there."""

    VERIFY_CA = 'verify_ca'
    CIPHER_SUITE = 'cipher_suite'
    KEY = 'secret_hex_kg_key'


def by_name() -> dict[Setting, str]:
    """Each setting with its own value as its name."""
    return {one: one.value for one in Setting}


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcAddress:
    """Address of a BMC, the credentials, and how to connect.

    :ivar address: ``https://HOST[:PORT]``, or ``ipmi://HOST[:PORT]``; a scheme is required, so that nobody falls back to plain
        HTTP by accident.
    :ivar verify_ca: True (the system's trust roots), the path of a CA bundle, or False (no verification, chosen by the
        operator).
    :ivar system: URI or Id of the ComputerSystem that is the target; None when the BMC has only one.
    :ivar timeout: for one answer. Real BMCs take up to 23 s for some
        (doc/source/reference/redfish_notes.rst, "Answer times and $expand").
    :ivar budget: for one whole inspection.
    :ivar concurrency: maximum number of parallel requests.
    :ivar parallel_updates: how many updates the BMC takes at once, set by the operator; None uses what is known of the BMC.
    :ivar basic_auth: HTTP Basic authentication may be used where the BMC has no session free.
    :ivar images: where the BMC may fetch images from us, if it takes them in no other way; None: nowhere.
    :ivar cipher_suite: IPMI cipher suite: 17, or 3 (SHA-1) where the operator chooses it.
    :ivar key: IPMI K_G, the key of the BMC; None where it has none.
    :ivar until: deadline of the caller, by the monotonic clock: no answer is waited for beyond it. Requests after the deadline
        get a short timeout. None: no deadline.
    :ivar set_by: for each setting, the words by which the operator sets it: ``--cipher-suite``, or ``ipmi_cipher_suite in
        driver_info``.
    """

    name: BmcName
    address: str
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    verify_ca: bool | str = True
    system: str | None = None
    timeout: timedelta = timedelta(seconds=45)
    budget: timedelta = timedelta(minutes=5)
    concurrency: int = 4
    parallel_updates: int | None = None
    basic_auth: bool = False
    images: ImageServer | None = None
    cipher_suite: int = 17
    key: bytes | None = field(default=None, repr=False)
    until: float | None = field(default=None, compare=False)
    set_by: Mapping[Setting, str] = field(default_factory=by_name, compare=False, repr=False)

    @property
    def label(self) -> str:
        """Name and address for messages, without credentials."""
        return f'{self.name} ({self.address})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One resource, as it was read from the BMC."""

    ref: Ref
    body: JsonObject
    etag: str | None = None


class Reader(Protocol):
    """Reads resources of one BMC. A resource that this inspection has read is not requested again."""

    session: str
    """Identifies the session."""

    name: BmcName

    def get(self, uri: str) -> Document:
        """Read a resource.

        :raises BmcError: the read failed, with the reason.
        """

    def collection(self, uri: str) -> Document:
        """Read a collection with all its pages, in as few requests as the BMC allows.

        :raises BmcError: the read failed, with the reason.
        """

    def peek(self, uri: str) -> Document | None:
        """The resource, if this inspection has already read it, else None. Never sends a request to the BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A write that a BMC has accepted and carries out later: HTTP 202, or another success without a visible effect yet.

    :ivar task: the task that reports its progress; None where the BMC names none.
    :ivar said: the BMC reports that the write is carried out later; False: it only still shows the old value.
    """

    ref: Ref
    task: Ref | None = None
    said: bool = True


class Writer(Protocol):
    """Writes to one BMC. A write is sent once; whether it took effect is found out by reading.

    :ivar accepted: the writes that the BMC carries out later, in the order in which they were sent.
    :ivar unconditional: the resources that were written without If-Match, because the BMC refuses the ETag that it shows.
    :ivar objections: what the BMC reports against writes that it answers as a success.
    """

    session: str
    name: BmcName
    accepted: list[Accepted]
    unconditional: list[Ref]
    objections: list[Objection]

    def fresh(self, uri: str) -> Document:
        """Read a resource now, without any cache.

        :raises BmcError: the read failed.
        """

    def patch(self, document: Document, body: JsonObject) -> None:
        """PATCH the resource of a document that was judged, with its ETag as If-Match.

        Where the BMC refuses that condition, the resource is read again. If the properties to be written have not changed, the
        write is sent with the new ETag, and as a last resort without a condition, which :attr:`unconditional` records.

        :raises BmcConflict: the properties to be written have changed since they were judged.
        :raises BmcError: any other failure.
        """

    def post(self, uri: str, body: JsonObject) -> None:
        """POST an action that has no task.

        :raises BmcError: the BMC did not accept it.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Result of the inspection of one BMC, before locks are read and the devices of several BMCs are merged.

    :ivar accelerators: with ``locks`` empty.
    :ivar reader: still open, for reading locks in the same inspection.
    :ivar measures: the BMC has roots of trust that may sign what devices run.
    :ivar machines: how many Systems of the BMC may be handed out, each as a target of its own.
    :ivar ownership: which machine each resource of the BMC belongs to; None where the protocol knows one machine only.
    :ivar later: returns the gaps of reads that are done after the inspection, over its reader; None where there are none.
    :ivar others: returns the firmware that belongs to no accelerator, such as that of a baseboard; None where the protocol does
        not show it.
    """

    facts: BmcFacts
    accelerators: tuple[Accelerator, ...]
    platform_devices: tuple[PlatformDevice, ...]
    gaps: tuple[Gap, ...]
    reader: Reader
    measures: bool = False
    machines: int = 1
    ownership: Ownership | None = None
    later: Callable[[], tuple[Gap, ...]] | None = None
    others: Callable[[], tuple[Component, ...]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lead:
    """How to find a resource that is read after the inspection, such as that of a lock: by links from the service root.

    :ivar above: the property of the service root that lists the resources which have the link.
    :ivar path: path of the link, or of an array of links, in each of these resources; empty: these resources themselves are
        read.
    :ivar beside: path of an object that such a resource has only where there is anything to read.
    :ivar of_its_name: of several links, only the one whose last segment equals that of the resource is followed.
    :ivar is_collection: the link names a collection, whose members are read too.
    """

    above: str = 'Managers'
    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    of_its_name: bool = False
    is_collection: bool = False


class NotReadYet(Exception):
    """Raised by a reader that sends no requests itself: the resource has not been read yet.

    :ivar uri: as it was asked for.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLead:
    """What to read, after the inspection, below the System of a card that has a BMC of its own.

    :ivar read: reads it, given a reader and the System's document. It is called again after each resource that the reader does
        not have yet (:class:`NotReadYet`), so that its reads show which resource to fetch next.
    """

    read: Callable[[Reader, Document], object]


@runtime_checkable
class ReadsAhead(Protocol):
    """A connection that can fetch, during the inspection, resources that are read after it."""

    def read_ahead(self, leads: Iterable[Lead | CardLead]) -> None:
        """Announce, before an inspection, what will be read after it where an accelerator is found."""


class Connection(Protocol):
    """A connection to one BMC, with its session. Use it as a context manager: leaving it logs out."""

    address: BmcAddress
    session: str

    lasts: bool
    """The session is worth keeping while nothing is requested for minutes: the BMC does not end it, and a
    new login costs more.
    """

    def __enter__(self) -> 'Connection': ...

    def __exit__(self, *exc: object) -> None: ...

    def close(self) -> None:
        """Log out and close the session. Never fails: BMCs also end sessions by themselves."""

    def look(self, now: datetime) -> Look:
        """Inspect the BMC: read everything about its accelerators.

        What fails in part is a Gap; the call raises only if the BMC cannot be spoken to at all.

        :raises BmcError: no answer, an untrusted certificate, no login, or no Redfish there.
        """

    def ownership(self) -> Ownership | None:
        """Which machine each resource of the BMC belongs to. The BMC is asked only if neither this session nor the process
        knows.

        :returns: None where the protocol knows one machine only.
        :raises BmcError: it could not be read.
        """

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, without caches, with as few requests as possible.

        :param within: the time limit for all of them.
        :returns: by URI, the resource, or why it could not be read.
        """

    def measure(
        self, accelerators: Iterable[Accelerator], now: datetime, why_not: str | None = None
    ) -> Sequence[SignedMeasurements | MeasurementReading]:
        """Let the roots of trust of these devices sign what they run, over a nonce of ours. Takes seconds per device.

        :param why_not: do not request measurements, for this reason: each device that offers to sign gets a reading of state
            unknown.
        :returns: signed measurements, unverified, and a reading of state unknown for each device that should have signed and
            did not.
        """

    def writer(self) -> Writer:
        """A writer for locks and settings."""

    def component(self, ref: Ref) -> Component:
        """Read one firmware component (Redfish: SoftwareInventory) now.

        :raises BmcError: it could not be read.
        """

    def may_write(self) -> None:
        """Check that the account has the privileges that a job needs, before anything is changed. Changes nothing itself.

        Does nothing for a BMC that does not report privileges beforehand.

        :raises BmcNotAuthorised: the account lacks a privilege.
        :raises BmcError: that could not be found out.
        """

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """Check that an image could be written to each of these components, before anything is changed. Changes nothing itself.

        Only drivers that report ``UpdateFacts.judges`` check anything; any other does nothing.

        :param upload: the image, opened.
        :raises ImageError: the BMC takes no such image, or the catalogue's description of it is wrong.
        :raises BmcUnsupported: the image is not for one of the targets, or is not activated there as the catalogue says.
        :raises BmcError: that could not be read.
        """

    def push(self, target: Ref, upload: Upload) -> TaskReading | Objection | UploadProgress | None:
        """Send an image to one explicit Target, with OperationApplyTime. It is sent once; the driver never repeats it by
        itself.

        For a driver that uploads in turns, this call is not one of the turns: it only checks the image, and changes nothing.

        :returns: the task; if the BMC accepted without a task, what it reports against the update, or None for nothing; the
            progress so far, if :meth:`go_on` has to be called.
        :raises BmcUnsupported: the BMC takes no pushed image; the message says what it offers.
        :raises BmcBusy: the BMC takes no update now and has taken nothing.
        :raises BmcUnreachable: the connection broke, or something in front of the BMC answered: whether the image arrived is
            unknown.
        :raises BmcRefused: the BMC refused.
        """

    def go_on(self, target: Ref, upload: Upload, progress: UploadProgress) -> TaskReading | Objection | UploadProgress | None:
        """Do one turn of an upload that :meth:`push` has begun: seconds, not minutes. Only for drivers that upload in turns.

        :param upload: the same image; its bytes are read again.
        :returns: the task once the image is being activated, or what :meth:`push` returns where there is none; until then the
            progress.
        :raises BmcBusy: the controller is doing something else; nothing was changed.
        :raises BmcUnreachable: no answer. A complete upload may have been activated; an incomplete one has to begin again.
        :raises BmcError: the upload has failed.
        """

    def deferred(self, task: Ref) -> UploadProgress | None:
        """Progress of an update whose task waits for an action that starts it; None: the BMC has no such action.

        :raises BmcError: the BMC could not be asked.
        """

    def task(self, ref: Ref) -> TaskReading:
        """Read one task. A task that is gone is a reading (``gone``), not an error.

        :raises BmcError: the task could not be read.
        """

    def cancel(self, ref: Ref) -> None:
        """Ask the BMC to cancel a task. Whether it was cancelled is seen when the task is read.

        :raises BmcUnsupported: the BMC cancels no tasks, or not this one.
        :raises BmcError: the request was not accepted.
        """

    def active_tasks(self) -> Sequence[TaskReading]:
        """Tasks that are still running, with their messages.

        :raises BmcError: they could not be read.
        """

    def tasks(self) -> Sequence[TaskReading]:
        """Tasks that are still running, and tasks that have ended and that the BMC still shows.

        :raises BmcError: they could not be read.
        """

    def update_activity(self) -> UpdateActivity:
        """What the update service reports of itself, read now. Running tasks are not read: see :meth:`active_tasks`.

        :raises BmcError: it could not be read.
        """

    def power(self, system: Ref) -> PowerState:
        """Power state of a System, read now.

        :raises BmcError: it could not be read.
        """

    def set_power(self, system: Ref, wanted: PowerState) -> Objection | None:
        """Request On (On) or Off (ForceOff). Read :meth:`power` to see whether it took effect.

        :returns: what the BMC reports against the request although it has accepted it.
        :raises BmcError: the request was not accepted.
        """

    def offers_reset(self, system: Ref, kind: ResetKind) -> bool:
        """Whether a System takes a reset of that kind in one request; otherwise it is powered off and on for it.

        :raises BmcError: it could not be read.
        """

    def reset(self, system: Ref, kind: ResetKind) -> Objection | None:
        """Request a restart or power cycle of a System that is on, by a reset type that it offers; or a restart of a Manager.

        :returns: what the BMC reports against the request although it has accepted it.
        :raises BmcUnsupported: it offers no reset of that kind.
        :raises BmcError: the request was not accepted.
        """

    def host(self, system: Ref) -> HostReading:
        """Power state of a System and what is reported of its last start, read now.

        It is read at each poll and must stay cheap: one request over Redfish, two over IPMI. Fields that take more are None
        here, and are in the facts of :meth:`look`.

        :raises BmcError: it could not be read.
        """

    def last_reset(self, system: Ref) -> str | None:
        """LastResetTime of a System or a Manager as text, None when it has none; compared with an earlier one for equality
        only.

        :raises BmcError: it could not be read.
        """

    def managers(self) -> Sequence[ManagerReading]:
        """What the Managers of the BMC report of their last restart, read now; empty where they report none.

        :raises BmcError: one of them could not be read.
        """


class Driver(Protocol):
    """Entry point of the group ``baremetal_acc.bmc``: connects to BMCs of one protocol.

    The class is called with the keyword ``devices``: the table of :mod:`baremetal_acc.bmc.device_ids`, None for the shipped
    one.
    """

    protocol: str

    def connect(self, address: BmcAddress) -> Connection:
        """Log in.

        :raises BmcUnreachable: no answer.
        :raises BmcUntrusted: the certificate does not verify.
        :raises BmcNotAuthorised: wrong credentials.
        :raises BmcAnswerInvalid: what answers is not such a service.
        """


__all__ = [
    'Accepted',
    'BmcAddress',
    'Connection',
    'Document',
    'Driver',
    'JsonObject',
    'Look',
    'Reader',
    'Upload',
    'Writer',
]
