# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A recorded tree is served as it is on disk, by the rules of Redfish, and read only."""

import json

import pytest

ROOT = '/redfish/v1'
SESSIONS = f'{ROOT}/SessionService/Sessions'


@pytest.fixture
def tree(tmp_path):
    """A small recorded tree, with what real ones have: broken JSON, a dangling link, odd spacing."""
    resources = {
        '': {'@odata.id': ROOT, 'Id': 'Root', 'Name': 'Root', 'Chassis': {'@odata.id': f'{ROOT}/Chassis'}},
        'Chassis': {
            '@odata.id': f'{ROOT}/Chassis',
            'Name': 'Chassis',
            'Members@odata.count': 3,
            'Members': [{'@odata.id': f'{ROOT}/Chassis/{name}'} for name in ('A', 'Broken', 'Gone')],
        },
        'Chassis/A': {'@odata.id': f'{ROOT}/Chassis/A', 'Id': 'A', 'Name': 'A', 'Model': 'M '},
    }
    for path, body in resources.items():
        folder = tmp_path / 'redfish' / 'v1' / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'index.json').write_text(json.dumps(body, indent=7))
    broken = tmp_path / 'redfish' / 'v1' / 'Chassis' / 'Broken'
    broken.mkdir()
    (broken / 'index.json').write_bytes(b'{"Id": "Broken", ')
    return tmp_path


def test_bytes_go_out_as_they_lie_on_disk(emulated_recording, client, tree):
    """White space, broken JSON and all; the case of a URI counts, a trailing slash does not."""
    bmc = client(emulated_recording(tree).bmcs['recording'])
    for uri in ('', '/Chassis/A', '/Chassis/Broken'):
        recorded = (tree / 'redfish' / 'v1' / uri.strip('/') / 'index.json').read_bytes()
        answer = bmc.call('GET', f'{ROOT}{uri}')
        assert recorded == answer.content == bmc.call('GET', f'{ROOT}{uri}/').content
        assert 304 == bmc.call('GET', f'{ROOT}{uri}', headers={'If-None-Match': answer.headers['ETag']}).status_code
    assert [404, 404] == [bmc.call('GET', f'{ROOT}/{uri}').status_code for uri in ('chassis', 'Chassis/Gone')]


def test_expand_puts_in_what_can_be_read_and_leaves_the_rest_a_reference(emulated_recording, client, tree):
    """A broken or missing member does not break the collection; a BMC without $expand says 501."""
    members = client(emulated_recording(tree).bmcs['recording']).get(f'{ROOT}/Chassis?$expand=.')['Members']
    assert ['M ', None, None] == [one.get('Model') for one in members]
    assert {'@odata.id': f'{ROOT}/Chassis/Gone'} == members[2]
    without = client(emulated_recording(tree, expand=False).bmcs['recording'])
    assert 501 == without.call('GET', f'{ROOT}/Chassis?$expand=.').status_code


def test_it_is_read_only_but_sessions_are_real(emulated_recording, client, tree):
    """A client that logs in finds what it expects; every other write is 405 and in the log."""
    site = emulated_recording(tree, needs_login=True)
    one = site.bmcs['recording']
    bmc = client(one)
    bmc.http.auth = None
    assert [200, 401] == [bmc.call('GET', uri).status_code for uri in (ROOT, f'{ROOT}/Chassis')]
    assert 401 == bmc.post(SESSIONS, {'UserName': one.username, 'Password': 'wrong'}).status_code
    answer = bmc.post(SESSIONS, {'UserName': one.username, 'Password': one.password})
    token = {'X-Auth-Token': answer.headers['X-Auth-Token']}
    assert 201 == answer.status_code
    assert 'Members' in bmc.get(f'{ROOT}/Chassis', headers=token)
    assert 405 == bmc.patch(f'{ROOT}/Chassis/A', {'AssetTag': 'x'}, headers=token).status_code
    assert 405 == bmc.post(f'{ROOT}/Chassis', {}, headers=token).status_code
    assert 204 == bmc.call('DELETE', answer.headers['Location'], headers=token).status_code
    assert 401 == bmc.call('GET', f'{ROOT}/Chassis', headers=token).status_code
    assert [405, 405] == [entry['status'] for entry in site.log()]


def test_who_needs_no_login_may_log_in(emulated_recording, client, tree):
    """By any name and password; the token is good, and so is none."""
    site = emulated_recording(tree, needs_login=False)
    bmc = client(site.bmcs['recording'])
    bmc.http.auth = None
    answer = bmc.post(SESSIONS, {'UserName': 'somebody', 'Password': 'anything'})
    assert 201 == answer.status_code
    token = {'X-Auth-Token': answer.headers['X-Auth-Token']}
    assert [200, 200] == [bmc.call('GET', f'{ROOT}/Chassis', headers=h).status_code for h in (token, {})]
    assert 204 == bmc.call('DELETE', answer.headers['Location'], headers=token).status_code


def test_answers_take_their_time_and_only_so_many_at_once(emulated_recording, client, tree):
    """delay per request, slots, and a price for each expanded member."""
    import threading
    import time

    site = emulated_recording(tree, delay=0.1, slots=2, expand_member_delay=0.2)
    address = site.bmcs['recording']
    readers = [threading.Thread(target=lambda: client(address).get(ROOT)) for _ in range(6)]
    begin = time.monotonic()
    for one in readers:
        one.start()
    for one in readers:
        one.join()
    assert time.monotonic() - begin >= 0.3
    counters = site.counters()['recording']
    assert (6, 2) == (counters['total'], counters['peak_in_progress'])
    assert counters['peak'] > 2
    begin = time.monotonic()
    client(address).get(f'{ROOT}/Chassis?$expand=.')
    assert time.monotonic() - begin >= 0.3


def test_a_folder_without_a_tree_is_refused(emulated_recording, tmp_path):
    """It names the folder."""
    with pytest.raises(Exception, match=r'is not a recorded tree'):
        emulated_recording(tmp_path)


def test_every_shared_recording_can_be_served(emulated_recording, client, shared):
    """All URIs of the eight real and invented trees answer with their bytes."""
    found = sorted(path.parent.parent for path in (shared / 'recordings').glob('*/*/redfish/v1'))
    assert found
    for directory in found:
        site = emulated_recording(directory, tls=False)
        bmc = client(site.bmcs['recording'])
        files = list((directory / 'redfish').rglob('index.json'))
        for path in files[:: max(1, len(files) // 25)]:
            uri = '/' + path.parent.relative_to(directory).as_posix()
            if '%' in uri or '#' in uri or '?' in uri:
                continue
            assert path.read_bytes() == bmc.call('GET', uri).content, uri
        site.stop()
