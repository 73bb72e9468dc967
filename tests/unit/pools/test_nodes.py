# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The fleet is read through Ironic's API page by page, and what an answer says is not taken on trust."""

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from keystoneauth1 import exceptions as ksa

from baremetal_acc.errors import IronicError, IronicRefused, IronicUnreachable
from baremetal_acc.pools import ironic as api
from baremetal_acc.pools.ironic import IronicApi
from baremetal_acc.pools.nodes import NO_REGIONS, fleet, parse
from baremetal_acc.pools.state_machine import Holds, MoveState
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.pools import RegionChange, RegionMove
from baremetal_acc.scheduling.provider_names import slot_uuid
from baremetal_acc.scheduling.regions import Regions, Slot
from tests.unit.planning import values as v

NODE = '1be26c0b-03f2-4d2e-ae87-c02d7f33c12{}'
TAKES = frozenset({'gzip', 'aes'})


class Reply:
    """A ``requests.Response``, as far as it is read."""

    def __init__(self, status: int, body: Any) -> None:
        self.status_code = status
        self._data = body if isinstance(body, bytes) else json.dumps(body).encode()

    def __enter__(self) -> 'Reply':
        return self

    def __exit__(self, *_: object) -> None: ...

    def iter_content(self, size: int) -> Iterator[bytes]:
        for start in range(0, len(self._data), size):
            yield self._data[start : start + size]


class Service:
    """An Ironic that answers as it is told."""

    def __init__(self, answer: Callable[[str, str], Any]) -> None:
        self.asked: list[str] = []
        self._answer = answer

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        self.asked.append(f'{method} {url}')
        found = self._answer(method, url)
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Reply) else Reply(200, found)


def ironic(answer: Callable[[str, str], Any]) -> tuple[IronicApi, Service]:
    service = Service(answer)
    return IronicApi(service, sleep=lambda _: None), service


def node(number: int = 3, **changes: Any) -> dict[str, Any]:
    """A node with a card of two regions, the first with gzip."""
    slots = (
        Slot(accelerator='uuid:a', slot_id='Slot0', function='gzip', takes=TAKES),
        Slot(accelerator='uuid:a', slot_id='Slot1', takes=TAKES),
    )
    remembered = regions.document(Regions(at=v.NOW, slots=slots))
    return {
        'uuid': NODE.format(number),
        'name': f'rack-{number}',
        'provision_state': 'available',
        'maintenance': False,
        'instance_uuid': None,
        'resource_class': 'gold',
        'owner': 'p1',
        'reservation': None,
        'last_error': None,
        'protected': False,
        'retired': False,
        'driver_internal_info': {'agent_url': 'x', 'baremetal_acc': {'format': 1, 'regions': remembered}},
    } | changes


# ------------------------------------------------------------------------------------------------------------------- nodes


def test_a_machine_is_read_with_what_its_conductor_has_verified():
    """Regions are known by their providers in placement."""
    found = parse(node())
    assert (None, False, MoveState.AVAILABLE) == (found.busy, found.passing, found.standing)
    providers = [slot_uuid(NODE.format(3), 'uuid:a', s) for s in ('Slot0', 'Slot1')]
    assert [(providers[0], 'gzip', TAKES), (providers[1], None, TAKES)] == [
        (r.provider, r.function, r.takes) for r in found.regions
    ]
    assert ('rack-3', 'gold', 'p1') == (found.name, found.resource_class, found.owner)


@pytest.mark.parametrize(
    ('changes', 'busy'),
    [
        ({'instance_uuid': 'i'}, 'claimed by instance i'),
        ({'maintenance': True}, 'in maintenance'),
        ({'maintenance': None}, 'in maintenance'),
        ({'provision_state': 'active'}, 'not available: active'),
        ({'provision_state': 'clean failed', 'last_error': 'a\nb', 'maintenance': True}, 'not available: clean failed: a b'),
        ({'protected': True}, 'protected'),
        ({'retired': True}, 'retired'),
        ({'last_error': 'power'}, 'last_error is set: power'),
        ({'reservation': 'c1'}, 'locked by conductor c1'),
        ({'driver_internal_info': {'baremetal_acc': {'format': 1}}}, NO_REGIONS),
        (
            {'driver_internal_info': {'baremetal_acc': {'regions': {'by': 'a later version'}}}},
            'stored regions cannot be read: unknown format',
        ),
    ],
)
def test_why_a_machine_cannot_be_taken_is_said(changes, busy):
    """And what a conductor holds for a moment counts all the same."""
    found = parse(node(**changes))
    assert (busy, 'reservation' in changes) == (found.busy, found.passing)


@pytest.mark.parametrize(
    ('state', 'standing'),
    [
        ('available', MoveState.AVAILABLE),
        ('manageable', MoveState.MANAGEABLE),
        ('cleaning', MoveState.BETWEEN),
        ('clean wait', MoveState.BETWEEN),
        ('clean failed', MoveState.FAILED),
        ('deploying', MoveState.TAKEN),
        ('enroll', MoveState.TAKEN),
        ('a state of a later version', MoveState.TAKEN),
    ],
)
def test_what_is_not_known_is_somebody_elses(state, standing):
    """By provision state."""
    assert standing is parse(node(provision_state=state)).standing


@pytest.mark.parametrize(
    'raw',
    [{}, {'uuid': 5, 'provision_state': 'available'}, {'uuid': 'x' * 36}, node(uuid='no uuid'), node(provision_state=None)],
)
def test_what_is_no_node_is_passed_over(raw):
    """Nothing of it is guessed."""
    assert None is parse(raw)


@pytest.mark.parametrize(
    'changes',
    [
        {'driver_internal_info': None},
        {'driver_internal_info': {'baremetal_acc': 'x'}},
        {'driver_internal_info': {}},
        {'name': ['x'], 'owner': 5, 'resource_class': {}, 'last_error': 7, 'reservation': []},
    ],
)
def test_fields_of_another_kind_mean_nothing(changes):
    """A service of another version, or something else that answers in its place."""
    found = parse(node(**changes))
    assert found is not None
    assert isinstance(found.name, str)


def test_control_characters_never_reach_a_terminal():
    """A name or an error of a node may hold anything."""
    found = parse(node(name='a\x1b[31mb', last_error='x' * 5000))
    assert found.name.isprintable()
    assert len(found.busy) < 700


def test_a_move_is_compared_with_what_is_remembered():
    """All as before, all as asked for, or neither."""
    of = NODE.format(3)

    def change(slot: str, was: str | None, function: str) -> RegionChange:
        return RegionChange(
            provider=slot_uuid(of, 'uuid:a', slot), accelerator='uuid:a', slot_id=slot, was=was, function=function, why='p'
        )

    read = parse(node())
    for changes, expected in (
        ((change('Slot0', 'gzip', 'aes'),), Holds.BEFORE),
        ((change('Slot0', 'aes', 'gzip'),), Holds.AFTER),
        ((change('Slot0', 'zip', 'aes'),), Holds.OTHER),
        ((change('Slot0', 'gzip', 'aes'), change('Slot1', None, 'aes')), Holds.BEFORE),
        ((change('Slot0', 'aes', 'gzip'), change('Slot1', None, 'aes')), Holds.OTHER),
        ((change('Slot7', None, 'aes'),), Holds.OTHER),
    ):
        assert expected is read.holds(RegionMove(machine=of, name='n', changes=changes))


# ------------------------------------------------------------------------------------------------------------------- fleet


@pytest.mark.parametrize(('longest', 'questions'), [(1000, 4), (50, 6), (250, 2)])
def test_a_fleet_is_read_page_by_page(monkeypatch, longest, questions):
    """By the UUID of the last one, with the fields that are needed; nodes of other drivers are none of ours.

    A page may be shorter than was asked for ([api] max_limit of Ironic): the last one is the one that is empty.
    """
    if longest == 250:
        monkeypatch.setattr(api, 'PAGE', 250)
    everything = [node(9, uuid=f'1be26c0b-03f2-4d2e-ae87-c02d7f33{n:04x}') for n in range(250)]
    everything[7]['driver_internal_info'] = {'agent_url': 'y'}

    def answer(method: str, url: str) -> Any:
        assert f'fields={",".join(api.FIELDS)}' in url
        marker = url.partition('&marker=')[2]
        start = next((n + 1 for n, raw in enumerate(everything) if raw['uuid'] == marker), 0)
        return {'nodes': everything[start : start + min(api.PAGE, longest)], 'next': 'http://elsewhere/'}

    client, service = ironic(answer)
    asked = []
    found = fleet(client, lambda uuid: asked.append(uuid))
    assert (249, questions) == (len(found), len(service.asked))
    assert [m.uuid for m in found] == sorted(m.uuid for m in found)
    assert 249 == len(asked)


def test_a_machine_that_its_conductor_keeps_off_the_shelf_is_busy():
    """It offers nothing until it was looked at, so nothing of it is free; the reason is the conductor's, on one line."""
    raw = node()
    raw['driver_internal_info']['baremetal_acc']['shelf'] = {'withdrawn': {'why': 'somebody\nhas the node'}}
    found = parse(raw)
    assert found is not None
    assert ('withdrawn from placement by its conductor: somebody has the node', False) == (found.busy, found.passing)
    for odd in (None, [], {'withdrawn': None}, {'withdrawn': 'x'}):
        raw['driver_internal_info']['baremetal_acc']['shelf'] = odd
        assert (None, None) == (parse(raw).kept, parse(raw).busy)


def test_placement_is_asked_of_those_that_ironic_has_free():
    """What is under way is busy, and what is coming counts."""
    nodes = [node(1, instance_uuid='i'), node(2), node(3), node(4, reservation='c'), node(5)]
    client, _ = ironic(lambda method, url: {'nodes': nodes})
    change = RegionChange(
        provider=slot_uuid(NODE.format(5), 'uuid:a', 'Slot1'),
        accelerator='uuid:a',
        slot_id='Slot1',
        was=None,
        function='aes',
        why='p',
    )
    move = RegionMove(machine=NODE.format(5), name='rack-5', changes=(change,))
    asked = []

    def claimed(uuid: str) -> str | None:
        asked.append(uuid)
        return 'claimed: FPGA' if uuid == NODE.format(2) else None

    found = fleet(client, claimed, {move.machine: move})
    assert {NODE.format(n) for n in (2, 3, 4)} == set(asked)
    assert [
        'claimed by instance i',
        'claimed: FPGA',
        None,
        'locked by conductor c',
        'being programmed',
    ] == [m.busy for m in found]
    assert [False, False, False, True, False] == [m.passing for m in found]
    assert [None, 'aes'] == [r.coming for r in found[4].regions]
    assert found[4].under_way


# --------------------------------------------------------------------------------------------------------------- the service


@pytest.mark.parametrize(
    ('answer', 'error', 'words'),
    [
        (Reply(401, {}), IronicRefused, 'check the credentials in [ironic]'),
        (
            Reply(403, {'error_message': 'no\nrights'}),
            IronicRefused,
            'status 403: no rights (the user in [ironic] needs the role member or service with system scope, or admin, '
            'manager or service in the project that owns the nodes)',
        ),
        (Reply(406, {}), IronicRefused, 'microversion 1.70 is needed'),
        (Reply(400, {'error_message': json.dumps({'faultstring': 'bad'})}), IronicRefused, 'status 400: bad'),
        (Reply(400, {'error_message': {'faultstring': 'bad'}}), IronicRefused, 'status 400: bad'),
        (Reply(500, b'<html>'), IronicUnreachable, 'status 500'),
        (Reply(200, b'<html>'), IronicRefused, 'the answer is not a JSON object'),
        (Reply(200, b'[' * 100000), IronicRefused, 'the answer is not a JSON object'),
        (Reply(200, []), IronicRefused, 'the answer is not a JSON object'),
        (Reply(200, {'nodes': {}}), IronicRefused, 'the answer has no list of nodes'),
        (Reply(200, b' ' * (api.MOST_BYTES + 1)), IronicRefused, 'the answer has more than'),
        (
            ksa.ConnectFailure('to http://acc:secret@keystone.example:5000/v3: secret'),
            IronicUnreachable,
            'no answer (ConnectFailure, http://keystone.example:5000) (check that the service runs and can be reached from '
            'this host; see auth_url',
        ),
        (ksa.SSLError('secret'), IronicRefused, 'the certificate of the server is not trusted (set cafile in [ironic])'),
        (ksa.Unauthorized('secret'), IronicRefused, 'authentication failed (check the credentials'),
        (RuntimeError('secret'), IronicUnreachable, 'request could not be sent (RuntimeError)'),
    ],
)
def test_what_is_no_answer_is_told_with_what_to_do(answer, error, words):
    """Nothing of what a library says gets through, for it may hold what was sent."""
    client, _ = ironic(lambda method, url: answer)
    with pytest.raises(error) as failed:
        list(client.nodes())
    assert words in str(failed.value)
    assert 'secret' not in str(failed.value)


def test_a_list_without_end_is_given_up():
    """A page that is always full, of new nodes or of the same ones."""
    numbers = itertools.count()
    client, _ = ironic(
        lambda method, url: {'nodes': [{'uuid': f'{next(numbers)}'} for _ in range(api.PAGE)]},
    )
    with pytest.raises(IronicRefused, match='more than 20000 nodes'):
        list(client.nodes())
    client, service = ironic(lambda method, url: {'nodes': [{'uuid': str(n)} for n in range(api.PAGE)]})
    assert api.PAGE == len(list(client.nodes()))
    assert 2 == len(service.asked)


def test_a_node_that_is_held_is_asked_for_again():
    """For a while; a node that there is not is none."""
    left = [Reply(409, {}), Reply(503, {}), Reply(202, b'')]
    client, service = ironic(lambda method, url: left.pop(0))
    client.provision(NODE.format(1), 'manage')
    assert 3 == len(service.asked)
    client, service = ironic(lambda method, url: Reply(409, {'error_message': 'locked'}))
    with pytest.raises(IronicRefused, match='status 409: locked'):
        client.provision(NODE.format(1), 'manage')
    assert api.TRIES == len(service.asked)
    client, _ = ironic(lambda method, url: Reply(404, {}))
    assert None is client.node(NODE.format(1))
    with pytest.raises(IronicError):
        client.provision(NODE.format(1), 'manage')
