# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Listen to Nova's notifications for boots that found no valid host, and submit them as demands.

Nova sends a notification, unversioned or versioned, for each instance that it gives up, also where one request was for several:
each counts once, whatever ``num_instances`` says. Both formats may be sent of the same instance: its UUID is the id of the
demand, so they are one demand.

Anybody who may write to the bus can send such a message, so the payload is not trusted: a message that is not as Nova writes it
is ignored.

Source: nova 34.0.0, scheduler/utils.py (set_vm_state_and_notify), conductor/manager.py (_bury_in_cell0),
notifications/objects/compute_task.py. Recorded in tests/nova.
"""

import logging
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from oslo_config import cfg

from baremetal_acc.errors import AccError, UsageError
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.scheduling import demand

LOG = logging.getLogger(__name__)

EVENTS = ('compute_task.build_instances', 'compute_task.build_instances.error')
"""The unversioned event type and the versioned one."""

CONNECT_SECONDS = 30.0
"""Seconds after which it is reported that the message bus has not answered. The listener keeps trying."""

_NO_HOST = re.compile(r'NoValidHost(_Remote)?')
"""The name of the scheduler's exception, which differs when it has come by RPC (oslo.messaging 18.3.1, _drivers/common.py)."""

_NO_HOST_WITHIN = re.compile(r"^No valid host was found|'class': 'NoValidHost(_Remote)?'")
"""Matches the exception text of the unversioned format: that of today, and that of older oslo.serialization."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Boot:
    """An instance that found no valid host.

    :ivar image_traits: traits that its image requires; the versioned format does not contain them.
    :ivar bound: the host or node that the instance had to be on.
    """

    instance: str
    project: str | None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    image_traits: tuple[str, ...] = ()
    bound: str | None = None


def read(event_type: str, payload: object) -> Boot | None:
    """Return the failed boot in a notification; None where it is about something else, or is not as Nova writes it."""
    if event_type == EVENTS[0]:
        return _unversioned(_object(payload))
    if event_type == EVENTS[1]:
        return _versioned(_data(payload))
    return None


def _versioned(body: Mapping[str, Any]) -> Boot | None:
    spec, reason = _data(body.get('request_spec')), _data(body.get('reason'))
    instance = _text(body.get('instance_uuid'))
    if instance is None or not _NO_HOST.fullmatch(_text(reason.get('exception')) or ''):
        return None
    return Boot(
        instance=instance,
        project=_text(spec.get('project_id')),
        extra_specs=_texts(_data(spec.get('flavor')).get('extra_specs')),
        bound=_text(spec.get('force_nodes')) or _text(spec.get('force_hosts')),
    )


def _unversioned(body: Mapping[str, Any]) -> Boot | None:
    spec, instance = _object(body.get('request_spec')), _text(body.get('instance_id'))
    if instance is None or not _NO_HOST_WITHIN.search(_text(body.get('reason'), 4096) or ''):
        return None
    traits = _object(_object(spec.get('image')).get('properties')).get('traits_required')
    return Boot(
        instance=instance,
        project=_text(_object(body.get('instance_properties')).get('project_id')),
        extra_specs=_texts(_object(spec.get('instance_type')).get('extra_specs')),
        image_traits=tuple(t for t in traits if isinstance(t, str)) if isinstance(traits, list) else (),
    )


def sent(metadata: object, now: datetime) -> datetime:
    """Return when a notification was sent, by its metadata; ``now`` where that is in the future, or cannot be read."""
    try:
        at = datetime.fromisoformat(_object(metadata).get('timestamp') or '')
    except (TypeError, ValueError):
        return now
    return min(now, at if at.tzinfo is not None else at.replace(tzinfo=UTC))


@dataclass(slots=True, kw_only=True)
class NovaNotificationEndpoint:
    """The endpoint that oslo.messaging calls with each notification. A demand that is refused is logged, not raised."""

    desk: DemandService

    def error(self, _context: object, _publisher: str, event_type: str, payload: object, metadata: object) -> None:
        """Handle a notification of the priority that Nova gives a failure."""
        now = datetime.now(UTC)
        boot = read(event_type, payload)
        if boot is None:
            return
        at = sent(metadata, now)
        try:
            self._tell(boot, at, late=now - at >= self.desk.lasts)
        except AccError as exc:
            LOG.warning('boot of instance %s: not stored as a demand: %s', ascii(boot.instance), exc)

    def _tell(self, boot: Boot, at: datetime, *, late: bool) -> None:
        asked = demand.of_flavor(boot.extra_specs, self.desk.functions, boot.image_traits)
        for note in asked.notes:
            LOG.info('boot of instance %s: %s', ascii(boot.instance), note)
        if not asked.functions:
            return
        if late or boot.bound is not None:
            why = 'the boot failed too long ago' if late else f'the boot was bound to {boot.bound!a}'
            LOG.info('boot of instance %s: no demand for %s: %s', ascii(boot.instance), ', '.join(asked.functions), why)
            return
        self.desk.tell(asked, boot.instance, at, source='nova', asker=boot.project)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bus:
    """The message bus with Nova's notifications.

    :ivar url: URL with the password; None: transport_url of [DEFAULT] or [oslo_messaging_notifications].
    :ivar pool: listeners of the same pool name share the messages; those of other names, such as ceilometer's, get their own
        copies.
    """

    url: str | None
    topics: tuple[str, ...]
    exchange: str
    pool: str


class Listener:
    """Receives Nova's notifications in its own threads, from :meth:`start` until :meth:`stop`. It keeps trying to connect."""

    def __init__(self, conf: cfg.ConfigOpts, bus: Bus, desk: DemandService) -> None:
        self._ready = threading.Event()
        self._gone = False
        self._server, self._transport = _listener(conf, bus, NovaNotificationEndpoint(desk=desk))
        self._topics = ', '.join(bus.topics)
        self._starting = threading.Thread(target=self._start, name='nova-listener', daemon=True)

    def start(self) -> None:
        """Begin to connect."""
        self._starting.start()
        timer = threading.Timer(CONNECT_SECONDS, self._say_if_not_connected)
        timer.daemon = True
        timer.start()

    def stop(self) -> None:
        """Stop listening. A listener that is still connecting is left to the end of the process."""
        if self._ready.is_set():
            self._server.stop()
            self._server.wait()
            self._transport.cleanup()
        self._ready.set()

    def wait_until_ready(self, seconds: float) -> bool:
        """Tell whether the listener has connected within that time."""
        return self._ready.wait(seconds)

    def _start(self) -> None:
        try:
            self._server.start()
        except Exception as exc:  # noqa: BLE001 - a driver raises what it likes; its text may hold the URL with the password
            LOG.error(
                'message bus of [baremetal_acc_demand] nova_transport_url: %s; no notifications are received until a restart',
                type(exc).__name__,
            )
            self._gone = True
            return
        LOG.info("listening to Nova's notifications (%s)", self._topics)
        self._ready.set()

    def _say_if_not_connected(self) -> None:
        if not self._ready.is_set() and not self._gone:
            LOG.warning(
                'message bus of [baremetal_acc_demand] nova_transport_url has not answered yet; still trying to connect'
            )


def _listener(conf: cfg.ConfigOpts, bus: Bus, ear: NovaNotificationEndpoint) -> tuple[Any, Any]:
    try:
        import oslo_messaging
    except ImportError:
        raise UsageError(
            argument='[baremetal_acc_demand] nova_transport_url',
            what='oslo.messaging is not installed',
            hint='pip install baremetal-acc[demand]',
        ) from None
    try:
        transport = oslo_messaging.get_notification_transport(conf, url=bus.url)
        targets = [oslo_messaging.Target(topic=topic, exchange=bus.exchange) for topic in bus.topics]
        server = oslo_messaging.get_notification_listener(
            transport, targets, [_Endpoint(ear, oslo_messaging)], executor='threading', pool=bus.pool
        )
    except Exception as exc:  # noqa: BLE001 - a driver raises what it likes
        # The text may contain the URL, which contains the password.
        raise UsageError(
            argument='[baremetal_acc_demand] nova_transport_url',
            what=f'oslo.messaging cannot use it: {type(exc).__name__}',
            hint='set a URL such as rabbit://USER:PASSWORD@HOST:5672/VHOST, as in nova.conf',
        ) from None
    return server, transport


class _Endpoint:
    """Filters the bus for the two event types; all other notifications of all services pass by here, too."""

    def __init__(self, ear: NovaNotificationEndpoint, library: Any) -> None:
        self.filter_rule = library.NotificationFilter(event_type='^(' + '|'.join(map(re.escape, EVENTS)) + ')$')
        self.error = ear.error


# ------------------------------------------------------------------------------------------------------------------ reading


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _data(value: object) -> Mapping[str, Any]:
    """Return the fields of a versioned object of Nova."""
    return _object(_object(value).get('nova_object.data'))


def _text(value: object, longest: int = 255) -> str | None:
    return value if isinstance(value, str) and 0 < len(value) <= longest else None


def _texts(value: object) -> dict[str, str]:
    return {k: v for k, v in _object(value).items() if isinstance(k, str) and isinstance(v, str)}
