# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The classes of attacks by images and catalogues. Each case is of exactly one class: that of what the attacker does.

What he changes after the check is swapped, whatever he changes it into. What the operator has denied since is revoked, below a
floor that he has raised since a downgrade, and what has ended since expired.
"""

from enum import StrEnum


class Attack(StrEnum):
    """A class of attacks, as the page calls it."""

    WRONG_CARD = 'wrong card'
    DOWNGRADE = 'downgrade'
    REVOKED = 'revoked'
    EXPIRED = 'expired'
    BIT_FLIPPED = 'bit-flipped'
    SWAPPED = 'swapped between check and push'
    TRUNCATED = 'truncated'
    OVERSIZED = 'oversized'
    PATH_TRAVERSAL = 'path traversal'
    REDIRECT = 'redirect to another host'
    FORGED_SIGNATURE = 'forged signature'
    # None of the eleven:
    OTHER_BYTES = 'other bytes'
    NO_FILE = 'no regular file'
    NOT_ONE = 'no image, or several'
    MALFORMED = 'malformed document'
    BAD_SERVER = 'server that breaks the rules of HTTP'
    FOREIGN_SERVER = 'server that is not allowed'


NAMED = tuple(Attack)[:11]
"""The classes of which twenty are asked for."""
