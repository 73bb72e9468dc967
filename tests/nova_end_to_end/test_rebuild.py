# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What else Nova lets a tenant or an administrator ask of a server: nothing of it opens a card, or skips a verification."""

import time
from pathlib import Path

import pytest

from tests.journey.api import Json, Node
from tests.journey.conftest import GPU_NEW, Enrol
from tests.nova_end_to_end.clients import Server, Site, until
from tests.nova_end_to_end.image_and_network import IMAGE
from tests.nova_end_to_end.test_boot import AES, GZIP, available, functions, handed_over, power, refused
from tests.nova_end_to_end.test_lying_bmc import lose_locks

REFUSED = "Ironic doesn't support rebuilding volume backed instances."
"""What the Ironic driver of nova 34.0.0 says of each rebuild from microversion 2.93, whose API always asks for that."""


@pytest.fixture
def booted(site: Site, enrol: Enrol) -> tuple[Server, Node]:
    """A server that runs, and its machine."""
    node = available(site, enrol, 'fpga-server', 'functions')
    server = site.boot(site.flavor('functions', ACC=GZIP))
    server.settle('ACTIVE')
    return server, node


def resets(node: Node) -> list[Json]:
    """Requests to start, stop or restart the host that reached its BMC."""
    return [entry for entry in node.writes() if entry['path'].endswith('ComputerSystem.Reset')]


def test_rebuild(site: Site, booted: tuple[Server, Node], documents: Path) -> None:
    """From microversion 2.93 Nova accepts it and then fails: nothing happens to the machine, and nobody else may claim it."""
    server, node = booted
    before = node.show()
    node.machine.reset_log()
    assert 202 == server.act('rebuild', {'imageRef': IMAGE}).status_code
    assert REFUSED == server.settle('ERROR')['fault']['message']
    assert ([], before['provision_updated_at']) == (node.writes(), node.show()['provision_updated_at'])
    refused(node, documents)

    # Nova drops what the server holds in placement, though the tenant keeps the machine. Nobody else may have any of it.
    assert {} == server.claims()
    assert [False, False] == [node.may_be_claimed(name) for name in (GZIP, AES)]
    assert ('active', server.id) == (node.show()['provision_state'], node.show()['instance_uuid'])


def test_rebuild_of_an_older_client(site: Site, booted: tuple[Server, Node], documents: Path) -> None:
    """Before microversion 2.93 it is a deploy of Ironic, which verifies the machine as each deploy does."""
    server, node = booted
    for turn in range(2):
        done = len(node.history())
        assert 202 == server.act('rebuild', {'imageRef': IMAGE}, version='2.92').status_code
        node.until('deploying')
        server.settle('ACTIVE')
        assert 'active' == node.settle()['provision_state'], turn
        handed_over(site, server, node, documents, GZIP)
        events = node.history()[done:]
        assert [] == [w for w in ('lock_accelerators is done', 'hand-over certificate') if not any(w in e for e in events)], (
            events
        )
    assert ['gzip', 'aes'] == functions(node)


def test_a_rebuild_is_refused_while_a_lock_is_open(site: Site, enrol: Enrol) -> None:
    """A restart opened the locks and the BMC does not close them: the rebuild fails, and no call of Nova starts the host."""
    node = available(site, enrol, 'gpu-server', 'flash', parameters={'gpus': 1})
    server = site.boot(site.flavor('flash', ACC='PGPU'))
    server.settle('ACTIVE')
    lose_locks(node)
    node.machine.fault('lock-ignored')
    assert 202 == server.act('rebuild', {'imageRef': IMAGE}, version='2.92').status_code
    fault = server.settle('ERROR')['fault']['message']
    assert [] == [word for word in (node.name, 'lock_accelerators', 'GPU_0', 'host-device') if word not in fault], fault
    assert 'deploy failed' == node.settle()['provision_state']

    # Ironic answers 409. Nova then shows the server as the power of its machine is.
    node.machine.reset_log()
    server.does('reboot', {'type': 'HARD'})
    server.settle('ACTIVE')
    assert ([], 'deploy failed') == (resets(node), node.show()['provision_state'])
    server.does('os-stop')
    server.settle('SHUTOFF')
    until(lambda: power(node) == 'Off', 60, 'that the host is off')
    node.machine.reset_log()
    server.does('os-start')
    until(lambda: server.show()['OS-EXT-STS:task_state'] is None, 60, 'that Nova has given up')
    time.sleep(3)
    assert ('Off', []) == (power(node), resets(node))
    assert [] != node.open_ways()

    # The tenant's code has run while the card was open: cleaning writes it again.
    node.machine.clear_faults()
    server.delete()
    assert 'available' == node.settle()['provision_state']
    assert (GPU_NEW, []) == (node.versions()['host/HGX_FW_GPU_0'], node.open_ways())
    assert 1 == len(node.uploads())


ACTIONS = {
    'rescue': {},
    'os-getConsoleOutput': {},
    'trigger_crash_dump': None,
    'evacuate': {},
    'injectNetworkInfo': None,
    'os-resetState': {'state': 'error'},
}
"""Some of what Nova's API has besides; an administrator asks, who may ask for all of it."""


def test_other_actions(site: Site, booted: tuple[Server, Node], documents: Path) -> None:
    """Whatever Nova makes of it, the node stays the tenant's, its cards stay closed, and no card changes."""
    server, node = booted
    before, done = node.machine.truth()['components'], {}
    for action, body in ACTIONS.items():
        answer = server.act(action, body, who=site.operator)
        until(lambda: server.show()['OS-EXT-STS:task_state'] is None, 90, f'that Nova has done {action}')
        found, shown = node.settle(), server.show()
        done[action] = (answer.status_code, shown['status'], power(node))
        assert ('active', server.id) == (found['provision_state'], node.show()['instance_uuid']), done
        assert (before, []) == (node.machine.truth()['components'], node.open_ways()), done
        # As an administrator repairs it.
        assert 202 == server.act('os-resetState', {'state': 'active'}, who=site.operator).status_code
        if power(node) == 'Off':
            server.does('reboot', {'type': 'HARD'})
            server.settle('ACTIVE')
            assert ('On', []) == (power(node), node.open_ways()), action
        refused(node, documents)
