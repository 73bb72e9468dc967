# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""IPMI driver: connect to a BMC, to inspect its cards, update HPM.1 components, control power, and restart machine and BMC.

What hardware: any BMC with IPMI 2.0 over LAN whose SDR locators list the boards; boards behind other controllers over one or
two bridges.

How it is found: by the scheme of the BMC's address, ``ipmi``.

What it can do: inspect a machine, read and write HPM.1 components, read and set the power state, restart machine and BMC.

Which write paths it blocks: none; it lets the lock ``ipmi_firmware_firewall`` read and write the firmware firewall.

How an update behaves: the image is uploaded in turns and activated while the caller waits; then the outcome is read
(:mod:`baremetal_acc.bmc.ipmi.update`).

What it was tried on: our emulator, and OpenIPMI's ipmi_sim; no hardware.

The driver reads, and sends Chassis Control, with operator privilege. It writes firmware and the firmware firewall, and restarts
a BMC, with administrator privilege in a separate session. Reads that are refused to an operator are repeated as administrator,
if the account may have that privilege.
"""

from dataclasses import replace
from urllib.parse import urlsplit

from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.ipmi import endpoint
from baremetal_acc.bmc.ipmi.connection import IpmiConnection
from baremetal_acc.bmc.ipmi.controller_access import ControllerAccess
from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege
from baremetal_acc.bmc.ipmi.session_renewal import RmcpSessions
from baremetal_acc.errors import UsageError


class IpmiDriver:
    """Driver of the entry point ``ipmi``: connects to BMCs over IPMI 2.0 LAN."""

    protocol = 'ipmi'

    def __init__(self, devices: Devices | None = None) -> None:
        """Create the driver.

        :param devices: the device table; the shipped one when None.
        """
        self._devices = devices

    def connect(self, address: BmcAddress) -> 'IpmiConnection':
        """Log in.

        :raises BmcUnreachable: no answer.
        :raises BmcNotAuthorised: wrong credentials.
        :raises BmcUnsupported: the BMC does not offer the cipher suite, or no IPMI 2.0.
        :raises BmcBusy: the BMC has no free session.
        :raises UsageError: the address is invalid, or no session could be opened with these credentials.
        """
        where = place_of(address)
        raw = RmcpSessions(where, LoginPrivilege.OPERATOR)
        raw.ready()
        return IpmiConnection(address, ControllerAccess(where, raw, address.budget), self._devices)


def place_of(address: BmcAddress) -> endpoint.Endpoint:
    """The IPMI endpoint of a BMC, from its address.

    :raises UsageError: no session could be opened with that address or these credentials.
    """
    try:
        parts = urlsplit(address.address)
        host, port = parts.hostname, parts.port or endpoint.PORT
    except ValueError:
        host, port = None, 0
    if not host or parts.path.strip('/'):
        raise UsageError(
            argument=f'address of BMC {address.name}', what='not an IPMI address', hint='write it as ipmi://HOST[:PORT]'
        )
    found = endpoint.place(
        address.label,
        host,
        port=port,
        username=address.username or '',
        password=address.password or '',
        suite=address.cipher_suite,
        key=address.key,
        answer=min(address.timeout, endpoint.ANSWER),
        login=min(address.timeout, endpoint.LOGIN),
    )
    return replace(found, set_by=address.set_by)
