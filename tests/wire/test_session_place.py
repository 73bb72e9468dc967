# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each session that was opened is closed, wherever the BMC says that it is.

Source: DSP0266, section "Session login": Location and X-Auth-Token come with the answer. BMCs behind NAT write the address
that they know themselves by (DMTF/libredfish#156); others leave Location out.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

SESSIONS = '/redfish/v1/SessionService/Sessions'
SYSTEM = '/redfish/v1/Systems/1'
TOKEN = 'token-of-the-session'


def _login(bmc: Any, reply: Callable[..., Any], body: object, location: str | None) -> None:
    bmc.tree['/redfish/v1']['Links'] = {'Sessions': {'@odata.id': SESSIONS}}
    headers = {'X_Auth_Token': TOKEN} | ({} if location is None else {'Location': location})
    bmc.replies['POST', SESSIONS] = reply(201, body, **headers)


def _closed(bmc: Any) -> list[str]:
    """What is deleted while a BMC is read once."""
    with bmc.connect(username='admin', password='p' * 12) as connection:
        connection.writer().fresh(SYSTEM)
    assert {'192.0.2.1'} == {request.url.split('/')[2] for request in bmc.requests}
    return [request.path_url for request in bmc.requests if request.method == 'DELETE']


@pytest.mark.parametrize(
    'location',
    [
        f'{SESSIONS}/7',
        f'{SESSIONS}/7/',
        f'https://192.0.2.1{SESSIONS}/7',
        f'https://192.0.2.1:443{SESSIONS}/7/',
        f'https://10.20.30.40{SESSIONS}/7',
        f'http://bmc.example:8080{SESSIONS}/7/',
        f'//10.20.30.40{SESSIONS}/7',
        'Sessions/7',
        '7',
        './7',
        f'{SESSIONS}/7'.removeprefix('/'),
    ],
)
def test_a_session_is_closed_whatever_form_its_location_has(bmc: Any, reply: Callable[..., Any], location: str) -> None:
    """Of another authority the path counts, and only the BMC itself is asked."""
    _login(bmc, reply, {}, location)
    assert [f'{SESSIONS}/7'] == _closed(bmc)


@pytest.mark.parametrize('body', [{'@odata.id': f'{SESSIONS}/7'}, {'@odata.id': f'https://10.0.0.1{SESSIONS}/7/'}, {'Id': '7'}])
@pytest.mark.parametrize('location', [None, '', 'https://evil.example/x', '/redfish/v1/Systems/1', 'http://[bad/'])
def test_a_session_whose_location_is_of_no_use_is_closed_by_what_its_body_says(
    bmc: Any, reply: Callable[..., Any], body: object, location: str | None
) -> None:
    """Its @odata.id, else its Id below the collection."""
    _login(bmc, reply, body, location)
    assert [f'{SESSIONS}/7'] == _closed(bmc)


@pytest.mark.parametrize(
    'location',
    [
        'https://evil.example/redfish/v1/Systems/1',
        f'https://evil.example{SESSIONS}',
        f'https://evil.example{SESSIONS}/',
        f'https://evil.example{SESSIONS}/../../Systems/1',
        f'https://evil.example{SESSIONS}/%2e%2e',
        f'https://evil.example{SESSIONS}/7%2f..',
        f'https://evil.example{SESSIONS}/7/more',
        f'{SESSIONS}/../Systems/1',
        '/redfish/v1/Systems/1',
        '/redfish/v1/Sessions/../Systems/1',
        SESSIONS,
        '..',
    ],
)
def test_nothing_but_a_session_is_deleted(bmc: Any, reply: Callable[..., Any], location: str) -> None:
    """A Location is the BMC's word: it may not make us delete anything else."""
    _login(bmc, reply, {}, location)
    assert [] == _closed(bmc)


def test_the_older_collection_of_the_same_bmc_is_one_of_sessions(bmc: Any, reply: Callable[..., Any]) -> None:
    """iDRACs take a login at one of their collections, and name the session below the other."""
    _login(bmc, reply, {}, '/redfish/v1/Sessions/7')
    assert ['/redfish/v1/Sessions/7'] == _closed(bmc)


def test_a_session_without_a_place_is_closed_where_it_is_the_only_one(bmc: Any, reply: Callable[..., Any]) -> None:
    """The BMC shows the sessions to a session: the only one is the one that asks."""
    _login(bmc, reply, '', None)
    bmc.collection(SESSIONS, '7')
    assert [f'{SESSIONS}/7'] == _closed(bmc)


def test_of_several_sessions_none_is_closed_that_may_be_somebody_elses(bmc: Any, reply: Callable[..., Any]) -> None:
    """Which of them is ours nobody tells: it is left to the timeout of the BMC."""
    _login(bmc, reply, '', None)
    bmc.collection(SESSIONS, '7', '8')
    assert [] == _closed(bmc)


@pytest.mark.parametrize('status', [404, 405, 308])
def test_a_session_that_is_known_with_a_slash_at_its_end_is_closed_there(
    bmc: Any, reply: Callable[..., Any], status: int
) -> None:
    """First without the slash, as links are compared, then as the BMC has written it."""
    _login(bmc, reply, {}, f'{SESSIONS}/7/')
    bmc.replies['DELETE', f'{SESSIONS}/7'] = [reply(status, Location=f'{SESSIONS}/7/'), reply(204)]
    assert [f'{SESSIONS}/7', f'{SESSIONS}/7/'] == _closed(bmc)


def test_a_session_is_closed_with_its_own_token(bmc: Any, reply: Callable[..., Any]) -> None:
    """And the token stands nowhere else than in the headers."""
    _login(bmc, reply, {'Id': '7'}, None)
    _closed(bmc)
    assert TOKEN == bmc.requests[-1].headers['X-Auth-Token']
    assert all(TOKEN not in json.dumps([r.url, str(r.body)]) for r in bmc.requests)


@pytest.mark.parametrize('status', [429, 503])
def test_a_session_is_closed_though_the_bmc_is_busy_at_first(bmc: Any, reply: Callable[..., Any], status: int) -> None:
    """It is asked once more, and no third time."""
    _login(bmc, reply, {}, f'{SESSIONS}/7')
    bmc.replies['DELETE', f'{SESSIONS}/7'] = [reply(status), reply(status), reply(204)]
    assert [f'{SESSIONS}/7'] * 2 == _closed(bmc)


def test_a_session_is_closed_though_the_connection_breaks(bmc: Any, reply: Callable[..., Any]) -> None:
    """A BMC may close a connection that was kept just when it is used: to close the session twice changes nothing."""
    _login(bmc, reply, {}, f'{SESSIONS}/7')
    bmc.replies['DELETE', f'{SESSIONS}/7'] = [requests.ConnectionError('closed'), reply(204)]
    assert [f'{SESSIONS}/7'] * 2 == _closed(bmc)


def _ways(bmc: Any) -> list[tuple[str, str]]:
    """What is asked at the place of the session, and by what right."""
    asked = [r for r in bmc.requests if r.path_url == f'{SESSIONS}/7']
    return [(r.method, 'Basic' if 'Authorization' in r.headers else r.headers['X-Auth-Token']) for r in asked]


def _lost(bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture, **address: Any) -> str:
    """What is said of a session whose DELETE was refused."""
    _login(bmc, reply, {}, f'{SESSIONS}/7')
    caplog.set_level('INFO', logger='baremetal_acc.bmc.redfish.logout')
    with bmc.connect(username='admin', password='p' * 12, **address) as connection:
        connection.writer().fresh(SYSTEM)
    return '\n'.join(r.getMessage() for r in caplog.records)


@pytest.mark.parametrize('status', [401, 403])
def test_a_session_whose_end_is_refused_and_whose_token_is_good_is_left(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """The BMC answers 401 to the DELETE, and shows the session to its own token: it was not closed."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = reply(status)
    bmc.put(f'{SESSIONS}/7')
    told = _lost(bmc, reply, caplog)
    assert 'a session could not be closed, and may still be open: ' in told
    assert 'unless' not in told
    assert [('DELETE', TOKEN), ('GET', TOKEN)] == _ways(bmc)


def test_a_session_whose_token_is_not_taken_any_more_may_be_left(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It may have ended by itself, and nobody says that it was closed."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = reply(401)
    bmc.replies['GET', f'{SESSIONS}/7'] = reply(401)
    assert 'a session could not be closed, and may still be open, unless it has ended by itself: ' in _lost(bmc, reply, caplog)
    assert [('DELETE', TOKEN), ('GET', TOKEN)] == _ways(bmc)


@pytest.mark.parametrize('status', [404, 410])
def test_a_session_that_is_not_there_any_more_is_closed(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture, status: int
) -> None:
    """Whether its DELETE says so, or a read after a DELETE that was refused."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = [reply(status), reply(401)]
    bmc.replies['GET', f'{SESSIONS}/7'] = reply(status)
    assert '' == _lost(bmc, reply, caplog)
    assert '' == _lost(bmc, reply, caplog)
    assert [('DELETE', TOKEN), ('DELETE', TOKEN), ('GET', TOKEN)] == _ways(bmc)


def test_a_good_session_whose_token_may_not_end_it_is_closed_with_basic_authentication(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Where the operator allows that: its own token has shown that it is this one."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = [reply(401), reply(204)]
    bmc.put(f'{SESSIONS}/7')
    assert '' == _lost(bmc, reply, caplog, basic_auth=True)
    assert [('DELETE', TOKEN), ('GET', TOKEN), ('DELETE', 'Basic')] == _ways(bmc)


def test_what_stands_at_the_place_of_a_session_whose_token_is_dead_is_not_closed_with_basic_authentication(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It may be the session of somebody else by now."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = reply(401)
    bmc.replies['GET', f'{SESSIONS}/7'] = [reply(401), reply(200, {'Id': '7'})]
    assert 'may still be open, unless it has ended by itself' in _lost(bmc, reply, caplog, basic_auth=True)
    assert [('DELETE', TOKEN), ('GET', TOKEN), ('GET', 'Basic')] == _ways(bmc)


def test_a_session_whose_end_was_refused_counts_for_nobody_as_one_that_is_free(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Else the next login would be repeated for a session that the BMC still counts."""
    bmc.replies['DELETE', f'{SESSIONS}/7'] = reply(401)
    bmc.replies['GET', f'{SESSIONS}/7'] = reply(401)
    _login(bmc, reply, {}, f'{SESSIONS}/7')
    with bmc.connect(username='admin', password='p' * 12) as connection:
        account = connection._login._account
        connection.writer().fresh(SYSTEM)
    assert (0, False, None) == (account.ended, account.lingers, account.take_left())
