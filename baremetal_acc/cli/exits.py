# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Exit codes of the commands, and the exit code of each error. A script can tell from the code what to do next."""

from collections.abc import Iterable
from enum import IntEnum

from baremetal_acc import errors


class Exit(IntEnum):
    """The exit codes of all commands. ``INTERRUPTED`` is the code that shells use for Ctrl-C (128 + SIGINT)."""

    HOLDS = 0
    OUR_FAULT = 1
    USAGE = 2
    NOT_MET = 3
    REFUSED = 4
    UNREACHABLE = 5
    WRITE_FAILED = 6
    INTERRUPTED = 130


_FROM_BETTER_TO_WORSE = (
    Exit.HOLDS,
    Exit.NOT_MET,
    Exit.REFUSED,
    Exit.USAGE,
    Exit.UNREACHABLE,
    Exit.OUR_FAULT,
    Exit.WRITE_FAILED,
    Exit.INTERRUPTED,
)
"""A half-written device is worse than all other failures. A defect of ours is worse than the failures that it may hide."""

_CODES: tuple[tuple[type[errors.AccError], Exit], ...] = (
    (errors.DocumentError, Exit.USAGE),
    (errors.UsageError, Exit.USAGE),
    (errors.StateError, Exit.USAGE),
    (errors.LocalError, Exit.USAGE),
    (errors.BmcNoLogin, Exit.UNREACHABLE),
    (errors.BmcUnsupported, Exit.REFUSED),
    (errors.BmcError, Exit.UNREACHABLE),
    (errors.ImageError, Exit.REFUSED),
    (errors.Refused, Exit.REFUSED),
    (errors.NotMet, Exit.NOT_MET),
    (errors.CertificateInvalid, Exit.NOT_MET),
    (errors.WriteFailed, Exit.WRITE_FAILED),
    (errors.StaleJob, Exit.REFUSED),
    (errors.DemandRefused, Exit.REFUSED),
    (errors.DemandDiffers, Exit.REFUSED),
    (errors.IronicUnreachable, Exit.UNREACHABLE),
    (errors.IronicError, Exit.REFUSED),
    (errors.PlacementUnreachable, Exit.UNREACHABLE),
    (errors.PlacementError, Exit.REFUSED),
)
"""The first row whose class fits applies. An error without a row is our own fault."""


def of(error: errors.AccError) -> Exit:
    """The exit code of an error."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), Exit.OUR_FAULT)


def worst(codes: Iterable[Exit]) -> Exit:
    """The exit code of a command with several targets: the worst of theirs, HOLDS if there are none."""
    return max(codes, key=_FROM_BETTER_TO_WORSE.index, default=Exit.HOLDS)
