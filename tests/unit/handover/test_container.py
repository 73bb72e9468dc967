# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A certificate is kept in an object store once what is read there is what was written."""

from dataclasses import replace

import pytest
from keystoneauth1 import adapter, identity
from keystoneauth1 import session as sessions

from baremetal_acc.errors import StateError
from baremetal_acc.handover import seal
from baremetal_acc.handover.container import Container
from tests.unit.handover.swift import ACCOUNT, PASSWORD, swift
from tests.unit.handover.values import certificate, sealer

WHOLE = certificate()
ONE = WHOLE.reference
DATA = seal.seal(WHOLE, sealer())
PATH = f'{ONE.node.uuid}/8-d-1.json'


@pytest.fixture(scope='module')
def served():
    with swift() as found:
        yield found


@pytest.fixture
def store(served):
    """Empty, and well-behaved again."""
    for one in (served.containers, served.meta, served.fails, served.log):
        one.clear()
    served.forgets = False
    return served


def container(store, name='certificates', password=PASSWORD):
    auth = identity.V3Password(
        auth_url=f'{store.url}/identity/v3',
        username='ironic',
        password=password,
        project_name='service',
        user_domain_id='default',
        project_domain_id='default',
    )
    session = sessions.Session(auth=auth, timeout=20)
    return Container(name=name, adapter=adapter.Adapter(session, service_type='object-store', interface='internal'))


def test_it_is_kept_and_read_back(store):
    """The container is made if it is not there."""
    where = container(store)
    assert f'certificates/{PATH}' == where.put(ONE, DATA)
    assert {'certificates': {PATH: DATA}} == store.containers
    assert [('PUT', f'{ACCOUNT}/certificates'), ('PUT', f'{ACCOUNT}/certificates/{PATH}')] == [
        entry for entry in store.log if entry[0] == 'PUT'
    ]
    assert DATA == where.get(ONE)
    where.put(ONE, DATA)


def test_what_is_put_away_stays_and_says_so(store):
    """The object is marked."""
    where = container(store)
    where.put(ONE, DATA)
    where.put_away(ONE)
    assert 'true' == store.meta[PATH]['X-Object-Meta-Superseded']
    assert DATA == where.get(ONE)


def test_what_is_not_there_is_put_away(store):
    """Of an attempt that never came to put it, or removed by the store's own expiry; whatever else is said is an error."""
    where = container(store)
    where.put(replace(ONE, deployment='another'), DATA)
    where.put_away(ONE)
    assert {} == store.meta
    store.fails['POST', '*'] = 503
    with pytest.raises(StateError, match='status 503'):
        where.put_away(ONE)


@pytest.mark.parametrize('status', [401, 403, 404, 413, 500, 503, 507, 302, 200])
def test_any_other_answer_means_that_it_is_not_kept(store, status):
    """It names request, status and options, and nothing of what the store said."""
    store.fails['PUT', f'{ACCOUNT}/certificates/{PATH}'] = status
    with pytest.raises(StateError, match=rf'object store: PUT /certificates/{PATH}: .*certificate_container') as caught:
        container(store).put(ONE, DATA)
    assert str(status) in str(caught.value) or status == 401


def test_a_store_that_gives_back_something_else(store):
    """What is not read back does not count."""
    store.forgets = True
    with pytest.raises(StateError, match='not what was written'):
        container(store).put(ONE, DATA)


def test_no_way_in(store):
    """Wrong password; nobody there. The password is in no message."""
    with pytest.raises(StateError, match='Unauthorized') as caught:
        container(store, password='secret-word').put(ONE, DATA)
    assert 'secret-word' not in str(caught.value)
    with pytest.raises(StateError, match='ConnectFailure'):
        container(replace(store, url='http://127.0.0.1:9')).put(ONE, DATA)


@pytest.mark.parametrize('name', ['', 'a/b', 'a' * 257])
def test_a_name_that_no_container_has(store, name):
    """Told before anything is asked."""
    with pytest.raises(StateError, match='no name of a container'):
        container(store, name).put(ONE, DATA)
    assert [] == store.log


def test_names_are_quoted(store):
    """Whatever a node is called, it stays in its container."""
    odd = replace(ONE, node=replace(ONE.node, uuid=None, name='../other?x'))
    container(store).put(odd, DATA)
    assert ['..%2Fother%3Fx/8-d-1.json'] == list(store.containers['certificates'])
