# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Power requests and an undeploy during a flash, both of which Ironic lets through in a service wait."""

import time

import pytest

from tests.journey.api import Node
from tests.journey.conftest import Enrol

pytestmark = pytest.mark.journey

SLOW = {'flash_seconds': 4.0}


def is_writing(node: Node) -> bool:
    return any(t['state'] == 'Running' for bmc in node.machine.truth()['bmcs'].values() for t in bmc['tasks'].values())


def begin_service(enrol: Enrol) -> Node:
    """An active node whose second slot is being programmed, with the host held off."""
    node = enrol('fpga-server', 'functions', parameters=SLOW | {'functions': {'host/FPGA1_Slot0': ('gzip', '1.0')}})
    node.to('provide', 'available')
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
    node.machine.reset_log()
    node.serve('program_accelerators', functions={'Slot1': 'gzip'})
    node.until('service wait')
    end = time.monotonic() + 60
    while not is_writing(node):
        assert time.monotonic() < end, node.show()['last_error']
        time.sleep(0.1)
    return node


def test_power_requests_are_refused_while_a_card_is_written(enrol: Enrol) -> None:
    """On, off and reboot: none of them reaches the BMC; the error says what runs; afterwards the step is done."""
    node = begin_service(enrol)
    assert 'Off' == node.machine.truth()['systems']['host']['power']
    answer = node.power('power on')
    time.sleep(0.5)
    error = node.show()['last_error'] or answer.text
    assert [] == [w for w in ('refused', 'program_accelerators') if w not in error], error
    assert 'Off' == node.machine.truth()['systems']['host']['power']
    node.power('rebooting')
    found = node.settle()
    assert 'active' == found['provision_state'], found['last_error']
    power = [e['body']['ResetType'] for e in node.writes() if e['path'].endswith('ComputerSystem.Reset')]
    assert ['ForceOff', 'On'] == power, 'the job itself, and nobody else'
    assert 'gzip' == node.machine.truth()['components']['host/FPGA1_Slot1']['active']['function']
    assert [] == node.open_ways()
    assert 'power on' == node.show()['power_state']


def test_a_node_that_is_undeployed_while_a_card_is_written_is_cleaned(enrol: Enrol) -> None:
    """The interrupted job is never resumed; cleaning takes over, waits for the BMC, and everything is at the baseline."""
    node = begin_service(enrol)
    node.provision('deleted')
    found = node.settle()
    assert 'available' == found['provision_state'], found['last_error']
    slots = node.machine.truth()['components']
    assert ['gzip', 'aes'] == [slots[f'host/FPGA1_Slot{n}']['active']['function'] for n in (0, 1)]
    assert [] == node.open_ways()
    assert ['CUSTOM_ACC_FN_AES', 'CUSTOM_ACC_FN_GZIP'] == node.offers()
    assert False is node.show()['maintenance']
    found = node.deploy()
    assert 'active' == found['provision_state'], found['last_error']
