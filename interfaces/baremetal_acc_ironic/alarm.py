# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is told that a node is not as it was handed over? By log, history, metric, and, where rules ask for it, a notification.

Once when it begins, ``baremetal.accelerator.alarm.start``, and once when it is over, ``baremetal.accelerator.alarm.end``. The
metric counts both, by the kind of trouble.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from ironic.common import metrics_utils
from ironic.objects import base, fields
from ironic.objects import notification as ironic_notification
from oslo_log import log

from baremetal_acc.decide.baseline import DriftAction
from baremetal_acc.decide.watch import Alarm, Trouble
from baremetal_acc.render import troubles
from baremetal_acc_ironic import notification, outcome

LOG = log.getLogger(__name__)
METRICS = metrics_utils.get_metrics_logger(__name__)

ACTION = 'alarm'

BETWEEN = 'changed between verify and hand-over'
"""What the first look after a hand-over finds: it was proven, and was not so any more when the node became active."""


BACK = 'came back changed'
"""What the first look at a node that is ours again finds."""


@base.IronicObjectRegistry.register
class AcceleratorAlarmPayload(ironic_notification.NotificationPayloadBase):
    """What is not as it was handed over, or is so again."""

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
    """The notification itself."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorAlarmPayload')}  # noqa: RUF012


def begun(task: Any, alarm: Alarm, reactions: frozenset[DriftAction], *, first: bool, lifecycle: int, now: datetime) -> None:
    """Tell that something is wrong.

    :param first: the first look after the hand-over has found it.
    """
    what = troubles.sentence(alarm.trouble)
    text = f'{BETWEEN}: {what}' if first else what
    LOG.error('Node %s: alarm: %s', task.node.uuid, text)
    outcome.told(task.node, f'alarm: {text}')
    _count(f'alarms.{alarm.trouble.kind}')
    if DriftAction.NOTIFY in reactions:
        _emit(task, alarm, text, fields.NotificationStatus.START, reactions, first=first, lifecycle=lifecycle, now=now)


def over(task: Any, alarm: Alarm, reactions: frozenset[DriftAction], *, lifecycle: int, now: datetime) -> None:
    """Tell that it is not wrong any more."""
    text = f'over, since {alarm.since:%Y-%m-%d %H:%M:%S} UTC: {troubles.sentence(alarm.trouble)}'
    LOG.warning('Node %s: alarm is %s', task.node.uuid, text)
    outcome.told(task.node, f'alarm is {text}')
    _count(f'alarms_over.{alarm.trouble.kind}')
    if DriftAction.NOTIFY in reactions:
        _emit(task, alarm, text, fields.NotificationStatus.END, reactions, first=False, lifecycle=lifecycle, now=now)


def came_back(task: Any, found: Iterable[Trouble], *, lifecycle: int, now: datetime) -> None:
    """Tell what of a node that is ours again is not as it was handed over: an alarm that nobody waits for the end of."""
    asked = frozenset({DriftAction.NOTIFY})
    for trouble in found:
        one = Alarm(trouble=trouble, since=now, told=True)
        _count(f'alarms.{trouble.kind}')
        text = f'{BACK}: {troubles.sentence(trouble)}'
        _emit(task, one, text, fields.NotificationStatus.START, asked, first=False, lifecycle=lifecycle, now=now)


def told(task: Any, texts: Iterable[str]) -> None:
    """What was done about it, or cannot be done."""
    for text in texts:
        LOG.warning('Node %s: %s', task.node.uuid, text)
        outcome.told(task.node, text)


def locked_out() -> None:
    """Count a round that has found something while somebody else held the node."""
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
