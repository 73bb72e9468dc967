# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that lies: no tenant of Nova gets the machine, Nova does not schedule to it, and it is back after its repair."""

from pathlib import Path

import pytest

from tests.journey.conftest import GPU_NEW, GPU_OLD, Enrol
from tests.nova_end_to_end.clients import Site, until
from tests.nova_end_to_end.test_boot import available, power


@pytest.mark.parametrize('lie', ['lock-ignored', 'lock-never-in-force'])
def test_a_lock_that_is_not_there(site: Site, enrol: Enrol, documents: Path, lie: str) -> None:
    """The BMC reports the write of a lock as done and leaves it open, when the tenant boots."""
    node = available(site, enrol, 'gpu-server', 'locks', parameters={'gpus': 1}, automated_clean=False)
    offered = node.offers()
    assert [] != node.open_ways()
    node.machine.fault('lock-ignored')
    flavor = site.flavor('locks', ACC='PGPU')
    server = site.boot(flavor)
    fault = server.settle('ERROR')['fault']
    print(fault, server.show()['fault'], node.show()['last_error'], node.history())
    assert 'active' not in node.seen
    assert {} == server.claims()
    print(node.settle(), node.offers(), power(node), node.open_ways())
    assert 0


def test_a_write_that_did_not_happen(site: Site, enrol: Enrol) -> None:
    """The BMC reports a write of firmware as done, and the card keeps its firmware: cleaning fails, and nothing is offered."""
    node = available(site, enrol, 'gpu-server', 'flash', parameters={'gpus': 1})
    flavor = site.flavor('flash', ACC='PGPU')
    assert ['PGPU'] == node.offers()
    node.to('manage', 'manageable')
    # TODO
    assert 0
