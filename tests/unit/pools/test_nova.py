# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A boot that found no host is noticed in the notifications of nova 34.0.0 itself (tests/nova/record.py), and nothing else."""

import copy
import json
import logging
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from baremetal_acc.errors import UsageError
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.pools.nova import EVENTS, Boot, Bus, Listener, NovaNotificationEndpoint, read, sent
from baremetal_acc.pools.spool import FOREVER, Spool

RECORDED = json.loads((Path(__file__).parents[2] / 'nova' / 'notifications.json').read_text())['boots']
INSTANCE, PROJECT = '6c9f3a02-5b8d-4c4e-9a57-0f2d1e3b4a51', '1f0e2d3c4b5a69788796a5b4c3d2e1f0'
NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


def message(boot: str, event: str) -> dict[str, Any]:
    """What was heard of a boot in one format."""
    return next(copy.deepcopy(m) for m in RECORDED[boot] if m['event_type'] == event)


@pytest.fixture
def desk(tmp_path: Path) -> DemandService:
    """Where demands are told."""
    return desk_of(tmp_path / 'demands')


def desk_of(folder: Path) -> DemandService:
    """With a catalogue of two functions."""
    return DemandService(spool=Spool(root=folder), functions=frozenset({'aes', 'gzip'}))


def hear(desk: DemandService, heard: dict[str, Any], **metadata: str) -> list[tuple[str, str, str | None, str | None]]:
    """What is demanded once a message was heard: id, function, class, project."""
    told = {'timestamp': datetime.now(UTC).replace(tzinfo=None).isoformat(sep=' '), **metadata}
    NovaNotificationEndpoint(desk=desk).error(heard['ctxt'], heard['publisher_id'], heard['event_type'], heard['payload'], told)
    return [(t.demand.id, t.demand.function, t.demand.resource_class, t.asker) for t in desk.told()]


@pytest.mark.parametrize('event', EVENTS)
@pytest.mark.parametrize('boot', ['class', 'trait', 'three'])
def test_a_boot_that_found_no_host_is_a_demand(desk: DemandService, boot: str, event: str) -> None:
    """In both formats; each instance counts once, also of a request for three, of which Nova tells one by one."""
    assert [(INSTANCE, 'aes', 'CUSTOM_BAREMETAL_GOLD', PROJECT)] == hear(desk, message(boot, event))


def test_both_formats_of_one_instance_are_one_demand(desk: DemandService) -> None:
    """With [notifications] notification_format = both, and when a message comes twice."""
    for event in (*EVENTS, *EVENTS):
        assert 1 == len(hear(desk, message('class', event)))


@pytest.mark.parametrize('event', EVENTS)
@pytest.mark.parametrize('boot', ['plain', 'retries'])
def test_other_failures_are_no_demand(desk: DemandService, boot: str, event: str) -> None:
    """A flavor without functions, and a host that was found and failed."""
    assert [] == hear(desk, message(boot, event))


def test_what_the_image_requires_counts_where_it_is_told(desk: DemandService) -> None:
    """The unversioned format holds it; Nova leaves it out of the versioned one."""
    assert [] == hear(desk, message('image', EVENTS[1]))
    assert [(INSTANCE, 'gzip', 'CUSTOM_BAREMETAL_GOLD', PROJECT)] == hear(desk, message('image', EVENTS[0]))


def test_a_boot_that_was_bound_to_a_host_is_no_demand(desk: DemandService, caplog: pytest.LogCaptureFixture) -> None:
    """Another machine would not help it."""
    heard = message('class', EVENTS[1])
    heard['payload']['nova_object.data']['request_spec']['nova_object.data']['force_nodes'] = 'node-7'
    with caplog.at_level(logging.INFO):
        assert [] == hear(desk, heard)
    assert "no demand for aes: the boot was bound to 'node-7'" in caplog.text


def test_what_lay_in_the_queue_for_too_long_is_no_demand(desk: DemandService) -> None:
    """Who waits is told with the time at which his boot failed, and not when it was heard."""
    before = datetime.now(UTC) - timedelta(minutes=14)
    hear(desk, message('class', EVENTS[1]), timestamp=str(before.replace(tzinfo=None)))
    assert [before] == [d.at for d in desk.spool.read(datetime.now(UTC), FOREVER)]
    desk.spool.drop(INSTANCE)
    assert [] == hear(desk, message('class', EVENTS[1]), timestamp=str(before - timedelta(minutes=2)))


@pytest.mark.parametrize(
    ('metadata', 'at'),
    [
        ({'timestamp': '2026-11-22 11:59:00.500000'}, NOW - timedelta(seconds=59.5)),
        ({'timestamp': '2026-11-22T11:59:00+00:00'}, NOW - timedelta(minutes=1)),
        ({'timestamp': '2036-11-22 12:00:00'}, NOW),
        ({'timestamp': 'yesterday'}, NOW),
        ({'timestamp': 7}, NOW),
        ({}, NOW),
        (None, NOW),
    ],
)
def test_the_time_is_that_of_the_message(metadata: object, at: datetime) -> None:
    """A time that is none, or to come, is now."""
    assert at == sent(metadata, NOW)


@pytest.mark.parametrize('event', EVENTS)
def test_what_is_not_as_nova_writes_it_is_passed_over(desk: DemandService, event: str) -> None:
    """Each part of a message replaced by something else: nothing fails, and no demand is made up."""
    heard = message('class', event)
    places = [()]
    for place in places:
        value = heard['payload']
        for key in place:
            value = value[key]
        places.extend((*place, key) for key in (value if isinstance(value, dict) else ()))
    assert 60 < len(places)
    for place in places:
        for wrong in (None, 7, '', 'x' * 10000, [], ['x'], {}, {'x': {}}):
            if not place:
                payload: Any = wrong
            else:
                payload = copy.deepcopy(heard['payload'])
                part = payload
                for key in place[:-1]:
                    part = part[key]
                part[place[-1]] = wrong
            found = read(event, payload)
            assert found is None or isinstance(found, Boot)
            NovaNotificationEndpoint(desk=desk).error({}, 'x', event, payload, {})
    assert {'aes'} == {t.demand.function for t in desk.told()}
    assert {INSTANCE, 'x'} >= {t.demand.id for t in desk.told()}


def test_other_notifications_tell_nothing() -> None:
    """The same payload under another name is something else."""
    assert read('compute_task.migrate_server.error', message('class', EVENTS[1])['payload']) is None


def test_a_flood_ends_at_the_bound(desk: DemandService, caplog: pytest.LogCaptureFixture) -> None:
    """A project that boots again and again has sixteen demands, and the log says why there are no more."""
    for n in range(40):
        heard = message('class', EVENTS[1])
        heard['payload']['nova_object.data']['instance_uuid'] = f'instance-{n}'
        found = hear(desk, heard)
    assert 16 == len(found)
    assert "boot of instance 'instance-39': not stored as a demand" in caplog.text
    assert 24 == desk.spool.refused()


def conf() -> cfg.ConfigOpts:
    """Options of nobody."""
    made = cfg.ConfigOpts()
    made([], project='baremetal_acc', default_config_files=[])
    return made


def on_the_bus(folder: Path) -> None:
    """Send both formats through a message bus, and listen there until both were heard."""
    desk = desk_of(folder)
    bus = Bus(url='fake:/demand', topics=('versioned_notifications', 'notifications'), exchange='nova', pool='baremetal-acc')
    options = conf()
    listener = Listener(options, bus, desk)
    listener.start()
    assert listener.wait_until_ready(20)
    try:
        # Nova's exchange: what set_transport_defaults does in its own process.
        options.set_override('control_exchange', 'nova')
        transport = oslo_messaging.get_notification_transport(options, url='fake:/demand')
        for event, topic in zip(EVENTS, ('notifications', 'versioned_notifications'), strict=True):
            heard = message('trait', event)
            if event == EVENTS[0]:
                heard['payload']['instance_id'] = 'another'
            notifier = oslo_messaging.Notifier(transport, heard['publisher_id'], driver='messagingv2', topics=[topic])
            notifier.error({}, event, heard['payload'])
            notifier.error({}, 'compute.instance.create.error', heard['payload'])
        until = datetime.now(UTC) + timedelta(seconds=20)
        while len(desk.told()) < 2 and datetime.now(UTC) < until:
            time.sleep(0.05)
    finally:
        listener.stop()


def test_it_is_heard_on_the_message_bus(tree: Path, tmp_path: Path) -> None:
    """Through oslo.messaging, as any notifier sends it; what is of no use is not even shown to us.

    In a process of its own: Ironic's and Nova's test code leave this one with an oslo.messaging of theirs.
    """
    here = f'import pathlib, sys; from {__name__} import on_the_bus; on_the_bus(pathlib.Path(sys.argv[1]))'
    command = [sys.executable, '-c', here, str(tmp_path / 'demands')]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stderr
    assert {'another', INSTANCE} == {t.demand.id for t in desk_of(tmp_path / 'demands').told()}


@pytest.mark.parametrize(
    'url', ['rabbit://user:geheim@[host', 'nosuch://user:geheim@host', 'geheim', 'rabbit://u:geheim@h:port/']
)
def test_a_wrong_url_is_told_without_its_password(desk: DemandService, url: str) -> None:
    """oslo.messaging puts the whole URL into its errors."""
    bus = Bus(url=url, topics=('notifications',), exchange='nova', pool='x')
    with pytest.raises(UsageError, match=r'nova_transport_url: oslo.messaging cannot use it') as caught:
        Listener(conf(), bus, desk)
    assert 'geheim' not in str(caught.value)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize('gone', [True, False])
def test_a_bus_that_is_given_up_is_not_said_to_be_tried_on(
    desk: DemandService, caplog: pytest.LogCaptureFixture, gone: bool
) -> None:
    """One that only does not answer yet is."""
    bus = Bus(url='fake:/nobody', topics=('notifications',), exchange='nova', pool='x')
    listener = Listener(conf(), bus, desk)
    wait = threading.Event()

    def start() -> None:
        if gone:
            raise RuntimeError('of user:geheim')
        wait.wait(20)

    listener._server.start = start
    beginning = threading.Thread(target=listener._start)
    beginning.start()
    if gone:
        beginning.join(20)
    listener._say_if_not_connected()
    assert gone is ('RuntimeError; no notifications are received until a restart' in caplog.text)
    assert gone is not ('has not answered yet; still trying to connect' in caplog.text)
    assert 'geheim' not in caplog.text
    wait.set()
    beginning.join(20)
