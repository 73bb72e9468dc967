# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that lies: no tenant of Nova gets the machine, Nova does not schedule to it, and it is back after its repair."""

from tests.journey.api import Node
from tests.journey.conftest import GPU_NEW, GPU_OLD, Enrol
from tests.nova_end_to_end.clients import Site, until
from tests.nova_end_to_end.test_boot import available, power


def lose_locks(node: Node) -> None:
    """Somebody restarts the host at its button, and the restart opens the locks."""
    node.machine.fault('lock-lost-on-reset')
    node.machine.power('ForceRestart')
    until(node.open_ways, 30, 'that a way is open')
    node.machine.clear_faults()


def test_a_lock_that_is_not_there(site: Site, enrol: Enrol) -> None:
    """A restart opened the lock. The BMC reports its write as done, and leaves it open: deploy and cleaning fail."""
    node = available(site, enrol, 'gpu-server', 'locks', parameters={'gpus': 1})
    flavor = site.flavor('locks', ACC='PGPU')
    assert (['PGPU'], []) == (node.offers(), node.open_ways())
    lose_locks(node)
    node.machine.fault('lock-ignored')

    server = site.boot(flavor)
    fault = server.settle('ERROR')['fault']
    assert fault['message'].startswith('Exceeded maximum number of retries.')
    refusals = [event for event in node.history() if 'lock_accelerators' in event and 'expected locked-verified' in event]
    assert [] == [word for word in (node.name, 'GPU_0', 'host-device') if word not in refusals[0]]
    assert {} == server.claims()
    assert 'active' not in node.seen
    found = node.settle()
    assert ('clean failed', True) == (found['provision_state'], found['maintenance'])
    assert [] == [word for word in ('GPU_0', 'host-device') if word not in node.show()['last_error']]
    assert ([], None) == (node.offers(), node.show()['instance_uuid'])
    site.until_schedulable(node, reserved=1)
    again = site.boot(flavor)
    assert 'No valid host was found. ' == again.settle('ERROR')['fault']['message']

    node.machine.clear_faults()
    node.recover()
    node.to('provide', 'available')
    site.until_schedulable(node)
    assert (['PGPU'], []) == (node.offers(), node.open_ways())
    third = site.boot(flavor)
    third.settle('ACTIVE')
    assert ('On', []) == (power(node), node.open_ways())


def test_a_write_that_did_not_happen(site: Site, enrol: Enrol) -> None:
    """The BMC reports a write of firmware as done, and the card keeps its firmware: cleaning fails, and nothing is offered."""
    node = enrol('gpu-server', 'flash', parameters={'gpus': 1})
    flavor = site.flavor('flash', ACC='PGPU')
    assert GPU_OLD == node.versions()['host/HGX_FW_GPU_0']
    node.machine.fault('task-completed-version-unchanged')
    node.provision('provide')
    found = node.settle()
    assert ('clean failed', True) == (found['provision_state'], found['maintenance'])
    assert [] == [word for word in (GPU_OLD, GPU_NEW) if word not in found['last_error']]
    site.until_schedulable(node, reserved=1)
    assert ([], GPU_OLD) == (node.offers(), node.versions()['host/HGX_FW_GPU_0'])
    server = site.boot(flavor)
    assert 'No valid host was found. ' == server.settle('ERROR')['fault']['message']
    assert {} == server.claims()

    node.machine.clear_faults()
    node.recover()
    node.to('provide', 'available')
    site.until_schedulable(node)
    second = site.boot(flavor)
    second.settle('ACTIVE')
    assert (GPU_NEW, 'On', []) == (node.versions()['host/HGX_FW_GPU_0'], power(node), node.open_ways())
