# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does the hook take demands from whoever has the token, and from nobody else, whatever is sent to it?"""

import contextlib
import http.client
import json
import logging
import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.decide.progress import Progress
from baremetal_acc.errors import AccError, StateError, UsageError
from baremetal_acc.fleet import hook as hooks
from baremetal_acc.fleet.demand import Desk
from baremetal_acc.fleet.hook import BURST, CONNECTIONS, MAX_BODY, Hook, Listen
from baremetal_acc.fleet.spool import Spool

TOKEN = 'a3f1c0ffee00112233445566778899aa'
QUERY = 'resources=CUSTOM_GOLD:1&resources_ACC=CUSTOM_ACC_FN_AES:1'


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Where demands are told, with a catalogue of two functions."""
    return Desk(spool=Spool(root=tmp_path / 'demands'), functions=frozenset({'aes', 'gzip'}))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    """The file of the token."""
    path = tmp_path / 'demand.token'
    path.write_text(f'{TOKEN}\n')
    path.chmod(0o600)
    return path


@pytest.fixture
def hook(desk: Desk, token: Path) -> Iterator[Hook]:
    """One that listens."""
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk)
    made.start()
    yield made
    made.stop()


def place(hook: Hook) -> tuple[str, int]:
    """Host and port."""
    host, port = hook.url.rpartition('//')[2].rsplit(':', 1)
    return host, int(port)


def ask(
    hook: Hook, method: str, path: str, body: Any = None, token: str | None = TOKEN, **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """Status, document, headers."""
    connection = http.client.HTTPConnection(*place(hook), timeout=20)
    if token is not None:
        headers['Authorization'] = f'Bearer {token}'
    data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, data, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read()), {k.lower(): v for k, v in answer.getheaders()}
    connection.close()
    assert found[2]['content-type'].startswith('application/json')
    return found


@pytest.mark.parametrize(
    ('told', 'resource_class'),
    [
        ({'function': 'aes'}, None),
        ({'function': 'CUSTOM_ACC_FN_AES', 'resource_class': 'gold'}, 'gold'),
        ({'query': QUERY}, 'CUSTOM_GOLD'),
        ({'query': f'/allocation_candidates?{QUERY}', 'resource_class': 'silver'}, 'silver'),
        ({'extra_specs': {'resources:CUSTOM_GOLD': '1', 'resources_ACC:CUSTOM_ACC_FN_AES': '1'}}, 'CUSTOM_GOLD'),
    ],
)
def test_a_demand_is_told_and_asked_for(hook: Hook, desk: Desk, told: dict[str, Any], resource_class: str | None) -> None:
    """By function, query or extra specs; until it is served it waits, and then it says what it took."""
    assert ({'status': 'ok'}, 200) == (ask(hook, 'GET', '/v1/health', token=None)[1], 200)
    status, answer, _ = ask(hook, 'POST', '/v1/demands', {'id': 'req-1', 'project': 'p'} | told)
    one = {'id': 'req-1', 'function': 'aes', 'resource_class': resource_class}
    assert (202, {'demands': [one], 'notes': []}) == (status, answer)
    assert 202 == ask(hook, 'POST', '/v1/demands', {'id': 'req-1'} | told)[0], 'told again it is the same one'
    status, answer, _ = ask(hook, 'GET', '/v1/demands')
    [found] = answer['demands']
    assert (200, 1, 0) == (status, answer['format'], answer['refused'])
    assert one | {'project': 'p', 'source': 'http', 'state': 'waiting', 'took_seconds': None, 'provider': None} == {
        k: v for k, v in found.items() if k not in ('told', 'since')
    }
    assert timedelta(seconds=30) > datetime.now(UTC) - datetime.fromisoformat(found['told'])
    [waiting] = desk.told()
    served = {'progress': Progress.SCHEDULABLE, 'provider': 'r-1', 'took': timedelta(seconds=61.04)}
    desk.spool.mark(replace(waiting, **served))
    [found] = ask(hook, 'GET', '/v1/demands?id=req-1')[1]['demands']
    assert ('schedulable', 61.0, 'r-1') == (found['state'], found['took_seconds'], found['provider'])


def test_of_a_request_for_several_all_are_shown(hook: Hook) -> None:
    """One is schedulable when all of its functions are."""
    both = {'id': 'req/1', 'query': 'resources_A=CUSTOM_ACC_FN_AES:1&resources_B=CUSTOM_ACC_FN_GZIP:1'}
    assert 2 == len(ask(hook, 'POST', '/v1/demands', both)[1]['demands'])
    ask(hook, 'POST', '/v1/demands', {'id': 'other', 'function': 'aes'})
    found = ask(hook, 'GET', '/v1/demands?id=req/1')[1]['demands']
    assert ['req/1/1', 'req/1/2'] == [d['id'] for d in found]
    assert 3 == len(ask(hook, 'GET', '/v1/demands')[1]['demands'])


@pytest.mark.parametrize('wrong', [None, '', 'x', TOKEN[:-1], f'{TOKEN}0', TOKEN.upper(), 'ü' * 16])
def test_without_the_token_nothing_is_taken_or_told(hook: Hook, desk: Desk, wrong: str | None) -> None:
    """Not even whether there are demands."""
    headers = {} if wrong is None else {'Authorization': f'Bearer {wrong}'.encode().decode('latin-1')}
    for method, body in (('GET', None), ('POST', {'id': 'a', 'function': 'aes'}), ('DELETE', None)):
        status, answer, back = ask(hook, method, '/v1/demands', body, token=None, **headers)
        assert (401, 'Bearer') == (status, back['www-authenticate'])
        assert 'Authorization: Bearer TOKEN' in answer['error']
    status, _, _ = ask(hook, 'GET', '/v1/demands', token=None, Authorization=f'Basic {TOKEN}')
    assert 401 == status
    assert () == desk.told()


@pytest.mark.parametrize(
    ('body', 'status', 'said'),
    [
        (b'', 400, 'no JSON'),
        (b'{', 400, 'no JSON'),
        (b'[' * 20000, 400, 'no JSON'),
        (b'\xff', 400, 'no JSON'),
        (b'1' * 20000, 400, 'no JSON'),
        (b'[]', 400, 'no JSON object'),
        ({}, 400, 'one of function, query and extra_specs'),
        ({'id': 'a', 'function': 'aes', 'query': QUERY}, 400, 'one of function, query and extra_specs'),
        ({'id': 'a', 'function': 'aes', 'functoin': 'x'}, 400, "no key 'functoin'"),
        ({'function': 'aes'}, 400, 'id has to be a text'),
        ({'id': 7, 'function': 'aes'}, 400, 'id has to be a text'),
        ({'id': '', 'function': 'aes'}, 400, 'id has to be a text'),
        ({'id': 'x' * 256, 'function': 'aes'}, 400, 'id has to be a text'),
        ({'id': 'a\nb', 'function': 'aes'}, 422, 'is no name'),
        ({'id': '\ud800', 'function': 'aes'}, 422, 'is no name'),
        ({'id': 'a', 'function': 'aes', 'resource_class': '\x1b[0m'}, 422, 'is no name'),
        ({'id': 'a', 'function': 'aes', 'project': []}, 400, 'project has to be a text'),
        ({'id': 'a', 'function': ['aes']}, 400, 'function has to be a text'),
        ({'id': 'a', 'function': 'brotli'}, 422, 'it knows aes, gzip'),
        ({'id': 'a', 'query': 'x'}, 422, 'is none of allocation candidates'),
        ({'id': 'a', 'query': 'resources=CUSTOM_GOLD:1'}, 422, 'no function that could be programmed'),
        ({'id': 'a', 'extra_specs': []}, 400, 'extra_specs has to be an object of texts'),
        ({'id': 'a', 'extra_specs': {'resources:CUSTOM_ACC_FN_AES': 1}}, 400, 'extra_specs has to be an object of texts'),
    ],
)
def test_what_is_wrong_is_said(hook: Hook, desk: Desk, body: Any, status: int, said: str) -> None:
    """In JSON, with a sentence; nothing is kept, and the next request is served."""
    found, answer, _ = ask(hook, 'POST', '/v1/demands', body)
    assert (status, True) == (found, said in answer['error']), answer
    assert () == desk.told()


def test_why_it_is_no_demand_is_told(hook: Hook) -> None:
    """A scheduler that asks for what nobody can program is told which part of it that is."""
    query = 'resources=CUSTOM_GOLD:1&resources_A=FPGA:1&required_A=CUSTOM_ACC_CAN_AES&resources_B=CUSTOM_ACC_FN_X:1'
    status, answer, _ = ask(hook, 'POST', '/v1/demands', {'id': 'a', 'query': query})
    assert (422, 2) == (status, len(answer['notes']))
    assert 'CUSTOM_ACC_FN_X: the catalogue knows no such function' == answer['notes'][1]


@pytest.mark.parametrize(
    ('method', 'path', 'status'),
    [('GET', '/', 404), ('GET', '/v1/demands/x', 404), ('PUT', '/v1/demands', 405), ('POST', '/v1/health', 405)],
)
def test_other_places_and_methods_are_refused(hook: Hook, method: str, path: str, status: int) -> None:
    """With the ones that there are."""
    found, answer, headers = ask(hook, method, path)
    assert status == found
    assert answer['error'].startswith('there ')
    assert (status == 405) == ('allow' in headers)


def test_a_large_body_is_refused_before_it_is_read(hook: Hook) -> None:
    """By what it says of its length, and by what comes where it says nothing."""
    assert 413 == ask(hook, 'POST', '/v1/demands', b' ' * (MAX_BODY + 1))[0]
    connection = http.client.HTTPConnection(*place(hook), timeout=20)
    chunks = (b' ' * 8192 for _ in range(8))
    connection.request('POST', '/v1/demands', chunks, {'Authorization': f'Bearer {TOKEN}'}, encode_chunked=True)
    assert 413 == connection.getresponse().status
    assert 415 == ask(hook, 'POST', '/v1/demands', b'x', **{'Content-Encoding': 'gzip'})[0]
    assert 200 == ask(hook, 'GET', '/v1/health')[0]


def test_a_full_folder_says_come_back_later(desk: Desk, token: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The refusal is 503 with a time, and is counted. Where the folder is says the log, once a minute."""
    now = [0.0]
    desk.spool = Spool(root=desk.spool.root, most=1)
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk, clock=lambda: now[0])
    made.start()
    try:
        assert 202 == ask(made, 'POST', '/v1/demands', {'id': 'a', 'function': 'aes'})[0]
        status, answer, headers = ask(made, 'POST', '/v1/demands', {'id': 'b', 'function': 'aes'})
        assert (503, '60') == (status, headers['retry-after'])
        assert answer['error'].startswith('there are 1 already')
        assert str(desk.spool.root) not in answer['error']
        assert 1 == ask(made, 'GET', '/v1/demands')[1]['refused']
        for _ in range(3):
            ask(made, 'POST', '/v1/demands', {'id': 'b', 'function': 'aes'})
        [logged] = [r.getMessage() for r in caplog.records if 'refused' in r.getMessage()]
        assert f'a demand was refused: {desk.spool.root}: there are 1 already' in logged
        now[0] += hooks.LOG_SECONDS
        ask(made, 'POST', '/v1/demands', {'id': 'b', 'function': 'aes'})
        assert 2 == sum('refused' in r.getMessage() for r in caplog.records)
    finally:
        made.stop()


def test_an_id_that_is_known_as_another_demand_is_a_conflict(hook: Hook, desk: Desk) -> None:
    """The answer never shows what is not kept; the same contents are taken as often as they come."""
    assert 202 == ask(hook, 'POST', '/v1/demands', {'id': 'r1', 'function': 'aes', 'resource_class': 'gold'})[0]
    for other in ({'function': 'gzip'}, {'function': 'aes'}, {'query': QUERY.replace('GOLD', 'SILVER')}):
        status, answer, _ = ask(hook, 'POST', '/v1/demands', {'id': 'r1'} | other)
        assert 409 == status
        assert answer['error'].startswith(
            'r1: is known already as the id of a demand for aes on machines of class gold, which stays'
        )
    status, answer, _ = ask(hook, 'POST', '/v1/demands', {'id': 'r1', 'query': QUERY})
    assert (202, [{'id': 'r1', 'function': 'aes', 'resource_class': 'gold'}]) == (status, answer['demands'])
    assert [('r1', 'aes', 'gold')] == [(t.demand.id, t.demand.function, t.demand.resource_class) for t in desk.told()]


def test_of_a_request_for_which_there_is_no_room_nothing_is_kept(desk: Desk, token: Path) -> None:
    """It is told as a full folder is."""
    desk.spool = Spool(root=desk.spool.root, most=2)
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk)
    made.start()
    try:
        assert 202 == ask(made, 'POST', '/v1/demands', {'id': 'a', 'function': 'aes'})[0]
        both = {'id': 'two', 'query': 'resources_A=CUSTOM_ACC_FN_AES:1&resources_B=CUSTOM_ACC_FN_GZIP:1'}
        assert 503 == ask(made, 'POST', '/v1/demands', both)[0]
        assert ['a'] == [d['id'] for d in ask(made, 'GET', '/v1/demands')[1]['demands']]
    finally:
        made.stop()


def test_more_than_the_rate_is_refused(desk: Desk, token: Path) -> None:
    """A burst passes, what comes faster does not, and a second later it does again."""
    now = [0.0]
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk, clock=lambda: now[0])
    made.start()
    try:
        codes = [ask(made, 'POST', '/v1/demands', b'x')[0] for _ in range(BURST + 3)]
        assert [400] * BURST + [429] * 3 == codes
        assert 200 == ask(made, 'GET', '/v1/demands')[0], 'to look is no demand'
        now[0] += 0.03
        assert [400, 429] == [ask(made, 'POST', '/v1/demands', b'x')[0] for _ in range(2)]
    finally:
        made.stop()


def test_nobody_holds_a_connection_by_sending_slowly(desk: Desk, token: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sends a byte now and then is cut; meanwhile all others are served, and one too many is closed at once."""
    monkeypatch.setattr(hooks, 'CONNECTION_SECONDS', 2.0)
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk)
    made.start()
    try:
        slow = [socket.create_connection(place(made), timeout=10) for _ in range(CONNECTIONS - 1)]
        begun = time.monotonic()
        for one in slow:
            one.sendall(b'POST /v1/demands HTTP/1.1\r\nHost: x\r\n')
        assert served(made)
        assert full(made, slow)
        with contextlib.suppress(OSError):
            while time.monotonic() - begun < 10:
                slow[0].sendall(b'X')
                time.sleep(0.1)
        assert 1.5 < time.monotonic() - begun < 8
        assert served(made)
        for one in slow:
            one.close()
    finally:
        made.stop()


def full(hook: Hook, slow: list[socket.socket]) -> bool:
    """Whether there is no room before long: who was served just now may still have his place when the last one comes."""
    for _ in range(20):
        slow.append(socket.create_connection(place(hook), timeout=10))
        time.sleep(0.05)
        with socket.create_connection(place(hook), timeout=10) as more:
            if not answered(more):
                return True
    return False


def served(hook: Hook) -> bool:
    """Whether somebody is served before long: who was cut off has heard of it before his place was free."""
    for _ in range(100):
        with socket.create_connection(place(hook), timeout=10) as one:
            if answered(one):
                return True
        time.sleep(0.05)
    return False


def answered(connection: socket.socket) -> bool:
    """Whether a request by HTTP is answered on this connection."""
    try:
        connection.sendall(b'GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n')
        return connection.recv(100).startswith(b'HTTP/1.1 200')
    except OSError:
        return False


def certificate(folder: Path) -> Path:
    """A key and a certificate for 127.0.0.1 in one file."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, 'hook')])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = folder / 'hook.pem'
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


def test_it_listens_elsewhere_with_tls(desk: Desk, token: Path, tmp_path: Path) -> None:
    """With a certificate it takes demands by HTTPS, at any address, and not by HTTP."""
    path = certificate(tmp_path)
    made = Hook(Listen(address='0.0.0.0:0', token_file=str(token), certificate=str(path)), desk)
    made.start()
    try:
        context = ssl.create_default_context(cafile=str(path))
        context.check_hostname = False
        connection = http.client.HTTPSConnection('127.0.0.1', place(made)[1], timeout=20, context=context)
        connection.request(
            'POST', '/v1/demands', json.dumps({'id': 'a', 'function': 'aes'}), {'Authorization': f'Bearer {TOKEN}'}
        )
        assert 202 == connection.getresponse().status
        with socket.create_connection(('127.0.0.1', place(made)[1]), timeout=10) as plain:
            assert not answered(plain)
    finally:
        made.stop()
    assert 1 == len(desk.told())


def was_cut(connection: socket.socket) -> bool:
    """The other side has closed it, or was never there."""
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b''
    except BlockingIOError:
        return False
    except OSError:
        return True


def health(hook: Hook, authority: Path) -> str:
    """What it says of itself by HTTPS, as soon as it has a place for who asks."""
    context = ssl.create_default_context(cafile=str(authority))
    context.check_hostname = False
    end = time.monotonic() + 30
    while True:
        connection = http.client.HTTPSConnection(*place(hook), timeout=30, context=context)
        try:
            connection.request('GET', '/v1/health')
            return str(json.loads(connection.getresponse().read())['status'])
        except (OSError, http.client.HTTPException):
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        finally:
            connection.close()


def test_who_never_agrees_on_tls_counts_as_a_connection(
    desk: Desk, token: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It needs no token to connect: the service runs neither out of open files nor over with what it logs."""
    monkeypatch.setattr(hooks, 'CONNECTION_SECONDS', 60.0)
    path = certificate(tmp_path)
    made = Hook(Listen(address='127.0.0.1:0', token_file=str(token), certificate=str(path)), desk)
    made.start()
    try:
        silent = [socket.create_connection(place(made), timeout=30) for _ in range(3 * CONNECTIONS)]
        end = time.monotonic() + 30
        while sum(map(was_cut, silent)) < 2 * CONNECTIONS and time.monotonic() < end:
            time.sleep(0.1)
        assert 2 * CONNECTIONS == sum(map(was_cut, silent))
        for one in silent:
            one.close()
        assert 'ok' == health(made, path)
    finally:
        made.stop()
    assert [] == [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ('listen', 'said'),
    [
        ({'address': '0.0.0.0:0'}, 'others could read the token on its way'),
        ({'address': '[::]:0'}, 'others could read the token on its way'),
        ({'address': '192.0.2.1:8779'}, 'others could read the token on its way'),
        ({'address': 'localhost:8779'}, 'is no address'),
        ({'address': '127.0.0.1'}, 'is no address'),
        ({'address': '127.0.0.1:port'}, 'is no address'),
        ({'address': '127.0.0.1:65536'}, 'is no address'),
        ({'address': '127.0.0.1:0', 'token_file': None}, 'http_token_file: is needed'),
        ({'address': '127.0.0.1:0', 'token_file': '/nowhere/token'}, 'No such file'),
        ({'address': '0.0.0.0:0', 'certificate': '/nowhere/pem'}, 'cannot be used with its key'),
    ],
)
def test_it_does_not_start_where_it_would_not_be_safe(desk: Desk, token: Path, listen: dict[str, Any], said: str) -> None:
    """Each refusal names the option."""
    with pytest.raises(AccError, match=said) as caught:
        Hook(Listen(**({'token_file': str(token)} | listen)), desk)
    assert '[baremetal_acc_demand]' in str(caught.value)


def test_a_port_that_is_taken_is_said(hook: Hook, desk: Desk, token: Path) -> None:
    """With its number."""
    other = Hook(Listen(address=f'127.0.0.1:{place(hook)[1]}', token_file=str(token)), desk)
    with pytest.raises(UsageError, match='in use'):
        other.start()


@pytest.mark.parametrize('content', ['', 'short', 'x' * 600, 'with a blank in it', 'ü' * 20])
def test_a_file_without_a_token_is_refused(desk: Desk, token: Path, content: str) -> None:
    """An empty file is no token that everybody has, and what it holds is not printed."""
    token.write_text(content)
    with pytest.raises(UsageError, match='holds no token') as caught:
        Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk)
    assert not content or content not in str(caught.value)


def test_a_token_that_others_may_read_is_refused(desk: Desk, token: Path) -> None:
    """The hint says how to mend it."""
    token.chmod(0o640)
    with pytest.raises(StateError, match='others may read it') as caught:
        Hook(Listen(address='127.0.0.1:0', token_file=str(token)), desk)
    assert f'chmod 600 {token}' == caught.value.hint


def test_what_cannot_be_kept_is_the_service_s_fault(hook: Hook, desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why; whoever asked is not told paths of this machine."""
    desk.spool.root.write_text('')
    with caplog.at_level(logging.ERROR):
        status, answer, _ = ask(hook, 'POST', '/v1/demands', {'id': 'a', 'function': 'aes'})
    assert 500 == status
    assert str(desk.spool.root) not in answer['error']
    assert str(desk.spool.root) in caplog.text
    assert TOKEN not in caplog.text
