# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The settings of a card that rules can demand, and what a BMC shows of them."""

from dataclasses import dataclass
from dataclasses import field as of_dataclass
from enum import StrEnum

from baremetal_acc.model.codec import SPARSE
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref


class CardSetting(StrEnum):
    """Settings of a card, named as the keys of ``[[rule]]``.

    ``sriov``: whether the card has virtual functions (single root input/output virtualization). ``dpu_mode``: whether a DPU
    works as a system of its own, or as a network adapter of its host.
    """

    SRIOV = 'sriov'
    DPU_MODE = 'dpu_mode'


class Sriov(StrEnum):
    """The values of ``sriov``."""

    ENABLED = 'enabled'
    DISABLED = 'disabled'


class DpuMode(StrEnum):
    """The values of ``dpu_mode``. ``dpu``: the card's own system controls its network functions. ``nic``: its host does."""

    DPU = 'dpu'
    NIC = 'nic'


@dataclass(frozen=True, slots=True, kw_only=True)
class CardSettingReading:
    """One property of a BMC that a setting of a card rests on.

    :ivar mechanism: name of what has read it.
    :ivar field: path of the property in the resource, with ``/``.
    :ivar value: in the words of the rules, or as the BMC shows it where no rule has a word for it; None where the resource
        lacks the property, or shows null.
    :ivar pending: another value that was written, and takes effect later.
    :ivar settings: the resource that shows the pending value; None where there is none.
    :ivar reason: why it could not be read, or not completely.
    :ivar sets: the values that the mechanism can set here.
    :ivar needs: the reset with which a new value takes effect; ``reset``: the System that is reset.
    """

    setting: CardSetting
    mechanism: str
    ref: Ref
    field: str
    value: str | None = None
    pending: str | None = of_dataclass(default=None, metadata=SPARSE)
    settings: Ref | None = of_dataclass(default=None, metadata=SPARSE)
    reason: str | None = of_dataclass(default=None, metadata=SPARSE)
    sets: tuple[str, ...] = of_dataclass(default=(), metadata=SPARSE)
    needs: ResetKind = of_dataclass(default=ResetKind.NONE, metadata=SPARSE)
    reset: Ref | None = of_dataclass(default=None, metadata=SPARSE)

    @property
    def place(self) -> tuple[str, Ref, str]:
        """What identifies the property."""
        return self.mechanism, self.ref, self.field


class CardSettingResult(StrEnum):
    """The result of comparing a setting of a card with a rule.

    ``pending``: it is as demanded, and another value takes effect later. ``not-shown``: the BMC does not show it, or not
    everywhere. ``not-read``: this inspection did not include it. Only ``matches`` meets a demand.
    """

    MATCHES = 'matches'
    DIFFERS = 'differs'
    PENDING = 'pending'
    NOT_SHOWN = 'not-shown'
    UNREAD = 'unread'
    NOT_READ = 'not-read'
