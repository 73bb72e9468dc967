# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The network server of the emulator: one event loop serves all BMCs of a machine, its host agent API and its control API."""

import asyncio
import contextlib
import ipaddress
import secrets
import shutil
import ssl
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.bmc_site import BmcSite
from baremetal_acc.emulator.host_agent_api import HostAgentSite
from baremetal_acc.emulator.host_interface import HOST_NETWORKS, HostInterfaceSite
from baremetal_acc.emulator.http_frontend import CountingServer, HttpFrontend, Knobs
from baremetal_acc.emulator.hw.parameters import ProductParameters
from baremetal_acc.emulator.ipmi.site import IpmiOptions, IpmiSite
from baremetal_acc.emulator.journal import RequestJournal
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.recording import Recording, RecordingSite
from baremetal_acc.emulator.service import Service
from baremetal_acc.emulator.store import MachineStore
from baremetal_acc.emulator.tls import make_certificate

LOOPBACK = '127.0.0.1'
# Due events are executed without a request, too: a BMC that restarts in the middle of an update must fall silent by itself.
TICK_SECONDS = 0.05
START_SECONDS = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """How the emulator serves.

    :param port: of the first BMC, the others follow; 0: free ports.
    :param tls: HTTPS with a generated certificate; else plain HTTP.
    :param state: directory that keeps the state of the machine between runs of the emulator; None: the state is not kept.
    :param no_auth: the BMCs answer requests without authentication.
    :param ipmi: the BMCs of a product also speak IPMI; None: they do not. With ``port``, the UDP port has the same number.
    :param host_interfaces: each network by which a host speaks Redfish to its BMC has a port of its own, on loopback.
    """

    listen: str = LOOPBACK
    port: int = 0
    tls: bool = True
    knobs: Knobs = field(default_factory=Knobs)
    state: Path | None = None
    no_auth: bool = False
    ipmi: IpmiOptions | None = None
    host_interfaces: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerAddress:
    """The address and credentials of one BMC: the values for ``bmcs.yaml`` or for a node's driver_info.

    :ivar ipmi_port: the UDP port of IPMI; None: no IPMI.
    :ivar system_interface_port: the TCP port of the system interface, the host's path to the BMC; None: no IPMI.
    :ivar host_interfaces: the addresses by which the host speaks Redfish to the BMC, by path; with ``Serving.host_interfaces``.
    """

    address: str
    username: str
    password: str = field(repr=False)
    verify_ca: str | bool
    system: str | None
    ipmi_port: int | None = None
    system_interface_port: int | None = None
    host_interfaces: Mapping[str, str] = field(default_factory=dict)


class Emulator:
    """A machine, or a recorded tree, on the network."""

    def __init__(
        self,
        serving: Serving,
        *,
        product: ProductParameters | None = None,
        recording: Recording | None = None,
        users: Sequence[CurrentUser] = (),
        needs_login: bool = False,
        expand: bool = True,
    ) -> None:
        if (product is None) is (recording is None):
            raise ValueError('give either a product or a recording')
        self.serving = serving
        self.product = product
        self.recording = recording
        self.journal = RequestJournal()
        self.bmcs: dict[str, ServerAddress] = {}
        self.door = ''
        self.control = ''
        self._users = tuple(users) or (CurrentUser(name='admin', password=secrets.token_urlsafe(15)),)
        self._needs_login = needs_login
        self._expand = expand
        self._fronts: dict[str, HttpFrontend] = {}
        self._ipmi: dict[str, IpmiSite] = {}
        self._sites: list[BmcSite] = []
        self._runners: list[web.ServerRunner] = []
        self._ticker: asyncio.Task[None] | None = None
        self._store: MachineStore | None = None
        self._folder: Path | None = None

    # -- starting -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin to serve.

        :raises OSError: a port is taken.
        :raises BadState: the stored state is not valid.
        """
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        folder = self.serving.state
        if folder is None:
            folder = self._folder = Path(tempfile.mkdtemp(prefix='emulated-bmc-'))
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        machine: Machine | None = None
        if self.product is not None:
            machine = self.product.machine
            # Before the state is loaded, so that it finds every keeper, and HPM.1 components keep their numbers.
            if self.serving.ipmi is not None:
                self._ipmi = {name: self._ipmi_site(name, self.serving.ipmi) for name in self.product.views}
            if self.serving.state is not None:
                self._store = MachineStore(self.serving.state, machine)
                self._store.load()
            for number, (name, view) in enumerate(self.product.views.items()):
                service = Service(view, no_auth=self.serving.no_auth)
                site = BmcSite(service, self.journal, self._changed)
                self._sites.append(site)
                account = next(iter(view.access.accounts.values()))
                user = CurrentUser(name=account.name, password=account.secret, role=account.role)
                await self._serve_bmc(name, HttpFrontend(site, self.serving.knobs), number, user, self.product.systems[name])
                if self.serving.ipmi is not None:
                    await self._serve_ipmi(name, number)
        elif self.recording is not None:
            recorded = RecordingSite(
                self.recording, self._users, self.journal, needs_login=self._needs_login, expand=self._expand
            )
            await self._serve_bmc('recording', HttpFrontend(recorded, self.serving.knobs), 0, self._users[0], None)
        door = HttpFrontend(HostAgentSite(machine, self.journal, self._fronts, self._changed))
        port = await self._listen(door, LOOPBACK, 0, None)
        base = f'http://{LOOPBACK}:{port}'
        self.door, self.control = f'{base}/door', f'{base}/control'
        self._changed()
        if machine is not None:
            self._ticker = asyncio.get_running_loop().create_task(self._tick(machine))

    async def _serve_bmc(self, name: str, front: HttpFrontend, number: int, user: CurrentUser, system: str | None) -> None:
        folder = self.serving.state or self._folder
        verify_ca: str | bool = True
        context: ssl.SSLContext | None = None
        if self.serving.tls and folder is not None:
            certificate = make_certificate(folder, name, _as_address(self.serving.listen))
            verify_ca, context = str(certificate.ca), certificate.context()
            self._may_change(context, folder, name)
        wanted = self.serving.port + number if self.serving.port else 0
        self._fronts[name] = front
        port = await self._listen(front, self.serving.listen, wanted, context)
        host = f'[{self.serving.listen}]' if ':' in self.serving.listen else self.serving.listen
        scheme = 'https' if context else 'http'
        self.bmcs[name] = ServerAddress(
            address=f'{scheme}://{host}:{port}',
            username=user.name,
            password=user.password,
            verify_ca=verify_ca,
            system=system,
            host_interfaces=await self._serve_host_interfaces(name, front, scheme, context),
        )

    async def _serve_host_interfaces(
        self, name: str, front: HttpFrontend, scheme: str, context: ssl.SSLContext | None
    ) -> Mapping[str, str]:
        if self.product is None or not self.serving.host_interfaces:
            return {}
        found = {}
        for path in self.product.machine.bmcs[name].host_paths:
            if path in HOST_NETWORKS:
                site = HostInterfaceSite(front.site, self.product.machine, name, path)
                port = await self._listen(HttpFrontend(site, self.serving.knobs), LOOPBACK, 0, context)
                found[path] = f'{scheme}://{LOOPBACK}:{port}'
        return found

    def _ipmi_site(self, name: str, options: IpmiOptions) -> IpmiSite:
        assert self.product is not None  # noqa: S101 a recording speaks no IPMI
        accounts = self.product.views[name].access.accounts.values()
        users = [CurrentUser(name=one.name, password=one.secret, role=one.role) for one in accounts if one.enabled]
        boards = self.product.boards.get(name, {})
        return IpmiSite(self.product.machine, name, users=users, boards=boards, options=options, changed=self._changed)

    async def _serve_ipmi(self, name: str, number: int) -> None:
        site = self._ipmi[name]
        await site.start(self.serving.listen, self.serving.port + number if self.serving.port else 0)
        self.bmcs[name] = replace(self.bmcs[name], ipmi_port=site.port, system_interface_port=site.system_port)

    def _may_change(self, context: ssl.SSLContext, folder: Path, name: str) -> None:
        """Let the fault ``certificate-changed`` switch to another certificate, which is made when it is first needed."""
        if self.product is None:
            return
        faults = self.product.machine.faults
        others: list[ssl.SSLContext] = []

        def choose(secured: Any, _name: str | None, _context: ssl.SSLContext) -> None:
            if faults.find('certificate-changed', bmc=name) is not None:
                if not others:
                    others.append(make_certificate(folder, f'{name}-other', _as_address(self.serving.listen)).context())
                secured.context = others[0]

        context.sni_callback = choose

    async def _listen(self, front: HttpFrontend, host: str, port: int, context: ssl.SSLContext | None) -> int:
        runner = web.ServerRunner(CountingServer(front))
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(runner, host, port, ssl_context=context, shutdown_timeout=0.5)
        await site.start()
        if not runner.addresses:  # asyncio passes over sockets that cannot be opened
            raise OSError(f'no socket can be opened for {host}')
        return int(runner.addresses[0][1])

    # -- running ------------------------------------------------------------------------------------------------------

    def _changed(self) -> None:
        if self._store is not None:
            self._store.save()

    async def _tick(self, machine: Machine) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            machine.settle()
            self._changed()

    def ready(self) -> dict[str, Any]:
        """The document of ``--ready-file``: all addresses, with passwords."""
        return {
            'product': self.product.name if self.product is not None else 'recording',
            'bmcs': {
                name: {
                    'address': one.address,
                    'username': one.username,
                    'password': one.password,
                    'verify_ca': one.verify_ca,
                    'system': one.system,
                }
                | ({} if one.ipmi_port is None else {'ipmi_port': one.ipmi_port})
                | ({} if one.system_interface_port is None else {'system_interface_port': one.system_interface_port})
                | ({'host_interfaces': dict(one.host_interfaces)} if one.host_interfaces else {})
                for name, one in self.bmcs.items()
            },
            'door': self.door,
            'control': self.control,
        }

    async def stop(self) -> None:
        """Stop serving; the state is stored."""
        if self._ticker is not None:
            self._ticker.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._ticker
            self._ticker = None
        for site in self._sites:
            await site.stop()
        for ipmi in self._ipmi.values():
            await ipmi.stop()
        for runner in self._runners:
            await runner.cleanup()
        self._runners.clear()
        if self.product is not None and self.bmcs:
            self.product.machine.settle()
            self._changed()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


class EmulatorThread:
    """An emulator on an event loop in a thread of its own, for tests, which are synchronous."""

    def __init__(self, emulator: Emulator) -> None:
        self.emulator = emulator
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name='emulated-bmc', daemon=True)

    def start(self) -> None:
        """Begin to serve; returns when the emulator serves."""
        self._thread.start()
        try:
            asyncio.run_coroutine_threadsafe(self.emulator.start(), self._loop).result(START_SECONDS)
        except BaseException:
            self._end()
            raise

    def stop(self) -> None:
        """Stop the emulator; a second call does nothing."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self.emulator.stop(), self._loop).result(START_SECONDS)
            self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(START_SECONDS)
        self._loop.close()


def _as_address(host: str) -> tuple[str, ...]:
    try:
        return (str(ipaddress.ip_address(host)),)
    except ValueError:
        return ()
