# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Contract of connections that can read the settings of their BMC that rules of ``[bmc]`` name."""

from typing import Protocol, runtime_checkable

from baremetal_acc.model.bmc_state import BmcSetting, BmcState
from baremetal_acc.model.inventory import BmcFacts


@runtime_checkable
class ReadsSettings(Protocol):
    """A connection that can read settings of its BMC. Settings of a BMC without it count as unread."""

    def settings(self, asked: frozenset[BmcSetting], facts: BmcFacts) -> BmcState:
        """Read these settings now. What fails is reported as unread, not raised.

        :param facts: of the BMC, from an inspection over this connection.
        """
