# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Redfish service of one emulated BMC: it maps a request to a reply by the protocol rules of DSP0266, without sockets.

Source: DSP0266: authentication, ETags, query parameters, task monitors, error responses.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from baremetal_acc.emulator.access import ROLES
from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.redfish import update
from baremetal_acc.emulator.redfish.accounts import SESSIONS
from baremetal_acc.emulator.redfish.errors import RedfishError, not_found, registry_message
from baremetal_acc.emulator.redfish.query import answer, parse_query
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Resource,
    ResourceAction,
    Writable,
    body_of,
    check_patch,
    etag_of,
)
from baremetal_acc.emulator.redfish.root import metadata, odata
from baremetal_acc.emulator.redfish.tasks import SERVICE as TASKS
from baremetal_acc.emulator.redfish.tasks import monitor_outcome, monitored, task_resource
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.emulator.response_faults import other_unit, other_variant

ALL_PRIVILEGES = frozenset().union(*ROLES.values())
_OPEN = frozenset({'/redfish', ROOT, f'{ROOT}/odata', f'{ROOT}/$metadata'})
_ALLOWED_IN_LOCKDOWN = frozenset({'#ComputerSystem.Reset', '#Manager.Reset', '#ComponentIntegrity.SPDMGetSignedMeasurements'})
"""Actions that change no setting."""
_WRONG_ETAG = '"0000000000000000"'


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceRequest:
    """One request. Header names are in lower case; ``path`` is decoded and has no trailing slash."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b''


@dataclass(slots=True, kw_only=True)
class ServiceReply:
    """One reply.

    :ivar expanded: the number of resources that were expanded into it.
    :ivar user: the account of the caller.
    :ivar bytes_per_second: how slowly the body is sent; None: at once.
    """

    status: int
    body: Body | str | bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    expanded: int = 0
    user: str | None = None
    bytes_per_second: float | None = None


def clean_path(raw: str) -> str:
    """Normalise a path: decoded once, without fragment and trailing slash."""
    path = unquote(raw.partition('#')[0])
    return path.rstrip('/') or '/'


class Service:
    """The Redfish service of one BMC."""

    def __init__(self, view: View, *, no_auth: bool = False) -> None:
        self.view = view
        self.no_auth = no_auth
        view.machine.on_bmc_down.append(self._bmc_down)
        self._later: list[tuple[Writable, Any]] = []
        self._says_later = True
        self._monitors = 0
        view.machine.elsewhere[self._changes] = self._carry_out

    @property
    def _changes(self) -> str:
        return f'later changes of {self.view.name}'

    def _bmc_down(self, name: str) -> None:
        if name == self.view.name:
            self.view.access.forget_sessions()
            self._later.clear()

    # -- authentication -----------------------------------------------------------------------------------------------

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Authenticate the caller by X-Auth-Token, else by Basic authentication.

        :raises RedfishError: 401.
        """
        access = self.view.access
        token = headers.get('x-auth-token')
        if self.has_other_password():
            raise RedfishError(401, 'NoValidSession')
        if token is not None:
            found = access.by_token(token, self.view.machine.clock.now())
            if found is not None:
                session, account = found
                return Caller(user=account.name, privileges=ROLES[account.role], session=session.id)
        elif (basic := basic_credentials(headers.get('authorization'))) is not None:
            known = access.check(*basic)
            if known is not None:
                return Caller(user=known.name, privileges=ROLES[known.role])
        if self.no_auth:
            return Caller(user=None, privileges=ALL_PRIVILEGES)
        challenge = {'WWW-Authenticate': 'Basic realm="Redfish"'} if token is None else {}
        raise RedfishError(401, 'NoValidSession', headers=challenge)

    def has_other_password(self) -> bool:
        """Whether the fault ``password-rotated`` is in force, which makes every password and session invalid."""
        faults = self.view.machine.faults
        return faults.any('password-rotated') and faults.find('password-rotated', bmc=self.view.name) is not None

    def require(self, caller: Caller, privilege: str, owner: str | None = None) -> None:
        """Check the privilege of the caller; ConfigureSelf suffices for the caller's own resources.

        :raises RedfishError: 403.
        """
        is_own = owner is not None and owner == caller.user and caller.may('ConfigureSelf')
        if not caller.may(privilege) and not is_own:
            raise RedfishError(403, 'InsufficientPrivilege')

    # -- requests -----------------------------------------------------------------------------------------------------

    def reply(self, request: ServiceRequest) -> ServiceReply:
        """Answer a request whose body is small and has been read."""
        self.view.machine.settle()
        user: str | None = None
        try:
            anonymous = Caller(user=None, privileges=frozenset())
            is_open = (request.method in ('GET', 'HEAD') and request.path in _OPEN) or (
                request.method == 'POST' and request.path == SESSIONS
            )
            caller = anonymous if is_open else self.caller(request.headers)
            user = caller.user
            reply = self._dispatch(request, caller)
        except RedfishError as error:
            reply = ServiceReply(status=error.status, body=error.body(), headers=error.headers)
        reply.user = user
        reply.headers.setdefault('OData-Version', '4.0')
        reply.headers.setdefault('Cache-Control', 'no-cache')
        return reply

    def _dispatch(self, request: ServiceRequest, caller: Caller) -> ServiceReply:
        is_read = request.method in ('GET', 'HEAD')
        if is_read and request.path in _OPEN and request.path != ROOT:
            return self._document(request.path)
        if is_read and (task := monitored(self.view, request.path)) is not None:
            told = monitor_outcome(self.view, task)
            return ServiceReply(status=told.status, body=told.body, headers=dict(told.headers))
        resources = self.view.tree.snapshot()
        resource = resources.get(request.path)
        if request.method == 'DELETE' and (task := monitored(self.view, request.path)) is not None and task.is_open:
            resource = task_resource(self.view, task)
        if resource is None and is_read and request.path == self._monitor():
            return ServiceReply(status=202 if self._later else 204)
        if resource is None:
            return self._action(request, caller, resources)
        match request.method:
            case 'GET' | 'HEAD':
                return self._get(request, caller, resource, resources)
            case 'PATCH':
                return self._patch(request, caller, resource)
            case 'POST' if resource.create is not None:
                if resource.uri != SESSIONS:
                    self.require(caller, resource.privilege)
                elif self.has_other_password():
                    raise RedfishError(401, 'NoValidSession')
                return _as_reply(resource.create(caller, _json(request.body)))
            case 'DELETE' if resource.delete is not None:
                self.require(caller, resource.privilege, resource.owner)
                self._match(request, resource)
                return _as_reply(resource.delete(caller))
            case _:
                raise _not_allowed(resource)

    def _document(self, path: str) -> ServiceReply:
        if path == '/redfish':
            return ServiceReply(status=200, body={'v1': f'{ROOT}/'})
        if path.endswith('/odata'):
            return ServiceReply(status=200, body=odata(self.view.tree))
        return ServiceReply(status=200, body=metadata(self.view.tree), headers={'Content-Type': 'application/xml'})

    def _get(
        self, request: ServiceRequest, caller: Caller, resource: Resource, resources: Mapping[str, Resource]
    ) -> ServiceReply:
        self._may_read(caller, resource)
        query = parse_query(request.query, can_expand=self.view.options.expand)
        hidden = self.view.tree.hidden()

        def find(uri: str) -> Body | None:
            found = resources.get(uri.rstrip('/'))
            if found is None or not self._can_read(caller, found):
                return None
            # A resource whose own GET fails is not expanded into other answers, either.
            if self.view.machine.faults.any('http-status') and self._fault('http-status', found, 'GET', use=False):
                return None
            return self._shown(found, hidden)

        whole = self._shown(resource, hidden)
        body, expanded = answer(whole, query, find, path=request.path, page_size=self.view.options.page_size)
        is_whole = body is whole
        etag = str(whole['@odata.etag']) if is_whole and '@odata.etag' in whole else etag_of(body, resource.volatile)
        if expanded and self._fault('expand-broken', resource, request.method):
            for member in body.get('Members', []):
                member.pop('Id', None)
                member.pop('Name', None)
        if etag in _tags(request.headers.get('if-none-match')):
            return ServiceReply(status=304, headers={'ETag': etag})
        tags = {'ETag': etag} if '@odata.etag' in whole else {}
        return ServiceReply(status=200, body=body, headers={**tags, 'Allow': _allow(resource)}, expanded=expanded)

    def _shown(self, resource: Resource, hidden: frozenset[str]) -> Body:
        body = body_of(resource, hidden)
        if self.view.machine.faults.any('wrong-etag') and self._fault('wrong-etag', resource, 'GET'):
            body['@odata.etag'] = _WRONG_ETAG
        if self.view.machine.faults.any('weak-etag') and self._fault('weak-etag', resource, 'GET', use=False):
            body['@odata.etag'] = f'W/{body["@odata.etag"]}'
        hides = self._rule('precondition-required', resource, 'GET', use=False)
        if hides is not None and hides.parameters['hides']:
            del body['@odata.etag']
        unread = self.view.machine.faults.any('lock-unread') and self._is_of_a_lock(resource)
        if unread and self._fault('lock-unread', resource, 'GET', use=False):
            body['@Message.ExtendedInfo'] = [registry_message('Base', 'InternalError')]
        if resource.device is not None and self.view.machine.faults.any('card-exchanged'):
            body = other_unit(body) if self._fault('card-exchanged', resource, 'GET') else body
        if resource.device is not None and self.view.machine.faults.any('other-variant'):
            rule = self._rule('other-variant', resource, 'GET', use=False)
            body = other_variant(body, rule.parameters['shows'] or {}) if rule is not None else body
        return body

    def _rule(self, name: str, resource: Resource, method: str, *, use: bool) -> Fault | None:
        faults = self.view.machine.faults
        return faults.find(name, bmc=self.view.name, device=resource.device, uri=resource.uri, method=method, use=use)

    def _fault(self, name: str, resource: Resource, method: str, *, use: bool = True) -> bool:
        return self._rule(name, resource, method, use=use) is not None

    def _can_read(self, caller: Caller, resource: Resource) -> bool:
        is_own = resource.owner is None or resource.owner == caller.user or caller.may(resource.privilege)
        return resource.uri == ROOT or (caller.may(resource.read_privilege) and is_own)

    def _may_read(self, caller: Caller, resource: Resource) -> None:
        if not self._can_read(caller, resource):
            raise RedfishError(403, 'InsufficientPrivilege')

    def _match(self, request: ServiceRequest, resource: Resource) -> None:
        given = request.headers.get('if-match')
        is_unconditional = given is None and request.method == 'PATCH'
        if is_unconditional and self._fault('precondition-required', resource, request.method):
            raise RedfishError(428, 'PreconditionRequired')
        if given is None or '*' in _tags(given):
            return
        weak = self._rule('weak-etag', resource, request.method, use=True)
        if weak is not None and (given.startswith('W/') or not weak.parameters['matches']):
            raise RedfishError(412, 'PreconditionFailed')
        if str(body_of(resource, self.view.tree.hidden())['@odata.etag']) not in _tags(given):
            raise RedfishError(412, 'PreconditionFailed')

    def _patch(self, request: ServiceRequest, caller: Caller, resource: Resource) -> ServiceReply:
        if resource.writable is None:
            raise _not_allowed(resource)
        self.require(caller, resource.privilege, resource.owner)
        self._match(request, resource)
        self._may_change(resource)
        if self._later and self._says_later:
            raise RedfishError(400, 'GeneralError', text='An earlier change is still in progress.')
        writables = resource.writable()
        if resource.owner is not None and not caller.may(resource.privilege):
            # Of their own account callers may change the password, not the role. Source: DSP0266, ConfigureSelf.
            writables = {name: rule for name, rule in writables.items() if name == 'Password'}
        writes = check_patch(_json(request.body), writables, resource.render())
        later = self._rule('patch-later', resource, 'PATCH', use=True)
        if later is not None:
            return self._accept(writes, later)
        for writable, value in writes:
            writable.write(value)
        return ServiceReply(status=204, headers={'ETag': str(body_of(resource, self.view.tree.hidden())['@odata.etag'])})

    def _accept(self, writes: list[tuple[Writable, Any]], rule: Fault) -> ServiceReply:
        """Queue the changes of a PATCH, to be carried out later."""
        self._later += writes
        self._says_later = bool(rule.parameters['said'])
        self.view.machine.later(rule.parameters['seconds'], self._changes)
        if not self._says_later:
            return ServiceReply(status=204)
        self._monitors += 1 if rule.parameters['monitor'] else 0
        return ServiceReply(status=202, headers={'Location': self._monitor() or f'{TASKS}/TaskMonitors/change-0'})

    def _carry_out(self, _: str) -> None:
        writes, self._later = self._later, []
        for writable, value in writes:
            writable.write(value)

    def _monitor(self) -> str | None:
        """The URI of the monitor of the last queued change; None: there is no monitor."""
        return f'{TASKS}/TaskMonitors/change-{self._monitors}' if self._monitors else None

    def _may_change(self, resource: Resource) -> None:
        """Check that the BMC changes settings there: under a lockdown only the lockdown itself, and locks only with a licence.

        :raises RedfishError: 403.
        """
        machine = self.view.machine
        lockdown = machine.lockdown(self.view.name)
        if lockdown is not None and resource.uri != lockdown.uri:
            raise RedfishError(403, 'OperationNotAllowed', text='The system is in lockdown: no setting can be changed.')
        licensed = machine.faults.any('licence-missing') and self._is_of_a_lock(resource)
        if licensed and self._fault('licence-missing', resource, 'PATCH'):
            raise RedfishError(403, 'OperationNotAllowed', text='The licence that this setting needs is not installed.')

    def _is_of_a_lock(self, resource: Resource) -> bool:
        """Whether the resource, or the resource that it is the Settings of, shows a lock."""
        places = (resource.uri, resource.uri.removesuffix('/Settings'))
        locks = self.view.machine.settings.values()
        return any(one.is_lock and one.bmc == self.view.name and one.uri in places for one in locks)

    def _action(self, request: ServiceRequest, caller: Caller, resources: Mapping[str, Resource]) -> ServiceReply:
        found = _find_action(request.path, resources)
        if found is None:
            raise not_found(request.path)
        resource, action = found
        if request.method != 'POST':
            raise RedfishError(405, 'OperationNotAllowed', headers={'Allow': 'POST'})
        self.require(caller, action.privilege)
        if action.name not in _ALLOWED_IN_LOCKDOWN:
            self._may_change(resource)
        parameters = action.check(_json(request.body) if request.body.strip() else {})
        return _as_reply(action.invoke(caller, parameters))

    def device_of(self, path: str) -> str | None:
        """The device of the resource or action at that path; None: it belongs to no device."""
        resources = self.view.tree.snapshot()
        resource = resources.get(path)
        if resource is None and (found := _find_action(path, resources)) is not None:
            resource = found[0]
        return resource.device if resource is not None else None

    # -- pushed images ------------------------------------------------------------------------------------------------

    def may_push(self, request: ServiceRequest) -> Caller:
        """Check that the caller may push an image. The body is read by the HTTP site, since it may be large.

        :raises RedfishError: 401, 403, 404.
        """
        self.view.machine.settle()
        caller = self.caller(request.headers)
        if not self.is_push_uri(request.path):
            raise not_found(request.path)
        self.require(caller, 'ConfigureManager')
        if self.view.machine.lockdown(self.view.name) is not None:
            raise RedfishError(403, 'OperationNotAllowed', text='The system is in lockdown: no update is accepted.')
        return caller

    def is_push_uri(self, path: str) -> bool:
        """Whether images are pushed to that path."""
        options = self.view.options
        is_one = (options.push and path == update.PUSH) or (options.plain_push and path == update.PLAIN_PUSH)
        return options.update_service and is_one


def _as_reply(outcome: Outcome) -> ServiceReply:
    headers = dict(outcome.headers)
    if outcome.body is not None and '@odata.etag' in outcome.body:
        headers.setdefault('ETag', str(outcome.body['@odata.etag']))
    return ServiceReply(status=outcome.status, body=outcome.body, headers=headers)


def _find_action(path: str, resources: Mapping[str, Resource]) -> tuple[Resource, ResourceAction] | None:
    for resource in resources.values():
        for action in resource.actions:
            if action.target == path and action.is_offered():
                return resource, action
    return None


def _allow(resource: Resource) -> str:
    methods = ['GET', 'HEAD']
    if resource.writable is not None:
        methods.append('PATCH')
    if resource.create is not None:
        methods.append('POST')
    if resource.delete is not None:
        methods.append('DELETE')
    return ', '.join(methods)


def _not_allowed(resource: Resource) -> RedfishError:
    return RedfishError(405, 'OperationNotAllowed', headers={'Allow': _allow(resource)})


def _json(body: bytes) -> Any:
    try:
        document = json.loads(body)
    except ValueError as exc:
        raise RedfishError(400, 'MalformedJSON') from exc
    if not isinstance(document, dict):
        raise RedfishError(400, 'UnrecognizedRequestBody')
    return document


def basic_credentials(header: str | None) -> tuple[str, str] | None:
    """Name and password of a Basic Authorization header; None: the header holds none."""
    if header is None or not header.lower().startswith('basic '):
        return None
    try:
        name, found, password = base64.b64decode(header[6:], validate=True).decode().partition(':')
    except (binascii.Error, UnicodeDecodeError):
        return None
    return (name, password) if found else None


def _tags(header: str | None) -> frozenset[str]:
    """The tags of an If-Match or If-None-Match header; a weak tag counts as its strong one."""
    if header is None:
        return frozenset()
    return frozenset(part.strip().removeprefix('W/') for part in header.split(',') if part.strip())
