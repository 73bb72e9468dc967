# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The plan for a target: actions, refusals and notes."""

from dataclasses import dataclass

from baremetal_acc.model.action import Action
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import BmcName
from baremetal_acc.model.refusal import Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The actions and refusals for a target. The plan that is printed is the plan that is executed.

    :ivar parallel: how many updates each BMC takes at once.
    """

    target: str
    actions: tuple[Action, ...]
    parallel: tuple[tuple[BmcName, int], ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notes: tuple[Note, ...] = ()
