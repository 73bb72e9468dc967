# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Contracts of connections that can read and restore the settings of their BMC that rules of ``[bmc]`` name."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.bmc_state import BmcSetting, BmcState
from baremetal_acc.model.inventory import BmcFacts, Objection


@runtime_checkable
class ReadsSettings(Protocol):
    """A connection that can read settings of its BMC. Settings of a BMC without it count as unread."""

    def settings(self, asked: frozenset[BmcSetting], facts: BmcFacts) -> BmcState:
        """Read these settings now. What fails is reported as unread, not raised.

        :param facts: of the BMC, from an inspection over this connection.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingSight:
    """What a BMC shows of a setting that is to be restored, or was.

    :ivar restored: it is as restored.
    :ivar value: what it shows, as ``RestoreSetting.expects`` has it; None where the resource lacks it.
    :ivar sent: it was written by this call.
    :ivar objection: what the BMC reports against the write, in an answer of success.
    :ivar unconditional: it was written without If-Match, since the BMC refuses the ETag that it shows.
    """

    restored: bool
    value: str | None
    sent: bool = False
    objection: Objection | None = None
    unconditional: bool = False


@runtime_checkable
class RestoresSettings(Protocol):
    """A connection that can restore settings of its BMC."""

    def restore(self, action: RestoreSetting, *, send: bool) -> SettingSight:
        """Read a setting now, write it if it still shows what the action expects, and read it again.

        :param send: False: only read it.
        :raises BmcError: it could not be read, or the BMC did not accept the write.
        """
