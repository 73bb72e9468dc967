# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Collections are read whole, with and without $expand, and each failure stays where it belongs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import collection_pages, inventory_requests
from baremetal_acc.bmc.redfish.collection_pages import expand_query
from baremetal_acc.errors import BmcAnswerInvalid, BmcUnreachable
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.ref import HOST

from .conftest import ADDRESS, NOW

PROCESSORS = '/redfish/v1/Systems/1/Processors'


def _gpus(bmc: Any, *names: str) -> None:
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': PROCESSORS}
    bmc.collection(PROCESSORS, *names)
    for name in names:
        bmc.put(f'{PROCESSORS}/{name}', ProcessorType='GPU', Model='NVIDIA H100 PCIe', SerialNumber=f'S{name}')


def _expands(bmc: Any) -> None:
    bmc.tree['/redfish/v1']['ProtocolFeaturesSupported'] = {'ExpandQuery': {'NoLinks': True, 'Levels': True}}


def _systems_expanded(bmc: Any) -> None:
    bmc.tree['/redfish/v1/Systems?$expand=.($levels=1)'] = {'Name': 's', 'Members': [bmc.tree['/redfish/v1/Systems/1']]}


def _names(look: Any) -> list[str]:
    return sorted(a.primary.uri.rsplit('/', 1)[-1] for a in look.accelerators)


def test_members_null_is_an_empty_collection(bmc: Any) -> None:
    """Seen on a DPU; sushy raises TypeError."""
    _gpus(bmc)
    bmc.tree[PROCESSORS]['Members'] = None
    look = bmc.look()
    assert ((), ()) == (look.accelerators, look.gaps)


def test_all_pages_are_read(bmc: Any) -> None:
    """Members@odata.nextLink is the only way to the rest."""
    _gpus(bmc, 'A', 'B')
    bmc.tree[PROCESSORS] = {
        'Name': 'p',
        'Members': [{'@odata.id': f'{PROCESSORS}/A'}],
        'Members@odata.nextLink': f'{PROCESSORS}?$skip=1',
    }
    bmc.tree[f'{PROCESSORS}?$skip=1'] = {'Name': 'p', 'Members': [{'@odata.id': f'{PROCESSORS}/B'}]}
    assert ['A', 'B'] == _names(bmc.look())


def test_a_next_link_to_what_is_there_already_repeats_nothing(bmc: Any) -> None:
    """Seen: nextLink although all members are there. Each device is one device."""
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members@odata.nextLink'] = f'{PROCESSORS}?$skip=1'
    bmc.tree[f'{PROCESSORS}?$skip=1'] = {'Name': 'p', 'Members': [{'@odata.id': f'{PROCESSORS}/A/'}]}
    assert ['A'] == _names(bmc.look())


def test_a_loop_of_next_links_ends(bmc: Any) -> None:
    """Two pages that point to each other."""
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members@odata.nextLink'] = f'{PROCESSORS}?page=2'
    bmc.tree[f'{PROCESSORS}?page=2'] = {'Name': 'p', 'Members': [], 'Members@odata.nextLink': f'{PROCESSORS}?page=2'}
    assert ['A'] == _names(bmc.look())
    assert 1 == bmc.count('GET', f'{PROCESSORS}?page=2')


def test_endless_pages_end(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new page each time: a bound ends it, and the gap says that devices may be hidden."""
    monkeypatch.setattr(collection_pages, 'MAX_PAGES', 5)
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members@odata.nextLink'] = f'{PROCESSORS}?page=0'
    for n in range(20):
        bmc.tree[f'{PROCESSORS}?page={n}'] = {
            'Name': 'p',
            'Members': [],
            'Members@odata.nextLink': f'{PROCESSORS}?page={n + 1}',
        }
    (gap,) = bmc.look().gaps
    assert (PROCESSORS, True) == (gap.ref.uri, gap.hides)


def test_a_next_link_off_the_bmc_is_a_gap(bmc: Any) -> None:
    """It is not followed, and the collection is not taken for whole."""
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members@odata.nextLink'] = 'https://evil.example/page2'
    look = bmc.look()
    assert [(PROCESSORS, True, 'Members@odata.nextLink does not point to this BMC')] == [
        (g.ref.uri, g.hides, g.reason) for g in look.gaps
    ]
    assert all('evil' not in r.url for r in bmc.requests)


def test_expanded_members_cost_one_request(bmc: Any) -> None:
    """Where the BMC says that it expands, a collection of three GPUs is one GET."""
    _gpus(bmc, 'A', 'B', 'C')
    _expands(bmc)
    _systems_expanded(bmc)
    bmc.tree[f'{PROCESSORS}?$expand=.($levels=1)'] = {'Name': 'p', 'Members': [bmc.tree[f'{PROCESSORS}/{n}'] for n in 'ABC']}
    assert ['A', 'B', 'C'] == _names(bmc.look())
    assert [f'{PROCESSORS}?$expand=.($levels=1)'] == [u for m, u in bmc.seen if u.startswith(PROCESSORS)]


@pytest.mark.parametrize('lost', ['Id', 'Name', '@odata.id'])
def test_an_incomplete_expanded_member_is_read_singly(bmc: Any, lost: str) -> None:
    """Real BMCs leave required properties out of expanded members."""
    _gpus(bmc, 'A', 'B')
    _expands(bmc)
    _systems_expanded(bmc)
    half = {k: v for k, v in bmc.tree[f'{PROCESSORS}/A'].items() if k not in (lost, 'SerialNumber')}
    if lost == '@odata.id':
        members = [{'@odata.id': f'{PROCESSORS}/A'}, bmc.tree[f'{PROCESSORS}/B']]
    else:
        members = [half, bmc.tree[f'{PROCESSORS}/B']]
    bmc.tree[f'{PROCESSORS}?$expand=.($levels=1)'] = {'Name': 'p', 'Members': members}
    look = bmc.look()
    assert {'SA', 'SB'} == {a.serial for a in look.accelerators}
    assert (1, 0) == (bmc.count('GET', f'{PROCESSORS}/A'), bmc.count('GET', f'{PROCESSORS}/B'))


@pytest.mark.parametrize('code', [400, 406, 500, 501])
def test_a_refused_expansion_falls_back_and_is_not_tried_again(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """The rest of the look goes without it."""
    _gpus(bmc, 'A')
    _expands(bmc)
    bmc.replies['GET', '/redfish/v1/Systems?$expand=.($levels=1)'] = reply(code)
    bmc.replies['GET', '/redfish/v1/Chassis?$expand=.($levels=1)'] = reply(code)
    bmc.replies['GET', '/redfish/v1/Managers?$expand=.($levels=1)'] = reply(code)
    look = bmc.look(concurrency=1)
    assert (['A'], ()) == (_names(look), look.gaps)
    assert {'/redfish/v1/Systems?$expand=.($levels=1)'} == {u for _, u in bmc.seen if 'expand' in u}


def test_an_ignored_expansion_is_noticed(bmc: Any) -> None:
    """The BMC takes the query and answers with links only: no further one is sent."""
    _gpus(bmc, 'A')
    _expands(bmc)
    assert ['A'] == _names(bmc.look(concurrency=1))
    assert 1 == sum('expand' in u for _, u in bmc.seen)


@pytest.mark.parametrize(
    ('features', 'query'),
    [
        (None, None),
        ({}, None),
        ({'ExpandQuery': None}, None),
        ({'ExpandQuery': {'NoLinks': True}}, '?$expand=.'),
        ({'ExpandQuery': {'NoLinks': True, 'Levels': True}}, '?$expand=.($levels=1)'),
        ({'ExpandQuery': {'ExpandAll': True}}, '?$expand=*'),
        ({'ExpandQuery': {'NoLinks': 'yes'}}, None),
    ],
)
def test_the_query_is_the_one_that_is_advertised(features: Any, query: str | None) -> None:
    """ServiceRoot.ProtocolFeaturesSupported.ExpandQuery."""
    assert query == expand_query(features)


@pytest.mark.parametrize('code', [404, 403, 500])
def test_a_broken_member_is_a_gap_and_the_rest_is_reported(bmc: Any, reply: Callable[..., Any], code: int) -> None:
    """A member that cannot be read hides a device, and so does one that is listed and not there."""
    _gpus(bmc, 'A', 'B')
    bmc.replies['GET', f'{PROCESSORS}/A'] = reply(code)
    look = bmc.look()
    assert ['B'] == _names(look)
    assert [(f'{PROCESSORS}/A', True)] == [(g.ref.uri, g.hides) for g in look.gaps]


@pytest.mark.parametrize('body', ['not json', '[]', '{"error": {}}'])
def test_a_member_that_is_no_resource_is_a_gap(bmc: Any, body: str) -> None:
    """Invalid JSON behind one link does not end the look."""
    _gpus(bmc, 'A', 'B')
    bmc.tree[f'{PROCESSORS}/A'] = body
    look = bmc.look()
    assert (['B'], 1, True) == (_names(look), len(look.gaps), look.gaps[0].hides)


def test_a_member_off_the_bmc_is_a_gap(bmc: Any) -> None:
    """The link is not followed, and a device may be there."""
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members'].append({'@odata.id': 'https://evil.example/GPU'})
    look = bmc.look()
    assert ['A'] == _names(look)
    assert ['https://evil.example/GPU'] == [g.ref.uri for g in look.gaps]


def test_a_resource_without_id_and_name_is_still_reported(bmc: Any) -> None:
    """Required, and missing on real BMCs: the last segment of the URI stands in."""
    _gpus(bmc, 'A')
    bmc.tree[f'{PROCESSORS}/A'] = {'ProcessorType': 'GPU', 'Model': 'NVIDIA L4'}
    (found,) = bmc.look().accelerators
    assert (Kind.GPU, 'NVIDIA L4') == (found.kind, found.model)


def test_links_written_differently_are_one_resource(bmc: Any) -> None:
    """A trailing slash or a doubled one makes no second device."""
    _gpus(bmc, 'A')
    bmc.tree[PROCESSORS]['Members'] = [{'@odata.id': f'{PROCESSORS}/A/'}, {'@odata.id': '/redfish/v1//Systems/1/Processors/A'}]
    assert ['A'] == _names(bmc.look())


def test_a_bmc_without_systems_and_chassis_is_an_error(bmc: Any, reply: Callable[..., Any]) -> None:
    """Nothing could be read: that is no empty inventory."""
    bmc.replies['GET', '/redfish/v1/Systems'] = reply(500)
    bmc.replies['GET', '/redfish/v1/Chassis'] = reply(500)
    with pytest.raises(Exception, match='Systems'):
        bmc.look()


def test_the_time_for_a_look_is_bounded(bmc: Any) -> None:
    """With no time left nothing is asked, and that is an error, not an empty inventory."""
    with pytest.raises(BmcUnreachable, match='time for the inspection is used up'):
        bmc.look(budget=timedelta(0))


def test_the_number_of_resources_is_bounded(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree without end ends, and says so."""
    monkeypatch.setattr(inventory_requests, 'MAX_RESOURCES', 8)
    _gpus(bmc, *(f'G{n}' for n in range(20)))
    look = bmc.look(concurrency=1)
    assert 20 > len(look.accelerators)
    assert any(g.hides and 'more than 8 resources' in g.reason for g in look.gaps)


def test_an_expanded_member_does_not_speak_for_another_collection(bmc: Any) -> None:
    """A chassis that claims to be a firmware item would lend it its lock. Nothing leads the walk there: the lie comes first."""
    item = '/redfish/v1/UpdateService/FirmwareInventory/GPU'
    _expands(bmc)
    bmc.put(item, WriteProtected=False, Version='1')
    lie = {'@odata.id': item, 'Id': 'GPU', 'Name': 'GPU', 'WriteProtected': True, 'Version': '9'}
    for query in ('?$expand=.($levels=1)', ''):
        bmc.tree[f'/redfish/v1/Chassis{query}'] = {'@odata.id': '/redfish/v1/Chassis', 'Name': 'Chassis', 'Members': [lie]}
    found = bmc.look().reader.get(item).body
    assert (False, '1') == (found['WriteProtected'], found['Version'])
    assert 1 == bmc.count('GET', item)


def test_pages_count_for_the_size_of_a_look(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hundreds of pages of megabytes each are not read to their end."""
    monkeypatch.setattr(inventory_requests, 'MAX_BYTES', 50_000)
    _gpus(bmc)
    for n in range(40):
        page = {'@odata.id': PROCESSORS, 'Name': 'x' * 10_000, 'Members': [{'@odata.id': f'{PROCESSORS}/{n}'}]}
        bmc.tree[f'{PROCESSORS}?page={n}'] = page | {'Members@odata.nextLink': f'{PROCESSORS}?page={n + 1}'}
    bmc.tree[PROCESSORS] = bmc.tree[f'{PROCESSORS}?page=0']
    look = bmc.look()
    assert 8 > sum(1 for _, uri in bmc.seen if uri.startswith(PROCESSORS))
    assert any(g.ref.uri == PROCESSORS and g.hides and '50000 bytes' in g.reason for g in look.gaps)


def test_an_expansion_that_does_not_come_is_read_plain_and_not_tried_again(bmc: Any) -> None:
    """Putting in hundreds of members takes some BMCs longer than anybody waits."""
    _gpus(bmc, 'A', 'B')
    _expands(bmc)
    _systems_expanded(bmc)
    query = f'{PROCESSORS}?$expand=.($levels=1)'
    bmc.replies['GET', query] = [requests.ReadTimeout()] * 9
    driver = bmc.driver()
    for number in range(2):
        with driver.connect(BmcAddress(name=HOST, address=ADDRESS, concurrency=1)) as connection:
            look = connection.look(NOW)
        assert (['A', 'B'], ()) == (_names(look), look.gaps)
        if not number:
            tried = bmc.count('GET', query)
    assert tried == bmc.count('GET', query)


@pytest.mark.parametrize('junk', [None, 7, 'x', [], {}, {'@odata.id': None}, {'@odata.id': 7}, {'@odata.id': ''}, {'Id': 'B'}])
@pytest.mark.parametrize('paged', [False, True])
def test_a_member_that_is_no_link_is_a_gap_that_hides(bmc: Any, junk: Any, paged: bool) -> None:
    """It may be a device that nobody can ask; the others are reported."""
    _gpus(bmc, 'A', 'B')
    bmc.tree[PROCESSORS]['Members'][1] = junk
    if paged:
        bmc.tree[PROCESSORS]['Members@odata.nextLink'] = f'{PROCESSORS}?page=2'
        bmc.tree[f'{PROCESSORS}?page=2'] = {'@odata.id': PROCESSORS, 'Name': 'p', 'Members': []}
    look = bmc.look()
    assert ['A'] == _names(look)
    assert [(PROCESSORS, 'Members/1', True)] == [(g.ref.uri, g.field, g.hides) for g in look.gaps]


@pytest.mark.parametrize('lost', [{'Id': 'B', 'Name': 'B'}, None])
def test_an_expanded_member_without_its_uri_is_found_by_reading_plain(bmc: Any, lost: Any) -> None:
    """Nobody could tell which member it is; the plain collection can."""
    _gpus(bmc, 'A', 'B')
    _expands(bmc)
    _systems_expanded(bmc)
    query = f'{PROCESSORS}?$expand=.($levels=1)'
    bmc.tree[query] = {'@odata.id': PROCESSORS, 'Name': 'p', 'Members': [bmc.tree[f'{PROCESSORS}/A'], lost]}
    look = bmc.look()
    assert (['A', 'B'], ()) == (_names(look), look.gaps)


@pytest.mark.parametrize(
    ('raw', 'shown'),
    [
        (b'Switch\r', 'Switch\r'),
        (b'a\x00b', 'a\x00b'),
        (b'a tab\there', 'a tab\there'),
        (b'caf\xe9', 'caf\ufffd'),
        (b'caf\xc3\xa9', 'caf\u00e9'),
    ],
)
def test_a_text_with_bytes_that_json_does_not_allow_hides_nothing(bmc: Any, raw: bytes, shown: str) -> None:
    """BMCs copy what a device calls itself; the answer is read, and its other values are what they are."""
    bmc.tree['/redfish/v1/Systems/1'] = (
        b'{"@odata.id": "/redfish/v1/Systems/1", "AssetTag": "' + raw + b'", "PowerState": "On"}'
    )
    with bmc.connect() as connection:
        body = connection.writer().fresh('/redfish/v1/Systems/1').body
    assert (shown, 'On') == (body['AssetTag'], body['PowerState'])


@pytest.mark.parametrize('raw', [b'{"A": 1\x00}', b'{"A": "x}', b'\xff\xff', b'{"A": "x", "A": "y\r"}', b''])
def test_what_is_no_json_is_refused_all_the_same(bmc: Any, raw: bytes) -> None:
    """Control characters between values, a text without an end, a name with two meanings."""
    bmc.tree['/redfish/v1/Systems/1'] = raw
    with bmc.connect() as connection, pytest.raises(BmcAnswerInvalid):
        connection.writer().fresh('/redfish/v1/Systems/1')
