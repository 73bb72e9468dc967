# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job stays with the machine on which it began."""

from dataclasses import replace

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.errors import StaleJob
from baremetal_acc.model.ref import HOST, BmcName
from tests.unit.execution.bench import Bench

ELSEWHERE = BmcAddress(name=HOST, address='https://192.0.2.2')
RENAMED = BmcAddress(name=BmcName('dpu'), address='https://192.0.2.1')


@pytest.mark.parametrize(
    ('bmcs', 'told'),
    [((ELSEWHERE,), 'its address is now https://192.0.2.2:443'), ((RENAMED,), 'the target no longer has a BMC of that name')],
)
def test_nothing_is_asked_of_another_machine(bmcs, told):
    """The list of BMCs was changed in the middle of the job."""
    bench = Bench()
    job, _ = bench.turn(bench.job())
    asked = len(bench.machine.log)
    bench.tools = replace(bench.tools, connect=lambda address: pytest.fail(f'{address} was asked'))
    bench.target = replace(bench.target, bmcs=bmcs)
    with pytest.raises(StaleJob, match=told):
        bench.turn(job)
    assert asked == len(bench.machine.log)


@pytest.mark.parametrize('address', ['https://192.0.2.1:443', 'https://192.0.2.1/', 'HTTPS://192.0.2.1'])
def test_another_spelling_of_the_address_is_the_same_machine(address):
    """Port and path say nothing new."""
    bench = Bench()
    job, _ = bench.turn(bench.job())
    bench.target = replace(bench.target, bmcs=(BmcAddress(name=HOST, address=address),))
    bench.run(job)
