# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of the hardware type ``ipmi-acc``: an emulated machine that speaks IPMI only, over real RMCP+.

Ironic switches its host by ``ipmitool``; without that on this machine the tests are skipped, and say so.
"""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ironic.conductor import task_manager

from baremetal_acc.bmc.driver import Document
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.target import target
from baremetal_acc_ironic.steps.job_context import tools
from tests.emulator_ipmi.programs import program
from tests.ironic.case import TYPE, IronicCase
from tests.unit.emulator.ipmi.test_system import Host

IPMI = 'ipmi-acc'
LOCK = 'ipmi_firmware_firewall'
FIREWALL = Ref(bmc=HOST, uri='/ipmi/firewall/f')
APP = 0x06

BASELINE = 'format = 1\n[[rule]]\nname = "hosts"\nblock = ["host-bmc-ipmi"]\n'

WRITES = {'06/02', '06/60', '0A/12', '2C/31'}
"""Some of the commands that the lock closes: to restart the BMC, to open the firewall, to write an FRU, to begin an upgrade."""


class IpmiCase(IronicCase):
    """One conductor with both hardware types, one node of ``ipmi-acc``."""

    hardware_type = IPMI
    product = 'fpga-server'
    parameters: Mapping[str, Any] = {'ipmi': IpmiOptions()}
    baseline = BASELINE
    block_execute = False

    def setUp(self) -> None:
        program('ipmitool')
        super().setUp()

    def _configure(self) -> None:
        super()._configure()
        self.config(group='baremetal_acc', bmc_timeout=5)
        # Ironic waits that long between two runs of ipmitool for one BMC.
        self.config(group='ipmi', min_command_interval=1, command_retry_timeout=5)
        self.config(enabled_hardware_types=[TYPE, IPMI])
        for name, others in (('firmware', ['no-firmware']), ('inspect', ['agent', 'redfish', 'no-inspect']), ('power', [])):
            self.config(**{f'enabled_{name}_interfaces': [TYPE, IPMI, *others], f'default_{name}_interface': None})
        self.config(enabled_management_interfaces=['redfish', 'ipmitool', 'noop'], default_management_interface='noop')

    def driver_info(self, machine: Any) -> dict[str, Any]:
        """As for Ironic's own IPMI."""
        host = machine.bmcs['host']
        if host.ipmi_port is None:
            return super().driver_info(machine)
        return {
            'ipmi_address': '127.0.0.1',
            'ipmi_port': host.ipmi_port,
            'ipmi_username': host.username,
            'ipmi_password': host.password,
        }

    def closed(self) -> list[str]:
        """What the host may not say, as the machine knows it."""
        found: list[str] = self.machine.truth()['ipmi']['host']['disabled']['host']['F']
        return found

    def power(self) -> str:
        """Whether the host is on, as the machine knows it."""
        return str(self.machine.truth()['systems']['host']['power'])

    @contextmanager
    def host(self) -> Iterator[Host]:
        """A program of the tenant, at the system interface."""
        with socket.create_connection(('127.0.0.1', self.machine.bmcs['host'].system_interface_port), 10) as connected:
            host = Host(connected)
            host.frame()
            yield host

    def vendor_closes(self, *commands: int) -> None:
        """Commands of App that are closed before anybody locks: none of ours to open."""
        with self.host() as host:
            mask = bytearray(host.ask(APP, 0x61, b'\x0f\x06\0')[1:])
            for command in commands:
                mask[command // 8] &= ~(1 << command % 8)
            assert b'\0' == host.ask(APP, 0x60, b'\x0f\x06\0' + bytes(mask))

    def somebody_opens(self, *records: str) -> None:
        """Who has the operator's password opens the firewall behind our back: what these records name."""
        with task_manager.acquire(self.context, self.node.uuid, shared=True) as task:
            connect = tools(task, node_store.load(task.node), images=False).connect
            with connect(target(task).bmcs[0]) as connection:
                connection.writer().patch(Document(ref=FIREWALL, body={}), {'Open': list(records)})

    def undone(self) -> tuple[str, ...]:
        """What is remembered of what we have closed."""
        return tuple(record for undo in self.node_state.undos for record in undo.closed)
