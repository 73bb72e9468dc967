# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A verb that writes to BMCs, with the options that the operator gave."""

from dataclasses import dataclass
from enum import StrEnum

from baremetal_acc.planning.plan import Part


class Verb(StrEnum):
    """A verb that writes to BMCs. Its name is stored in the job, so that a later run knows the aim of the job."""

    APPLY = 'apply'
    PROGRAM = 'program'
    LOCK = 'lock'
    UNLOCK = 'unlock'


PARTS = {
    Verb.APPLY: frozenset({Part.FIRMWARE, Part.FUNCTIONS, Part.LOCK, Part.SETTINGS}),
    Verb.PROGRAM: frozenset({Part.FUNCTIONS}),
    Verb.LOCK: frozenset({Part.LOCK}),
    Verb.UNLOCK: frozenset({Part.UNLOCK}),
}
"""What each verb may change. Publishing is added where placement is configured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """A verb with its options, as the operator gave them.

    :ivar devices: names of devices (id, UUID, serial number, label, URI); empty for all.
    :ivar functions: pairs of a pattern over SlotIds and a function, for ``program``.
    :ivar hold: power the host off first; None: only where a tenant has the machine.
    :ivar new_lifecycle: a new lifecycle begins, so locks that were proven earlier do not count.
    :ivar forget_vanished: cards that are not there now are no longer expected.
    """

    verb: Verb
    devices: tuple[str, ...] = ()
    functions: tuple[tuple[str, str], ...] = ()
    hold: bool | None = None
    new_lifecycle: bool = False
    forget_vanished: bool = False
