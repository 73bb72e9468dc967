# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of this folder ``make test`` leaves out: all of it."""

import os

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))


def told() -> str | None:
    """What did not run, in a line; None where everything did."""
    return (
        None if SOAK else 'tests/nova_end_to_end: left out, for it takes Keystone, MariaDB and RabbitMQ: make soak-nova runs it'
    )
