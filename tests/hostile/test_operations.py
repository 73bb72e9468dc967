# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Writes, tasks and power stay right whatever the BMC answers. Each write goes out once."""

import pytest

from tests.hostile.operate import operate


@pytest.mark.parametrize('block', range(6))
def test_every_operation_on_a_hostile_bmc_ends_well(bmc, block):
    """In a result that the sent bytes give cause for, or in an error of ours; no write is sent a second time."""
    mutated = 0
    for number in range(block * 20, block * 20 + 20):
        script, found = operate(bmc, 0, number)
        assert not found, '\n'.join([*found, f'number {number}', *(f'{s.method} {s.target} {s.mutations}' for s in script.log)])
        mutated += script.mutated
    assert mutated > 20
