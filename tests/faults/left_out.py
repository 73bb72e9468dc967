# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rows of the tests of faults that a run omits: those that take long run with ``BAREMETAL_ACC_FAULTS=all``."""

import os
from collections.abc import Mapping

from tests.faults.cases import CASES, Case

VARIABLE = 'BAREMETAL_ACC_FAULTS'


def chosen(cases: Mapping[str, Case]) -> list[str]:
    """The rows that run."""
    return [name for name, case in cases.items() if not case.slow or os.environ.get(VARIABLE) == 'all']


def left_out(cases: Mapping[str, Case]) -> list[str]:
    """The rows that do not run."""
    runs = set(chosen(cases))
    return [name for name in cases if name not in runs]


def told() -> str | None:
    """What did not run, in a line; None where everything did."""
    missing = left_out(CASES)
    if not missing:
        return None
    return f'tests/faults: {len(missing)} rows and the variants left out, {VARIABLE}=all runs them: {", ".join(missing)}'
