# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Serve a recorded Redfish tree read-only: a folder in DMTF mockup layout, byte for byte.

Each URI is a folder with its resource in ``index.json``. The bytes are sent as they are on disk, even if they are not JSON. A
POST to the Sessions collection creates a session and a DELETE ends it; every other write is answered 405. URIs are
case-sensitive, and a trailing slash is tolerated. With $expand the recorded members are inserted; a member that was not
recorded stays a reference.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiohttp import web

from baremetal_acc.emulator.access import AccessControl, CurrentUser
from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.http_frontend import BodyTooLarge, read_body
from baremetal_acc.emulator.journal import RequestJournal
from baremetal_acc.emulator.redfish.accounts import SESSIONS
from baremetal_acc.emulator.redfish.errors import RedfishError, not_found
from baremetal_acc.emulator.redfish.query import answer, parse_query
from baremetal_acc.emulator.redfish.resource import ROOT, Body
from baremetal_acc.emulator.service import ServiceReply, ServiceRequest, basic_credentials

_OPEN = frozenset({'/redfish', ROOT, f'{ROOT}/odata', f'{ROOT}/$metadata'})


class BadRecording(Exception):
    """The folder does not hold a recorded tree."""


class Recording:
    """The resources of a folder, by URI."""

    def __init__(self, directory: Path) -> None:
        roots = [
            (directory / 'redfish', '/redfish'),
            (directory / 'v1', ROOT),
            (directory, ROOT),
        ]
        for folder, prefix in roots:
            root = folder / 'v1' if prefix == '/redfish' else folder
            if (root / 'index.json').is_file():
                self._files = dict(_files(folder, prefix))
                break
        else:
            raise BadRecording(
                f'{directory} is not a recorded tree: redfish/v1/index.json is missing (name the folder that contains redfish)'
            )
        self._parsed: dict[str, Body | None] = {}

    def bytes_of(self, uri: str) -> bytes | None:
        """The recorded bytes of a URI."""
        path = self._files.get(uri)
        return path.read_bytes() if path is not None else None

    def body_of(self, uri: str) -> Body | None:
        """The recorded resource, if it is a JSON object."""
        uri = uri.rstrip('/')
        if uri not in self._parsed:
            data = self.bytes_of(uri)
            body: Any = None
            if data is not None:
                try:
                    body = json.loads(data)
                except ValueError:
                    body = None
            self._parsed[uri] = body if isinstance(body, dict) else None
        return self._parsed[uri]

    def uris(self) -> Iterable[str]:
        """All recorded URIs."""
        return self._files.keys()


def _files(folder: Path, prefix: str) -> Iterable[tuple[str, Path]]:
    for path in folder.rglob('index.json'):
        parts = path.parent.relative_to(folder).parts
        yield '/'.join((prefix, *parts)), path


class RecordingSite:
    """A site that serves a recording.

    :param needs_login: whether requests without a valid session or account are refused.
    """

    def __init__(
        self,
        recording: Recording,
        users: Iterable[CurrentUser],
        journal: RequestJournal,
        *,
        needs_login: bool = False,
        expand: bool = True,
    ) -> None:
        self._recording = recording
        self.access = AccessControl(users)
        self._clock = EmulatedClock()
        self._journal = journal
        self._needs_login = needs_login
        self._expand = expand

    async def respond(self, http: web.BaseRequest, request: ServiceRequest) -> ServiceReply:
        """Answer a request."""
        user: str | None = None
        body = b''
        try:
            if request.method not in ('GET', 'HEAD'):
                body = await read_body(http)
            is_login = request.method == 'POST' and request.path == SESSIONS
            if not is_login and request.path not in _OPEN:
                user = self._user(request)
            reply = self._read(request) if request.method in ('GET', 'HEAD') else self._write(request, body)
        except BodyTooLarge:
            reply = ServiceReply(status=413, body=RedfishError(413, 'PayloadTooLarge').body())
        except RedfishError as error:
            reply = ServiceReply(status=error.status, body=error.body(), headers=error.headers)
        if request.method not in ('GET', 'HEAD'):
            self._journal.add(
                time=self._clock.wall(),
                bmc='recording',
                method=request.method,
                path=request.path,
                status=reply.status,
                user=user,
                body=body,
                is_session=request.path.startswith(SESSIONS),
            )
        reply.headers.setdefault('OData-Version', '4.0')
        reply.headers.setdefault('Cache-Control', 'no-cache')
        return reply

    def _user(self, request: ServiceRequest) -> str | None:
        token = request.headers.get('x-auth-token')
        if token is not None:
            found = self.access.by_token(token, self._clock.now())
            if found is not None:
                return found[0].user
        elif (basic := basic_credentials(request.headers.get('authorization'))) is not None:
            account = self.access.check(*basic)
            if account is not None:
                return account.name
        if self._needs_login:
            raise RedfishError(401, 'NoValidSession', headers={'WWW-Authenticate': 'Basic realm="Redfish"'})
        return None

    def _read(self, request: ServiceRequest) -> ServiceReply:
        path = request.path
        if (session := self._session(path)) is not None:
            return ServiceReply(status=200, body=session)
        data = self._recording.bytes_of(path)
        if data is None and path == '/redfish':
            return ServiceReply(status=200, body={'v1': f'{ROOT}/'})
        if data is None:
            raise not_found(path)
        etag = f'"{hashlib.sha256(data).hexdigest()[:16]}"'
        query = parse_query(request.query, can_expand=self._expand)
        body = self._recording.body_of(path)
        is_asked = query.expand is not None or query.select or query.top is not None or query.skip or query.only
        if body is not None and is_asked:
            shown, expanded = answer(body, query, self._recording.body_of, path=path)
            return ServiceReply(status=200, body=shown, expanded=expanded)
        if etag in (request.headers.get('if-none-match') or ''):
            return ServiceReply(status=304, headers={'ETag': etag})
        return ServiceReply(status=200, body=data, headers={'ETag': etag, 'Allow': 'GET, HEAD'})

    def _session(self, path: str) -> Body | None:
        identity = path.removeprefix(f'{SESSIONS}/')
        session = self.access.sessions.get(identity)
        if session is None or identity == path:
            return None
        return {
            '@odata.id': path,
            '@odata.type': '#Session.v1_7_2.Session',
            'Id': session.id,
            'Name': f'Session {session.id}',
            'UserName': session.user,
        }

    def _write(self, request: ServiceRequest, body: bytes) -> ServiceReply:
        if request.method == 'POST' and request.path == SESSIONS:
            return self._log_in(body)
        identity = request.path.removeprefix(f'{SESSIONS}/')
        if request.method == 'DELETE' and identity in self.access.sessions:
            del self.access.sessions[identity]
            return ServiceReply(status=204)
        raise RedfishError(405, 'OperationNotAllowed', text='A recorded tree is read-only.', headers={'Allow': 'GET, HEAD'})

    def _log_in(self, body: bytes) -> ServiceReply:
        try:
            given = json.loads(body)
            name, password = str(given['UserName']), str(given['Password'])
        except (ValueError, KeyError, TypeError) as exc:
            raise RedfishError(400, 'MalformedJSON') from exc
        # Without ``needs_login`` every login succeeds, so that a client with credentials works as well.
        now = self._clock.now()
        session = self.access.log_in(name, password, now) if self._needs_login else self.access.open(name, now)
        if session is None:
            raise RedfishError(401, 'ResourceAtUriUnauthorized', SESSIONS, 'wrong user name or password')
        uri = f'{SESSIONS}/{session.id}'
        return ServiceReply(status=201, body=self._session(uri), headers={'Location': uri, 'X-Auth-Token': session.token})
