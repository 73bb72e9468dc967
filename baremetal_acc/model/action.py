# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The actions of a plan, and the stages of a job in which they are carried out."""

from dataclasses import dataclass, field
from dataclasses import field as of_dataclass
from enum import IntEnum, StrEnum

from baremetal_acc.model.bmc_state import BmcSetting
from baremetal_acc.model.card_setting import CardSetting
from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.firmware import ItemIdentity
from baremetal_acc.model.lock import ResetKind, Scope, WritePath
from baremetal_acc.model.ref import AcceleratorId, BmcName, Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """Withdraw the unclaimed inventory of these devices from placement, before anything is changed.

    :ivar whole: withdraw everything of the node; nobody but the node's own instance may have a claim on any of it.
    """

    accelerators: tuple[AcceleratorId, ...]
    whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckImage:
    """Read an image, compare its size and digest with the catalogue, and let the BMCs judge it that can.

    :ivar content: see :class:`Flash`.
    :ivar places: components that the image may be written to by a BMC that says beforehand what speaks against an image.
    """

    image: str
    content: str | None = None
    places: tuple[Ref, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Open a lock that blocks our own write.

    :ivar expects: the literal value that the plan saw; any other value refuses the action.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is opened once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: such a lock is opened before all others.
    """

    accelerator: AcceleratorId
    mechanism: str
    ref: Ref
    field: str
    expects: str | None
    scope: Scope = Scope.DEVICE
    wraps: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Flash:
    """Write a firmware image to one component.

    :ivar ref: the SoftwareInventory, the one Target of the update.
    :ivar expects: the version that the plan saw; any other version refuses the action.
    :ivar staged: the version that the plan saw waiting for a reset: since it was staged before the write, it is no evidence of
        the write.
    :ivar content: ``Image.content`` of the planned image: another image of that name is not written. None in jobs that were
        stored by releases without this field.
    :ivar restore: name of the image to restore when this write fails; None where there is none. ``restore_content`` is its
        content.
    :ivar goes_back: the version that ran when the write was planned is the one that would be restored, and is not in doubt:
        where the write fails, a device that has kept that version may roll back to it.
    :ivar forced: the BMC is told to write the image whatever version is there (ForceUpdate); the plan says why.
    :ivar installed: the time of the component's last write that the plan saw, as the BMC writes it.
    :ivar bundle: name of the bundle that the image is a component of: all writes of one bundle to one BMC are one upload.
    :ivar alone: only this component of the bundle is written, by its own URI as the target.
    :ivar retry: the image is sent once more after a failure.
    :ivar item: the properties by which the SoftwareInventory is found again if the update gives it another URI. None in jobs
        that were stored by releases without this field.
    """

    accelerator: AcceleratorId
    component: str
    ref: Ref
    image: str
    version: str
    expects: str | None
    reset: ResetKind = ResetKind.NONE
    order: int = 0
    content: str | None = None
    restore: str | None = None
    staged: str | None = None
    restore_content: str | None = None
    goes_back: bool = False
    forced: bool = field(default=False, metadata=SPARSE)
    installed: str | None = field(default=None, metadata=SPARSE)
    bundle: str | None = field(default=None, metadata=SPARSE)
    alone: bool = field(default=False, metadata=SPARSE)
    retry: bool = field(default=False, metadata=SPARSE)
    item: ItemIdentity | None = field(default=None, metadata=SPARSE)

    @property
    def upload(self) -> tuple[str, BmcName] | None:
        """The key that all writes of one upload share: bundle and BMC; None where the image is sent by itself."""
        return None if self.bundle is None or self.alone else (self.bundle, self.ref.bmc)


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Put a function into one slot.

    :ivar ref: the SoftwareInventory of the slot, the one Target of the update.
    :ivar expects: the version of the SoftwareInventory when the plan was made; any other version refuses the action.
    :ivar content: see :class:`Flash`, as for ``staged``, ``forced`` and ``installed``.
    """

    accelerator: AcceleratorId
    slot: str
    ref: Ref
    image: str
    function: str
    version: str
    expects: str | None
    order: int = 0
    content: str | None = None
    staged: str | None = None
    forced: bool = field(default=False, metadata=SPARSE)
    installed: str | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetCardSetting:
    """Set a setting of a card to the value that a rule demands.

    :ivar mechanism: as in the reading, like ``ref`` and ``field``.
    :ivar value: the demanded value, in the words of the rules.
    :ivar expects: the value that the plan saw; any other value, except the demanded one, refuses the action.
    :ivar needs: the reset with which the value takes effect.
    """

    accelerator: AcceleratorId
    setting: CardSetting
    mechanism: str
    ref: Ref
    field: str
    value: str
    expects: str | None
    needs: ResetKind = ResetKind.NONE


class ResetPurpose(StrEnum):
    """Why a System is reset.

    ``hold``: keep the tenant's code from running. ``enforce``: let settings or firmware take effect. ``resume``: let the host
    run again.
    """

    HOLD = 'hold'
    ENFORCE = 'enforce'
    RESUME = 'resume'


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """Reset a System, once for all actions that need it.

    ``hold`` powers the System off before anything is released; ``resume`` powers it on again, with which staged firmware takes
    effect. A reset that removes the standby power powers the System off first and leaves it off: another reset powers it on.

    :ivar by: the resource whose action resets it, where that is not the System itself: a Chassis.
    :ivar manager: the Manager that restarts with the reset, and whose restart shows that the reset happened; None where none is
        known.
    """

    system: Ref
    purpose: ResetPurpose
    kind: ResetKind
    why: tuple[str, ...]
    by: Ref | None = field(default=None, metadata=SPARSE)
    manager: Ref | None = field(default=None, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Engage:
    """Close a lock. The reading that proves the lock is part of the verdict.

    :ivar blocks: the write paths that the lock blocks when it holds.
    :ivar scope: as in the reading: a lock of scope ``bmc`` is closed once for all devices, of which ``accelerator`` is one.
    :ivar wraps: as in the reading: such a lock is closed after all others.
    :ivar again: the lock is closed once more after a restart of its BMC, which may have opened it, before anything starts the
        host.
    """

    accelerator: AcceleratorId
    mechanism: str
    ref: Ref
    field: str
    blocks: frozenset[WritePath]
    needs: ResetKind = ResetKind.NONE
    scope: Scope = Scope.DEVICE
    wraps: bool = False
    again: bool = of_dataclass(default=False, metadata=SPARSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreSetting:
    """Restore a setting of a BMC to what a rule of ``[bmc]`` demands. The setting says which value that is: it only closes.

    :ivar ref: the resource that is written: that of the property, an account, or an event subscription.
    :ivar field: path of the property in it, with ``/``.
    :ivar expects: the value that the plan saw, as :class:`~baremetal_acc.model.bmc_state.ShownValue` has it; of an account its
        name. Any other value refuses the action.
    :ivar rule: name of the rule.
    """

    setting: BmcSetting
    ref: Ref
    field: str
    expects: str
    rule: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Publish to placement what was verified."""


Action = Withdraw | CheckImage | Release | Flash | Program | Reset | Engage | RestoreSetting | SetCardSetting | Publish


class Stage(IntEnum):
    """The stages of a job in their order. A stage begins when the one before it has ended."""

    WITHDRAW = 1
    CHECK = 2
    HOLD = 3
    RELEASE = 4
    WRITE = 5
    SETTINGS = 6
    ENGAGE = 7
    RESTART_BMC = 8
    REENGAGE = 9
    RESET = 10
    VERIFY = 11
    PUBLISH = 12


def stage(action: Action) -> Stage:
    """Return the stage of an action.

    Settings are written before locks are engaged: under a lockdown a BMC changes none. Locks are engaged before any reset: no
    tenant's code runs while a lock is open.
    """
    match action:
        case Withdraw():
            return Stage.WITHDRAW
        case CheckImage():
            return Stage.CHECK
        case Release():
            return Stage.RELEASE
        case Flash() | Program() | SetCardSetting():
            return Stage.WRITE
        case RestoreSetting():
            return Stage.SETTINGS
        case Engage():
            return Stage.REENGAGE if action.again else Stage.ENGAGE
        case Reset(purpose=ResetPurpose.HOLD):
            return Stage.HOLD
        case Reset() if action.kind.restarts_bmc:
            return Stage.RESTART_BMC
        case Reset():
            return Stage.RESET
        case Publish():
            return Stage.PUBLISH
