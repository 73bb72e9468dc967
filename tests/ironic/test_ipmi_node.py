# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC that speaks IPMI is read from a node's ``driver_info``; an error names the wrong key and what to do."""

from typing import Any, ClassVar

import pytest
from ironic.common import exception, states
from ironic.conductor import task_manager
from ironic.conf import CONF
from ironic.tests.unit.objects import utils as obj_utils

from baremetal_acc.bmc.driver import BmcAddress, Setting
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state.target import target
from tests.ironic.case import TYPE, IronicCase
from tests.ironic.ipmi_case import IPMI, IpmiCase

KEY = '00112233445566778899aabbccddeeff00112233'
CHILD = '7c7a1b52-2b8e-4f6d-8a5e-0a1b2c3d4e5f'
LOGIN = {'username': 'acc', 'password': 'hunter2hunter2'}
OVER_IPMI = {'address': 'ipmi://192.0.2.7'} | LOGIN
OVER_REDFISH = {'address': '192.0.2.8'} | LOGIN


class AddressCase(IronicCase):
    """A node whose driver_info is changed."""

    def bmcs(self, **info: object) -> dict[str, BmcAddress]:
        """The target's BMCs; None takes a key away."""
        self.node.driver_info = {k: w for k, w in (self.node.driver_info | info).items() if w is not None}
        self.node.save()
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            return {str(b.name): b for b in target(task).bmcs}

    def refused(self, **info: object) -> str:
        """Why the node does not validate; what was wrong is taken back."""
        before = dict(self.node.driver_info)
        self.node.driver_info = {k: w for k, w in (before | info).items() if w is not None}
        self.node.save()
        with (
            task_manager.acquire(self.context, self.node.uuid, shared=True) as task,
            pytest.raises((exception.InvalidParameterValue, exception.MissingParameterValue)) as caught,
        ):
            task.driver.firmware.validate(task)
        self.node.driver_info = before
        self.node.save()
        assert 'hunter2' not in str(caught.value)
        assert KEY not in str(caught.value)
        return str(caught.value)

    def child(self, **values: Any) -> Any:
        """A node below this one."""
        return obj_utils.create_test_node(self.context, uuid=CHILD, parent_node=self.node.uuid, **values)


class TestOfIpmi(AddressCase, IpmiCase):
    """The host's BMC by ``ipmi_*``."""

    def test_ironics_own_keys_are_understood(self) -> None:
        """Numbers may be texts, as for Ironic; suite 17 where nothing is said; the key is nowhere to be seen."""
        host = self.bmcs()['host']
        assert f'ipmi://127.0.0.1:{self.machine.bmcs["host"].ipmi_port}' == host.address
        assert (self.machine.bmcs['host'].username, 17, None) == (host.username, host.cipher_suite, host.key)
        host = self.bmcs(ipmi_port='6230', ipmi_cipher_suite='3', ipmi_hex_kg_key=KEY, ipmi_protocol_version=2.0)['host']
        assert ('ipmi://127.0.0.1:6230', 3, bytes.fromhex(KEY)) == (host.address, host.cipher_suite, host.key)
        assert repr(host.key) not in repr(host)
        assert ['redfish_verify_ca in driver_info', 'ipmi_cipher_suite in driver_info', 'ipmi_hex_kg_key in driver_info'] == [
            host.set_by[one] for one in Setting
        ]
        assert 'ipmi://[2001:db8::1]:6230' == self.bmcs(ipmi_address='2001:db8::1')['host'].address
        assert 'ipmi://bmc-7.example.org' == self.bmcs(ipmi_address='bmc-7.example.org', ipmi_port=None)['host'].address
        assert None is self.bmcs(ipmi_hex_kg_key='00' * 20)['host'].key

    def test_what_is_wrong_is_named(self) -> None:
        """Key, what it may be, and why."""
        for wrong, says in (
            ({'ipmi_address': None}, "driver_info: ['ipmi_address']"),
            ({'ipmi_address': 'https://192.0.2.1'}, 'ipmi_address is neither the name of a host nor an IP address'),
            ({'ipmi_address': 'acc@192.0.2.1'}, 'ipmi_address is neither the name of a host nor an IP address'),
            (
                {'ipmi_port': '70000'},
                f"driver_info of node {self.node.uuid}: ipmi_port is '70000': a number",
            ),
            ({'ipmi_port': 0}, 'ipmi_port is 0: a number from 1 to 65535 expected'),
            ({'ipmi_port': '9' * 5000}, "ipmi_port is '9999"),
            ({'ipmi_port': 'many'}, "ipmi_port is 'many': a number from"),
            ({'ipmi_cipher_suite': '9' * 5000}, "ipmi_cipher_suite is '9999"),
            ({'acc_bmcs': {'other': OVER_IPMI | {'cipher_suite': '9' * 5000}}}, "cipher_suite is '9999"),
            ({'acc_bmcs': {'other': OVER_REDFISH | {'parallel_updates': '9' * 5000}}}, "parallel_updates is '9999"),
            ({'ipmi_username': None}, 'ipmi_username is missing'),
            ({'ipmi_password': None}, 'ipmi_password is missing'),
            ({'ipmi_username': 'seventeen letters'}, 'ipmi_username has more than 16 bytes'),
            ({'ipmi_password': 'hunter2hunter2hunter2'}, 'ipmi_password has more than 20 bytes'),
            ({'ipmi_cipher_suite': 2}, 'ipmi_cipher_suite is 2: too weak or unknown; use 17, or 3 for a BMC'),
            ({'ipmi_cipher_suite': '0'}, "ipmi_cipher_suite is '0': too weak"),
            ({'ipmi_cipher_suite': 'many'}, "ipmi_cipher_suite is 'many': too weak or unknown"),
            ({'ipmi_hex_kg_key': 12}, 'ipmi_hex_kg_key is not a string'),
            ({'ipmi_hex_kg_key': '0x12'}, 'ipmi_hex_kg_key: an even number of hexadecimal digits expected'),
            ({'ipmi_protocol_version': '1.5'}, "ipmi_protocol_version is '1.5'; it must be '2.0', or not set: IPMI 1.5"),
            ({'ipmi_bridging': 'single'}, "ipmi_bridging is 'single'; it must be 'no', or not set"),
            ({'ipmi_priv_level': 'OPERATOR'}, "ipmi_priv_level is 'OPERATOR'; it must be 'ADMINISTRATOR', or not set"),
            ({'acc_parallel_updates': 2}, 'acc_parallel_updates is only for a BMC that speaks Redfish'),
        ):
            assert says in self.refused(**wrong), wrong

    def test_further_bmcs_speak_what_their_address_says(self) -> None:
        """verify_ca of the one that speaks Redfish goes by the group of the hardware type."""
        assert 'verify_ca' in CONF[IPMI]
        further = {'dpu': OVER_REDFISH, 'other': OVER_IPMI | {'cipher_suite': 3, 'secret_hex_kg_key': KEY}}
        found = self.bmcs(acc_bmcs=further)
        assert ('https://192.0.2.8', True) == (found['dpu'].address, found['dpu'].verify_ca)
        other = found['other']
        assert ('ipmi://192.0.2.7', 3, bytes.fromhex(KEY)) == (other.address, other.cipher_suite, other.key)
        assert 'secret_hex_kg_key in acc_bmcs' == other.set_by[Setting.KEY]
        assert 'verify_ca in acc_bmcs' == found['dpu'].set_by[Setting.VERIFY_CA]
        self.config(verify_ca='/etc/bmc-ca.pem', group=IPMI)
        assert '/etc/bmc-ca.pem' == self.bmcs()['dpu'].verify_ca


class TestMixed(IpmiCase):
    """A machine whose BMCs are spoken to in two ways."""

    product = 'acc-server'

    def driver_info(self, machine: Any) -> dict[str, Any]:
        """The host by IPMI, and the DPU by Redfish."""
        dpu = machine.bmcs['dpu']
        further = {k: getattr(dpu, k) for k in ('address', 'username', 'password', 'verify_ca', 'system')}
        return super().driver_info(machine) | {'acc_bmcs': {'dpu': further}}

    def seen(self) -> dict[str, set[str]]:
        """Which kinds of cards each BMC shows, when stock is taken."""
        self.clean('inventory_accelerators')
        assert states.MANAGEABLE == self.settle(), self.node.last_error
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            found = record.stored(task)
        assert found is not None
        kinds: dict[str, set[str]] = {}
        for one in found.accelerators:
            kinds.setdefault(str(one.primary.bmc), set()).add(str(one.kind))
        return kinds

    def test_each_shows_its_cards(self) -> None:
        """The DPU by Redfish and the FPGA by IPMI; and the other way round, on a node of the other type."""
        found = self.seen()
        assert ({'DPU'}, True) == (found['dpu'], 'FPGA' in found['host'])
        host, dpu = self.machine.bmcs['host'], self.machine.bmcs['dpu']
        self.node.refresh()
        self.node.driver = TYPE
        for name in ('firmware', 'inspect', 'power'):
            setattr(self.node, f'{name}_interface', TYPE)
        over_ipmi = {'address': f'ipmi://127.0.0.1:{dpu.ipmi_port}', 'username': dpu.username, 'password': dpu.password}
        own = {f'redfish_{k}': getattr(host, k) for k in ('address', 'username', 'password', 'verify_ca')}
        self.node.driver_info = own | {'redfish_system_id': host.system, 'acc_bmcs': {'dpu': over_ipmi}}
        self.node.save()
        found = self.seen()
        assert {'GPU', 'FPGA'} <= found['host']


class TestOfRedfish(AddressCase):
    """The host's BMC by ``redfish_*``; others may speak IPMI."""

    wrong: ClassVar[tuple[tuple[dict[str, Any], str], ...]] = (
        (OVER_IPMI | {'verify_ca': False}, 'verify_ca: not supported for a BMC that speaks IPMI'),
        (
            OVER_IPMI | {'system': 'x', 'parallel_updates': 2},
            'parallel_updates, system: not supported for a BMC that speaks IPMI',
        ),
        (OVER_REDFISH | {'cipher_suite': 17}, 'cipher_suite: not supported for a BMC that speaks Redfish'),
        (OVER_REDFISH | {'secret_hex_kg_key': KEY}, 'secret_hex_kg_key: not supported for a BMC that speaks Redfish'),
        (OVER_IPMI | {'hex_kg_key': KEY}, 'unknown keys: hex_kg_key; known: address, cipher_suite'),
        (OVER_IPMI | {'cipher_suite': 1}, 'cipher_suite is 1: too weak'),
        (OVER_IPMI | {'cipher_suite': True}, 'cipher_suite is True: too weak'),
        (OVER_IPMI | {'secret_hex_kg_key': 'x'}, 'secret_hex_kg_key: an even number of hexadecimal digits'),
        (OVER_IPMI | {'secret_hex_kg_key': 12}, 'secret_hex_kg_key is not a string'),
        (OVER_IPMI | {'password': ''}, 'password is missing'),
        (OVER_IPMI | {'address': 'ipmi://acc:hunter2@192.0.2.7'}, 'address contains credentials'),
        (OVER_IPMI | {'address': 'ipmi://192.0.2.7/redfish'}, 'address is not a URL such as ipmi://192.0.2.1'),
    )

    def test_one_may_speak_ipmi(self) -> None:
        """With the keys of bmcs.yaml."""
        found = self.bmcs(acc_bmcs={'other': OVER_IPMI | {'cipher_suite': '17'}})
        assert ('ipmi://192.0.2.7', 17, None) == (found['other'].address, found['other'].cipher_suite, found['other'].key)
        assert found['host'].address.startswith('https://')

    def test_what_is_wrong_with_one_is_named(self) -> None:
        """Node, name, key, and no secret."""
        for value, says in self.wrong:
            told = self.refused(acc_bmcs={'other': value})
            assert says in told, value
            assert f"driver_info['acc_bmcs']['other'] of node {self.node.uuid}" in told

    def test_a_child_node_speaks_what_its_driver_does(self) -> None:
        """Of a driver that is neither, the keys tell."""
        both = {
            'ipmi_address': '192.0.2.7',
            'ipmi_username': 'acc',
            'ipmi_password': 'hunter2hunter2',
            'redfish_address': 'https://192.0.2.8',
        }
        child = self.child(driver=IPMI, driver_info=both)
        for driver, gone, expected in (
            (IPMI, None, 'ipmi://192.0.2.7'),
            ('ipmi', None, 'ipmi://192.0.2.7'),
            (TYPE, None, 'https://192.0.2.8'),
            ('redfish', None, 'https://192.0.2.8'),
            ('fake-hardware', 'redfish_address', 'ipmi://192.0.2.7'),
        ):
            child.driver, child.driver_info = driver, {k: w for k, w in both.items() if k != gone}
            child.save()
            assert expected == self.bmcs(acc_bmcs={'dpu': {'node': CHILD}})['dpu'].address, driver
