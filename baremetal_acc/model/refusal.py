# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reasons why a plan is refused, as types: a closed union with facts only.

:mod:`baremetal_acc.render.refusals` makes the sentences. Texts of an operator's document (why a version is denied, who signed a
waiver) and of a BMC (why a resource could not be read) are facts here.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from baremetal_acc.model.bmc_state import KeptReason
from baremetal_acc.model.image import ImageKind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, ResetKind
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref
from baremetal_acc.model.subject import Subject

# --------------------------------------------------------------------------------------------------------- missing devices


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAccelerators:
    """The BMC reports no accelerator.

    :ivar host_is_off: some BMCs show cards only while the host is on. Source: dsx-ai-factory/infra-controller#4903.
    """

    host_is_off: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedIdentity:
    """Several devices have the same identity."""

    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MayHideDevices:
    """A resource that could not be read may hide devices."""

    gap: Gap


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The number of devices of a machine that a rule matches.

    :ivar possible: devices for which it is undecided whether they match.
    """

    wanted: int
    found: int
    possible: int

    @property
    def met(self) -> bool:
        """Whether exactly the wanted number of devices matches, with none undecided."""
        return self.found == self.wanted and not self.possible


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUndecided:
    """The BMC does not show a property that a rule matches on, so that the rule may apply to this device.

    :ivar hidden: the properties that it does not show.
    """

    hidden: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------------- images that fit


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchComponent:
    """The BMC reports no component that a rule names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TakesNoFirmware:
    """The BMC has no update service."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDenied:
    """The catalogue denies the version that would be written."""

    version: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedVersionThere:
    """A denied version runs, or is staged, and no rule demands a version in its place."""

    version: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeniedFunctionThere:
    """A slot holds a denied function, and no rule demands a function for the slot."""

    image: str
    denial: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoImage:
    """The catalogue has no image that fits.

    :ivar version: the demanded firmware version; otherwise ``function`` is demanded.
    :ivar for_others: images of that version for other devices.
    :ivar meant: a version of the catalogue that is the same in another spelling.
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
    """All images of a function are denied; each with the reason."""

    images: tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWayToVersion:
    """An image may be written only over some versions, and no images of the catalogue lead to one of them.

    :ivar via: the versions that the image may be written over.
    """

    image: str
    via: tuple[str, ...]
    runs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNeedsReset:
    """An intermediate version takes effect only with a reset, so that a rule has to demand it first."""

    image: str
    via: tuple[str, ...]
    runs: str
    step: str
    step_version: str
    reset: ResetKind


# -------------------------------------------------------------------------------------------------------------- revocations


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSuchRevocation:
    """A rule names a revocation that the catalogue does not have, or that is an image of another kind."""

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
    """A revocation cannot be undone, and the firmware that it needs does not run yet.

    :ivar late: the components that do not run it.
    """

    rule: str
    late: tuple[str, ...]


# ---------------------------------------------------------------------------------------------------- what would be written


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionUnknown:
    """It is unknown which version would be overwritten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralItems:
    """The BMC has several SoftwareInventory resources of the same name for the device."""

    component: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralSlots:
    """The BMC has several slots of the same SlotId for the device."""

    slot: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemUncertain:
    """The BMC does not say that a SoftwareInventory belongs to this device."""

    component: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NotUpdateable:
    """The BMC says that the component is not updateable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoSlot:
    """No slot of the device matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotHasNoItem:
    """The BMC has no SoftwareInventory through which a slot could be programmed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDenied:
    """The catalogue denies an image."""

    image: str
    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FitsByNameOnly:
    """An image fits the device by vendor and model only."""

    image: str


class FloorCause(StrEnum):
    """What sets the floor of security versions: a rule, the running version, or one that is written before."""

    RULE = 'rule'
    RUNNING = 'running'
    WRITTEN_BEFORE = 'written-before'


@dataclass(frozen=True, slots=True, kw_only=True)
class FloorOrigin:
    """What sets a floor of security versions.

    :ivar rule: the rule whose ``security_floor`` it is; for the other causes the rule in which ``downgrade = "allow"`` would
        permit a lower one, None where nothing permits it.
    :ivar runs: the running version.
    :ivar image: the image of the catalogue that has the security version of the floor.
    """

    cause: FloorCause
    rule: str | None
    runs: str | None = None
    image: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BelowFloor:
    """The security version of an image is below the floor."""

    image: str
    security_version: int
    floor: int
    origin: FloorOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcNotRead:
    """The BMC of a component could not be read."""

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
    """The BMC takes no image in its present state.

    :ivar obstacle: the driver's description of the obstacle.
    """

    bmc: BmcName
    obstacle: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageTooLarge:
    """An image is larger than its BMC accepts."""

    image: str
    bmc: BmcName
    size_bytes: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageUnusable:
    """An image does not match the catalogue, or its BMC judges against it."""

    image: str
    error: Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class WideTarget:
    """A resource represents several parts, and all of them would get the image."""

    ref: Ref
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedResource:
    """A resource also belongs to another machine."""

    ref: Ref


# ----------------------------------------------------------------------------------------------------------- restore images


@dataclass(frozen=True, slots=True, kw_only=True)
class NotInCatalogue:
    """The catalogue has no image of the restore image's name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRestorable:
    """The restore image is no firmware image."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreDenied:
    """The catalogue denies the restore image."""

    denial: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DoesNotFit:
    """The restore image is for other devices."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreFitsByNameOnly:
    """The restore image fits by vendor and model only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreBelowFloor:
    """The security version of the restore image is below the floor."""

    security_version: int
    floor: int
    origin: FloorOrigin


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreTooLarge:
    """The restore image is larger than its BMC accepts."""

    size_bytes: int
    max_bytes: int


RestoreProblem = (
    NotInCatalogue | NotRestorable | RestoreDenied | DoesNotFit | RestoreFitsByNameOnly | RestoreBelowFloor | RestoreTooLarge
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWayBack:
    """The image that would be restored after a failed write cannot be used."""

    image: str
    problem: RestoreProblem


# ------------------------------------------------------------------------------------------------------------------ bundles


@dataclass(frozen=True, slots=True, kw_only=True)
class SeveralOfBundle:
    """Several components of a bundle fit the same component of the device."""

    bundle: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlsoWritten:
    """A bundle would write a component to which other images are written, too."""

    bundle: str
    version: str
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleReachesDevice:
    """A bundle writes a device that was not selected."""

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
    """The BMC serves several machines, and would write the bundle to all of them."""

    bmc: BmcName


@dataclass(frozen=True, slots=True, kw_only=True)
class OneComponentAtATime:
    """The BMC takes no bundle, since HPM.1 writes one component at a time."""

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
    """A lock would have to be opened for which there is no record of what we have closed, which is all that may be opened.

    :ivar why: the mechanism's description of the state.
    """

    ref: Ref
    state: LockState
    why: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToResetForLock:
    """A lock needs a reset, and nothing says which System to reset."""

    needs: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotBeClosed:
    """The best mechanism of a path cannot close it.

    :ivar part: the part of the device that stays open.
    :ivar why: the mechanism's description.
    """

    part: str
    mechanism: str
    ref: Ref
    why: str | None
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaiverEnded:
    """A waiver of the path has ended, or lasts longer than any may.

    :ivar too_long: it would end at ``expires``, which is too late; False: it ended then.
    """

    rule: str
    role: str
    expires: datetime
    too_long: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NoMechanism:
    """A path has to be blocked, and no mechanism blocks it.

    :ivar parts: parts of the device that stay open.
    :ivar vanished: a waiver covers the path, but a mechanism for the path was reported before.
    :ivar waivers: waivers that name the path, and do not cover it now.
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
    """The host has to be powered off first, and the BMC does not say whether it is on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetNotOffered:
    """A System has to be reset, and has no suitable ResetType.

    :ivar kind: ``none``: the System has to be powered off and on.
    """

    system: Ref
    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToReset:
    """An image needs a reset, and the BMC shows no System to reset."""

    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class NoStandbyCycle:
    """The standby power of a System has to be cycled, and its BMC has no action for that."""

    system: Ref
    kind: ResetKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerUnknownBeforeCycle:
    """A System has to be off before its standby power is cycled, and its BMC does not say whether it is off."""

    system: Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ComesOnByItself:
    """A System that has to stay off powers on by itself once power is back (PowerRestorePolicy)."""

    system: Ref
    policy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedNeedsStart:
    """The plan has to start the host, which must not run with a quarantined card.

    :ivar cards: label and identity of each quarantined card.
    """

    reasons: tuple[str, ...]
    cards: tuple[tuple[str, AcceleratorId], ...]


# --------------------------------------------------------------------------------------------------------- settings of BMCs


@dataclass(frozen=True, slots=True, kw_only=True)
class RestsOnSetting:
    """A rule of ``[bmc]`` says to restore a setting that the target itself rests on.

    :ivar account: the name of the account, where it is one.
    """

    why: KeptReason
    rule: str
    account: str | None = None


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
    | RestsOnSetting
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A reason why a plan must not be executed, with the device and the part of it that the reason is about.

    :ivar accelerator: None where the reason is about the target as a whole.
    """

    accelerator: AcceleratorId | None
    label: str
    subject: Subject
    reason: Reason
