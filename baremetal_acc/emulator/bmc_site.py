# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The HTTP site of one emulated BMC: its Redfish service, pushed and fetched firmware images, and the faults of its answers."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

from baremetal_acc.emulator.fault import ANSWERS, Fault
from baremetal_acc.emulator.http_frontend import BodyTooLarge, Cut, as_response, hold, read_body
from baremetal_acc.emulator.image import EmulatedImage
from baremetal_acc.emulator.journal import RequestJournal
from baremetal_acc.emulator.parts import Task, WriteRefused
from baremetal_acc.emulator.redfish import update
from baremetal_acc.emulator.redfish.accounts import SESSIONS
from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import Outcome
from baremetal_acc.emulator.response_faults import Names, flipped, strange
from baremetal_acc.emulator.service import Service, ServiceReply, ServiceRequest
from baremetal_acc.emulator.upload import Upload, UploadReader

WRITES = frozenset({'POST', 'PATCH', 'PUT', 'DELETE'})
CHUNK = 64 * 1024
MAX_PARAMETERS = 64 * 1024
FETCH_SECONDS = 120


class BmcSite:
    """The HTTP site of one BMC.

    :param changed: called after each request, so that the state can be stored.
    """

    def __init__(self, service: Service, journal: RequestJournal, changed: Callable[[], None]) -> None:
        self.service = service
        self.view = service.view
        self.journal = journal
        self._changed = changed
        self._fetches: set[asyncio.Task[None]] = set()
        self.view.fetch = self._start_fetch

    async def respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        """Answer a request, with the faults that are in force.

        :raises Cut: the BMC is silent, or a fault cuts the connection.
        """
        machine = self.view.machine
        machine.settle()
        if machine.is_bmc_down(self.view.name):
            raise Cut
        names: Names | None = None
        # Only faults need the device of the resource.
        device = None
        if machine.faults.describe():
            names = Names(machine, self.view.name)
            request = replace(request, path=names.inward(request.path)) if names.changed else request
            device = self.service.device_of(request.path)
        if (dead := self._fault('bmc-restart-on-request', request, device)) is not None:
            _Log(self, request).write(0, None)
            machine.reset_bmc(self.view.name, dead.parameters['seconds'])
            raise Cut
        if (slow := self._fault('slow', request, device)) is not None:
            await asyncio.sleep(float(slow.parameters['seconds']))
        refuse = self._fault('refuse', request, device)
        log = _Log(self, request)
        if refuse is not None and not refuse.parameters['after']:
            log.write(0, None)
            raise Cut
        hang = self._fault('hang', request, device)
        if hang is not None and not hang.parameters['after']:
            log.write(0, None)
            await hold(http)
            raise Cut
        if (instead := self._answer_instead(request, device)) is not None:
            with contextlib.suppress(BodyTooLarge):
                log.body = await read_body(http)
            reply = instead
        elif (slash := self._slash_rule(http, request, device)) is not None:
            await _drain(http)
            headers = {'Location': f'{http.rel_url.raw_path}/'}
            reply = ServiceReply(status=int(slash.parameters['status']), headers=headers)
        elif request.method == 'POST' and self.service.is_push_uri(request.path):
            reply = await self._push(http, request, log, names)
        else:
            try:
                log.body = await read_body(http)
                if names is not None and names.changed:
                    log.body = names.inward(log.body.decode(errors='replace')).encode()
                whole = ServiceRequest(
                    method=request.method,
                    path=request.path,
                    query=request.query,
                    headers=request.headers,
                    body=log.body,
                )
                reply = self.service.reply(whole)
            except BodyTooLarge:
                reply = ServiceReply(status=413, body=RedfishError(413, 'PayloadTooLarge').body())
        self._changed()
        if refuse is not None or hang is not None:
            log.write(0, reply.user)
            if hang is not None:
                await hold(http)
            raise Cut
        log.write(reply.status, reply.user)
        if names is not None:
            if names.changed:
                reply.body = names.outward(reply.body)
            self._spoil(reply, request, device)
        return reply

    def _answer_instead(self, request: ServiceRequest, device: str | None) -> ServiceReply | None:
        """Return the answer that a fault gives in place of the service, or None."""
        for name, answer in ANSWERS.items():
            rule = self._fault(name, request, device)
            said = answer(rule) if rule is not None else None
            if said is not None:
                status, after = said
                headers = {} if after is None else {'Retry-After': str(after)}
                is_busy = status == HTTPStatus.SERVICE_UNAVAILABLE and after is not None
                error = RedfishError(status, *(('ServiceTemporarilyUnavailable', str(after)) if is_busy else ('GeneralError',)))
                return ServiceReply(status=status, body=error.body(), headers=headers)
        return None

    def _slash_rule(self, http: web.BaseRequest, request: ServiceRequest, device: str | None) -> Fault | None:
        """Return the rule that redirects a write because its URI ends without a slash, or None."""
        if request.method not in ('PATCH', 'POST') or http.rel_url.raw_path.endswith('/'):
            return None
        return self._fault('trailing-slash', request, device)

    def _spoil(self, reply: ServiceReply, request: ServiceRequest, device: str | None) -> None:
        """Apply the faults that damage a correct answer."""
        if isinstance(reply.body, dict) and (odd := self._fault('strange-json', request, device)) is not None:
            reply.body = strange(reply.body, str(odd.parameters['how']))
        if reply.body is not None and self._fault('truncated-json', request, device) is not None:
            data = as_response(reply).body
            if isinstance(data, bytes):
                reply.body = data[: len(data) // 2]
        is_elsewhere = 'Location' in reply.headers and reply.status < 300
        if is_elsewhere and (elsewhere := self._fault('location-elsewhere', request, device)) is not None:
            reply.headers['Location'] = f'{elsewhere.parameters["base"]}{reply.headers["Location"]}'
        if (slow := self._fault('drip', request, device)) is not None:
            reply.bytes_per_second = float(slow.parameters['bytes_per_second'])

    def _fault(self, name: str, request: ServiceRequest, device: str | None) -> Fault | None:
        return self.view.machine.faults.find(name, bmc=self.view.name, device=device, uri=request.path, method=request.method)

    # -- images -------------------------------------------------------------------------------------------------------

    async def _push(self, http: web.BaseRequest, request: ServiceRequest, log: '_Log', names: Names | None) -> ServiceReply:
        user: str | None = None
        upload = _Upload(self, log, names)
        try:
            user = self.service.may_push(request).user
            if (http.content_length or 0) > self.view.options.max_image_bytes + MAX_PARAMETERS:
                raise RedfishError(413, 'PayloadTooLarge')
            if request.path == update.PLAIN_PUSH:
                outcome = await upload.receive_plain(http)
            elif http.content_type != 'multipart/form-data':
                raise RedfishError(415, 'UnrecognizedRequestBody', text='Push the image as multipart/form-data.')
            else:
                outcome = await upload.receive(http)
            return ServiceReply(status=outcome.status, body=outcome.body, headers=dict(outcome.headers), user=user)
        except RedfishError as error:
            await _drain(http)
            return ServiceReply(status=error.status, body=error.body(), headers=error.headers, user=user)
        except (OSError, aiohttp.ClientError) as exc:
            log.write(0, user)
            raise Cut from exc
        finally:
            upload.release()

    def _start_fetch(self, task: Task, uri: str) -> None:
        running = asyncio.get_running_loop().create_task(self._fetch(task, uri))
        self._fetches.add(running)
        running.add_done_callback(self._fetches.discard)

    async def _fetch(self, task: Task, uri: str) -> None:
        machine, options = self.view.machine, self.view.options
        reader = UploadReader()
        record: dict[str, Any] = {'bmc': self.view.name, 'task': task.id, 'uri': uri, 'status': None, 'error': None}
        try:
            timeout = aiohttp.ClientTimeout(total=FETCH_SECONDS)
            async with (
                aiohttp.ClientSession(timeout=timeout, trust_env=False) as session,
                session.get(uri, ssl=options.verify_fetch) as answer,
            ):
                record['status'] = answer.status
                answer.raise_for_status()
                async for chunk in answer.content.iter_chunked(CHUNK):
                    reader.feed(chunk)
                    if reader.received_bytes > options.max_image_bytes:
                        raise BodyTooLarge
        except BodyTooLarge:
            record['error'] = f'the image is larger than {options.max_image_bytes} bytes'
        except (aiohttp.ClientError, OSError, ValueError, TimeoutError) as exc:
            record['error'] = f'{type(exc).__name__}: {exc}'
        record['received_bytes'] = reader.received_bytes
        record['digest'] = reader.digest()
        machine.fetches.append(record)
        machine.settle()
        if record['error'] is not None:
            machine.update_failed(task, 'transfer-failed', f'The image could not be fetched from {uri}: {record["error"]}')
        else:
            self._fetched(task, reader.finish())
        self._changed()

    def _fetched(self, task: Task, image: Upload) -> None:
        """Write a fetched image to the named targets, else to all components that it fits.

        Source: DSP8010, SimpleUpdate, Targets.
        """
        machine = self.view.machine
        if not task.targets and task.is_open and isinstance(image, EmulatedImage):
            try:
                machine.aim(task, update.fitting(self.view, image.kind, image.device, image.component))
            except WriteRefused as why:
                machine.update_failed(task, why.reason, str(why))
        update.deliver(self.view, task, image)

    async def stop(self) -> None:
        """Cancel the fetches that are running."""
        for running in tuple(self._fetches):
            running.cancel()
        await asyncio.gather(*self._fetches, return_exceptions=True)


class _Log:
    """The journal entry of one request, collected while the request is served."""

    def __init__(self, site: BmcSite, request: ServiceRequest) -> None:
        self._site = site
        self._request = request
        self.body = b''
        self.digest: str | None = None
        self.received_bytes: int | None = None
        self.document: Any = None
        self.overlaps: tuple[str, ...] = ()

    def write(self, status: int, user: str | None) -> None:
        request, view = self._request, self._site.view
        if request.method not in WRITES:
            self._site.journal.read(time=view.machine.clock.wall(), bmc=view.name, path=request.path, status=status)
            return
        self._site.journal.add(
            time=view.machine.clock.wall(),
            bmc=view.name,
            method=request.method,
            path=request.path,
            status=status,
            user=user,
            body=self.body,
            digest=self.digest,
            received_bytes=self.received_bytes,
            document=self.document,
            is_session=request.path == SESSIONS or request.path.startswith(f'{SESSIONS}/'),
            overlaps=self.overlaps,
        )


class _Upload:
    """One pushed image, by MultipartHttpPushUri (UpdateParameters, then UpdateFile) or by HttpPushUri.

    The image is never held in memory.
    """

    def __init__(self, site: BmcSite, log: _Log, names: Names | None = None) -> None:
        self._site = site
        self._log = log
        self._names = names
        self._reserved: tuple[str, ...] = ()

    async def receive(self, http: web.BaseRequest) -> Outcome:
        """Receive a multipart push and begin the update.

        :raises RedfishError: the request is not valid.
        :raises Cut: a fault cuts the connection.
        """
        view = self._site.view
        machine = view.machine
        parameters: dict[str, Any] | None = None
        keys: tuple[str, ...] = ()
        reader: UploadReader | None = None
        self._http = http
        life = machine.bmcs[view.name].life
        try:
            multipart = await http.multipart()
            async for part in multipart:
                if not isinstance(part, aiohttp.BodyPartReader):
                    raise RedfishError(400, 'UnrecognizedRequestBody')
                if part.name == 'UpdateParameters':
                    text = await _read_part(part)
                    if self._names is not None and self._names.changed:
                        text = self._names.inward(text.decode(errors='replace')).encode()
                    parameters = update.read_parameters(self._site.view, text)
                    keys = self._prepare(parameters)
                elif part.name == 'UpdateFile':
                    reader = UploadReader()
                    await self._stream(part.read_chunk, reader, keys)
                else:
                    raise RedfishError(400, 'PropertyUnknown', str(part.name))
        except ValueError as exc:
            raise RedfishError(400, 'UnrecognizedRequestBody', text='The multipart body cannot be read.') from exc
        if parameters is None:
            raise RedfishError(400, 'PropertyMissing', 'UpdateParameters')
        if reader is None:
            raise RedfishError(400, 'PropertyMissing', 'UpdateFile')
        return self._begin(parameters, keys, reader, life)

    async def receive_plain(self, http: web.BaseRequest) -> Outcome:
        """Receive an image whose targets and options were set before, as HttpPushUriTargets and HttpPushUriOptions.

        :raises RedfishError: the targets are not valid.
        :raises Cut: a fault cuts the connection.
        """
        view = self._site.view
        self._http = http
        life = view.machine.bmcs[view.name].life
        parameters = update.plain_parameters(view)
        keys = self._prepare(parameters)
        reader = UploadReader()
        await self._stream(http.content.read, reader, keys)
        return self._begin(parameters, keys, reader, life)

    def _prepare(self, parameters: dict[str, Any]) -> tuple[str, ...]:
        """Check the targets and reserve them while the image arrives.

        :raises RedfishError: the request is not valid.
        """
        view = self._site.view
        self._log.document = parameters
        keys = update.check_targets(view, parameters)
        self._log.overlaps = view.machine.written_beside(view.name, keys)
        self._reserve(keys)
        self._exhaust()
        return keys

    def _begin(self, parameters: dict[str, Any], keys: tuple[str, ...], reader: UploadReader, life: int) -> Outcome:
        """Begin the update with the upload that has arrived.

        :param life: the life of the BMC (its count of restarts) in which the upload began.
        """
        view = self._site.view
        machine = view.machine
        image = reader.finish()
        self.release()
        machine.settle()
        if machine.is_bmc_down(view.name) or machine.bmcs[view.name].life != life:
            raise Cut
        if not keys:
            fits = update.fitting(view, image.kind, image.device, image.component) if isinstance(image, EmulatedImage) else ()
            if not fits:
                raise RedfishError(
                    400, 'PropertyValueFormatError', '(image)', 'UpdateFile', text='The image fits no component of this BMC.'
                )
            update.refuse_if_busy(view, fits)
            keys = fits
        task = update.begin(view, keys, parameters)
        update.deliver(view, task, image)
        return update.accepted(view, task)

    def _exhaust(self) -> None:
        """Restart the BMC where the fault ``memory-exhausted`` allows fewer simultaneous updates."""
        view = self._site.view
        bmc = view.machine.bmcs[view.name]
        at_once = len(bmc.reserved) + sum(task.is_open for task in bmc.tasks.values())
        rule = view.machine.faults.find('memory-exhausted', bmc=view.name, use=False)
        if rule is not None and at_once > int(rule.parameters['at_once']):
            self._log.write(0, None)
            rule.hits += 1
            view.machine.reset_bmc(view.name)
            raise Cut

    async def _stream(self, read: Callable[[int], Awaitable[bytes]], reader: UploadReader, keys: tuple[str, ...]) -> None:
        view = self._site.view
        limit = view.options.max_image_bytes
        cut = stall = damage = None
        faults = view.machine.faults
        for key in keys or ('',):
            component = view.machine.components.get(key)
            device, uri = (component.device, component.uri) if component else (None, '')
            cut = cut or faults.find('upload-cut', bmc=view.name, device=device, uri=uri, method='POST')
            stall = stall or faults.find('upload-stalls', bmc=view.name, device=device, uri=uri, method='POST')
            damage = damage or faults.find('image-damaged', bmc=view.name, device=device, uri=uri, method='POST')
        self._log.received_bytes = 0
        while chunk := await read(CHUNK):
            if damage is not None:
                chunk = flipped(chunk, int(damage.parameters['after_bytes']) - reader.received_bytes)
            reader.feed(chunk)
            self._log.received_bytes = reader.received_bytes
            self._log.digest = reader.digest()
            if reader.received_bytes > limit:
                raise RedfishError(413, 'PayloadTooLarge')
            if cut is not None and reader.received_bytes >= int(cut.parameters['after_bytes']):
                self._log.write(0, None)
                if cut.parameters['restarts']:
                    view.machine.reset_bmc(view.name)
                raise Cut
            if stall is not None and reader.received_bytes >= int(stall.parameters['after_bytes']):
                self._log.write(0, None)
                await hold(self._http)
                raise Cut

    def _reserve(self, keys: tuple[str, ...]) -> None:
        self.release()
        self._reserved = keys
        self._site.view.machine.bmcs[self._site.view.name].reserved.update(keys)

    def release(self) -> None:
        """Release the components that this upload reserved."""
        self._site.view.machine.bmcs[self._site.view.name].reserved.difference_update(self._reserved)
        self._reserved = ()


async def _read_part(part: aiohttp.BodyPartReader) -> bytes:
    data = b''
    # aiohttp reads one chunk ahead for the boundary: with large chunks it would wait for the image before it returns this part.
    while chunk := await part.read_chunk(256):
        data += chunk
        if len(data) > MAX_PARAMETERS:
            raise RedfishError(413, 'PayloadTooLarge')
    return data


async def _drain(http: web.BaseRequest) -> None:
    """Read the rest of the client's request, so that the client can read the error instead of a broken connection."""
    with contextlib.suppress(OSError, ValueError, aiohttp.ClientError):
        async for _ in http.content.iter_chunked(CHUNK):
            pass
