# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""AccountService with its accounts and roles, and SessionService with its sessions, of one emulated BMC."""

from collections.abc import Iterable

from baremetal_acc.emulator.access import MAX_PASSWORD, MIN_PASSWORD, ROLES, CurrentUser, EmulatedAccount, check_password
from baremetal_acc.emulator.redfish.errors import RedfishError, not_found
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Resource,
    Writable,
    Writables,
    body_of,
    collection,
    ref,
    status,
)
from baremetal_acc.emulator.redfish.view import View

SERVICE = f'{ROOT}/AccountService'
SESSIONS = f'{ROOT}/SessionService/Sessions'


def add_accounts(view: View) -> None:
    """Add AccountService with its accounts and roles, and SessionService with its sessions."""
    view.tree.add(
        Resource(
            uri=SERVICE,
            type='#AccountService.v1_15_1.AccountService',
            render=lambda: {
                'Id': 'AccountService',
                'Name': 'Account Service',
                'Status': status(),
                'ServiceEnabled': True,
                'AuthFailureLoggingThreshold': 3,
                'MinPasswordLength': MIN_PASSWORD,
                'MaxPasswordLength': MAX_PASSWORD,
                'AccountLockoutThreshold': 0,
                'AccountLockoutDuration': 0,
                'SupportedAccountTypes': ['Redfish'],
                'Accounts': ref(f'{SERVICE}/Accounts'),
                'Roles': ref(f'{SERVICE}/Roles'),
            },
            privilege='ConfigureUsers',
        ),
        collection(
            f'{SERVICE}/Accounts',
            'ManagerAccount',
            lambda: [f'{SERVICE}/Accounts/{name}' for name in view.access.accounts],
            create=lambda caller, body: _create_account(view, body),
            privilege='ConfigureUsers',
        ),
        collection(f'{SERVICE}/Roles', 'Role', [f'{SERVICE}/Roles/{name}' for name in ROLES]),
        *(_role(name) for name in ROLES),
        Resource(
            uri=f'{ROOT}/SessionService',
            type='#SessionService.v1_1_9.SessionService',
            render=lambda: {
                'Id': 'SessionService',
                'Name': 'Session Service',
                'Status': status(),
                'ServiceEnabled': True,
                'SessionTimeout': int(view.access.session_timeout),
                'Sessions': ref(SESSIONS),
            },
            writable=lambda: {
                'SessionTimeout': Writable(types=(int,), write=lambda value: _set_timeout(view, value)),
            },
            privilege='ConfigureManager',
        ),
        collection(
            SESSIONS,
            'Session',
            lambda: [f'{SESSIONS}/{one}' for one in view.access.sessions],
            create=lambda caller, body: _log_in(view, body),
            privilege='Login',
        ),
    )
    view.tree.add_source(lambda: _accounts(view))
    view.tree.add_source(lambda: _sessions(view))


def _set_timeout(view: View, seconds: int) -> None:
    # Source: DSP8010 SessionService, SessionTimeout: 30 to 86400 seconds.
    if not 30 <= seconds <= 86400:
        raise RedfishError(400, 'PropertyValueFormatError', str(seconds), 'SessionTimeout')
    view.access.session_timeout = float(seconds)


def _role(name: str) -> Resource:
    return Resource(
        uri=f'{SERVICE}/Roles/{name}',
        type='#Role.v1_3_2.Role',
        render=lambda: {
            'Id': name,
            'Name': f'{name} role',
            'RoleId': name,
            'IsPredefined': True,
            'AssignedPrivileges': sorted(ROLES[name]),
            'OemPrivileges': [],
        },
        privilege='ConfigureManager',
    )


def _accounts(view: View) -> Iterable[Resource]:
    return [_account(view, account) for account in view.access.accounts.values()]


def _account(view: View, account: EmulatedAccount) -> Resource:
    def set_password(value: str) -> None:
        try:
            check_password(value)
        except ValueError as exc:
            raise RedfishError(400, 'PropertyValueFormatError', '******', 'Password', text=str(exc)) from exc
        account.secret = value

    def writable() -> Writables:
        return {
            'Password': Writable(types=(str,), write=set_password),
            'RoleId': Writable(types=(str,), allowed=tuple(ROLES), write=lambda value: setattr(account, 'role', value)),
            'Enabled': Writable(types=(bool,), write=lambda value: setattr(account, 'enabled', value)),
        }

    def delete(caller: Caller) -> Outcome:
        del view.access.accounts[account.name]
        return Outcome()

    return Resource(
        uri=f'{SERVICE}/Accounts/{account.name}',
        type='#ManagerAccount.v1_12_1.ManagerAccount',
        render=lambda: {
            'Id': account.name,
            'Name': f'Account {account.name}',
            'UserName': account.name,
            'Password': None,
            'RoleId': account.role,
            'Enabled': account.enabled,
            'Locked': False,
            'PasswordChangeRequired': False,
            'AccountTypes': ['Redfish'],
            'Links': {'Role': ref(f'{SERVICE}/Roles/{account.role}')},
        },
        writable=writable,
        delete=delete,
        privilege='ConfigureUsers',
        owner=account.name,
    )


def _create_account(view: View, body: Body) -> Outcome:
    for name in ('UserName', 'Password', 'RoleId'):
        if not isinstance(body.get(name), str):
            raise RedfishError(400, 'PropertyMissing', name)
    name = body['UserName']
    if name in view.access.accounts:
        raise RedfishError(400, 'ResourceAlreadyExists', 'ManagerAccount', 'UserName', name)
    if not name.replace('-', '').replace('_', '').isalnum() or not name.isascii():
        raise RedfishError(400, 'PropertyValueFormatError', name, 'UserName')
    if body['RoleId'] not in ROLES:
        raise RedfishError(400, 'PropertyValueNotInList', body['RoleId'], 'RoleId')
    try:
        account = view.access.add(CurrentUser(name=name, password=body['Password'], role=body['RoleId']))
    except ValueError as exc:
        raise RedfishError(400, 'PropertyValueFormatError', '******', 'Password', text=str(exc)) from exc
    resource = _account(view, account)
    return Outcome(status=201, body=body_of(resource), headers={'Location': resource.uri})


def _sessions(view: View) -> Iterable[Resource]:
    for session in list(view.access.sessions.values()):
        yield _session(view, session.id)


def _session(view: View, identity: str) -> Resource:
    session = view.access.sessions[identity]

    def delete(caller: Caller) -> Outcome:
        if view.access.sessions.pop(identity, None) is None:
            raise not_found(f'{SESSIONS}/{identity}')
        return Outcome()

    return Resource(
        uri=f'{SESSIONS}/{identity}',
        type='#Session.v1_7_2.Session',
        render=lambda: {
            'Id': identity,
            'Name': f'Session {identity}',
            'UserName': session.user,
            'CreatedTime': view.machine.clock.wall(session.created),
            'SessionType': 'Redfish',
        },
        delete=delete,
        privilege='ConfigureManager',
        owner=session.user,
    )


def _refuse_beyond_limit(view: View) -> None:
    """Refuse another session where the fault ``session-limit`` says so.

    :raises RedfishError: 503.
    """
    rule = view.machine.faults.find('session-limit', bmc=view.name, uri=SESSIONS, method='POST', use=False)
    if rule is None:
        return
    view.access.expire(view.machine.clock.now())
    if len(view.access.sessions) >= int(rule.parameters['most']):
        rule.hits += 1
        raise RedfishError(503, 'SessionLimitExceeded')


def _log_in(view: View, body: Body) -> Outcome:
    for name in ('UserName', 'Password'):
        if not isinstance(body.get(name), str):
            raise RedfishError(400, 'PropertyMissing', name)
    if view.access.check(body['UserName'], body['Password']) is not None:
        _refuse_beyond_limit(view)
    session = view.access.log_in(body['UserName'], body['Password'], view.machine.clock.now())
    if session is None:
        raise RedfishError(401, 'ResourceAtUriUnauthorized', SESSIONS, 'wrong user name or password')
    resource = _session(view, session.id)
    headers = {'Location': resource.uri, 'X-Auth-Token': session.token}
    return Outcome(status=201, body=body_of(resource), headers=headers)
