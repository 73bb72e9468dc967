# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which notifications tell drift and waivers? ``baremetal.accelerator.drift.success`` and ``.waiver.success``.

They are versioned as Ironic's own are, and go where those go (``[DEFAULT] notification_level`` and
``versioned_notifications_topics``), at the level ``warning``; drift at ``info`` when cards have only been added. Payloads hold
what BMCs show of their devices and what waivers say, and nothing of ``driver_info``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ironic.objects import base, fields
from ironic.objects import notification as ironic_notification
from oslo_log import log

from baremetal_acc.decide.drift import Change
from baremetal_acc.render import changes
from baremetal_acc_ironic import settings

LOG = log.getLogger(__name__)

OBJECT, DRIFT, WAIVER = 'accelerator', 'drift', 'waiver'

LIMIT = 200
"""Changes in one notification: about 100 KiB, below what message brokers take by default."""


NODE = {
    'node_uuid': fields.UUIDField(),
    'node_name': fields.StringField(nullable=True),
    'provision_state': fields.StringField(nullable=True),
    'resource_class': fields.StringField(nullable=True),
}
"""Fields of every payload."""


@base.IronicObjectRegistry.register
class AcceleratorChange(base.IronicObject):
    """One change of one device, in words and in parts."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        'kind': fields.StringField(),
        'accelerator': fields.StringField(),
        'label': fields.StringField(),
        'subject': fields.StringField(),
        'was': fields.StringField(nullable=True),
        'found': fields.StringField(nullable=True),
        'resource': fields.StringField(nullable=True),
        'reason': fields.StringField(nullable=True),
        'text': fields.StringField(),
    }


@base.IronicObjectRegistry.register
class AcceleratorDriftPayload(ironic_notification.NotificationPayloadBase):
    """What has changed in a node since its accelerators were looked at before."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        **NODE,
        'found_by': fields.StringField(),
        'at': fields.DateTimeField(),
        'since': fields.DateTimeField(),
        'changes': fields.ListOfObjectsField('AcceleratorChange'),
        'more': fields.IntegerField(),
    }


@base.IronicObjectRegistry.register
class AcceleratorDriftNotification(ironic_notification.NotificationBase):
    """The notification itself."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorDriftPayload')}  # noqa: RUF012


@base.IronicObjectRegistry.register
class AcceleratorWaiver(base.IronicObject):
    """One waiver: which paths of which devices may be open, or are, until when, and who answers for it."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        'accelerators': fields.ListOfStringsField(),
        'paths': fields.ListOfStringsField(),
        'rule': fields.StringField(),
        'role': fields.StringField(),
        'reason': fields.StringField(),
        'expires': fields.DateTimeField(),
    }


@base.IronicObjectRegistry.register
class AcceleratorWaiverPayload(ironic_notification.NotificationPayloadBase):
    """What of a node may be open, or is open, by waivers."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        **NODE,
        'by': fields.StringField(),
        'at': fields.DateTimeField(),
        'in_use': fields.BooleanField(),
        'waivers': fields.ListOfObjectsField('AcceleratorWaiver'),
    }


@base.IronicObjectRegistry.register
class AcceleratorWaiverNotification(ironic_notification.NotificationBase):
    """The notification itself."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorWaiverPayload')}  # noqa: RUF012


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiving:
    """A waiver as it is told.

    :ivar accelerators: ids of the devices; none: all of the node.
    """

    accelerators: tuple[str, ...]
    paths: tuple[str, ...]
    rule: str
    role: str
    reason: str
    expires: datetime


def waivers(task: Any, found: Iterable[Waiving], *, by: str, at: datetime, in_use: bool) -> None:
    """Send what of a node is open by waivers, if Ironic's configuration asks for it. No step fails for it.

    :param in_use: the node was just found as it should be with them; else they were given or taken back, and these are left.
    """

    def payload() -> AcceleratorWaiverPayload:
        return AcceleratorWaiverPayload(
            **about(task.node),
            by=by,
            at=at,
            in_use=in_use,
            waivers=[
                AcceleratorWaiver(
                    accelerators=list(w.accelerators),
                    paths=list(w.paths),
                    rule=w.rule,
                    role=w.role,
                    reason=w.reason,
                    expires=w.expires,
                )
                for w in found
            ],
        )

    send(task, AcceleratorWaiverNotification, payload, WAIVER, level=fields.NotificationLevel.WARNING)


def emit(task: Any, changes: Iterable[Change], *, by: str, at: datetime, since: datetime, grave: bool) -> None:
    """Send it if Ironic's configuration asks for it. What of it fails is logged: no step fails for it."""
    found = tuple(changes)

    def payload() -> AcceleratorDriftPayload:
        return AcceleratorDriftPayload(
            **about(task.node),
            found_by=by,
            at=at,
            since=since,
            changes=[_change(c) for c in found[:LIMIT]],
            more=max(0, len(found) - LIMIT),
        )

    level = fields.NotificationLevel.WARNING if grave else fields.NotificationLevel.INFO
    send(task, AcceleratorDriftNotification, payload, DRIFT, level=level)


def about(node: Any) -> dict[str, Any]:
    """What every payload says of its node; its class has ``NODE`` among its fields."""
    return {
        'node_uuid': node.uuid,
        'node_name': node.name,
        'provision_state': node.provision_state,
        'resource_class': node.resource_class,
    }


def send(
    task: Any,
    notification: Any,
    payload: Callable[[], Any],
    action: str,
    *,
    level: str,
    status: str = fields.NotificationStatus.SUCCESS,
) -> None:
    """Send a notification. What of it fails is logged, whatever the transport raises: log and history of the node have it too.

    :param notification: its class.
    :param payload: makes what it tells.
    :param action: the third word of its name.
    """
    try:
        notification(
            publisher=ironic_notification.NotificationPublisher(service='ironic-conductor', host=settings.ironic().host),
            event_type=ironic_notification.EventType(object=OBJECT, action=action, status=status),
            level=level,
            payload=payload(),
        ).emit(task.context)
    except Exception:
        LOG.exception('Node %s: the notification baremetal.%s.%s could not be sent', task.node.uuid, OBJECT, action)


def _change(change: Change) -> AcceleratorChange:
    return AcceleratorChange(
        kind=str(change.kind),
        accelerator=str(change.accelerator),
        label=change.label,
        subject=str(change.subject),
        was=changes.value(change.was),
        found=changes.value(change.found),
        resource=None if change.ref is None else str(change.ref),
        reason=None if change.reason is None else changes.reason(change.reason),
        text=changes.sentence(change),
    )
