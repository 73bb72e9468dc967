# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A machine that speaks IPMI only, and one that speaks Redfish, in one real Ironic with both hardware types."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from baremetal_acc.emulator.ipmi.site import IpmiOptions
from tests.emulator_ipmi.programs import program
from tests.journey.api import Node
from tests.journey.conftest import HPM_NEW, HPM_OLD, SHOWN_NEW, SHOWN_OLD, Enrol
from tests.unit.emulator.ipmi.test_system import Host

pytestmark = pytest.mark.journey

FPGA = 'host/FPGA1_FW'
REFUSED = b'\xd4'
INITIATE = (0x2C, 0x31, b'\0\1\1')
"""An upgrade by HPM.1 begins with it."""


@contextmanager
def host_of(machine: Any) -> Iterator[Host]:
    """A program of the tenant, at the system interface."""
    with socket.create_connection(('127.0.0.1', machine.bmcs['host'].system_interface_port), 10) as connected:
        host = Host(connected)
        host.frame()
        yield host


def closed(node: Node) -> list[str]:
    """What the host may not say, as the machine knows it."""
    found: list[str] = node.machine.truth()['ipmi']['host']['disabled']['host']['F']
    return found


def test_the_whole_life_of_a_machine_that_speaks_ipmi(enrol: Enrol) -> None:
    """Inspect, clean with a flash, offer, deploy, a tenant that is refused, unlock, clean; beside a node of the other type."""
    program('ipmitool')
    node = enrol('fpga-server', 'ipmi', driver='ipmi-acc', parameters={'ipmi': IpmiOptions()})
    other = enrol('gpu-server', 'flash', parameters={'gpus': 1})
    node.to('inspect', 'manageable')
    (card,) = node.accelerators()
    assert ('FPGA', 'FPGA PAC D5005', HPM_OLD) == (card['kind'], card['model'], node.versions()[FPGA])
    assert {'fpga:FPGA1_FW': SHOWN_OLD} == node.firmware()
    with host_of(node.machine) as host:
        assert REFUSED != host.ask(*INITIATE)[:1]
    before = closed(node)

    for one in (node, other):
        one.provision('provide')
    for one in (node, other):
        found = one.settle()
        assert 'available' == found['provision_state'], found['last_error']
    assert (HPM_NEW, {'fpga:FPGA1_FW': SHOWN_NEW}) == (node.versions()[FPGA], node.firmware())
    assert (['FPGA'], ['PGPU']) == (node.offers(), other.offers())
    assert 1 == node.machine.truth()['ipmi']['host']['upgrades']['FPGA1']['activations']
    assert 1 == sum('reconcile_accelerators begins' in event for event in node.history())

    found = node.deploy()
    assert ('active', 'power on') == (found['provision_state'], found['power_state']), found['last_error']
    with host_of(node.machine) as host:
        assert REFUSED == host.ask(*INITIATE)[:1]
    node.serve('unlock_accelerators')
    found = node.settle()
    assert ('active', 'power off') == (found['provision_state'], found['power_state']), found['last_error']
    assert before == closed(node)
    refused = node.power('power on')
    assert (409, True) == (refused.status_code, 'locks of its accelerators are open' in refused.text)
    assert 'Off' == node.machine.truth()['systems']['host']['power']
    node.provision('deleted')
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    assert set(closed(node)) > set(before)
    assert ['FPGA'] == node.offers()


def test_what_no_session_could_be_opened_with_is_refused_when_the_node_is_managed(enrol: Enrol) -> None:
    """Before anything is asked of a BMC; the node says the key, and no secret."""
    program('ipmitool')
    node = enrol('fpga-server', 'ipmi', manage=False, driver='ipmi-acc', parameters={'ipmi': IpmiOptions()})
    node.patch(driver_info__ipmi_cipher_suite=1)
    told = node.services.ironic.take('GET', f'{node.path}/validate')['firmware']
    assert (False, True) == (told['result'], 'ipmi_cipher_suite is 1: too weak' in told['reason'])
    node.patch(driver_info__ipmi_cipher_suite=17)
    assert True is node.services.ironic.take('GET', f'{node.path}/validate')['firmware']['result']
    assert node.machine.bmcs['host'].password not in str(node.show())


def test_firmware_that_fails_its_self_test_gives_way_to_what_ran_before(enrol: Enrol) -> None:
    """The cleaning fails and says so, the host's way is closed, and after the repair the node is offered.

    Up to a power cycle it runs the old one, so that there is nothing to go back to: that is written over the new one.
    """
    program('ipmitool')
    node = enrol('fpga-server', 'ipmi', driver='ipmi-acc', parameters={'ipmi': IpmiOptions()})
    node.to('inspect', 'manageable')
    before = closed(node)
    node.machine.fault('self-test-fails', device='FPGA1', count=1)
    node.provision('provide')
    found = node.settle()
    assert ('clean failed', True) == (found['provision_state'], found['maintenance'])
    words = ('the self-test failed', f'FPGA1_FW is restored to {SHOWN_OLD} (image hpm-{HPM_OLD})')
    assert [] == [word for word in words if word not in found['last_error']], found['last_error']
    upgrades = node.machine.truth()['ipmi']['host']['upgrades']['FPGA1']
    assert (HPM_OLD, 2, 0) == (node.versions()[FPGA], upgrades['activations'], upgrades['rollbacks'])
    assert set(closed(node)) > set(before)
    assert [] == node.offers()
    node.recover()
    node.to('provide', 'available')
    assert (HPM_NEW, ['FPGA']) == (node.versions()[FPGA], node.offers())
