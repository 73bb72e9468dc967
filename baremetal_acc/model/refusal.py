# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reasons for which a plan is refused, as types: a closed union with facts only.

:mod:`baremetal_acc.render.refusals` makes the sentences. Words of an operator's document (why a version is denied, who signed a
waiver) and of a BMC (why a resource could not be read) are facts here.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.image import ImageKind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject

# -------------------------------------------------------------------------------------------------------- what was not seen


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAccelerators:
    """None was found.

    :ivar host_is_off: some BMCs show cards only while the host is on. Source: dsx-ai-factory/infra-controller#4903.
    """

    host_is_off: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedIdentity:
    """Several devices have one identity."""

    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MayHideDevices:
    """Devices may lie behind what could not be read."""

    gap: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """How many devices of a machine a rule matches.

    :ivar possible: those of which nobody can tell whether they match.
    """

    wanted: int
    found: int
    possible: int

    @property
    def met(self) -> bool:
        """As many as are wanted, and surely."""
        return self.found == self.wanted and not self.possible


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUndecided:
    """The BMC does not show what a rule asks for, so that it may be for this device.

    :ivar hidden: what it does not show.
    """

    hidden: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- images that fit


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchComponent:
    """The BMC reports no component that a rule names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakesNoFirmware:
    """The BMC has no service that an update could be sent to."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDenied:
    """The catalogue denies the version that would be written."""

    version: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedVersionThere:
    """A denied version runs, or is staged, and no rule says which one has to run."""

    version: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedFunctionThere:
    """A slot holds what is denied, and no rule says what it has to hold."""

    image: str
    denial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImage:
    """The catalogue has no image that fits.

    :ivar version: of the firmware that is demanded; or else ``function``.
    :ivar for_others: images of that version for other devices.
    :ivar meant: a version of the catalogue that is written in another way.
    """

    rule: str
    version: str | None = None
    function: str | None = None
    for_others: tuple[str, ...] = ()
    meant: str | None = None
    host_is_off: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralImages:
    """Several images of the catalogue fit."""

    rule: str
    images: tuple[str, ...]
    version: str | None = None
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagesDenied:
    """All images of a function are denied: each with why."""

    images: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWayToVersion:
    """An image may be written over some versions only, and no images of the catalogue lead there.

    :ivar via: the versions that it may be written over.
    """

    image: str
    via: tuple[str, ...]
    runs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNeedsReset:
    """A step before an image comes in force with a reset only, so that it has to be demanded first."""

    image: str
    via: tuple[str, ...]
    runs: str
    step: str
    step_version: str
    reset: ResetKind


# -------------------------------------------------------------------------------------------------------------- revocations


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchRevocation:
    """A rule names a revocation that the catalogue does not have, or an image of another kind."""

    rule: str
    kind: ImageKind | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationFitsNothing:
    """No component of the device fits a revocation."""

    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersionDemanded:
    """A rule demands another version of the component of a revocation."""

    component: str | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RevocationTooEarly:
    """A revocation cannot be undone, and other firmware does not run yet.

    :ivar late: the components that do not.
    """

    rule: str
    late: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------- what would be written


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUnknown:
    """Nobody can tell what would be overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralItems:
    """The BMC calls several items of the device alike."""

    component: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralSlots:
    """The BMC calls several slots of the device alike."""

    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemUncertain:
    """The BMC does not say that an item belongs to this device."""

    component: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUpdateable:
    """The BMC says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSlot:
    """No slot of the device matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHasNoItem:
    """The BMC offers no SoftwareInventory by which a slot could be programmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDenied:
    """The catalogue denies an image."""

    image: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitsByNameOnly:
    """An image fits by vendor and model only."""

    image: str


class FloorCause(StrEnum):
    """What makes a floor of security versions higher than the rules do: what runs, or what is written before."""

    RUNNING = 'running'
    WRITTEN_BEFORE = 'written-before'


@dataclass(frozen=True, slots=True, kw_only=True)
class BelowFloor:
    """The security version of an image is below the floor.

    :ivar cause: None: the rules make it.
    :ivar runs: the version that runs.
    """

    image: str
    security_version: int
    floor: int
    cause: FloorCause | None = None
    runs: str | None = None
    rule: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcNotRead:
    """The BMC of a component was not read."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class OnlyFetches:
    """The BMC can only fetch images itself (SimpleUpdate), and no image server is configured."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWayToSend:
    """The BMC offers no way to send an image."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class TakesNoImage:
    """The BMC takes no image as it is now.

    :ivar obstacle: as its driver describes it.
    """

    bmc: BmcName
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTooLarge:
    """An image has more bytes than its BMC takes."""

    image: str
    bmc: BmcName
    size_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUnusable:
    """An image is not what the catalogue says, or its BMC judges against it."""

    image: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class WideTarget:
    """A resource stands for several parts, all of which would get the image."""

    ref: Ref
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """A resource is of another machine, too."""

    ref: Ref


# ----------------------------------------------------------------------------------------------------------- restore images


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInCatalogue:
    """The catalogue has no image of that name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRestorable:
    """It is no firmware image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDenied:
    """The catalogue denies it."""

    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoesNotFit:
    """It is for other devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFitsByNameOnly:
    """It fits by vendor and model only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBelowFloor:
    """Its security version is below the floor."""

    security_version: int
    floor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTooLarge:
    """It has more bytes than its BMC takes."""

    size_bytes: int
    max_bytes: int


RestoreProblem = (
    NotInCatalogue | NotRestorable | RestoreDenied | DoesNotFit | RestoreFitsByNameOnly | RestoreBelowFloor | RestoreTooLarge
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWayBack:
    """The image that would be restored if a write fails cannot be."""

    image: str
    problem: RestoreProblem


# ------------------------------------------------------------------------------------------------------------------ bundles


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralOfBundle:
    """Several components of a bundle fit one component."""

    bundle: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsoWritten:
    """A bundle would write a component that other images are written to."""

    bundle: str
    version: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReachesDevice:
    """A bundle writes a device that was not chosen."""

    bundle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleAgainstRule:
    """A bundle would write another version than a rule demands."""

    bundle: str
    version: str
    rule: str
    demanded: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReachesMachines:
    """The BMC serves several machines, and would write a bundle to all of them."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class OneComponentAtATime:
    """The BMC takes no bundle (HPM.1)."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class PartDenied:
    """A component of a bundle is denied."""

    component: str | None
    version: str
    denial: str


# -------------------------------------------------------------------------------------------------------------------- locks


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRecord:
    """A lock would have to be opened of which nobody remembers what was closed, which is all that may be opened.

    :ivar why: as its mechanism describes the state.
    """

    ref: Ref
    state: LockState
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToResetForLock:
    """A lock needs a reset, and nothing says of what."""

    needs: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotBeClosed:
    """The best mechanism of a path cannot close it.

    :ivar part: what of the device stays open.
    :ivar why: as the mechanism describes it.
    """

    part: str
    mechanism: str
    ref: Ref
    why: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverEnded:
    """A waiver of the path has ended, or holds for longer than any may.

    :ivar too_long: it would hold until ``expires``, which is too long; else it has ended then.
    """

    rule: str
    role: str
    expires: datetime
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMechanism:
    """A path is demanded to be blocked, and nothing blocks it.

    :ivar parts: of the device that stay open.
    :ivar vanished: a waiver covers the path, but a mechanism for it was shown before.
    :ivar waivers: those that name the path, and do not cover it now.
    """

    parts: tuple[str, ...]
    rule: str
    vanished: bool = False
    waivers: tuple[WaiverEnded, ...] = ()


# --------------------------------------------------------------------------------------------------------- hosts and resets


@dataclass(frozen=True, slots=True, kw_only=True)
class NoHost:
    """The host has to be powered off first, and the BMC shows no System."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerStateUnknown:
    """The host has to be powered off first, and the BMC does not tell whether it is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetNotOffered:
    """A System has to be reset, and offers no ResetType for that.

    :ivar kind: ``none``: it has to be powered off and on.
    """

    system: Ref
    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToReset:
    """An image needs a reset, and the BMC shows nothing to reset."""

    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NoStandbyCycle:
    """A System has to lose its standby power, and its BMC offers no action for that."""

    system: Ref
    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerUnknownBeforeCycle:
    """A System has to be off before it loses its standby power, and its BMC does not tell whether it is."""

    system: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ComesOnByItself:
    """A System that has to stay off comes on once it has power again (PowerRestorePolicy)."""

    system: Ref
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedNeedsStart:
    """A host has to start for what is done, and is not given back with a quarantined card.

    :ivar cards: label and identity of each.
    """

    reasons: tuple[str, ...]
    cards: tuple[tuple[str, AcceleratorId], ...]


Reason = (
    NoAccelerators
    | SharedIdentity
    | MayHideDevices
    | Counted
    | RuleUndecided
    | NoSuchComponent
    | TakesNoFirmware
    | VersionDenied
    | DeniedVersionThere
    | DeniedFunctionThere
    | NoImage
    | SeveralImages
    | ImagesDenied
    | NoWayToVersion
    | StepNeedsReset
    | NoSuchRevocation
    | RevocationFitsNothing
    | OtherVersionDemanded
    | RevocationTooEarly
    | VersionUnknown
    | SeveralItems
    | SeveralSlots
    | ItemUncertain
    | NotUpdateable
    | NoSlot
    | SlotHasNoItem
    | ImageDenied
    | FitsByNameOnly
    | BelowFloor
    | BmcNotRead
    | OnlyFetches
    | NoWayToSend
    | TakesNoImage
    | ImageTooLarge
    | ImageUnusable
    | WideTarget
    | SharedResource
    | NoWayBack
    | SeveralOfBundle
    | AlsoWritten
    | BundleReachesDevice
    | BundleAgainstRule
    | BundleReachesMachines
    | OneComponentAtATime
    | PartDenied
    | NoRecord
    | NothingToResetForLock
    | CannotBeClosed
    | NoMechanism
    | NoHost
    | PowerStateUnknown
    | ResetNotOffered
    | NothingToReset
    | NoStandbyCycle
    | PowerUnknownBeforeCycle
    | ComesOnByItself
    | QuarantinedNeedsStart
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a plan must not be executed: which device, which part of it, and why.

    :ivar accelerator: None: it is about the target as a whole.
    """

    accelerator: AcceleratorId | None
    label: str
    subject: Subject
    reason: Reason
