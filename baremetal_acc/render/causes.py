# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render an error with several causes: a line that counts them, one line for each cause, and a line with the hint."""

from baremetal_acc.errors import AccError, NotMet, Refused, WriteFailed
from baremetal_acc.render.words import counted


def lines(error: AccError) -> tuple[str, ...]:
    """Return the lines of an error. An error with one cause is one line, its message."""
    match error:
        case Refused():
            head, reasons = 'refused', error.reasons
        case NotMet():
            head, reasons = 'not met', error.reasons
        case WriteFailed():
            head, reasons = 'failed while writing', error.reasons
        case _:
            return (str(error),)
    if len(reasons) < 2:
        return (str(error),)
    hint = () if error.hint is None else (f'({error.hint})',)
    return (f'{head}: {counted(len(reasons), "cause")}', *reasons, *hint)
