# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The host agent API (in-band writes of a tenant who is root on the host) and the control API of an emulated machine.

Both are plain HTTP on loopback, for tests and the demo, without authentication. The control API shows the true state of the
machine and sets faults.

* ``GET /door/devices``: the cards that the host sees, and its in-band paths to them; 503 while the host is off. Where a machine
  has several hosts, ``?host=`` selects one, here and below; without it, every host that is on counts.
* ``POST /door/firmware?device=&path=``, the body is an image: 200 ``{"written": true}``, 403 ``{"written": false, "reason"}``.
* ``POST /door/program?device=&slot=``: the same for a function.
* ``GET /control/truth``: the true state for test assertions: banks, locks, power, tasks.
* ``GET /control/log``: the requests that write; with ``?sessions=1`` also logins and logouts, with ``?reads=1`` also reads.
* ``POST /control/reset-log``: clear the log, the counters and the history of the machine.
* ``GET /control/counters``: requests, repeated ones, connections and peaks per BMC.
* ``GET POST DELETE /control/faults``: the rules of :mod:`baremetal_acc.emulator.fault`; ``DELETE ?id=`` removes one.
* ``POST /control/advance`` ``{"seconds"}``: advance the clock.
* ``POST /control/power`` ``{"system", "reset_type", "cause"}``: press the power button, or start the system by another
  ``cause``: ``CLOCK``, ``MAINS``, ``WATCHDOG``.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from baremetal_acc.emulator.fault import BadFault
from baremetal_acc.emulator.http_frontend import BodyTooLarge, HttpFrontend, read_body
from baremetal_acc.emulator.image import BadImage, EmulatedImage, ImageReader
from baremetal_acc.emulator.journal import RequestJournal
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Cause, WriteRefused
from baremetal_acc.emulator.service import ServiceReply, ServiceRequest

CHUNK = 64 * 1024
MAX_IMAGE = 512 * 1024 * 1024


class HostAgentSite:
    """The host agent API and the control API of one machine.

    :param machine: None when a recording is served: then only the log and the counters are available.
    """

    def __init__(
        self,
        machine: Machine | None,
        journal: RequestJournal,
        fronts: Mapping[str, HttpFrontend],
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._machine = machine
        self._journal = journal
        self._fronts = fronts
        self._changed = changed

    async def respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        """Answer a request."""
        try:
            return await self._respond(http, request)
        except (KeyError, TypeError, ValueError) as exc:
            return ServiceReply(status=400, body={'error': f'{type(exc).__name__}: {exc}'})
        except BodyTooLarge:
            return ServiceReply(status=413, body={'error': 'the body is too large'})
        finally:
            self._changed()

    async def _respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        match request.method, request.path:
            case 'GET', '/control/log':
                wanted = {name: request.query.get(name) == '1' for name in ('sessions', 'reads')}
                entries = self._journal.entries(**wanted)
                return ServiceReply(status=200, body={'entries': entries})
            case 'GET', '/control/counters':
                shown = {name: dict(front.counters.describe()) for name, front in self._fronts.items()}
                return ServiceReply(status=200, body=shown)
            case 'POST', '/control/reset-log':
                self._journal.clear()
                if self._machine is not None:
                    self._machine.history.clear()
                for front in self._fronts.values():
                    front.counters.reset()
                return ServiceReply(status=204)
        machine = self._machine
        if machine is None:
            return _unknown()
        machine.settle()
        match request.method, request.path:
            case 'GET', '/door/devices':
                return _devices(machine, request.query.get('host'))
            case 'POST', '/door/firmware' | '/door/program':
                return await self._write(http, request, machine)
            case 'GET', '/control/truth':
                return ServiceReply(status=200, body=machine.truth())
            case _ if request.path.startswith('/control/'):
                return await _control(http, request, machine)
            case _:
                return _unknown()

    async def _write(self, http: web.BaseRequest, request: ServiceRequest, machine: Machine) -> ServiceReply:
        image = await _read_image(http)
        reader_digest, received, judged = image
        slot = int(request.query['slot']) if request.path.endswith('/program') else None
        machine.settle()
        try:
            target = machine.write_from_host(
                request.query['device'],
                judged,
                path=request.query.get('path', 'pcie'),
                component=request.query.get('component') if slot is None else None,
                slot=slot,
                host=_known_host(machine, request.query.get('host')),
            )
            reply = ServiceReply(status=200, body={'written': True, 'component': target.key})
        except WriteRefused as why:
            status = {'host-off': 503, 'no-such-way': 404}.get(why.reason, 403)
            reply = ServiceReply(status=status, body={'written': False, 'reason': str(why), 'code': why.reason})
        self._journal.add(
            time=machine.clock.wall(),
            bmc='door',
            method='POST',
            path=request.path,
            status=reply.status,
            user='tenant',
            digest=reader_digest,
            received_bytes=received,
            document=dict(request.query),
        )
        return reply


def _unknown() -> ServiceReply:
    return ServiceReply(status=404, body={'error': 'no such resource'})


def _known_host(machine: Machine, named: str | None) -> str | None:
    if named is not None and named not in machine.hosts:
        raise ValueError(f'unknown host {named!r}; the hosts are {", ".join(machine.hosts)}')
    return named


def _devices(machine: Machine, named: str | None) -> ServiceReply:
    host = _known_host(machine, named)
    up = [name for name in machine.hosts if host in (None, name) and machine.host_is_up(name)]
    if not up:
        return ServiceReply(status=503, body={'error': 'the host is off'})
    devices: dict[str, list[dict[str, Any]]] = {}
    for way in machine.ways:
        if way.host in up and not machine.is_gone(way.device):
            shown = {'component': way.component, 'path': way.path, 'slot': way.slot}
            devices.setdefault(way.device, []).append(shown)
    return ServiceReply(status=200, body={'devices': devices})


async def _read_image(http: web.BaseRequest) -> tuple[str, int, EmulatedImage | BadImage]:
    reader = ImageReader()
    async for chunk in http.content.iter_chunked(CHUNK):
        reader.feed(chunk)
        if reader.received_bytes > MAX_IMAGE:
            raise BodyTooLarge
    try:
        return reader.digest(), reader.received_bytes, reader.finish()
    except BadImage as exc:
        return reader.digest(), reader.received_bytes, exc


async def _control(http: web.BaseRequest, request: ServiceRequest, machine: Machine) -> ServiceReply:
    match request.method, request.path:
        case 'GET', '/control/faults':
            return ServiceReply(status=200, body={'faults': machine.faults.describe()})
        case 'POST', '/control/faults':
            try:
                rule = machine.add_fault(json.loads(await read_body(http)))
            except BadFault as exc:
                return ServiceReply(status=400, body={'error': str(exc)})
            return ServiceReply(status=201, body=rule.describe())
        case 'DELETE', '/control/faults':
            identity = request.query.get('id')
            removed = machine.faults.remove(None if identity is None else int(identity))
            return ServiceReply(status=200, body={'removed': removed})
        case 'POST', '/control/advance':
            machine.clock.advance(float(json.loads(await read_body(http))['seconds']))
            machine.settle()
            return ServiceReply(status=204)
        case 'POST', '/control/power':
            wanted = json.loads(await read_body(http))
            try:
                cause = Cause.__members__.get(str(wanted.get('cause', Cause.POWER_BUTTON.name)))
                if cause is None:
                    return ServiceReply(
                        status=400, body={'error': f'unknown cause; the causes are {", ".join(Cause.__members__)}'}
                    )
                if wanted['reset_type'] == 'FullPowerCycle':
                    machine.cycle_mains()
                    return ServiceReply(status=204)
                machine.reset_system(str(wanted.get('system', 'host')), str(wanted['reset_type']), cause=cause)
            except WriteRefused as why:
                return ServiceReply(status=409, body={'error': str(why)})
            return ServiceReply(status=204)
        case _:
            return _unknown()
