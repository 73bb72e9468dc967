# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A recording reads what it should and nothing else, within its bounds, whatever the BMC answers."""

import json
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish import crawl
from baremetal_acc.bmc.redfish.crawl import CrawlBounds, Crawled
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcNotAuthorised
from baremetal_acc.model.ref import HOST

ADDRESS = 'https://192.0.2.1'
SYSTEM = '/redfish/v1/Systems/1'


def link(uri: str) -> dict[str, Any]:
    """A link."""
    return {'@odata.id': uri}


def crawled(bmc: Any, **how: Any) -> Crawled:
    """What is read of a BMC."""
    address = BmcAddress(name=HOST, address=ADDRESS, timeout=timedelta(seconds=5))
    with crawl.connected(address, ReadRetry(sleep=bmc.slept.append), bmc.dial) as connector:
        return crawl.crawl(connector, HOST, **how)


def test_links_that_matter_are_followed_and_others_are_not(bmc):
    """By the name of the property; with everything, all but those that are never followed."""
    bmc.put(SYSTEM, Processors=link(f'{SYSTEM}/Processors'), Memory=link(f'{SYSTEM}/Memory'), Links={'Chassis': []})
    bmc.collection(f'{SYSTEM}/Processors', 'GPU0')
    bmc.put(f'{SYSTEM}/Processors/GPU0', Metrics=link(f'{SYSTEM}/Processors/GPU0/Metrics'))
    bmc.put(f'{SYSTEM}/Processors/GPU0/Metrics')
    bmc.collection(f'{SYSTEM}/Memory')
    found = crawled(bmc)
    assert f'{SYSTEM}/Processors/GPU0' in found.resources
    assert not {f'{SYSTEM}/Memory', f'{SYSTEM}/Processors/GPU0/Metrics'} & set(found.resources)
    assert {f'{SYSTEM}/Memory', f'{SYSTEM}/Processors/GPU0/Metrics'} <= set(crawled(bmc, everything=True).resources)


@pytest.mark.parametrize('everything', [False, True])
def test_what_is_private_is_never_asked_for(bmc, everything):
    """Whatever links to it: not even requested, and counted."""
    private = (
        'AccountService',
        'SessionService',
        'EventService',
        'CertificateService',
        'TelemetryService',
        'KeyService',
        'LicenseService',
    )
    for name in private:
        bmc.tree['/redfish/v1'][name] = link(f'/redfish/v1/{name}')
        bmc.put(f'/redfish/v1/{name}')
    places = [
        f'{SYSTEM}/LogServices/Log',
        f'{SYSTEM}/Oem/HttpsCert',
        f'{SYSTEM}/Certificates',
        '/redfish/v1/Managers/1/Accounts/2',
    ]
    bmc.put(SYSTEM, Oem={'Any': {'Members': [link(place) for place in places]}})
    for place in places:
        bmc.put(place)
    found = crawled(bmc, everything=everything)
    asked = {uri for _, uri in bmc.seen}
    assert set() == asked & {f'/redfish/v1/{name}' for name in private} | asked & set(places)
    assert found.dropped.total() >= len(places)


def test_what_is_private_at_an_innocent_place_is_not_kept(bmc):
    """An account where a Processor should be, and one that is expanded within another resource."""
    bmc.put(SYSTEM, Processors=link(f'{SYSTEM}/Processors'))
    bmc.collection(f'{SYSTEM}/Processors', 'A')
    bmc.put(f'{SYSTEM}/Processors/A', **{'@odata.type': '#ManagerAccount.v1_9_0.ManagerAccount', 'UserName': 'jdoe'})
    inner = {'@odata.id': '/x', '@odata.type': '#Session.v1_1_0.Session', 'UserName': 'jdoe'}
    bmc.tree['/redfish/v1/Systems']['Oem'] = {'Any': [inner]}
    found = crawled(bmc)
    assert 'jdoe' not in json.dumps(found.resources)
    assert 1 == found.dropped['ManagerAccount']


def test_what_a_task_was_given_and_most_settings_are_left_out(bmc):
    """A payload may hold a password; hundreds of settings are none of our business, but those that sound like locks."""
    settings = {f'Setting{n}': 'x' for n in range(100)} | {
        'SecureBoot': 'On',
        'Users.2.UserName': 'jdoe',
        'FwUpdateLock': 'Off',
    }
    bmc.put(SYSTEM, Bios=link(f'{SYSTEM}/Bios'))
    bmc.put(f'{SYSTEM}/Bios', Attributes=settings)
    bmc.tree['/redfish/v1']['Tasks'] = link('/redfish/v1/TaskService')
    bmc.put('/redfish/v1/TaskService', Tasks=link('/redfish/v1/TaskService/Tasks'))
    bmc.collection('/redfish/v1/TaskService/Tasks', '1')
    bmc.put('/redfish/v1/TaskService/Tasks/1', Payload={'JsonBody': '{"Password": "x"}'})
    found = crawled(bmc)
    assert {'SecureBoot': 'On', 'FwUpdateLock': 'Off'} == found.resources[f'{SYSTEM}/Bios']['Attributes']
    assert 'Payload' not in found.resources['/redfish/v1/TaskService/Tasks/1']
    whole = crawled(bmc, everything=True).resources[f'{SYSTEM}/Bios']['Attributes']
    assert 102 == len(whole)
    assert 'Users.2.UserName' not in whole


def test_no_other_host_is_asked(bmc):
    """Links off the BMC are listed and not followed, and so is what is no Redfish."""
    elsewhere = (
        'https://198.51.100.7/redfish/v1/x',
        '//198.51.100.7/x',
        '/etc/passwd',
        '/redfish/v1/../../x',
        'file:///etc/passwd',
    )
    bmc.put(SYSTEM, Processors=[link(uri) for uri in elsewhere])
    found = crawled(bmc, everything=True)
    assert {'192.0.2.1'} == {r.url.split('/')[2] for r in bmc.requests}
    assert all(uri.startswith('/redfish/v1') for _, uri in bmc.seen)
    assert len(elsewhere) - 1 <= len([m for m in found.missed if m.harmless])


def test_a_read_that_fails_stops_nothing(bmc, reply):
    """Each with its reason; only a link that leads to nothing is harmless."""
    bmc.put(SYSTEM, Processors=link(f'{SYSTEM}/Processors'), PCIeDevices=[link(f'{SYSTEM}/PCIeDevices/{n}') for n in range(4)])
    bmc.tree[f'{SYSTEM}/PCIeDevices/0'] = '<html>'
    bmc.replies['GET', f'{SYSTEM}/PCIeDevices/1'] = reply(403)
    bmc.put(f'{SYSTEM}/PCIeDevices/2')
    deep: Any = 'x'
    for _ in range(100):
        deep = [deep]
    bmc.put(f'{SYSTEM}/PCIeDevices/3', Oem=deep)
    found = crawled(bmc)
    assert f'{SYSTEM}/PCIeDevices/2' in found.resources
    reasons = {m.uri.removeprefix(f'{SYSTEM}/'): (m.harmless, m.reason) for m in found.missed}
    assert (True, 'not found (HTTP 404)') == reasons['Processors']
    assert (False, 'the answer is not JSON') == reasons['PCIeDevices/0']
    assert 'HTTP 403' in reasons['PCIeDevices/1'][1]
    assert 'nested' in reasons['PCIeDevices/3'][1]
    assert None is found.stopped


def test_all_pages_of_a_collection_are_one(bmc):
    """Each member once, although pages repeat them and lead in a circle."""
    place = f'{SYSTEM}/Processors'
    bmc.put(SYSTEM, Processors=link(place))
    for n in range(4):
        bmc.put(f'{place}/{n}')
    bmc.tree[place] = {
        **link(place),
        'Members': [link(f'{place}/0'), link(f'{place}/1')],
        'Members@odata.nextLink': f'{place}?$skip=2',
    }
    bmc.tree[f'{place}?$skip=2'] = {
        'Members': [link(f'{place}/1'), link(f'{place}/2'), link(f'{place}/3')],
        'Members@odata.nextLink': f'{place}?$skip=2',
    }
    body = crawled(bmc).resources[place]
    assert [f'{place}/{n}' for n in range(4)] == [m['@odata.id'] for m in body['Members']]
    assert 'Members@odata.nextLink' not in body


def test_bounds_hold_on_an_endless_tree(bmc):
    """Number, size and time: what was read until then is kept, and why it ended is told."""
    place = f'{SYSTEM}/Processors'
    bmc.put(SYSTEM, Processors=link(place))
    bmc.collection(place, *map(str, range(50)))
    for n in range(50):
        bmc.put(f'{place}/{n}', Filler='x' * 10_000)
    found = crawled(bmc, bounds=CrawlBounds(resources=20))
    assert 20 == len(found.resources)
    assert 'more than 20 resources' in (found.stopped or '')
    found = crawled(bmc, bounds=CrawlBounds(size_bytes=100_000))
    assert 5 < len(found.resources) < 20
    assert 'bytes' in (found.stopped or '')
    found = crawled(bmc, bounds=CrawlBounds(time=timedelta(0)))
    assert {} == found.resources
    assert 'time limit of' in (found.stopped or '')


def test_a_resource_is_asked_for_once(bmc):
    """However it is written, and however many links lead to it."""
    forms = (f'{SYSTEM}/PCIeDevices/1', f'{SYSTEM}/PCIeDevices/1/', f'{SYSTEM}//PCIeDevices/1', f'{SYSTEM}/PCIeDevices/1#/Slot')
    bmc.put(SYSTEM, PCIeDevices=[link(form) for form in forms])
    bmc.put(f'{SYSTEM}/PCIeDevices/1', Links={'Chassis': [link(SYSTEM)]})
    crawled(bmc)
    assert 1 == sum(1 for _, uri in bmc.seen if 'PCIeDevices/1' in uri)
    assert {'GET'} == {method for method, _ in bmc.seen}


def test_what_is_no_redfish_service_is_an_error(bmc, reply):
    """Nothing to record, and no session that stays open."""
    bmc.tree['/redfish/v1'] = '<html>'
    with pytest.raises(BmcAnswerInvalid):
        crawled(bmc)
    bmc.replies['GET', '/redfish/v1'] = reply(401)
    with pytest.raises(BmcNotAuthorised):
        crawled(bmc)
