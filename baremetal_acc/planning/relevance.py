# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Select the findings that decide whether a step of Ironic or a command has succeeded: the same for both."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import UNSEEN_OR_OPEN, SubjectKind
from baremetal_acc.model.verdict import Finding

LOCKING = UNSEEN_OR_OPEN | {SubjectKind.BMC_USERS}
"""Kinds of findings that fail a step that locks: an unexpected account of a BMC can release the locks again."""

FIRMWARE = UNSEEN_OR_OPEN | {SubjectKind.FIRMWARE}
"""Kinds of findings that fail a step that writes firmware, and locks afterwards."""

FUNCTIONS = UNSEEN_OR_OPEN | {SubjectKind.FUNCTION, SubjectKind.ANY_FUNCTION}
"""Kinds of findings that fail a step that programs slots, and locks afterwards."""


def relevant(
    unmet: Iterable[Finding],
    kinds: frozenset[SubjectKind] | None,
    devices: frozenset[AcceleratorId] | None,
    slots: Iterable[str] = (),
) -> tuple[Finding, ...]:
    """Return the findings that fail a step or command.

    A finding about no single device always counts: a device that the BMC hides may be one of those that are meant.

    :param kinds: of findings that count; None for all.
    :param devices: that the step is limited to; None for all.
    :param slots: patterns over SlotIds that it is limited to, in any case of letters; none for all slots.
    """
    patterns = tuple(slot.casefold() for slot in slots)

    def is_meant(finding: Finding) -> bool:
        about = finding.subject
        if kinds is not None and about.kind not in kinds:
            return False
        if devices is not None and finding.accelerator is not None and finding.accelerator not in devices:
            return False
        in_slot = about.kind is not SubjectKind.FUNCTION or not patterns
        return in_slot or any(fnmatchcase(about.name.casefold(), pattern) for pattern in patterns)

    return tuple(filter(is_meant, unmet))
