# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A recording is what the machine tells, without what identifies it: served again it gives the same inventory."""

import json
import os
import re
import signal
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.cli.desk import RECORDINGS, Desk, target_of

IDENTIFYING = re.compile(
    r'(.*serialnumber|.*servicetag|uuid|.*guid|.*macaddress(es)?|basemac|macaddr|durablename|assettag|hostname|fqdn|domainname|nodeid)',
    re.IGNORECASE,
)
HEX_FORM = re.compile(r'[0-9a-f]{4}(:[0-9a-f]{4}){3}|[0-9a-f]{2}(:[0-9a-f]{2}){5}', re.IGNORECASE)
"""Some cards list their GUIDs and MACs among their firmware."""

NOTHING = {'', 'n/a', 'na', 'nil', 'none', 'null', 'unknown', 'cpldserialnumber', 'dmtf', 'localhost'}


def identifying(top: Path) -> set[str]:
    """Every value of a tree that its property's name gives away, but for constants."""
    found: set[str] = set()

    def walk(name: str, value: Any) -> None:
        if isinstance(value, dict):
            for inner, item in value.items():
                walk(inner, item)
        elif isinstance(value, list):
            for item in value:
                walk(name, item)
        elif isinstance(value, str) and IDENTIFYING.fullmatch(name):
            bare = value.strip().casefold()
            if bare not in NOTHING and len({c for c in bare if c.isalnum()}) > 1 and len(bare) > 4:
                found.add(bare)

    for path in top.rglob('index.json'):
        walk('', json.loads(path.read_text('utf-8-sig')))
    return found


def facts(target: dict[str, Any]) -> list[dict[str, Any]]:
    """What of an inventory scrubbing must not touch."""
    return sorted(
        (
            {
                'kind': a['kind'],
                'vendor': a['vendor'],
                'model': a['model'],
                'pci': a['pci'],
                'identity': a['identity'],
                'uris': len(a['uris']),
                'firmware': [
                    (HEX_FORM.sub('a GUID', c['version'] or ''), c['staged'], c['updateable'], c['certain'])
                    for c in a['firmware']
                ],
                'slots': [(s['slot_id'], s['index'], s['programmable_from_host'], s['function']) for s in a['slots']],
                'locks': sorted((r['mechanism'], r['field'], repr(r['value']), r['state'], r['scope']) for r in a['locks']),
                'device_lock': a['device_lock'],
                'health': a['health'],
                'serial': a['serial'] is None,
                'uuid': a['uuid'] is None,
            }
            for a in target['accelerators']
        ),
        key=repr,
    )


def recorded(machine: Any, **more: Any) -> dict[str, Any]:
    """A target whose host is the served tree."""
    (bmc,) = target_of(machine)['bmcs'].values()
    return {'bmcs': {'host': {k: v for k, v in (bmc | more).items() if v is not None}}}


def listed(desk: Desk, machine: Any) -> dict[str, Any]:
    """The inventory of what is served."""
    desk.bmcs({'node-1': recorded(machine)})
    (target,) = desk.run('inventory', '-f', 'json').document['targets']
    return target


@pytest.mark.parametrize('name', RECORDINGS)
def test_a_recording_of_a_recording_tells_the_same_and_identifies_nothing(
    desk: Desk, emulated_recording, shared: Path, name: str
):
    """Number, kinds, models, ids, firmware and locks are equal; no serial number, UUID, MAC or host name is left."""
    original = shared / 'recordings' / name
    machine = emulated_recording(original)
    before = listed(desk, machine)
    done = desk.run('record', 'node-1', '--output', 'out', '-f', 'json')
    assert done.code in (0, 3), done.err
    served = emulated_recording(desk.folder / 'out')
    after = listed(desk, served)
    assert facts(before) == facts(after)
    assert len(before['platform_devices']) == len(after['platform_devices'])
    beside = json.loads((desk.folder / 'out' / 'inventory.json').read_text())['targets'][0]
    for target in (after, beside):
        target['accelerators'].sort(key=lambda a: a['primary_uri'])
    assert after['accelerators'] == beside['accelerators']
    text = '\n'.join(
        f'{p.relative_to(desk.folder)}\n{p.read_text()}' for p in (desk.folder / 'out').rglob('*') if p.is_file()
    ).casefold()
    values = identifying(original)
    assert len(values) > 3
    assert [] == sorted(v for v in values if re.search(rf'(?<![a-z0-9]){re.escape(v)}(?![a-z0-9])', text))
    assert [] == sorted(v for v in values if len(v) > 9 and v in text)


def test_what_is_printed_and_written(desk: Desk, emulated_machine, tree: Path):
    """A table for people, a document that the schema describes, files that only their owner can read; no BMC is written to."""
    machine = emulated_machine('acc-server')
    desk.prepare(machine)
    done = desk.run('record', 'node-1', '--output', 'out', '-f', 'json')
    assert 0 == done.code, done.err
    schema = json.loads((tree / 'doc/source/schemas/record.json').read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(done.document)
    (target,) = done.document['targets']
    assert ('node-1', 'host', True, None) == (target['target'], target['bmc'], target['complete'], target['error'])
    assert target['resources'] == len(list((desk.folder / 'out').rglob('index.json')))
    assert target['scrubbed']['serial'] > 0
    assert {0o600} == {stat.S_IMODE(p.stat().st_mode) for p in (desk.folder / 'out').rglob('*') if p.is_file()}
    assert 0o700 == stat.S_IMODE((desk.folder / 'out').stat().st_mode)
    readme = (desk.folder / 'out' / 'README.md').read_text()
    assert '* serials: ' in readme
    assert re.search(r'on \d{4}-\d\d-\d\d\.', readme)
    assert [] == [entry for entry in machine.log() if '/Sessions' not in entry['path']]
    table = desk.run('record', 'node-1', '--output', 'again', '-f', 'value', '-c', 'Output', '-c', 'Missed')
    assert (0, 'again 0\n') == (table.code, table.out)


def test_accounts_and_our_credentials_stand_nowhere(desk: Desk, emulated_machine):
    """With everything too: neither who we are, nor a service that knows who others are."""
    machine = emulated_machine('acc-server')
    desk.prepare(machine)
    bmc = machine.bmcs['host']
    assert 0 == desk.run('record', 'node-1', '--output', 'out', '--everything').code
    paths = [p for p in (desk.folder / 'out').rglob('*') if p.is_file()]
    assert [] == [p for p in paths if re.search('AccountService|SessionService|EventService|Certificates', str(p))]
    text = '\n'.join(p.read_text() for p in paths)
    assert bmc.password not in text
    assert None is re.search(rf'(?<![A-Za-z0-9]){bmc.username}(?![A-Za-z0-9])', text)
    assert '127.0.0.1' not in text.replace('127.0.0.1:', '')


def tree_with(folder: Path, **more: Any) -> Path:
    """A recorded tree of one System."""
    root = {'@odata.id': '/redfish/v1', 'RedfishVersion': '1.15.0', 'Systems': {'@odata.id': '/redfish/v1/Systems'}}
    member = {'@odata.id': '/redfish/v1/Systems/1'}
    bodies = {
        '': {**root, 'Chassis': {'@odata.id': '/redfish/v1/Chassis'}},
        'Systems': {'@odata.id': '/redfish/v1/Systems', 'Name': 'S', 'Members': [member]},
        'Chassis': {'@odata.id': '/redfish/v1/Chassis', 'Name': 'C', 'Members': []},
        'Systems/1': {**member, 'Id': '1', 'Name': 'One', 'SystemType': 'Physical', **more},
    }
    for uri, body in bodies.items():
        place = folder / 'redfish' / 'v1' / uri
        place.mkdir(parents=True, exist_ok=True)
        (place / 'index.json').write_text(json.dumps(body))
    return folder


def test_a_recording_that_would_hold_our_user_name_is_not_kept(desk: Desk, emulated_recording):
    """A user called like a property cannot be told from it: refused, and nothing is left."""
    from baremetal_acc.emulator.access import CurrentUser

    user = CurrentUser(name='SystemType', password='a-long-password', role='Administrator')
    machine = emulated_recording(tree_with(desk.folder / 'in'), users=(user,), needs_login=True)
    desk.bmcs({'node-1': recorded(machine, username='SystemType', password='a-long-password')})
    done = desk.run('record', 'node-1', '--output', 'out')
    assert 4 == done.code
    assert 'the user name' in done.errors[0]
    assert not (desk.folder / 'out').exists()
    assert [] == list(desk.folder.glob('.out*'))
    done = desk.run('record', 'node-1', '--output', 'out', '--no-scrub')
    assert 4 == done.code
    assert [] == list(desk.folder.glob('*out*'))


def test_without_scrubbing_it_is_said_aloud(desk: Desk, emulated_recording):
    """The values stay, the screen and the README warn, nothing is counted; our own credentials are kept out all the same."""
    machine = emulated_recording(tree_with(desk.folder / 'in', SerialNumber='ABC1234567'))
    desk.bmcs({'node-1': recorded(machine)})
    done = desk.run('record', 'node-1', '--output', 'out', '--no-scrub', '-f', 'json')
    assert 0 == done.code, done.err
    assert 'do not pass it on' in done.err
    assert None is done.document['targets'][0]['scrubbed']
    assert 'ABC1234567' in (desk.folder / 'out/redfish/v1/Systems/1/index.json').read_text()
    assert '**Nothing was scrubbed' in (desk.folder / 'out/README.md').read_text()


def test_a_key_file_makes_two_recordings_agree(desk: Desk, emulated_recording):
    """Without it they differ; a key that can be guessed is refused."""
    machine = emulated_recording(tree_with(desk.folder / 'in', SerialNumber='ABC1234567'))
    desk.bmcs({'node-1': recorded(machine)})
    desk.write('key', 'k' * 32)
    desk.write('short', 'k' * 15)

    def serial(*arguments: str) -> str:
        name = f'out{len(list(desk.folder.glob("out*")))}'
        assert 0 == desk.run('record', 'node-1', '--output', name, *arguments).code
        return json.loads((desk.folder / name / 'redfish/v1/Systems/1/index.json').read_text())['SerialNumber']

    keyed = serial('--scrub-key-file', 'key')
    assert keyed == serial('--scrub-key-file', 'key')
    assert 4 == len({'ABC1234567', keyed, serial(), serial()})
    done = desk.run('record', 'node-1', '--output', 'x', '--scrub-key-file', 'short')
    assert 2 == done.code
    assert '15 bytes' in done.errors[0]


def test_what_cannot_be_read_is_listed_and_stops_nothing(desk: Desk, emulated_recording):
    """Code 3 and a warning that names the first; a link that leads to nothing is listed only."""
    folder = tree_with(
        desk.folder / 'in',
        Processors={'@odata.id': '/redfish/v1/Systems/1/Processors'},
        Bios={'@odata.id': '/redfish/v1/Systems/1/Bios'},
        Storage={'@odata.id': '/redfish/v1/../../etc/passwd'},
        PCIeDevices=[{'@odata.id': 'https://elsewhere.example/redfish/v1/x'}],
    )
    (folder / 'redfish/v1/Systems/1/Processors').mkdir()
    (folder / 'redfish/v1/Systems/1/Processors/index.json').write_text('no JSON')
    desk.bmcs({'node-1': recorded(emulated_recording(folder))})
    done = desk.run('record', 'node-1', '--output', 'out', '-f', 'json')
    assert 3 == done.code
    (warning,) = [line for line in done.err.splitlines() if 'not all could be recorded' in line]
    assert '/redfish/v1/Systems/1/Processors: the answer is not JSON' in warning
    missed = {m['uri']: m['harmless'] for m in done.document['targets'][0]['missed']}
    assert {'/redfish/v1/Systems/1/Processors': False, '/redfish/v1/Systems/1/Bios': True} == {
        uri: harmless for uri, harmless in missed.items() if uri.startswith('/redfish/v1/Systems')
    }
    assert 2 == len([uri for uri in missed if not uri.startswith('/redfish/v1/Systems')])
    readme = (desk.folder / 'out/README.md').read_text()
    assert '## Could not be recorded: 1' in readme
    assert 'the answer is not JSON' in readme


@pytest.mark.parametrize(
    ('arguments', 'code', 'said'),
    [
        (('node-1',), 2, '--output'),
        (('node-1', '--output', 'full'), 2, 'not an empty folder'),
        (('node-1', '--output', 'bmcs.yaml'), 2, 'not an empty folder'),
        (('node-1', '--output', 'bmcs.yaml/x'), 2, '--output'),
        (('node-1', '--output', 'new', '--bmc', 'dpu9'), 2, "has no BMC 'dpu9'"),
        (('node-1', 'node-2', '--output', 'new'), 2, 'one target'),
        (('--output', 'new'), 2, 'one target'),
        (('node-1', '--output', 'new', '--max-minutes', '0'), 2, '--max-minutes'),
        (('node-1', '--output', 'new', '--no-scrub', '--scrub-key-file', 'bmcs.yaml'), 2, 'not allowed'),
        (('node-1', '--output', 'new', '--scrub-key-file', 'nothing'), 2, 'No such file'),
        (('node-1', '--output', 'new'), 5, 'connection refused'),
    ],
)
def test_what_is_wrong_is_told_before_a_bmc_is_asked(desk: Desk, arguments, code, said):
    """And nothing is made."""
    bmc = {'username': 'u', 'password': 'password', 'verify_ca': False}
    desk.bmcs({f'node-{n}': {'bmcs': {'host': bmc | {'address': f'https://127.0.0.{n}:9'}}} for n in (1, 2)})
    (desk.folder / 'full').mkdir()
    (desk.folder / 'full' / 'x').write_text('')
    done = desk.run('record', *arguments)
    assert code == done.code, done.err
    assert said in done.err.splitlines()[-1]
    assert not (desk.folder / 'new').exists()
    assert [] == list(desk.folder.glob('.*partial'))


def test_an_interrupted_run_leaves_nothing(desk: Desk, emulated_machine):
    """Ctrl-C while the tree is read: no folder, whole or half."""
    machine = emulated_machine('acc-server', delay=0.5)
    desk.prepare(machine)
    process = desk.start('record', 'node-1', '--output', 'out')
    try:
        while not machine.remote.counters()['host']['total']:
            assert process.poll() is None
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=60)
    finally:
        process.kill()
    assert 130 == process.returncode
    assert [] == list(desk.folder.glob('*out*'))
