# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What placement answers is judged by status and code; errors say what was asked and what to do, and quote nobody."""

import itertools
from typing import Any

import pytest
import requests
import requests_mock
from keystoneauth1 import adapter, exceptions, plugin, session, token_endpoint

from baremetal_acc.errors import PlacementRefused, PlacementUnreachable
from baremetal_acc.placement.client import READ_SECONDS, READS, PlacementClient, silence
from baremetal_acc.placement.publish import Publisher

URL = 'http://placement.example/placement'
VERSIONS = {'versions': [{'id': 'v1.0', 'min_version': '1.0', 'max_version': '1.39', 'status': 'CURRENT'}]}
SECRET = 'gAAAAABlongtoken'
ROOT = '7b9a3a3e-3f4d-4a0e-9d53-0d1f0a3f8a01'


def client(auth: plugin.BaseAuthPlugin | None = None, **other: Any) -> PlacementClient:
    auth = auth or token_endpoint.Token(URL, SECRET)
    made = adapter.Adapter(session=session.Session(auth=auth), service_type='placement')
    return PlacementClient(made, **{'sleep': lambda seconds: None} | other)


@pytest.fixture
def placement() -> Any:
    with requests_mock.Mocker() as mocker:
        mocker.get(f'{URL}/', json=VERSIONS)
        yield mocker


def errors(code: str) -> dict[str, Any]:
    return {'errors': [{'status': 409, 'code': code, 'title': 'Conflict', 'detail': f'who asks with {SECRET}?'}]}


@pytest.mark.parametrize(
    ('said', 'shown'),
    [
        ('Unable to establish connection to http://[2001:db8::1]:8778/x?a=b: HTTP(...)', ', http://[2001:db8::1]:8778'),
        (
            f'Unable to establish connection to https://acc:{SECRET}@keystone.example:5000/v3/auth/tokens: x',
            ', https://keystone.example:5000',
        ),
        (f'Request to http://a:{SECRET}@b@placement.example timed out', ', http://placement.example'),
        ('SSL exception connecting to https://placement.example: x', ', https://placement.example'),
        (f'to http://acc:12/{SECRET}@placement.example/x: y', ''),
        (f'to http://{SECRET * 200}@h/', ''),
        (f'to https://h\x1b[31m{SECRET}/ ', ''),
        ('nothing', ''),
    ],
)
def test_where_nobody_answered_is_said_without_who_asked(said: str, shown: str) -> None:
    """Host and port of what was not reached, be it Keystone; no user, no password, no path."""
    assert f'no answer (ConnectFailure{shown})' == silence(exceptions.ConnectFailure(said))


def test_a_placement_that_is_away_is_told_with_its_place_and_what_to_do() -> None:
    """Nobody listens there."""
    auth = token_endpoint.Token(f'http://acc:{SECRET}@127.0.0.1:9', SECRET)
    with pytest.raises(PlacementUnreachable) as caught:
        client(auth).get('/traits/A')
    assert str(caught.value) == (
        'placement: GET /: no answer (ConnectFailure, http://127.0.0.1:9) (check that the service runs and can be '
        'reached from this host; see auth_url and endpoint_override in [placement])'
    )


def test_every_request_names_the_one_microversion(placement: Any) -> None:
    """1.37, whatever the adapter would use."""
    placement.put(f'{URL}/traits/CUSTOM_A', status_code=201)
    client().request('PUT', '/traits/CUSTOM_A')
    assert 'placement 1.37' == placement.last_request.headers['OpenStack-API-Version']


def test_the_version_is_asked_once(placement: Any) -> None:
    """Before the first request, and never again."""
    placement.get(f'{URL}/traits/A', status_code=204)
    asking = client()
    asking.get('/traits/A')
    asking.get('/traits/A')
    assert ['/placement/', '/placement/traits/a', '/placement/traits/a'] == [r.path for r in placement.request_history]


def test_a_placement_that_is_too_old_is_refused(placement: Any) -> None:
    """Before anything else is asked of it; 1.9 is older than 1.37."""
    placement.get(f'{URL}/', json={'versions': [{'min_version': '1.0', 'max_version': '1.9'}]})
    with pytest.raises(
        PlacementRefused, match=r'highest microversion is 1\.9, but 1\.37 is needed \(upgrade placement to Xena'
    ):
        client().get('/traits/A')
    assert 1 == len(placement.request_history)


def test_a_placement_that_is_too_old_is_refused_before_anything_is_published(placement: Any) -> None:
    """Ussuri speaks up to 1.36 at most; 1.30 is what is told, with what to do, and nothing is sent."""
    placement.get(f'{URL}/', json={'versions': [{'min_version': '1.0', 'max_version': '1.30'}]})
    publisher = Publisher(client())
    for act in (
        lambda: publisher.read(ROOT),
        lambda: publisher.withdraw(ROOT),
        lambda: publisher.declare(traits=('CUSTOM_A',)),
    ):
        with pytest.raises(
            PlacementRefused, match=r'highest microversion is 1\.30, but 1\.37 is needed \(upgrade placement to Xena or later\)'
        ):
            act()
    assert {'GET'} == {request.method for request in placement.request_history}
    assert {f'{URL}/'} == {request.url for request in placement.request_history}


@pytest.mark.parametrize('status', [500, 503])
def test_a_placement_that_is_starting_is_waited_for(placement: Any, status: int) -> None:
    """A server in front of it answers for it; that says nothing about what it is."""
    placement.get(f'{URL}/', status_code=status)
    with pytest.raises(PlacementUnreachable, match=f'GET /: status {status}') as caught:
        client().check()
    assert caught.value.waiting_helps


@pytest.mark.parametrize(
    'answer',
    [
        {'text': '<html>It works!</html>'},
        {'json': {'versions': []}},
        {'json': {'versions': [{'max_version': 'new'}]}},
        {'json': ['versions']},
        {'json': {'versions': [{'max_version': '9' * 5000}]}},
        {'text': '[' * 200_000},
        {'status_code': 404},
    ],
)
def test_something_else_at_the_endpoint_is_refused(placement: Any, answer: dict[str, Any]) -> None:
    """A web server's page, another service's document: it is said that this is no placement."""
    placement.get(f'{URL}/', **answer)
    with pytest.raises(PlacementRefused, match='endpoint'):
        client().get('/traits/A')


def test_an_answer_that_is_no_json_is_refused(placement: Any) -> None:
    """HTTP 200 with a page of a proxy is no success."""
    placement.get(f'{URL}/resource_providers', text='<html>')
    with pytest.raises(PlacementRefused, match='GET /resource_providers: status 200, and the answer is not a JSON object'):
        client().get('/resource_providers')


def test_an_answer_that_is_none_of_placements_is_no_success(placement: Any) -> None:
    """HTTP 304, or whatever else is neither done nor refused."""
    placement.get(f'{URL}/resource_providers', status_code=304)
    with pytest.raises(PlacementRefused, match='GET /resource_providers: status 304'):
        client().get('/resource_providers')


@pytest.mark.parametrize('status', [500, 502, 503])
def test_a_server_error_is_worth_waiting(placement: Any, status: int) -> None:
    """With JSON or, from a proxy, without."""
    placement.get(f'{URL}/resource_providers', status_code=status, text='<html>')
    with pytest.raises(PlacementUnreachable, match=f'status {status}'):
        client().get('/resource_providers')


def test_a_question_whose_answer_was_lost_is_asked_again(placement: Any) -> None:
    """It changes nothing. A pause comes before each, and the last answer counts."""
    lost = {'exc': requests.exceptions.ConnectionError('cut')}
    placement.get(f'{URL}/x', [lost, {'status_code': 503}, {'status_code': 500}, {'json': {'a': 1}}])
    pauses: list[float] = []
    assert {'a': 1} == client(sleep=pauses.append).get('/x').body
    assert 3 == len(pauses)
    assert all(0.05 * 2**n <= pause <= 0.1 * 2**n for n, pause in enumerate(pauses))


def test_a_question_is_given_up_in_the_end(placement: Any) -> None:
    """Four times, and the last error is told."""
    placement.get(f'{URL}/x', status_code=503)
    with pytest.raises(PlacementUnreachable, match='GET /x: status 503'):
        client(sleep=lambda seconds: None).get('/x')
    assert 1 + READS == len(placement.request_history)


def test_a_question_that_took_long_is_not_asked_again(placement: Any) -> None:
    """A timeout of a minute is waited for once."""
    ticks = itertools.count(0.0, READ_SECONDS)
    placement.get(f'{URL}/x', exc=requests.exceptions.Timeout('a minute'))
    with pytest.raises(PlacementUnreachable):
        client(clock=lambda: next(ticks)).get('/x')
    assert 2 == len(placement.request_history)


def test_a_question_is_asked_for_no_longer_than_the_operator_gives_an_answer(placement: Any) -> None:
    """One that was waited for as long as that is not asked again, and not two that were half as long more than once."""
    placement.get(f'{URL}/x', exc=requests.exceptions.Timeout('1 s'))
    for seconds, asked in ((1.0, 1), (0.5, 2), (0.0, READS)):
        ticks = itertools.count(0.0, seconds / 2)
        placement.reset_mock()
        with pytest.raises(PlacementUnreachable):
            client(clock=lambda ticks=ticks: next(ticks), timeout=1.0).get('/x')
        assert 1 + asked == len(placement.request_history), seconds


def test_a_write_whose_answer_was_lost_is_not_sent_again(placement: Any) -> None:
    """It may have been done; who asked looks first."""
    placement.put(f'{URL}/x', exc=requests.exceptions.ConnectionError('cut'))
    with pytest.raises(PlacementUnreachable):
        client().request('PUT', '/x', body={})
    assert ['GET', 'PUT'] == [request.method for request in placement.request_history]


@pytest.mark.parametrize(('status', 'hint'), [(401, 'credentials'), (403, 'role service or admin')])
def test_what_we_may_not_do_says_what_is_lacking(placement: Any, status: int, hint: str) -> None:
    """A write that is not allowed is refused for good, like a read."""
    placement.put(f'{URL}/traits/CUSTOM_A', status_code=status, json=errors('placement.undefined_code'))
    with pytest.raises(PlacementRefused, match=f'PUT /traits/CUSTOM_A: status {status}.*{hint}'):
        client().request('PUT', '/traits/CUSTOM_A')


def test_a_conflict_is_an_answer_with_its_code(placement: Any) -> None:
    """Who asked decides what it means."""
    placement.put(f'{URL}/x', status_code=409, json=errors('placement.inventory.inuse'))
    answer = client().request('PUT', '/x', body={})
    assert (409, 'placement.inventory.inuse', False) == (answer.status, answer.code, answer.ok)


def test_errors_quote_neither_placement_nor_the_token(placement: Any) -> None:
    """Its text differs from database to database, and may hold what somebody else sent."""
    placement.get(f'{URL}/x', status_code=400, json=errors('placement.query.bad_value'))
    with pytest.raises(PlacementRefused) as caught:
        client().get('/x', name=SECRET)
    assert 'placement: GET /x: status 400 (placement.query.bad_value)' == str(caught.value)


@pytest.mark.parametrize(
    ('failure', 'error'),
    [
        (requests.exceptions.ConnectionError('no'), PlacementUnreachable),
        (requests.exceptions.Timeout('no'), PlacementUnreachable),
        (requests.exceptions.SSLError('self-signed'), PlacementRefused),
    ],
)
def test_no_answer_is_told_by_its_cause(placement: Any, failure: Exception, error: type[Exception]) -> None:
    """Waiting helps where nobody answers, and never against a certificate."""
    placement.get(f'{URL}/', exc=failure)
    with pytest.raises(error, match='GET /') as caught:
        client().get('/traits/A')
    assert (error is PlacementUnreachable) == caught.value.waiting_helps


class NoEndpoint(plugin.BaseAuthPlugin):
    """A token of a cloud whose catalogue has no placement."""

    def get_token(self, session: Any, **kwargs: Any) -> str:
        return SECRET

    def get_endpoint(self, session: Any, **kwargs: Any) -> None:
        return None


def test_a_cloud_without_placement_is_named() -> None:
    """The configuration group to look at is in the message."""
    with pytest.raises(PlacementRefused, match=r'EndpointNotFound.*check the options in \[placement\]'):
        client(NoEndpoint()).get('/traits/A')
