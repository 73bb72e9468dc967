# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send Ironic notifications about devices that the deny list withholds: ``baremetal.accelerator.denial.start`` and ``.end``."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ironic.objects import base, fields
from ironic.objects import notification as ironic_notification

from baremetal_acc.render import denied as words
from baremetal_acc.scheduling.denied_devices import WithheldDevice
from baremetal_acc_ironic.reporting import notification

ACTION = 'denial'


@base.IronicObjectRegistry.register
class AcceleratorDenialPayload(ironic_notification.NotificationPayloadBase):
    """The devices of a node that are withheld from placement, or that are not withheld any more."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {  # noqa: RUF012
        **notification.NODE,
        'instance_uuid': fields.UUIDField(nullable=True),
        'accelerators': fields.ListOfStringsField(),
        'labels': fields.ListOfStringsField(),
        'reasons': fields.ListOfStringsField(),
        'text': fields.StringField(),
        'at': fields.DateTimeField(),
    }


@base.IronicObjectRegistry.register
class AcceleratorDenialNotification(ironic_notification.NotificationBase):
    """The notification that carries a denial."""

    # Version 1.0: Initial version
    VERSION = '1.0'

    fields = {'payload': fields.ObjectField('AcceleratorDenialPayload')}  # noqa: RUF012


def begun(task: Any, devices: Sequence[WithheldDevice], text: str, now: datetime) -> None:
    """Send that devices are withheld from now on."""
    _send(task, devices, text, now, fields.NotificationStatus.START, fields.NotificationLevel.WARNING)


def over(task: Any, devices: Sequence[WithheldDevice], text: str, now: datetime) -> None:
    """Send that the deny list does not mean devices any more."""
    _send(task, devices, text, now, fields.NotificationStatus.END, fields.NotificationLevel.INFO)


def _send(task: Any, devices: Sequence[WithheldDevice], text: str, now: datetime, status: str, level: str) -> None:
    def payload() -> AcceleratorDenialPayload:
        return AcceleratorDenialPayload(
            **notification.about(task.node),
            instance_uuid=task.node.instance_uuid,
            accelerators=[str(d.accelerator) for d in devices],
            labels=[d.label for d in devices],
            reasons=[words.reason(d) for d in devices],
            text=text,
            at=now,
        )

    notification.send(task, AcceleratorDenialNotification, payload, ACTION, level=level, status=status)
