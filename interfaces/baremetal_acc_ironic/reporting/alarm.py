# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Report alarms about a node that is not as it was handed over: log, node history, metric, and a notification where rules ask.

Each alarm is reported once when it begins (``baremetal.accelerator.alarm.start``) and once when it ends
(``baremetal.accelerator.alarm.end``). Metrics count both, by the kind of trouble.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ironic.common import metrics_utils
from ironic.objects import base, fields
from ironic.objects import notification as ironic_notification
from oslo_log import log

from baremetal_acc.planning.watch_alarms import Alarm, WatchTrouble
from baremetal_acc.policy.baseline_rules import DriftAction
from baremetal_acc.render import troubles
from baremetal_acc_ironic.reporting import notification
from baremetal_acc_ironic.state import provision_state

LOG = log.getLogger(__name__)
METRICS = metrics_utils.get_metrics_logger(__name__)

ACTION = 'alarm'

BETWEEN = 'changed between verify and hand-over'
"""Prefix of an alarm that the first inventory read after a hand-over has found: the verification had proven it, and it was no
longer so when the node became active."""


BACK = 'came back changed'
"""Prefix of a difference that the first inventory read of a node that has come back has found."""


@base.IronicObjectRegistry.register
class AcceleratorAlarmPayload(ironic_notification.NotificationPayloadBase):
    """A difference from how the node was handed over, at its beginning or at its end."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        **notification.NODE,
        'instance_uuid': fields.UUIDField(nullable=True),
        'lifecycle': fields.IntegerField(),
        'kind': fields.StringField(),
        'accelerator': fields.StringField(nullable=True),
        'subject': fields.StringField(),
        'text': fields.StringField(),
        'since': fields.DateTimeField(),
        'at': fields.DateTimeField(),
        'first_look': fields.BooleanField(),
        'reactions': fields.ListOfStringsField(),
    }


@base.IronicObjectRegistry.register
class AcceleratorAlarmNotification(ironic_notification.NotificationBase):
    """The notification that carries an alarm."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorAlarmPayload')}  # noqa: RUF012


def begun(task: Any, alarm: Alarm, reactions: frozenset[DriftAction], *, first: bool, lifecycle: int, now: datetime) -> None:
    """Report that an alarm has begun.

    :param first: the first inventory read after the hand-over has found it.
    """
    what = troubles.sentence(alarm.trouble)
    text = f'{BETWEEN}: {what}' if first else what
    LOG.error('Node %s: alarm: %s', task.node.uuid, text)
    provision_state.told(task.node, f'alarm: {text}')
    _count(f'alarms.{alarm.trouble.kind}')
    if DriftAction.NOTIFY in reactions:
        _emit(task, alarm, text, fields.NotificationStatus.START, reactions, first=first, lifecycle=lifecycle, now=now)


def over(task: Any, alarm: Alarm, reactions: frozenset[DriftAction], *, lifecycle: int, now: datetime) -> None:
    """Report that an alarm has ended."""
    text = f'over (it began at {alarm.since:%Y-%m-%d %H:%M:%S} UTC): {troubles.sentence(alarm.trouble)}'
    LOG.warning('Node %s: alarm is %s', task.node.uuid, text)
    provision_state.told(task.node, f'alarm is {text}')
    _count(f'alarms_over.{alarm.trouble.kind}')
    if DriftAction.NOTIFY in reactions:
        _emit(task, alarm, text, fields.NotificationStatus.END, reactions, first=False, lifecycle=lifecycle, now=now)


def came_back(task: Any, found: Iterable[WatchTrouble], *, lifecycle: int, now: datetime) -> None:
    """Count and send the differences of a node that has come back: each is an alarm that never gets an end notification."""
    asked = frozenset({DriftAction.NOTIFY})
    for trouble in found:
        one = Alarm(trouble=trouble, since=now, told=True)
        _count(f'alarms.{trouble.kind}')
        text = f'{BACK}: {troubles.sentence(trouble)}'
        _emit(task, one, text, fields.NotificationStatus.START, asked, first=False, lifecycle=lifecycle, now=now)


def told(task: Any, texts: Iterable[str]) -> None:
    """Record in log and node history what was done about an alarm, or cannot be done."""
    for text in texts:
        LOG.warning('Node %s: %s', task.node.uuid, text)
        provision_state.told(task.node, text)


def locked_out() -> None:
    """Count a watch round that has found something while another task held the node's lock."""
    _count('watch_locked_out')


def _count(name: str) -> None:
    METRICS.send_counter(METRICS.get_metric_name(f'baremetal_acc.{name}'), 1)


def _emit(
    task: Any,
    alarm: Alarm,
    text: str,
    status: str,
    reactions: frozenset[DriftAction],
    *,
    first: bool,
    lifecycle: int,
    now: datetime,
) -> None:
    begins = status == fields.NotificationStatus.START

    def payload() -> AcceleratorAlarmPayload:
        return AcceleratorAlarmPayload(
            **notification.about(task.node),
            instance_uuid=task.node.instance_uuid,
            lifecycle=lifecycle,
            kind=str(alarm.trouble.kind),
            accelerator=alarm.trouble.device,
            subject=alarm.trouble.subject,
            text=text,
            since=alarm.since,
            at=now,
            first_look=first,
            reactions=sorted(reactions),
        )

    level = fields.NotificationLevel.ERROR if begins else fields.NotificationLevel.INFO
    notification.send(task, AcceleratorAlarmNotification, payload, ACTION, level=level, status=status)
