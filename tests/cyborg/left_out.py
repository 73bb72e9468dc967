# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What of this folder ``make test`` leaves out: all of it."""

import os

SOAK = bool(os.environ.get('BAREMETAL_ACC_SOAK'))


def told() -> str | None:
    """What did not run, in a line; None where everything did."""
    return None if SOAK else 'tests/cyborg: left out, for it takes Cyborg, MariaDB and RabbitMQ: make soak-cyborg runs it'
