# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The client sends a request to the BMC at most as often as it may, and answers stay within bounds.

The defects that this avoids were measured on sushy's own connector: doc/source/reference/redfish_notes.rst, "sushy's connector
and task monitor".
"""

import base64
import functools
import gzip
import io
import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import BmcAddress, Upload
from baremetal_acc.bmc.redfish import client as module
from baremetal_acc.bmc.redfish import request_head
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.login import MAX_LOGINS, SESSIONS
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcConflict,
    BmcError,
    BmcNotAuthorised,
    BmcRefusalReason,
    BmcRefused,
    BmcUnreachable,
    BmcUntrusted,
    UsageError,
)
from baremetal_acc.http.transport_errors import TransportError
from baremetal_acc.model.ref import HOST, Ref

SYSTEM = '/redfish/v1/Systems/1'
SECRET = 'correct-horse-battery'
TOKEN = 'token-0123456789abcdef'


@pytest.mark.parametrize('failure', [requests.ReadTimeout(), requests.ConnectionError(), requests.ConnectTimeout()])
@pytest.mark.parametrize('method', ['PATCH', 'POST'])
def test_a_write_without_an_answer_is_sent_once(bmc: Any, method: str, failure: Exception) -> None:
    """Nobody knows whether it arrived, so it is not sent again."""
    bmc.replies[method, SYSTEM] = [failure, failure]
    with bmc.connect() as connection:
        writer = connection.writer()
        document = writer.fresh(SYSTEM)
        send = (
            functools.partial(writer.patch, document, {}) if method == 'PATCH' else functools.partial(writer.post, SYSTEM, {})
        )
        with pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
            send()
    assert 1 == bmc.count(method)
    assert [] == bmc.slept


@pytest.mark.parametrize('code', [500, 502, 503, 504, 429])
def test_a_write_that_the_bmc_cannot_take_now_is_sent_once(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Also when the BMC says when to come back: whoever wrote decides."""
    bmc.replies['POST', SYSTEM] = reply(code, Retry_After='1')
    with bmc.connect() as connection, pytest.raises((BmcBusy, BmcRefused, BmcUnreachable)):
        connection.writer().post(SYSTEM, {})
    assert 1 == bmc.count('POST')
    assert [] == bmc.slept


def test_a_read_is_repeated_with_growing_pauses(bmc: Any) -> None:
    """Two broken connections and then an answer: that is an answer."""
    bmc.replies['GET', SYSTEM] = [requests.ConnectionError(), requests.ReadTimeout()]
    with bmc.connect() as connection:
        assert '1' == connection.writer().fresh(SYSTEM).body['Id']
    assert 3 == bmc.count('GET', SYSTEM)
    assert [0.5, 1.0] == bmc.slept


def test_a_read_is_not_repeated_for_ever(bmc: Any) -> None:
    """Four tries, then the error."""
    bmc.replies['GET', SYSTEM] = [requests.ConnectionError()] * 9
    with bmc.connect() as connection, pytest.raises(BmcUnreachable):
        connection.writer().fresh(SYSTEM)
    assert 4 == bmc.count('GET', SYSTEM)


def test_retry_after_in_seconds_is_honoured(bmc: Any, reply: Callable[..., Any]) -> None:
    """OpenBMC sends plain seconds."""
    bmc.replies['GET', SYSTEM] = [reply(503, Retry_After='7')]
    with bmc.connect() as connection:
        connection.writer().fresh(SYSTEM)
    assert [7.0] == bmc.slept


def test_retry_after_as_a_date_is_honoured(bmc: Any, reply: Callable[..., Any]) -> None:
    """RFC 9110 allows both."""
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=9), usegmt=True)
    bmc.replies['GET', SYSTEM] = [reply(503, Retry_After=soon)]
    with bmc.connect() as connection:
        connection.writer().fresh(SYSTEM)
    assert 7.0 <= bmc.slept[0] <= 9.0


def test_a_bmc_that_wants_longer_than_our_patience_is_busy(bmc: Any, reply: Callable[..., Any]) -> None:
    """An hour is not waited for within a read."""
    bmc.replies['GET', SYSTEM] = reply(503, Retry_After='3600')
    with bmc.connect() as connection, pytest.raises(BmcBusy, match='retry in 3600 s'):
        connection.writer().fresh(SYSTEM)
    assert [] == bmc.slept


def test_a_resource_without_an_etag_is_written_without_if_match(bmc: Any) -> None:
    """Nothing is invented, and no further request looks for one before the write."""
    with bmc.connect() as connection:
        writer = connection.writer()
        writer.patch(writer.fresh(SYSTEM), {'AssetTag': 'x'})
    assert [None] == [r.headers.get('If-Match') for r in bmc.requests if r.method == 'PATCH']
    assert ['GET', 'PATCH', 'GET'] == [r.method for r in bmc.requests if r.path == SYSTEM.lower() or r.path == SYSTEM]


@pytest.mark.parametrize(
    'body',
    [
        '[]',
        '"text"',
        'null',
        '{"error": "text"}',
        '{"error": null}',
        '{"error": []}',
        '{"error": {"@Message.ExtendedInfo": "text"}}',
        '{"error": {"@Message.ExtendedInfo": [null, 7, "text"]}}',
        '{"error": {"@Message.ExtendedInfo": {"Message": 7}}}',
        'not json',
        '',
        '[' * 100_000,
    ],
)
def test_an_error_body_of_any_shape_is_an_error_of_ours(bmc: Any, reply: Callable[..., Any], body: str) -> None:
    """Odd bodies make other clients raise AttributeError."""
    bmc.replies['POST', SYSTEM] = reply(400, body)
    with bmc.connect() as connection, pytest.raises(BmcRefused, match='HTTP 400 Bad Request') as caught:
        connection.writer().post(SYSTEM, {})
    assert BmcRefusalReason.INVALID_REQUEST is caught.value.reason


def test_the_bmcs_own_words_are_in_the_error(bmc: Any, reply: Callable[..., Any]) -> None:
    """ExtendedInfo says why; it is bounded and printable."""
    info = [{'MessageId': 'Base.1.0.PropertyNotWritable', 'Message': 'The property\x1b[31m AssetTag is read only.'}]
    bmc.replies['POST', SYSTEM] = reply(400, {'error': {'message': 'general', '@Message.ExtendedInfo': info}})
    with bmc.connect() as connection, pytest.raises(BmcRefused, match='AssetTag is read only') as caught:
        connection.writer().post(SYSTEM, {})
    assert str(caught.value).isprintable()
    assert 'host (https://192.0.2.1)' in str(caught.value)
    assert SYSTEM in str(caught.value)


@pytest.mark.parametrize(
    'link',
    [
        'https://evil.example/redfish/v1/Systems/1',
        '//evil.example/redfish',
        'http://192.0.2.1/redfish/v1/Systems/1',
        'https://192.0.2.1:444/redfish/v1',
        'https://user@192.0.2.1/redfish/v1',
        'file:///etc/passwd',
        '/redfish/v1/\r\nX: y',
        '//[',
        'http://[::1',
        '/redfish/v1/\ud800',
        '/redfish/v1/' + 'a' * 1_000_000,
    ],
    ids=lambda link: ascii(link)[:40],
)
def test_a_link_off_the_bmc_is_not_followed(bmc: Any, link: str) -> None:
    """Neither another host, nor another port or scheme of the same one."""
    with bmc.connect() as connection:
        before = len(bmc.seen)
        with pytest.raises(BmcAnswerInvalid, match='does not point to this BMC'):
            connection.writer().fresh(link)
        assert before == len(bmc.seen)


def test_a_redirect_off_the_bmc_is_not_followed(bmc: Any, reply: Callable[..., Any]) -> None:
    """A read follows redirects within the BMC only."""
    bmc.replies['GET', SYSTEM] = reply(302, Location='https://evil.example/')
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='does not point to this BMC'):
        connection.writer().fresh(SYSTEM)
    assert all('evil' not in r.url for r in bmc.requests)


def test_a_redirect_in_a_circle_ends(bmc: Any, reply: Callable[..., Any]) -> None:
    """Three are followed."""
    bmc.replies['GET', SYSTEM] = reply(301, Location=SYSTEM)
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='redirect loop'):
        connection.writer().fresh(SYSTEM)
    assert 5 >= bmc.count('GET', SYSTEM)


@pytest.mark.parametrize(
    'place',
    [
        '/redfish/v1/Systems/2',
        '/redfish/v1/Systems',
        '/redfish/v1/Systems/1/Actions',
        '/redfish/v1/Systems/1?x=1',
        '/redfish/v1/Systems/1',
        'https://evil.example/redfish/v1/Systems/1/',
        '//evil.example/redfish/v1/Systems/1/',
        '',
    ],
)
@pytest.mark.parametrize('code', [301, 302, 307, 308])
def test_a_write_is_not_redirected_to_another_resource(bmc: Any, reply: Callable[..., Any], code: int, place: str) -> None:
    """Nor to another host, nor to where it was sent."""
    bmc.replies['POST', SYSTEM] = reply(code, Location=place)
    error = BmcAnswerInvalid if code == 302 else BmcRefused  # some services send that after they have done it
    with bmc.connect() as connection, pytest.raises(error, match=r'redirect|does not point to this BMC'):
        connection.writer().post(SYSTEM, {})
    assert 1 == bmc.count('POST')
    assert all('evil' not in r.url for r in bmc.requests)


@pytest.mark.parametrize('place', [f'{SYSTEM}/', SYSTEM.lower(), '/redfish//v1/Systems/1', f'https://192.0.2.1{SYSTEM}/'])
@pytest.mark.parametrize('code', [301, 302, 307, 308])
def test_a_write_follows_a_redirect_to_the_same_resource(bmc: Any, reply: Callable[..., Any], code: int, place: str) -> None:
    """With its method and its body, once: BMCs redirect to the URI with a slash at its end, and have done nothing by that."""
    there = place.removeprefix('https://192.0.2.1')
    bmc.replies['PATCH', there] = reply(204)
    bmc.replies['PATCH', SYSTEM] = [reply(code, Location=place), reply(204)]
    with bmc.connect() as connection:
        connection._connector.send('PATCH', SYSTEM, body={'A': 1})
    assert [{'A': 1}, {'A': 1}] == bmc.body_of('PATCH')
    sent = [r.url.removeprefix('https://192.0.2.1') for r in bmc.requests if r.method == 'PATCH']
    assert [SYSTEM, there] == sent


def test_a_redirect_after_a_redirect_of_a_write_is_none(bmc: Any, reply: Callable[..., Any]) -> None:
    """A write goes round in no circle."""
    bmc.replies['POST', SYSTEM] = reply(308, Location=f'{SYSTEM}/')
    bmc.replies['POST', f'{SYSTEM}/'] = reply(308, Location=SYSTEM)
    with bmc.connect() as connection, pytest.raises(BmcRefused, match='redirect'):
        connection.writer().post(SYSTEM, {})
    assert 2 == bmc.count('POST')


def test_an_oversize_answer_is_not_read_to_its_end(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is on what is read, whatever Content-Length says."""
    monkeypatch.setattr(module, 'MAX_ANSWER', 100_000)
    bmc.tree[SYSTEM] = '{"Id": "' + 'x' * 200_000 + '"}'
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='longer than 100000 bytes'):
        connection.writer().fresh(SYSTEM)


def test_a_compressed_answer_is_bounded_by_what_it_unpacks_to(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes may unpack to gigabytes."""
    monkeypatch.setattr(module, 'MAX_ANSWER', 100_000)

    def bomb(request: Any, context: Any) -> bytes:
        context.headers['Content-Encoding'] = 'gzip'
        return gzip.compress(b' ' * 50_000_000)

    bmc.replies['GET', SYSTEM] = bomb
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match='longer than'):
        connection.writer().fresh(SYSTEM)


@pytest.mark.parametrize('body', ['', 'no json', '[]', '7', '{"a": ', '[' * 100_000, '{"error": {"code": "x"}}'])
def test_an_answer_that_is_no_resource_is_invalid(bmc: Any, body: str) -> None:
    """With status 200, a body that is no JSON object, or an error message, is no answer."""
    bmc.tree[SYSTEM] = body
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid):
        connection.writer().fresh(SYSTEM)


def _sessions(bmc: Any, reply: Callable[..., Any], *tokens: str) -> None:
    bmc.tree['/redfish/v1']['SessionService'] = {'@odata.id': '/redfish/v1/SessionService'}
    place = '/redfish/v1/SessionService/Sessions'
    bmc.replies['POST', place] = [reply(201, {}, X_Auth_Token=t, Location=f'{place}/{n}') for n, t in enumerate(tokens)]


def test_a_session_is_opened_once_and_closed_at_the_end(bmc: Any, reply: Callable[..., Any]) -> None:
    """Sessions are few on a BMC: each of ours is given back."""
    _sessions(bmc, reply, TOKEN)
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
    assert [{'UserName': 'admin', 'Password': SECRET}] == bmc.body_of('POST')
    assert ('DELETE', '/redfish/v1/SessionService/Sessions/0') == bmc.seen[-1]
    assert TOKEN == next(r for r in bmc.requests if r.path_url == SYSTEM).headers['X-Auth-Token']


def test_an_ended_session_is_renewed_once_for_a_read(bmc: Any, reply: Callable[..., Any]) -> None:
    """401 on a read: one new login, and the read again with the new token."""
    _sessions(bmc, reply, TOKEN, 'second')
    bmc.replies['GET', SYSTEM] = [reply(401)]
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
    assert 2 == bmc.count('POST')
    assert [TOKEN, 'second'] == [r.headers['X-Auth-Token'] for r in bmc.requests if r.path_url == SYSTEM]
    assert ['admin', 'admin'] == [b['UserName'] for b in bmc.body_of('POST')]
    assert all('X-Auth-Token' not in r.headers for r in bmc.requests if r.method == 'POST')


def test_a_read_that_stays_forbidden_is_not_asked_for_ever(bmc: Any, reply: Callable[..., Any]) -> None:
    """One new login is all."""
    _sessions(bmc, reply, TOKEN, 'second', 'third')
    bmc.replies['GET', SYSTEM] = reply(401)
    with bmc.connect(username='admin', password=SECRET) as connection, pytest.raises(BmcNotAuthorised):
        connection.writer().fresh(SYSTEM)
    assert 2 == bmc.count('POST')


def test_a_write_that_was_refused_for_an_ended_session_is_sent_over_a_new_one(bmc: Any, reply: Callable[..., Any]) -> None:
    """HTTP 401: the BMC has refused it, so that nothing was done."""
    _sessions(bmc, reply, TOKEN, 'second')
    bmc.replies['PATCH', SYSTEM] = [reply(401), reply(204)]
    with bmc.connect(username='admin', password=SECRET) as connection:
        writer = connection.writer()
        writer.patch(writer.fresh(SYSTEM), {'AssetTag': 'x'})
    assert [TOKEN, 'second'] == [r.headers['X-Auth-Token'] for r in bmc.requests if r.method == 'PATCH']
    assert [{'AssetTag': 'x'}] * 2 == bmc.body_of('PATCH')


def test_a_write_that_stays_refused_is_not_sent_for_ever(bmc: Any, reply: Callable[..., Any]) -> None:
    """One new login is all."""
    _sessions(bmc, reply, TOKEN, 'second', 'third')
    bmc.replies['PATCH', SYSTEM] = reply(401)
    with bmc.connect(username='admin', password=SECRET) as connection:
        writer = connection.writer()
        with pytest.raises(BmcNotAuthorised):
            writer.patch(writer.fresh(SYSTEM), {})
    assert (2, 2) == (bmc.count('PATCH'), bmc.count('POST'))


@pytest.mark.parametrize('status', [408, 409, 429, 500, 502, 503, 504])
def test_a_write_whose_refusal_does_not_prove_that_nothing_was_done_is_sent_once(
    bmc: Any, reply: Callable[..., Any], status: int
) -> None:
    """Whoever has sent it looks, then decides."""
    _sessions(bmc, reply, TOKEN, 'second')
    bmc.replies['PATCH', SYSTEM] = reply(status)
    with bmc.connect(username='admin', password=SECRET) as connection:
        writer = connection.writer()
        with pytest.raises(BmcError):
            writer.patch(writer.fresh(SYSTEM), {})
    assert (1, 1) == (bmc.count('PATCH'), bmc.count('POST'))


def _forbidden(reply: Callable[..., Any], name: str | None = None) -> Any:
    info = [] if name is None else [{'MessageId': f'Base.1.18.{name}', 'Message': 'no'}]
    return reply(403, {'error': {'code': 'x', '@Message.ExtendedInfo': info}})


@pytest.mark.parametrize('name', [None, 'GeneralError', 'NoValidSession'])
def test_a_session_that_was_good_and_gets_403_is_renewed_once(bmc: Any, reply: Callable[..., Any], name: str | None) -> None:
    """Some BMCs answer so to the token of an ended session."""
    _sessions(bmc, reply, TOKEN, 'second', 'third')
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
        bmc.replies['GET', SYSTEM] = [_forbidden(reply, name)]
        connection.writer().fresh(SYSTEM)
    assert 2 == bmc.count('POST')


def test_a_role_that_may_not_read_costs_no_login(bmc: Any, reply: Callable[..., Any]) -> None:
    """The BMC says that it is the role."""
    _sessions(bmc, reply, TOKEN, 'second')
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
        bmc.replies['GET', SYSTEM] = _forbidden(reply, 'InsufficientPrivilege')
        with pytest.raises(BmcNotAuthorised):
            connection.writer().fresh(SYSTEM)
    assert 1 == bmc.count('POST')


def test_what_stays_forbidden_over_a_new_session_costs_one_login_however_often_it_is_read(
    bmc: Any, reply: Callable[..., Any]
) -> None:
    """A BMC that says 403 without a reason to an account that may not read something."""
    _sessions(bmc, reply, TOKEN, 'second', 'third', 'fourth')
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
        bmc.replies['GET', '/redfish/v1/Chassis'] = _forbidden(reply)
        for _ in range(3):
            with pytest.raises(BmcNotAuthorised):
                connection.writer().fresh('/redfish/v1/Chassis')
            connection.writer().fresh(SYSTEM)
    assert 2 == bmc.count('POST')


@pytest.mark.parametrize('code', [400, 401, 403])
def test_wrong_credentials_are_said_without_the_password(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """Some BMCs repeat the refused value in their message."""
    bmc.tree['/redfish/v1']['SessionService'] = {'@odata.id': '/redfish/v1/SessionService'}
    bmc.replies['POST', '/redfish/v1/SessionService/Sessions'] = reply(
        code, {'error': {'message': f'the value {SECRET} is wrong'}}
    )
    with pytest.raises(BmcNotAuthorised, match='login refused') as caught:
        bmc.connect(username='admin', password=SECRET)
    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_a_bmc_without_sessions_gets_basic_authentication(bmc: Any) -> None:
    """The credentials go with each request then."""
    with bmc.connect(username='admin', password=SECRET, concurrency=1) as connection:
        connection.writer().fresh(SYSTEM)
    assert 0 == bmc.count('POST')
    assert bmc.requests[-1].headers['Authorization'].startswith('Basic ')


@pytest.mark.parametrize('code', [404, 405, 501])
def test_sessions_that_are_not_where_they_usually_lie_are_not_asked_for_twice(
    bmc: Any, reply: Callable[..., Any], code: int
) -> None:
    """The login that does not wait for the service root is a guess; where it fails and the root has none, Basic it is."""
    bmc.replies['POST', SESSIONS] = reply(code)
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
    assert 1 == bmc.count('POST')
    assert bmc.requests[-1].headers['Authorization'].startswith('Basic ')


def test_sessions_lie_where_the_root_says(bmc: Any, reply: Callable[..., Any]) -> None:
    """Also when the usual place does not answer as it should."""
    place = '/redfish/v1/Elsewhere/Sessions'
    bmc.tree['/redfish/v1']['Links'] = {'Sessions': {'@odata.id': place}}
    bmc.replies['POST', place] = reply(201, {}, X_Auth_Token=TOKEN, Location=f'{place}/7')
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
        assert TOKEN == bmc.requests[-1].headers['X-Auth-Token']
    assert ('DELETE', f'{place}/7') == bmc.seen[-1]


@pytest.mark.parametrize('code', [401, 403])
def test_a_place_that_is_guarded_and_none_of_sessions_is_no_refused_login(
    bmc: Any, reply: Callable[..., Any], code: int
) -> None:
    """Some services answer so to all that they do not know."""
    place = '/redfish/v1/Elsewhere/Sessions'
    bmc.tree['/redfish/v1']['Links'] = {'Sessions': {'@odata.id': place}}
    bmc.replies['POST', SESSIONS] = reply(code)
    bmc.replies['POST', place] = reply(201, {}, X_Auth_Token=TOKEN, Location=f'{place}/7')
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
    assert 2 == bmc.count('POST')


def test_a_wrong_password_is_tried_once(bmc: Any, reply: Callable[..., Any]) -> None:
    """Accounts are locked after a few failures."""
    bmc.tree['/redfish/v1']['Links'] = {'Sessions': {'@odata.id': SESSIONS}}
    bmc.replies['POST', SESSIONS] = reply(401)
    with pytest.raises(BmcNotAuthorised):
        bmc.connect(username='admin', password=SECRET)
    assert 1 == bmc.count('POST')


def test_a_service_that_is_no_redfish_is_logged_out_of(bmc: Any, reply: Callable[..., Any]) -> None:
    """The login may have come through before the root did not."""
    bmc.replies['POST', SESSIONS] = reply(201, {}, X_Auth_Token=TOKEN, Location=f'{SESSIONS}/1')
    bmc.tree['/redfish/v1'] = 'no json'
    with pytest.raises(BmcAnswerInvalid, match='no Redfish service'):
        bmc.connect(username='admin', password=SECRET)
    assert 1 == bmc.count('DELETE', f'{SESSIONS}/1')


@pytest.mark.parametrize('place', ['http://[bad/', f'{SYSTEM}?password={SECRET}', 'https://192.0.2.1:99999/'])
def test_a_redirect_that_cannot_be_followed_is_an_error_of_ours(bmc: Any, reply: Callable[..., Any], place: str) -> None:
    """It cannot be parsed, or would spread our password over logs and messages."""
    bmc.replies['GET', SYSTEM] = reply(302, Location=place)
    with bmc.connect(username='admin', password=SECRET) as connection, pytest.raises(BmcAnswerInvalid) as caught:
        connection.writer().fresh(SYSTEM)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize('character', ['\x85', '\u2028', '\u202e', '\x1b'])
def test_a_link_that_cannot_be_shown_is_not_followed(bmc: Any, character: str) -> None:
    """It would stand in logs, terminals and the node's last error."""
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid) as caught:
        connection.writer().fresh(f'/redfish/v1/Systems/{character}1')
    assert str(caught.value).isprintable()


def test_a_link_in_another_script_is_sent_encoded(bmc: Any) -> None:
    """RFC 3986, section 2.1."""
    bmc.put('/redfish/v1/Systems/Gr%C3%B6%C3%9Fe', Id='x')
    with bmc.connect() as connection:
        assert 'x' == connection.writer().fresh('/redfish/v1/Systems/Größe').body['Id']


def test_an_object_that_gives_one_name_two_values_is_no_answer(bmc: Any) -> None:
    """Parsers take the first or the last: a lock must not depend on that. RFC 8259, section 4."""
    bmc.tree[SYSTEM] = '{"Id": "1", "Oem": {"WriteProtected": false, "WriteProtected": true}}'
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid, match="'WriteProtected' twice"):
        connection.writer().fresh(SYSTEM)


def test_an_object_that_says_one_thing_twice_is_an_answer(bmc: Any) -> None:
    """Sloppy, and clear."""
    bmc.tree[SYSTEM] = '{"Id": "1", "Id": "1"}'
    with bmc.connect() as connection:
        assert {'Id': '1'} == connection.writer().fresh(SYSTEM).body


def test_basic_credentials_that_are_repeated_are_taken_out(bmc: Any, reply: Callable[..., Any]) -> None:
    """Some services put the request's headers into their errors."""
    packed = base64.b64encode(f'admin:{SECRET}'.encode()).decode()
    bmc.replies['POST', SYSTEM] = reply(400, {'error': {'message': f'refused: Authorization: Basic {packed}'}})
    with bmc.connect(username='admin', password=SECRET, concurrency=1) as connection, pytest.raises(BmcRefused) as caught:
        connection.writer().post(SYSTEM, {})
    assert packed not in str(caught.value)
    assert 'refused' in str(caught.value)


def test_neither_password_nor_token_nor_body_is_logged(
    bmc: Any, reply: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    """At debug level, over a whole session with a renewed login and a refused write that repeats the password."""
    _sessions(bmc, reply, TOKEN, 'second-token')
    bmc.replies['GET', SYSTEM] = [reply(401)]
    bmc.replies['POST', SYSTEM] = reply(400, {'error': {'message': f'value {SECRET} and {TOKEN} refused'}})
    with caplog.at_level(logging.DEBUG), bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
        with pytest.raises(BmcRefused) as caught:
            connection.writer().post(SYSTEM, {'Password': SECRET})
        connection.look(datetime.now(UTC))
    assert SYSTEM in caplog.text
    for secret in (SECRET, TOKEN, 'second-token'):
        assert secret not in caplog.text
    assert SECRET not in str(caught.value)


def test_a_location_elsewhere_is_not_asked_to_log_out(bmc: Any, reply: Callable[..., Any]) -> None:
    """The session's place comes from the BMC: it may not make us delete something off it."""
    bmc.tree['/redfish/v1']['SessionService'] = {'@odata.id': '/redfish/v1/SessionService'}
    place = '/redfish/v1/SessionService/Sessions'
    bmc.replies['POST', place] = reply(201, {}, X_Auth_Token=TOKEN, Location='https://evil.example/x')
    with bmc.connect(username='admin', password=SECRET):
        pass
    assert 0 == bmc.count('DELETE')


def test_the_environments_proxies_are_not_used(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A BMC is spoken to directly."""
    monkeypatch.setenv('HTTPS_PROXY', 'http://proxy.example:3128')
    with bmc.connect():
        assert all(not r.proxies for r in bmc.requests)


@pytest.mark.parametrize(
    'address', ['192.0.2.1', 'ftp://192.0.2.1', 'https://', 'https://u:p@192.0.2.1', 'https://192.0.2.1/redfish/v1?x']
)
def test_an_address_that_is_none_is_a_usage_error(address: str) -> None:
    """It names the BMC, and never the credentials in the address."""
    with pytest.raises(UsageError, match='address of BMC host') as caught:
        Connector(BmcAddress(name=HOST, address=address))
    assert 'u:p' not in str(caught.value)


def test_a_missing_ca_file_is_named() -> None:
    """verify_ca names a file that is not there."""
    with pytest.raises(BmcUntrusted, match=r'/nowhere/ca\.pem'):
        Connector(BmcAddress(name=HOST, address='https://192.0.2.1', verify_ca='/nowhere/ca.pem'))


@pytest.mark.parametrize('root', ['<html>', '{"hello": "world"}', None])
def test_something_that_is_no_redfish_service_is_said_so(bmc: Any, root: str | None) -> None:
    """A web server answers at that address, and it is no BMC."""
    if root is None:
        del bmc.tree['/redfish/v1']
    else:
        bmc.tree['/redfish/v1'] = root
    with pytest.raises(BmcAnswerInvalid, match='no Redfish service at this address'):
        bmc.connect()


def test_a_pushed_image_is_sent_once_when_the_answer_does_not_come(bmc: Any) -> None:
    """sushy sent a SimpleUpdate three to four times on a late answer: a duplicate flash."""
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': '/redfish/v1/UpdateService'}
    bmc.put('/redfish/v1/UpdateService', MultipartHttpPushUri='/redfish/v1/UpdateService/push')
    bmc.replies['POST', '/redfish/v1/UpdateService/push'] = [requests.ReadTimeout(), requests.ReadTimeout()]
    upload = Upload(file='fw.bin', size_bytes=3, open=lambda: io.BytesIO(b'abc'))
    with bmc.connect() as connection, pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
        connection.push(Ref(bmc=HOST, uri='/redfish/v1/UpdateService/FirmwareInventory/x'), upload)
    assert 1 == bmc.count('POST')


def test_sushys_own_resources_run_on_the_connector(bmc: Any) -> None:
    """get, post and patch as sushy calls them; a 412 is not answered with a weaker request."""
    bmc.replies['PATCH', SYSTEM] = lambda request, context: setattr(context, 'status_code', 412) or '{}'
    connector = Connector(BmcAddress(name=HOST, address='https://192.0.2.1'), dial=bmc.dial)
    assert '1' == connector.get(SYSTEM).json()['Id']
    assert 204 == connector.post(f'{SYSTEM}/Actions/x', data={'a': 1}).status_code
    with pytest.raises(BmcConflict):
        connector.patch(SYSTEM, data={'a': 1}, etag='W/"1"')
    assert ['W/"1"'] == [r.headers['If-Match'] for r in bmc.requests if r.method == 'PATCH']
    assert {'a': 1} == json.loads(bmc.requests[-1].body)


@pytest.mark.parametrize('etag', ['"x"\r\nX-Evil: yes', '"x"\r\nTransfer-Encoding: chunked', '"x"\x00', '"\u2028"'])
def test_an_etag_adds_no_header(etag: str) -> None:
    """It comes from the BMC, and goes into If-Match."""
    with pytest.raises(TransportError):
        request_head.header_block({'Accept': 'application/json', 'If-Match': etag})
    assert 'Accept: a\r\nIf-Match: "x"\r\n' == request_head.header_block({'Accept': 'a', 'If-Match': '"x"'})


@pytest.mark.parametrize(
    ('path', 'sent'),
    [
        ('/redfish/v1/Ger\u00e4t', '/redfish/v1/Ger%C3%A4t'),
        ('/redfish/v1/a%2Fb|c', '/redfish/v1/a%2Fb%7Cc'),
        ('/redfish/v1/100%', '/redfish/v1/100%25'),
        ('/redfish/v1/a?$expand=.($levels=1)', '/redfish/v1/a?$expand=.($levels=1)'),
    ],
)
def test_what_may_not_stand_in_a_path_is_quoted_once(bmc: Any, path: str, sent: str) -> None:
    """BMCs show URIs that are none; what is quoted already means itself."""
    with bmc.connect() as connection:
        connection._connector.send('POST', path, body={})
    assert f'https://192.0.2.1{sent}' == bmc.requests[-1].url


def test_sessions_that_keep_ending_do_not_go_on_for_ever(bmc: Any, reply: Callable[..., Any]) -> None:
    """And the password is known for a secret to the end."""
    place = SESSIONS
    tokens = [f'token-{n:04}' for n in range(100)]
    bmc.replies['POST', place] = [reply(201, {}, X_Auth_Token=t, Location=f'{place}/{t}') for t in tokens]
    bmc.replies['GET', SYSTEM] = reply(401, {'error': {'message': f'no {SECRET}, no {tokens[0]}'}})
    with bmc.connect(username='admin', password=SECRET) as connection:
        for _ in range(60):
            with pytest.raises(BmcNotAuthorised) as caught:
                connection.writer().fresh(SYSTEM)
            assert SECRET not in str(caught.value)
            assert tokens[0] not in str(caught.value)
    assert MAX_LOGINS == bmc.count('POST')


def test_a_secret_is_taken_out_before_a_text_is_cut(bmc: Any, reply: Callable[..., Any]) -> None:
    """The first half of a password is one, too."""
    bmc.replies['POST', SYSTEM] = reply(400, {'error': {'message': 'x' * 290 + SECRET}})
    with bmc.connect(username='admin', password=SECRET, concurrency=1) as connection, pytest.raises(BmcRefused) as caught:
        connection.writer().post(SYSTEM, {})
    assert SECRET[:5] not in str(caught.value)


def test_a_login_that_is_answered_with_anything_is_no_crash(bmc: Any, reply: Callable[..., Any]) -> None:
    """Where the session lies is only for logging out."""
    bmc.replies['POST', SESSIONS] = reply(201, '[' * 90_000, X_Auth_Token=TOKEN)
    with bmc.connect(username='admin', password=SECRET) as connection:
        connection.writer().fresh(SYSTEM)
    assert 0 == bmc.count('DELETE')


def test_a_login_changes_no_headers_that_another_thread_is_reading() -> None:
    """The service root is read while the login comes in."""
    connector = Connector(BmcAddress(name=HOST, address='https://192.0.2.1'))
    reading = iter(connector._headers.items())
    first = next(reading)
    connector.set_http_session_auth(TOKEN)
    assert 'X-Auth-Token' not in dict([first, *reading])
    assert TOKEN == connector._headers['X-Auth-Token']
