# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The networks by which a host speaks Redfish to its BMC: the same service as for the operator, behind the locks of the host.

Each is a port of loopback. As long as a lock has switched the network off, or the host is off, the connection is cut without an
answer. The host needs an account of the BMC, as the operator does.

Source: DSP0270 1.3 (Redfish Host Interface), network host interface.
"""

from aiohttp import web

from baremetal_acc.emulator.http_frontend import Cut, Site
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.service import ServiceReply, ServiceRequest

HOST_NETWORKS = frozenset({'redfish', 'vnic'})
"""The paths of a host that are networks: the standard host interface, and a vendor's virtual NIC."""


class HostInterfaceSite:
    """One network from the host to a BMC.

    :param site: of the BMC, which answers what gets through.
    :param path: the path of the host, a key of ``EmulatedBmc.host_paths``.
    """

    def __init__(self, site: Site, machine: Machine, bmc: str, path: str) -> None:
        self._site = site
        self._machine = machine
        self._bmc = bmc
        self._path = path

    async def respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        """Answer a request of the host.

        :raises Cut: the network is switched off, or the host is off.
        """
        machine = self._machine
        machine.settle()
        hosts = [name for name, system in machine.systems.items() if system.bmc == self._bmc]
        is_up = any(machine.host_is_up(name) for name in hosts)
        if not is_up or any(machine.is_closed(key) for key in machine.bmcs[self._bmc].host_paths[self._path]):
            raise Cut
        return await self._site.respond(http, request)
