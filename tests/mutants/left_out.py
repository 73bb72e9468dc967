# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The guards that a run takes out, and those that it omits for want of time: every eighth one with quick tests is taken out,
and the soak takes out all others."""

import os

from tests.mutants.guards import GUARDS, Guard

VARIABLE = 'BAREMETAL_ACC_GUARDS'

SLOW = ('tests/cli/', 'tests/emulator_client/', 'tests/faults/', 'tests/ironic/', 'tests/malicious/')
"""Whose tests start services or emulated machines."""


def chosen() -> list[Guard]:
    """The guards that are taken out."""
    everything = os.environ.get(VARIABLE) == 'all'
    quick = [guard for guard in GUARDS if not guard.tests.startswith(SLOW)]
    return list(GUARDS) if everything else quick[::8]


def told() -> str | None:
    """What did not run, in a line; None where everything did."""
    missing = len(GUARDS) - len(chosen())
    return f'tests/mutants: {missing} guards not tested; make soak-guards tests all' if missing else None
