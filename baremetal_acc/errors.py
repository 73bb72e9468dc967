# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the errors of this package: what went wrong, whose fault it is, and whether waiting can help.

::

    AccError
    +-- DocumentError        a file of the operator is wrong (names file and line)
    +-- UsageError           an argument is wrong
    +-- BmcError             names the BMC
    |   +-- BmcUnreachable   no answer (waiting can help)
    |   +-- BmcUntrusted     its certificate is not trusted
    |   +-- BmcNotAuthorised credentials or role are refused
    |   |   +-- BmcLockedOut   refused so often that the job asks this BMC no more
    |   +-- BmcBusy          it asks to come back later (waiting can help)
    |   |   +-- BmcNoSessionFree  all of its sessions are in use
    |   +-- BmcRefused       it refused a request
    |   +-- BmcConflict      the condition of a write is not met (HTTP 412, 428)
    |   +-- BmcAnswerInvalid an answer is no valid Redfish
    |   +-- BmcUnsupported   it lacks what is needed
    |       +-- BmcNoLogin   it offers no login that may be used
    +-- ImageError           names the image
    |   +-- ImageMissing
    |   +-- ImageMismatch    size or digest differ from the catalogue
    |   +-- PackageMalformed a PLDM package breaks its specification (names field and offset)
    +-- Refused              a plan is not safe to execute
    +-- NotMet               the inventory does not meet the baseline
    +-- WriteFailed          a write was begun and did not end as it should
    +-- StaleJob             a stored job belongs to another flow, step, lifecycle or machine
    +-- StateError           stored state cannot be read or written
    +-- LocalError           this machine lacks what the command needs, such as room, descriptors or memory
    +-- DemandRefused        there are too many demands already (waiting can help)
    +-- DemandDiffers        its id is known as that of another demand
    +-- CertificateInvalid   a hand-over certificate proves nothing here
    |   +-- CertificateUntrusted  no trusted key signed it
    |   +-- CertificateAltered    it is not what was signed
    +-- IronicError
    |   +-- IronicUnreachable     (waiting can help)
    |   +-- IronicRefused         Ironic refused a request
    +-- PlacementError
        +-- PlacementUnreachable  (waiting can help)
        +-- InventoryInUse        an allocation holds what should be withdrawn (waiting can help)
        |   +-- ClaimedAlone      the consumer has not claimed the machine itself
        +-- RootMissing           the node has no root provider yet (waiting can help)
        +-- PlacementRefused      placement refused a request

Messages say what went wrong, where, and what to do. They never hold secrets.
"""

from collections.abc import Iterable
from enum import Enum, auto
from typing import Any, ClassVar


class AccError(Exception):
    """Base of all errors of this package.

    :ivar waiting_helps: the same call may succeed later without anyone changing anything.
    :ivar hint: what the reader can do, or None.
    """

    waiting_helps: ClassVar[bool] = False

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        self.message = message
        self.hint = hint
        super().__init__(message if hint is None else f'{message} ({hint})')

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the error as it is, for another process: the arguments of its constructor are not kept."""
        return _as_it_was, (type(self), self.args, self.__dict__)


def _as_it_was(kind: type[AccError], arguments: tuple[object, ...], state: dict[str, Any]) -> AccError:
    made = kind.__new__(kind)
    made.args = arguments
    made.__dict__.update(state)
    return made


class DocumentError(AccError):
    """A document of the operator (baseline, catalogue, BMC list) is wrong."""

    def __init__(self, *, path: str, what: str, line: int | None = None, hint: str | None = None) -> None:
        what = printable(what)
        self.path = path
        self.line = line
        self.what = what
        where = path if line is None else f'{path}, line {line}'
        super().__init__(f'{where}: {what}', hint=hint)


class UsageError(AccError):
    """An argument of a command or of a step is wrong."""

    def __init__(self, *, argument: str, what: str, hint: str | None = None) -> None:
        self.argument = argument
        super().__init__(f'{argument}: {what}', hint=hint)


class BmcError(AccError):
    """An error about one BMC.

    :ivar bmc: the operator's name for it, with its address: ``host (https://192.0.2.1)``.
    :ivar uri: the resource that was requested, if one was.
    """

    def __init__(self, *, bmc: str, what: str, uri: str | None = None, hint: str | None = None) -> None:
        self.bmc = bmc
        self.uri = uri
        self.what = what
        where = f'BMC {bmc}' if uri is None else f'BMC {bmc}, {uri}'
        super().__init__(f'{where}: {what}', hint=hint)


class BmcUnreachable(BmcError):
    """The BMC did not answer in time, the connection broke, or a server in front of the service answered a write for it.

    :ivar sent: the request may have reached the BMC. False where not even a login did: then nothing has happened.
    :ivar cut: the end of the request was never sent, so that the BMC cannot have received all of it.
    """

    waiting_helps = True

    def __init__(
        self,
        *,
        bmc: str,
        what: str,
        uri: str | None = None,
        hint: str | None = None,
        sent: bool = True,
        cut: bool = False,
    ) -> None:
        self.sent = sent
        self.cut = cut
        super().__init__(bmc=bmc, what=what, uri=uri, hint=hint)


class BmcUntrusted(BmcError):
    """The certificate of the BMC does not verify."""


class BmcNotAuthorised(BmcError):
    """The BMC refuses the credentials, or the role of the user."""


class BmcLockedOut(BmcNotAuthorised):
    """The BMC has refused our credentials so often that it is not asked any more: another try might lock the account out."""


class BmcBusy(BmcError):
    """The BMC asks to come back later (HTTP 503), or an update is in progress."""

    waiting_helps = True


class BmcNoSessionFree(BmcBusy):
    """All sessions of the BMC are in use, so that no login is possible (SessionLimitExceeded, RAC0218). Nothing was done."""


class BmcRefusalReason(Enum):
    """Why a BMC refused a request, as far as anything but its driver decides by it."""

    NOT_FOUND = auto()
    """There is no such resource."""

    GONE = auto()
    """The resource is not there any more."""

    CONFLICT = auto()
    """The request does not fit the state that the resource is in."""

    INVALID_REQUEST = auto()
    """The request itself is not accepted, and nothing was done."""

    INTERNAL_ERROR = auto()
    """The BMC failed, and does not say what it has done."""

    OTHER = auto()
    """Nothing was done; only the message tells why."""


class BmcRefused(BmcError):
    """The BMC refused a request, or its driver refused it for the BMC; the message is the BMC's own where it has one."""

    def __init__(
        self,
        *,
        bmc: str,
        what: str,
        uri: str | None = None,
        reason: BmcRefusalReason = BmcRefusalReason.OTHER,
        hint: str | None = None,
    ) -> None:
        self.reason = reason
        super().__init__(bmc=bmc, what=what, uri=uri, hint=hint)

    @property
    def gone(self) -> bool:
        """Whether the requested resource is not there, or not any more."""
        return self.reason in (BmcRefusalReason.NOT_FOUND, BmcRefusalReason.GONE)


def is_not_found(answer: object) -> bool:
    """Whether a BMC has answered that there is no such resource."""
    return isinstance(answer, BmcRefused) and answer.reason is BmcRefusalReason.NOT_FOUND


class BmcConflict(BmcError):
    """A condition of a write is not met, or missing (HTTP 412, 428). Nothing was written.

    Raised by a driver it means: the resource changed between our read and our write. Read it again, then decide.
    """

    waiting_helps = True


class BmcAnswerInvalid(BmcError):
    """The answer does not follow the standard: it is no JSON, too long, or a redirect to elsewhere."""


class BmcUnsupported(BmcError):
    """The BMC does not support what is needed."""


class BmcNoLogin(BmcUnsupported):
    """The BMC supports no login that may be used: it has other cipher suites, or IPMI 1.5 only."""


class ImageError(AccError):
    """An error about one image of the catalogue."""

    def __init__(self, *, image: str, what: str, hint: str | None = None) -> None:
        self.image = image
        super().__init__(f'image {image}: {what}', hint=hint)


class ImageMissing(ImageError):
    """The image's source cannot be read."""


class ImageMismatch(ImageError):
    """The bytes are not those that the catalogue describes."""


class PackageMalformed(ImageError):
    """A PLDM firmware update package violates DSP0267.

    :ivar field: by its name in DSP0267, with the number of its record: ``FirmwareDeviceIDRecords[2].RecordLength``.
    :ivar offset: of the first byte of the field, from the start of the package.
    :ivar found: what is wrong with it.
    :ivar expected: what would be right.
    """

    def __init__(self, *, image: str, field: str, offset: int, found: str, expected: str) -> None:
        self.field = field
        self.offset = offset
        self.found = found
        self.expected = expected
        super().__init__(image=image, what=f'{field} at byte {offset}: {found}; expected: {expected}')


class Refused(AccError):
    """A plan has refusals, so nothing of it is executed.

    :ivar reasons: one sentence each, naming device and reason.
    """

    def __init__(self, reasons: Iterable[str], *, hint: str | None = None) -> None:
        self.reasons = tuple(reasons)
        super().__init__('refused: ' + '; '.join(self.reasons), hint=hint)


class NotMet(AccError):
    """The inventory does not meet the baseline.

    :ivar reasons: one sentence each, naming device, component or write path, and what was found.
    """

    def __init__(self, reasons: Iterable[str], *, hint: str | None = None) -> None:
        self.reasons = tuple(reasons)
        super().__init__('not met: ' + '; '.join(self.reasons), hint=hint)


class WriteFailed(AccError):
    """A write to a device was begun and did not end as it should.

    :ivar reasons: one sentence each, naming device, component and what the BMC said.
    """

    def __init__(self, reasons: Iterable[str], *, hint: str | None = None) -> None:
        self.reasons = tuple(reasons)
        super().__init__('failed while writing: ' + '; '.join(self.reasons), hint=hint)


class StaleJob(AccError):
    """A stored job cannot be resumed: it belongs to another flow, step, target, machine or lifecycle, or to a newer version."""


class StateError(AccError):
    """Stored state cannot be read or written: the disk is full, or the folder is not ours."""


class LocalError(AccError):
    """This machine lacks what a command needs: room, descriptors, threads, memory, or its working directory."""

    def __init__(self, where: str, what: str, *, hint: str | None = None) -> None:
        super().__init__(f'{where}: {what}', hint=hint)


class DemandRefused(AccError):
    """A demand is not accepted, because there are too many already."""

    waiting_helps = True


class DemandDiffers(AccError):
    """A demand is not accepted, because its id belongs to another demand."""


class CertificateInvalid(AccError):
    """A hand-over certificate proves nothing here: it is forged, damaged, of another node, or no longer valid.

    :cvar kind: names the reason for programs.
    """

    kind: ClassVar[str] = 'malformed'

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = printable(what)
        super().__init__(self.what if where is None else f'{where}: {self.what}', hint=hint)


class CertificateUntrusted(CertificateInvalid):
    """No trusted key has signed a hand-over certificate."""

    kind: ClassVar[str] = 'untrusted-key'


class CertificateAltered(CertificateInvalid):
    """The signature of a hand-over certificate does not match: the certificate was changed, or never signed."""

    kind: ClassVar[str] = 'altered'


class IronicError(AccError):
    """An error about Ironic, where it is used through its API."""


class IronicUnreachable(IronicError):
    """Ironic did not answer, or asked to come back later."""

    waiting_helps = True


class IronicRefused(IronicError):
    """Ironic refused a request."""


class PlacementError(AccError):
    """An error about placement."""


class PlacementUnreachable(PlacementError):
    """Placement did not answer, or asked to come back later."""

    waiting_helps = True


class InventoryInUse(PlacementError):
    """An allocation uses inventory that was to be withdrawn."""

    waiting_helps = True


class ClaimedAlone(InventoryInUse):
    """The consumer of the allocation has not claimed the machine itself, so no instance is leaving: waiting does not help."""

    waiting_helps = False


class RootMissing(PlacementError):
    """The node's root provider does not exist yet; Nova creates it."""

    waiting_helps = True


class PlacementRefused(PlacementError):
    """Placement refused a request, and waiting does not help (roles, unknown class, microversion)."""


def printable(text: str) -> str:
    """Return a text with unprintable and control characters escaped, for terminals: documents may come from anywhere."""
    return text if text.isprintable() else ''.join(c if c.isprintable() else repr(c)[1:-1] for c in text)
