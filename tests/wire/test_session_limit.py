# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A BMC has few sessions: one that is free is enough for all connections of a process, and none is told in the BMC's words.

Seen: iDRAC, HTTP 503 with RAC0218 (bb-Ricardo/check_redfish#89); SessionLimitExceeded of the Base registry; Basic
authentication works all the same (theforeman/smart-proxy#895).
"""

import base64
import contextlib
import io
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from baremetal_acc.bmc import stopping
from baremetal_acc.bmc.driver import BmcAddress, Upload
from baremetal_acc.bmc.redfish import account
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.redfish.extended_info import said_to_login
from baremetal_acc.errors import BmcBusy, BmcError, BmcNoSessionFree, BmcNotAuthorised, BmcUnreachable
from baremetal_acc.model.ref import Ref

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'
SYSTEM = f'{ROOT}/Systems/1'
UPLOAD = f'{ROOT}/UpdateService/upload'
SECRET = 'Very-Secret-31337'
DELL = {'MessageId': 'IDRAC.2.4.RAC0218', 'Message': 'The maximum number of user sessions is reached.'}


class Bmc:
    """Real HTTP over loopback; sessions are counted.

    :ivar most: sessions that there may be.
    :ivar peak: how many there were at most.
    :ivar slow: seconds that an answer takes.
    :ivar evicts: the oldest session ends for a new one.
    :ivar lingers: seconds for which a session that was closed still counts.
    :ivar done: POSTs that had an effect.
    """

    def __init__(self) -> None:
        self.most = 1
        self.peak = 0
        self.slow = 0.0
        self.basic = False
        self.unclosable = False
        self.evicts = False
        self.lingers = 0.0
        self.refusal: tuple[int, object] = (503, {'error': {'@Message.ExtendedInfo': [DELL]}})
        self.sessions: dict[str, str] = {}
        self.seen: list[tuple[str, str]] = []
        self.done: list[str] = []
        self.uploads: list[tuple[int, bytes]] = []
        self.at_upload: Callable[[], object] = lambda: None
        self.lock = threading.Lock()
        self.remembered = RememberedBmc()
        bmc = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'

            def answer(self) -> None:
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                status, headers, found = bmc.serve(self.command, self.path, self.headers, body)
                content = b'' if status == 204 else json.dumps(found).encode()
                self.send_response(status)
                for name, value in {'Content-Length': str(len(content)), **headers}.items():
                    self.send_header(name, value)
                with contextlib.suppress(ConnectionError):  # nobody waits for it any more
                    self.end_headers()
                    self.wfile.write(content)

            do_GET = do_POST = do_PATCH = do_DELETE = answer  # noqa: N815

            def log_message(self, *arguments: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def serve(self, method: str, path: str, headers: Any, body: bytes) -> tuple[int, dict[str, str], object]:
        with self.lock:
            self.seen.append((method, path))
            if path.rstrip('/') == ROOT:
                link = {n: {'@odata.id': f'{ROOT}/{n}'} for n in ('Systems', 'Chassis', 'Managers', 'UpdateService')}
                return 200, {}, {'RedfishVersion': '1.15.0', 'Links': {'Sessions': {'@odata.id': SESSIONS}}, **link}
            if path == UPLOAD:
                self.at_upload()
                self.at_upload = lambda: None
                good = headers.get('X-Auth-Token') in self.sessions.values()
                self.uploads.append((204 if good else 401, body))
                return self.uploads[-1][0], {}, None
            if path == f'{ROOT}/UpdateService':
                return 200, {}, {'@odata.id': path, 'MultipartHttpPushUri': UPLOAD}
            if (method, path) == ('POST', SESSIONS):
                return self._login()
            given = headers.get('Authorization', '').removeprefix('Basic ')
            good = self.basic and given and f'admin:{SECRET}' == base64.b64decode(given).decode()
            if headers.get('X-Auth-Token') not in self.sessions.values() and not good:
                return 401, {}, {}
            if method == 'DELETE' and self.unclosable:
                return 405, {}, {}
            if method == 'DELETE':
                name = path.rpartition('/')[2]
                if self.lingers and name in self.sessions:
                    self.sessions[name] = 'ended'
                    threading.Timer(self.lingers, self.sessions.pop, (name, None)).start()
                else:
                    self.sessions.pop(name, None)
                return 204, {}, None
        self.done += [path] if method == 'POST' else []
        time.sleep(self.slow)
        return (
            (200, {}, {'@odata.id': path, 'Id': '1', 'PowerState': 'On', 'Members': []}) if method == 'GET' else (204, {}, None)
        )

    def _login(self) -> tuple[int, dict[str, str], object]:
        if self.evicts and len(self.sessions) >= self.most:
            self.sessions.pop(next(iter(self.sessions)))
        if len(self.sessions) >= self.most:
            return self.refusal[0], {}, self.refusal[1]
        name = str(len(self.seen))
        self.sessions[name] = f'token-{name}'
        self.peak = max(self.peak, len(self.sessions))
        return 201, {'X-Auth-Token': f'token-{name}', 'Location': f'{SESSIONS}/{name}'}, {'Id': name}

    def connect(self, **address: Any) -> RedfishConnection:
        """A connection of this process, as all others of it."""
        given = {'username': 'admin', 'password': SECRET, 'timeout': timedelta(seconds=5)} | address
        url = f'http://127.0.0.1:{self.server.server_address[1]}'
        return RedfishDriver(remembered=self.remembered).connect(BmcAddress(name='host', address=url, **given))

    def logins(self) -> int:
        """How often a session was asked for."""
        return self.seen.count(('POST', SESSIONS))


@pytest.fixture
def small() -> Iterator[Bmc]:
    bmc = Bmc()
    yield bmc
    bmc.server.shutdown()
    bmc.server.server_close()


@pytest.mark.parametrize('at_once', [1, 4])
def test_one_free_session_is_enough_for_two_connections_in_turn(small: Bmc, at_once: int) -> None:
    """The one that is used next has it; the other one opens it again."""
    with small.connect(concurrency=at_once) as first:
        first.writer().fresh(SYSTEM)
        with small.connect(concurrency=at_once) as second:
            second.writer().fresh(SYSTEM)
            first.writer().fresh(SYSTEM)
            second.writer().fresh(SYSTEM)
            second.writer().post(f'{SYSTEM}/Actions/x', {})
        first.writer().fresh(SYSTEM)
    assert (1, {}) == (small.peak, small.sessions)


def test_a_look_over_a_session_of_its_own_needs_no_second_one(small: Bmc) -> None:
    """A fresh session is one that was opened after the one before it was closed."""
    with small.connect():
        before = dict(small.sessions)
        with small.connect() as second:
            second.look(datetime.now(UTC))
            assert before.keys() != small.sessions.keys()
    assert 1 == small.peak


def test_a_bmc_that_ran_short_is_not_made_to_refuse_each_login(small: Bmc) -> None:
    """From the first refusal on the idle session is closed first."""
    with small.connect() as first:
        for _ in range(3):
            with small.connect() as second:
                second.writer().fresh(SYSTEM)
            first.writer().fresh(SYSTEM)
    refused = small.logins() - 1 - 2 * 3
    assert 1 == refused


def test_where_sessions_are_free_each_connection_has_its_own(small: Bmc) -> None:
    """Nobody closes anything of another one then."""
    small.most = 8
    with small.connect() as first, small.connect() as second:
        first.writer().fresh(SYSTEM)
        second.writer().fresh(SYSTEM)
    assert (2, 2) == (small.peak, small.logins())


def test_a_session_in_use_is_shared_and_not_closed(small: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """During an upload the power of the host is read as well."""
    monkeypatch.setattr(account, 'ROOM', 0.1)
    with small.connect() as first:
        first.writer().fresh(SYSTEM)
        small.slow = 1.5
        upload = threading.Thread(target=lambda: first.writer().post(f'{SYSTEM}/Actions/x', {}))
        upload.start()
        time.sleep(0.2)
        small.slow = 0.0
        with small.connect() as second:
            second.writer().fresh(SYSTEM)
            assert upload.is_alive()
        assert 1 == len(small.sessions)
        upload.join()
    assert (1, {}) == (small.peak, small.sessions)


def test_a_shared_session_that_has_ended_is_followed_by_an_own_one(small: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever had it has closed it."""
    monkeypatch.setattr(account, 'ROOM', 0.1)
    first = small.connect()
    small.slow = 1.0
    reading = threading.Thread(target=lambda: first.writer().post(f'{SYSTEM}/Actions/x', {}))
    reading.start()
    time.sleep(0.2)
    small.slow = 0.0
    with small.connect() as second:
        reading.join()
        first.close()
        second.writer().fresh(SYSTEM)
    assert {} == small.sessions


def test_a_session_that_cannot_be_closed_is_used_on(small: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """By all connections of the process, at the same time and one after the other."""
    monkeypatch.setattr(account, 'ROOM', 0.1)
    small.unclosable = True
    with small.connect() as first:
        with small.connect() as second:
            second.writer().fresh(SYSTEM)
            first.writer().fresh(SYSTEM)
        first.writer().fresh(SYSTEM)
    for _ in range(2):
        with small.connect() as third:
            third.writer().post(f'{SYSTEM}/Actions/x', {})
    assert (1, 1) == (small.peak, len(small.sessions))


def test_a_bmc_that_ends_its_oldest_session_for_a_new_one_is_logged_in_to_again(small: Bmc) -> None:
    """It never says that none is free (OpenBMC). Writes of both arrive, each once."""
    small.evicts = True
    with small.connect() as first, small.connect() as second:
        for number in range(3):
            first.writer().post(f'{SYSTEM}/Actions/first{number}', {})
            second.writer().post(f'{SYSTEM}/Actions/second{number}', {})
    assert (1, {}) == (small.peak, small.sessions)
    assert [1] * 6 == [small.done.count(f'{SYSTEM}/Actions/{who}{n}') for who in ('first', 'second') for n in range(3)]


def test_a_session_that_is_being_closed_is_waited_for(small: Bmc) -> None:
    """Looks log out in a thread of their own."""
    first = small.connect()
    closing = threading.Thread(target=first.close)
    with small.lock:  # nothing is answered
        closing.start()
        time.sleep(0.1)
        opening = threading.Thread(target=lambda: small.connect().close())
        opening.start()
        time.sleep(0.1)
    opening.join()
    closing.join()
    assert (1, {}) == (small.peak, small.sessions)


REFUSALS = [
    ((503, {'error': {'@Message.ExtendedInfo': [DELL]}}), BmcNoSessionFree, ['RAC0218', 'The maximum number of user sessions']),
    (
        (403, {'error': {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.18.SessionLimitExceeded', 'Message': 'Too many.'}]}}),
        BmcNoSessionFree,
        ['SessionLimitExceeded', 'Too many.'],
    ),
    (
        (400, {'error': {'code': 'x', '@Message.ExtendedInfo': [{'MessageId': 'Base.1.0.CreateLimitReachedForResource'}]}}),
        BmcNoSessionFree,
        ['CreateLimitReachedForResource'],
    ),
    ((503, {'error': {'message': 'All eight seats are taken'}}), BmcBusy, ['All eight seats are taken']),
    ((500, {'error': {'message': 'No more sessions'}}), BmcNoSessionFree, ['No more sessions']),
    (
        (403, {'error': {'message': 'User reached the maximum number of sessions.'}}),
        BmcNoSessionFree,
        ['the maximum number of sessions'],
    ),
    ((401, {'error': {'message': 'No session: the limit of failed logins is exceeded'}}), BmcNotAuthorised, ['login refused']),
    ((507, None), BmcNoSessionFree, ['HTTP 507']),
    ((403, {'error': {'message': 'The account may open no session.'}}), BmcError, ['may open no session']),
    ((500, {'error': {'message': 'The maximum length of a name'}}), BmcError, ['The maximum length']),
    ((503, None), BmcBusy, ['HTTP 503']),
]


def test_a_session_that_its_bmc_still_counts_for_a_while_is_waited_for(small: Bmc) -> None:
    """The answer to its end comes before its place is free; each turn of a job has a session of its own."""
    small.lingers = 0.6
    for _ in range(3):
        with small.connect() as connection:
            assert 'On' == connection.power(Ref(bmc='host', uri=SYSTEM))
    assert 1 == small.peak


def test_a_session_that_somebody_else_has_taken_is_not_waited_for_long(small: Bmc, monkeypatch: pytest.MonkeyPatch) -> None:
    """What we have closed is gone by then."""
    monkeypatch.setattr(account, 'LINGER', 0.4)
    with small.connect() as connection:
        connection.power(Ref(bmc='host', uri=SYSTEM))
    small.sessions['theirs'] = 'theirs'
    began = time.monotonic()
    with pytest.raises(BmcNoSessionFree):
        small.connect()
    assert time.monotonic() - began < 3


@pytest.mark.parametrize(('refusal', 'error', 'words'), REFUSALS)
def test_where_no_session_is_free_the_bmc_says_why(
    small: Bmc, refusal: tuple[int, object], error: type[BmcError], words: list[str]
) -> None:
    """In its own words, and with the name of the message, which can be looked up."""
    small.most, small.refusal = 0, refusal
    with pytest.raises(error) as caught:
        small.connect()
    for text in words:
        assert text in str(caught.value)


@pytest.mark.parametrize('form', ['{}', 'UGFz{}', 'x{}y', "b'{}'"])
@pytest.mark.parametrize('packed', [False, True])
def test_a_refused_login_never_repeats_the_password(small: Bmc, form: str, packed: bool) -> None:
    """As it is, in part, or as Basic authentication packs it; what the registry calls the message is told."""
    secret = base64.b64encode(f'admin:{SECRET}'.encode()).decode() if packed else SECRET
    message = {**DELL, 'Message': 'y' * 290 + form.format(secret)}
    small.most, small.refusal = 0, (503, {'error': {'@Message.ExtendedInfo': [message]}})
    with pytest.raises(BmcNoSessionFree, match='RAC0218') as caught:
        small.connect()
    assert all(secret[at : at + 5] not in str(caught.value) for at in range(len(secret) - 5))


@pytest.mark.parametrize('password', ['a', '!!', 'session', 'maximum1'])
def test_a_password_that_may_stand_in_a_text_by_chance_keeps_the_text_out(password: str) -> None:
    """The name of the message is enough."""
    text = f'The maximum number of sessions is reached{"!!" if password == "!!" else ""}'
    said = said_to_login({'error': {'@Message.ExtendedInfo': [{**DELL, 'Message': text}]}}, 'admin', password)
    assert 'RAC0218' == said.text


def test_basic_authentication_is_not_used_unless_it_is_allowed(small: Bmc) -> None:
    """It sends the password with each request."""
    small.most, small.basic = 0, True
    with pytest.raises(BmcNoSessionFree, match='bmc_basic_auth'):
        small.connect()


def test_basic_authentication_is_used_where_it_is_allowed_and_no_session_is_free(
    small: Bmc, caplog: pytest.LogCaptureFixture
) -> None:
    """Reads and writes go with it, and the log says so without the password."""
    small.most, small.basic = 0, True
    with caplog.at_level(logging.DEBUG), small.connect(basic_auth=True) as connection:
        connection.writer().fresh(SYSTEM)
        connection.writer().post(f'{SYSTEM}/Actions/x', {})
    assert 'RAC0218' in caplog.text
    assert SECRET not in caplog.text
    assert base64.b64encode(f'admin:{SECRET}'.encode()).decode() not in caplog.text


def test_a_session_comes_before_basic_authentication(small: Bmc) -> None:
    """Also where it has to be taken from another connection of ours."""
    small.basic = True
    with small.connect(basic_auth=True) as first:
        first.writer().fresh(SYSTEM)
        with small.connect(basic_auth=True) as second:
            second.writer().fresh(SYSTEM)
            assert 1 == len(small.sessions)
    assert {} == small.sessions


def test_a_bmc_that_does_not_take_basic_authentication_is_asked_once(small: Bmc) -> None:
    """Each further one would be a failed login, which locks accounts. What is told is why there is no session."""
    small.most = 0
    for _ in range(3):
        with pytest.raises(BmcNoSessionFree, match='RAC0218'):
            small.connect(basic_auth=True)
    assert 1 == small.seen.count(('GET', SESSIONS))


def test_a_wrong_password_is_no_lack_of_sessions(small: Bmc) -> None:
    """One login, no Basic authentication."""
    small.most, small.basic, small.refusal = 0, True, (401, {})
    with pytest.raises(BmcNotAuthorised):
        small.connect(basic_auth=True)
    assert (1, 0) == (small.logins(), small.seen.count(('GET', SESSIONS)))


def test_a_bmc_that_has_restarted_is_logged_in_to_once_for_many_reads(small: Bmc) -> None:
    """It has forgotten its sessions."""
    small.most = 8
    with small.connect() as connection:
        small.sessions.clear()
        threads = [threading.Thread(target=connection.writer().fresh, args=(SYSTEM,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (2, 1) == (small.logins(), len(small.sessions))
    assert {} == small.sessions


def test_an_upload_over_an_ended_session_is_sent_whole_over_a_new_one(small: Bmc) -> None:
    """Nothing of it was taken before: HTTP 401."""
    data = bytes(range(256)) * 4096
    upload = Upload(file='gpu.bin', size_bytes=len(data), open=lambda: io.BytesIO(data))
    with small.connect() as connection:
        connection.writer().fresh(SYSTEM)
        small.at_upload = lambda: small.sessions.clear()
        connection.push(Ref(bmc='host', uri=f'{ROOT}/UpdateService/FirmwareInventory/GPU'), upload)
    assert [401, 204] == [status for status, _ in small.uploads]
    assert data in small.uploads[1][1]


def test_a_connection_that_is_stopped_breaks_off_its_reads_and_logs_out(small: Bmc) -> None:
    """Also where an answer takes minutes; what is read next fails at once, and nothing is written."""
    small.most, failed = 8, []

    def read() -> None:
        try:
            connection.writer().fresh(SYSTEM)
        except BmcUnreachable as exc:
            failed.append(exc)

    with small.connect() as connection:
        small.slow = 5.0
        reading = threading.Thread(target=read)
        reading.start()
        time.sleep(0.3)
        began = time.monotonic()
        connection.stop()
        reading.join()
        read()
        with pytest.raises(BmcUnreachable, match='stopped'):
            connection.writer().post(f'{SYSTEM}/Actions/x', {})
    assert time.monotonic() - began < 2
    assert 2 == len(failed)
    assert ('POST', f'{SYSTEM}/Actions/x') not in small.seen
    assert {} == small.sessions


def test_a_write_under_way_is_not_broken_off_by_a_stop(small: Bmc) -> None:
    """Whether it arrived would be unknown."""
    with small.connect() as connection:
        small.slow = 0.6
        writing = threading.Thread(target=lambda: done.append(connection.writer().post(f'{SYSTEM}/Actions/x', {})))
        done: list[object] = []
        writing.start()
        time.sleep(0.2)
        connection.stop()
        writing.join()
    assert [None] == done


def test_closing_a_session_takes_three_seconds_at_most_once_everything_is_stopped(
    small: Bmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A BMC that does not answer keeps nobody."""
    monkeypatch.setattr(stopping, 'CLOSING', 0.3)
    connection = small.connect(timeout=timedelta(seconds=60))
    with small.lock:  # nothing is answered
        began = time.monotonic()
        connection.stop()
        connection.close()
        assert time.monotonic() - began < 1.5
