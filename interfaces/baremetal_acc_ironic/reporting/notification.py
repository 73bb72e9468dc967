# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send Ironic notifications about drift and waivers: ``baremetal.accelerator.drift.success`` and ``.waiver.success``.

They are versioned objects like Ironic's own, and are sent to the same place (``[DEFAULT] notification_level`` and
``versioned_notifications_topics``), at the level ``warning``; drift at ``info`` when cards have only been added. Payloads hold
what BMCs report about their devices and what waivers say, and nothing of ``driver_info``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ironic.objects import base, fields
from ironic.objects import notification as ironic_notification
from oslo_log import log

from baremetal_acc.model.inventory_change import Change
from baremetal_acc.render import changes
from baremetal_acc_ironic import settings

LOG = log.getLogger(__name__)

OBJECT, DRIFT, WAIVER = 'accelerator', 'drift', 'waiver'

LIMIT = 200
"""Changes in one notification: about 100 KiB, below what message brokers accept by default."""


NODE = {
    'node_uuid': fields.UUIDField(),
    'node_name': fields.StringField(nullable=True),
    'provision_state': fields.StringField(nullable=True),
    'resource_class': fields.StringField(nullable=True),
}
"""Fields of every payload."""


@base.IronicObjectRegistry.register
class AcceleratorChange(base.IronicObject):
    """One change of one device, as a sentence and as single fields."""

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
    """What has changed in a node since the previous inventory read."""

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
    """The notification that carries drift."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorDriftPayload')}  # noqa: RUF012


@base.IronicObjectRegistry.register
class AcceleratorWaiver(base.IronicObject):
    """One waiver: which write paths of which devices may be open, or are, until when, and who answers for it."""

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
    """The waivers of a node: which paths may be open, or are open, by them."""

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
    """The notification that carries waivers."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorWaiverPayload')}  # noqa: RUF012


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiving:
    """A waiver in the form that notifications use.

    :ivar accelerators: ids of the devices; none: all of the node.
    """

    accelerators: tuple[str, ...]
    paths: tuple[str, ...]
    rule: str
    role: str
    reason: str
    expires: datetime


def waivers(task: Any, found: Iterable[Waiving], *, by: str, at: datetime, in_use: bool) -> None:
    """Send which waivers a node has, if Ironic's configuration asks for it. No step fails for a failure of this.

    :param in_use: the node has just passed a check by these waivers; else some were given or taken back, and these are left.
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
    """Send drift if Ironic's configuration asks for it. A failure is logged: no step fails for it."""
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
    """Return the fields about the node that every payload has; the payload's class includes ``NODE``."""
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
    """Send a notification. Any failure is logged, whatever the transport raises: log and node history have the same facts.

    :param notification: its class.
    :param payload: builds the payload.
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
