# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Texts that BMCs, and those who write EEPROMs, put where there is nothing to say."""

SENTINELS = frozenset({
    '', '-', '-*', 'n/a', 'na', 'nil', 'none', 'null', '(null)', 'unknown', 'not available', 'version not available',
    'not applicable',    'to be filled by o.e.m.', 'default string', 'cpldserialnumber',
})  # fmt: skip
"""What BMCs write for "there is none", without case. Seen in recordings and in FRUs."""


def is_placeholder(text: str) -> bool:
    """It names nothing: one of these, or no letter and no digit at all."""
    return text.strip().casefold() in SENTINELS or not any(c.isalnum() for c in text)
