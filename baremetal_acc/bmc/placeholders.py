# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Placeholder texts, such as ``N/A``, that BMCs and FRU EEPROMs hold in place of a value."""

SENTINELS = frozenset({
    '', '-', '-*', 'n/a', 'na', 'nil', 'none', 'null', '(null)', 'unknown', 'not available', 'version not available',
    'not applicable',    'to be filled by o.e.m.', 'default string', 'cpldserialnumber',
})  # fmt: skip
"""Placeholders in lower case. Seen in recordings and in FRUs."""


def is_placeholder(text: str) -> bool:
    """Whether a text holds no value: it is one of these placeholders, or has neither a letter nor a digit."""
    return text.strip().casefold() in SENTINELS or not any(c.isalnum() for c in text)
