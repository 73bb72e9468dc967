# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A session that ends in the middle of an inspection costs one login, however many requests were in progress."""

import json
from datetime import UTC, datetime
from typing import Any

PROCESSORS = '/redfish/v1/Systems/1/Processors'


def test_many_threads_whose_session_ended_log_in_once(bmc: Any) -> None:
    """Other clients open one session per thread, and leave them on the BMC."""
    names = [f'G{n}' for n in range(24)]
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': PROCESSORS}
    bmc.collection(PROCESSORS, *names)
    for name in names:
        bmc.put(f'{PROCESSORS}/{name}', ProcessorType='GPU', Model='NVIDIA L4', SerialNumber=name)
        bmc.replies['GET', f'{PROCESSORS}/{name}'] = lambda request, context, place=f'{PROCESSORS}/{name}': _guarded(
            bmc, request, context, place
        )
    bmc.tree['/redfish/v1']['SessionService'] = {'@odata.id': '/redfish/v1/SessionService'}
    logins: list[int] = []

    def login(request: Any, context: Any) -> str:
        logins.append(len(logins))
        context.status_code = 201
        context.headers.update(
            {'X-Auth-Token': f'token-{len(logins)}', 'Location': f'/redfish/v1/SessionService/Sessions/{len(logins)}'}
        )
        return '{}'

    bmc.replies['POST', '/redfish/v1/SessionService/Sessions'] = login
    with bmc.connect(username='admin', password='x', concurrency=8) as connection:
        look = connection.look(datetime.now(UTC))
    assert (24, (), 2) == (len(look.accelerators), look.gaps, len(logins))
    assert ('DELETE', '/redfish/v1/SessionService/Sessions/2') == bmc.seen[-1]


def _guarded(bmc: Any, request: Any, context: Any, place: str) -> str:
    """The first token has ended by the time these are asked for."""
    if request.headers['X-Auth-Token'] == 'token-1':
        context.status_code = 401
        return '{}'
    return json.dumps(bmc.tree[place])


def test_a_session_that_is_replaced_is_ended(bmc: Any, reply: Any) -> None:
    """A BMC that says 401 for one resource keeps the session all the same, and takes few of them."""
    place = '/redfish/v1/SessionService/Sessions'
    bmc.replies['POST', place] = [reply(201, {}, X_Auth_Token=f't{n}', Location=f'{place}/{n}') for n in range(2)]
    bmc.replies['GET', '/redfish/v1/Systems/1'] = [reply(401)]
    with bmc.connect(username='admin', password='p' * 12) as connection:
        connection.writer().fresh('/redfish/v1/Systems/1')
        assert [f'{place}/0'] == [u for m, u in bmc.seen if m == 'DELETE']
    assert [f'{place}/0', f'{place}/1'] == [u for m, u in bmc.seen if m == 'DELETE']
