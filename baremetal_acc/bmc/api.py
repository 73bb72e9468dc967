# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a driver of a BMC has to offer, and what it is told."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from baremetal_acc.errors import BmcError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.image import Image, Progress, Upload
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
    """Where BMCs that fetch images themselves find this process.

    :ivar host: our address as BMCs reach it.
    :ivar listen: the address to listen at; empty for all of this machine.
    :ivar ports: first and last that may be listened at; 0 and 0 for any.
    :ivar certificate: PEM file, for HTTPS; None for HTTP. ``key``: of its key, None when it is in the same file.
    """

    host: str
    listen: str = ''
    ports: tuple[int, int] = (0, 0)
    certificate: str | None = None
    key: str | None = None


class Setting(StrEnum):
    """What an operator can say of how a BMC is spoken to, as far as hints name it. Where he says it only the shell knows."""

    VERIFY_CA = 'verify_ca'
    CIPHER_SUITE = 'cipher_suite'
    KEY = 'secret_hex_kg_key'


def by_name() -> dict[Setting, str]:
    """Each as it is called."""
    return {one: one.value for one in Setting}


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcAddress:
    """Where a BMC is and how to log in.

    :ivar address: ``https://HOST[:PORT]``, or ``ipmi://HOST[:PORT]``; a scheme is required, so that nobody falls back to plain
        HTTP by accident.
    :ivar verify_ca: True (the system's trust roots), a path of a CA bundle, or False (no verification, said by the operator).
    :ivar system: URI or Id of the ComputerSystem that the target is; None when the BMC has only one.
    :ivar timeout: for one answer. Real BMCs take up to 23 s for some (facts/redfish.md, section 5).
    :ivar budget: for one whole look.
    :ivar concurrency: requests at a time.
    :ivar parallel_updates: how many updates the BMC takes at once, said by the operator; None leaves it to what is known of it.
    :ivar basic_auth: HTTP Basic authentication may be used where the BMC has no session free.
    :ivar images: where it may fetch images from us, if it takes them in no other way; None: nowhere.
    :ivar cipher_suite: of IPMI: 17, or 3 (SHA-1) where the operator says so.
    :ivar key: of IPMI: K_G, the key of the BMC; None where it has none.
    :ivar until: by the monotonic clock, when whoever asks has to be done: no answer is waited for past it. What is asked after
        it has a short time. None: there is no such time.
    :ivar set_by: where the operator says it, in words: ``--cipher-suite``, or ``ipmi_cipher_suite in driver_info``.
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
        """For messages: name and address, no credentials."""
        return f'{self.name} ({self.address})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One resource as it was read."""

    ref: Ref
    body: JsonObject
    etag: str | None = None


class Reader(Protocol):
    """Reads resources of one BMC; what was read once in this look is not asked for again."""

    session: str
    """Names the session."""

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
        """What this look has already read there, else None. Never asks the BMC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """A write that a BMC has accepted, and carries out later: HTTP 202, or another success that it does not show yet.

    :ivar task: that tells how it goes on; None where the BMC names none.
    :ivar said: the BMC says that it is carried out later; False: it only shows what was there before.
    """

    ref: Ref
    task: Ref | None = None
    said: bool = True


class Writer(Protocol):
    """Writes to one BMC. A write is sent once; whether it took effect is seen by reading.

    :ivar accepted: the writes that the BMC carries out later, in their order.
    :ivar unconditional: the resources that were written without a condition, since the BMC refuses the ETag that it shows.
    :ivar objections: what the BMC says against writes that it answers as a success.
    """

    session: str
    name: BmcName
    accepted: list[Accepted]
    unconditional: list[Ref]
    objections: list[Objection]

    def fresh(self, uri: str) -> Document:
        """Read a resource now, past everything remembered.

        :raises BmcError: the read failed.
        """

    def patch(self, document: Document, body: JsonObject) -> None:
        """PATCH the resource of a document that was judged, with its ETag as If-Match.

        Where the BMC refuses that condition, the resource is read again. If what is to be written has not changed, the write is
        sent with the ETag of that answer, and in the end without a condition, which :attr:`unconditional` tells.

        :raises BmcConflict: what is to be written changed since it was judged.
        :raises BmcError: anything else.
        """

    def post(self, uri: str, body: JsonObject) -> None:
        """POST an action that has no task.

        :raises BmcError: it was not accepted.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What one look at one BMC gave, before locks are read and devices of several BMCs are merged.

    :ivar accelerators: with ``locks`` empty.
    :ivar reader: still open, for reading locks in the same look.
    :ivar measures: it has roots of trust that may sign what devices run.
    :ivar machines: how many Systems of the BMC may be handed out, each as a target of its own.
    :ivar ownership: whose its resources are; None where the protocol knows one machine only.
    :ivar later: gaps of what was asked for after the look, over its reader; None where there are none.
    :ivar others: firmware of no accelerator, such as that of a baseboard; None where the protocol does not show it.
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
    """How a place is found that is read after a look, as a lock's is: by a link of what the service root lists.

    :ivar above: the property of the service root that lists the resources with the link.
    :ivar path: of the link, or of an array of links, in each of these; empty: they are the places themselves.
    :ivar beside: of an object that such a resource has where there is anything to read.
    :ivar of_its_name: of several links the one whose last segment is that of the resource.
    :ivar is_collection: its members are read too.
    """

    above: str = 'Managers'
    path: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    of_its_name: bool = False
    is_collection: bool = False


class NotReadYet(Exception):
    """A resource is not there yet, of a reader that asks for nothing itself.

    :ivar uri: as it was asked for.
    """

    def __init__(self, uri: str) -> None:
        super().__init__(uri)
        self.uri = uri


@dataclass(frozen=True, slots=True, kw_only=True)
class CardLead:
    """What is read after a look of a card with a BMC of its own, below its System.

    :ivar read: reads it of a System as it is read after the look. It is called again after each resource that its reader has
        not yet (:class:`NotReadYet`), so that it tells by reading what comes next.
    """

    read: Callable[[Reader, Document], object]


@runtime_checkable
class ReadsAhead(Protocol):
    """A connection that may read beside a look what is read after it."""

    def read_ahead(self, leads: Iterable[Lead | CardLead]) -> None:
        """Say, before a look, what is going to be read after it where an accelerator is found."""


class Connection(Protocol):
    """A session with one BMC. Use it as a context manager: leaving it logs out."""

    address: BmcAddress
    session: str

    lasts: bool
    """It is worth keeping through minutes in which nobody asks anything: the BMC does not end it, and a login costs more."""

    def __enter__(self) -> 'Connection': ...

    def __exit__(self, *exc: object) -> None: ...

    def close(self) -> None:
        """Log out and close what is open. Never fails: sessions end by themselves, too."""

    def look(self, now: datetime) -> Look:
        """Read everything about the BMC's accelerators.

        What fails in part is a Gap; only a BMC that cannot be spoken to at all raises.

        :raises BmcError: no answer, no trust, no login, or no Redfish there.
        """

    def ownership(self) -> Ownership | None:
        """Whose the BMC's resources are. It is read where neither a look over this session nor the process knows.

        :returns: None where the protocol knows one machine only.
        :raises BmcError: it could not be read.
        """

    def glance(self, uris: Iterable[str], within: timedelta) -> Mapping[str, Document | BmcError]:
        """Read some resources again, all of them anew, with as few requests as possible.

        :param within: the time for all of it.
        :returns: by URI what each says now, or why it could not be read.
        """

    def measure(
        self, accelerators: Iterable[Accelerator], now: datetime, why_not: str | None = None
    ) -> Sequence[SignedMeasurements | MeasurementReading]:
        """Let the roots of trust of these devices sign what they run, over a nonce of our own. Slow: seconds for each.

        :param why_not: do not ask, for this reason: who offers to sign is a reading that is not known.
        :returns: what was signed, unchecked, and a reading that is not known where somebody should have signed and did not.
        """

    def writer(self) -> Writer:
        """For locks and settings."""

    def component(self, ref: Ref) -> Component:
        """Read one SoftwareInventory now.

        :raises BmcError: it could not be read.
        """

    def may_write(self) -> None:
        """See that the account may do what a job does, before anything is changed for that. Changes nothing itself.

        A BMC that does not tell beforehand has nothing to say.

        :raises BmcNotAuthorised: it may not.
        :raises BmcError: that could not be found out.
        """

    def judge(self, targets: Sequence[Ref], image: Image, upload: Upload) -> None:
        """See whether an image could be written to each of these, before anything is changed for that. Changes nothing itself.

        Of a driver whose looks say that it judges (``UpdateFacts.judges``); any other has nothing to say.

        :param upload: the image, opened.
        :raises ImageError: it is nothing that this BMC takes, or not what the catalogue says of it.
        :raises BmcUnsupported: it is not for one of the targets, or is not brought in force there as the catalogue says.
        :raises BmcError: that could not be read.
        """

    def push(self, target: Ref, upload: Upload) -> TaskReading | Objection | Progress | None:
        """Send an image to one explicit Target, OperationApplyTime given. Sent once, never again by itself.

        Where it is sent in turns, this is none of them: what speaks against the image is found, and nothing is changed.

        :returns: the task; where the BMC accepted without one what it says against that, None for nothing; how far it is where
            :meth:`go_on` has to be called.
        :raises BmcUnsupported: it takes no pushed image; the message says what it offers.
        :raises BmcBusy: it takes no update now and has taken nothing.
        :raises BmcUnreachable: the connection broke, or something in front of the BMC answered: whether it arrived is unknown.
        :raises BmcRefused: it refused.
        """

    def go_on(self, target: Ref, upload: Upload, progress: Progress) -> TaskReading | Objection | Progress | None:
        """Take one turn of an upload that :meth:`push` has begun: seconds, not minutes. Of a driver that asks for it only.

        :param upload: the same image; its bytes are read anew.
        :returns: the task once it is brought in force, or as of :meth:`push` where there is none; until then how far it is.
        :raises BmcBusy: it is at something else; nothing was changed.
        :raises BmcUnreachable: it does not answer. What is whole may be in force; what is not has to begin anew.
        :raises BmcError: the upload has failed.
        """

    def deferred(self, task: Ref) -> Progress | None:
        """How an update goes on whose task waits for an action that starts it; None: the BMC has no such action.

        :raises BmcError: it could not be asked.
        """

    def task(self, ref: Ref) -> TaskReading:
        """Read one task. A task that is gone is a reading (``gone``), no error.

        :raises BmcError: it could not be asked.
        """

    def cancel(self, ref: Ref) -> None:
        """Ask for a task to be cancelled. Whether it was shows when it is read.

        :raises BmcUnsupported: the BMC cancels no tasks, or not this one.
        :raises BmcError: it was not accepted.
        """

    def active_tasks(self) -> Sequence[TaskReading]:
        """Tasks that still run, with the messages they carry.

        :raises BmcError: they could not be asked.
        """

    def tasks(self) -> Sequence[TaskReading]:
        """Tasks that still run, and those that have ended and that the BMC still shows.

        :raises BmcError: they could not be asked.
        """

    def update_activity(self) -> UpdateActivity:
        """What the update service says of itself, read now. Tasks that run are not asked for: see :meth:`active_tasks`.

        :raises BmcError: it could not be asked.
        """

    def power(self, system: Ref) -> PowerState:
        """Power state of a System, read now.

        :raises BmcError: it could not be read.
        """

    def set_power(self, system: Ref, wanted: PowerState) -> Objection | None:
        """Ask for On (On) or Off (ForceOff). Whether it came is seen by :meth:`power`.

        :returns: what the BMC says against it although it has accepted it.
        :raises BmcError: it was not accepted.
        """

    def offers_reset(self, system: Ref, kind: ResetKind) -> bool:
        """A System takes a reset of that kind in one request; else it is powered off and on for it.

        :raises BmcError: it could not be read.
        """

    def reset(self, system: Ref, kind: ResetKind) -> Objection | None:
        """Ask a System that is on for a restart or a power cycle, whichever of the kind it offers; a Manager for a restart.

        :returns: what the BMC says against it although it has accepted it.
        :raises BmcUnsupported: it offers none that brings this in force.
        :raises BmcError: it was not accepted.
        """

    def host(self, system: Ref) -> HostReading:
        """Power state of a System and what is said beside it of its last start, read now.

        It is read at each poll and stays cheap: one request over Redfish, two over IPMI. What takes more is None here, and is
        in the facts of :meth:`look`.

        :raises BmcError: it could not be read.
        """

    def last_reset(self, system: Ref) -> str | None:
        """LastResetTime of a System or a Manager as text, None when it has none; only compared for being another than before.

        :raises BmcError: it could not be read.
        """

    def managers(self) -> Sequence[ManagerReading]:
        """What the Managers of the BMC say of their last restart, read now; none where it does not tell.

        :raises BmcError: one of them could not be read.
        """


class Driver(Protocol):
    """An entry point of the group ``baremetal_acc.bmc``: how BMCs of one protocol are spoken to.

    The class is called with the keyword ``devices``: the table of :mod:`baremetal_acc.bmc.devices`, None for the shipped one.
    """

    protocol: str

    def connect(self, address: BmcAddress) -> Connection:
        """Log in.

        :raises BmcUnreachable: no answer.
        :raises BmcUntrusted: the certificate does not verify.
        :raises BmcNotAuthorised: wrong credentials.
        :raises BmcAnswerInvalid: no such service there.
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
