# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The present time, as steps and periodics read it."""

from datetime import UTC, datetime


def now() -> datetime:
    """Return the present time, in UTC."""
    return datetime.now(UTC)
