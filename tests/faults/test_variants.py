# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job ends closed and in time also with firmware that needs a restart, locks that have to be released, and TLS.

Each row of the table once more in each of these ways; the ends may differ, what the oracle asks may not. They run with
``BAREMETAL_ACC_FAULTS=all``, one of them always.
"""

import os
from collections.abc import Callable
from typing import Any

import pytest

from baremetal_acc.model.job import Done, Failed
from tests.faults.cases import CASES
from tests.faults.left_out import VARIABLE
from tests.faults.rig import EROT, GPU, NIC, Rig

CLOSED = {
    f'{lock}_GPU_{card}/{name}': value
    for card in (0, 1)
    for lock, name, value in (('HGX_FW', 'WriteProtected', True), ('HGX_ERoT', 'InbandUpdatePolicyEnabled', False))
}

WAYS: dict[str, dict[str, Any]] = {
    'a restart is needed, locks are closed': {'what': GPU, 'machine': {'settings': CLOSED}},
    'nobody holds the host, TLS': {'what': EROT, 'hold': False, 'machine': {'tls': True}},
    'a restart is needed, nobody holds the host, two at once': {
        'what': GPU,
        'hold': False,
        'address': {'parallel_updates': 2, 'concurrency': 4},
    },
}

QUICK = [('bmc-restarts-and-forgets-its-tasks', 'a restart is needed, locks are closed')]
EVERY = [(name, way) for name, case in CASES.items() if case.what != NIC and not case.found_off for way in WAYS]


@pytest.mark.parametrize(('name', 'way'), EVERY if os.environ.get(VARIABLE) == 'all' else QUICK)
def test_a_job_ends_closed_and_in_time_whatever_it_writes(name: str, way: str, rig: Callable[..., Rig]) -> None:
    """Done and true, or failed with a reason; never open while the host runs."""
    case = CASES[name]
    how = WAYS[way]
    found = rig(
        what=how['what'],
        hold=how.get('hold', True),
        machine=case.machine | how.get('machine', {}),
        address=case.address | how.get('address', {}),
    )
    assert () == found.begin()
    case.meets(found)
    found.turn()
    found.judge(opens_by_itself=case.opens)
    assert isinstance(found.outcome, Done) or (isinstance(found.outcome, Failed) and found.reasons)
