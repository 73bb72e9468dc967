# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the parameters of a Redfish firmware update request: Targets, OperationApplyTime and ForceUpdate.

Source: DSP8010 2025.4, UpdateService v1_17_0: SimpleUpdate, UpdateParameters, HttpPushUriOptions; Settings v1_4_0,
OperationApplyTimeSupport.
"""

import re

from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.errors import BmcRefused, BmcUnsupported
from baremetal_acc.model.image import Upload
from baremetal_acc.model.ref import Ref

APPLY_TIMES = ('Immediate', 'OnReset')
"""OperationApplyTimes that need no maintenance window, the preferred first."""

ON_START = 'OnStartUpdateRequest'
"""OperationApplyTime of an update that waits for StartUpdate. It is requested only if no other is offered."""

START = '#UpdateService.StartUpdate'

FORCE = 'ForceUpdate'

_NAMES_FORCE = re.compile(r'force[\s_-]?update', re.IGNORECASE)
"""How a refusal names ForceUpdate."""

_UNREAD = frozenset({'MalformedJSON', 'UnrecognizedRequestBody'})
"""MessageIds of a request whose body could not be read at all. Source: DSP8011 (Base registry)."""


def targets(target: Ref, upload: Upload) -> tuple[str, ...]:
    """The Targets of an image: one component as a rule; a tray, or an empty list, where its vendor documents that.

    Empty too for an upload that is sent without Targets.
    """
    if upload.untargeted:
        return ()
    return (target.uri,) if upload.targets is None else upload.targets


def named(target: Ref, upload: Upload) -> dict[str, object]:
    """The parameter Targets as a dict; empty for an upload that is sent without Targets."""
    return {} if upload.untargeted else {'Targets': list(targets(target, upload))}


def apply_time(view: ResourceView, values: object) -> str:
    """The OperationApplyTime to request: Immediate, else OnReset, of those advertised; Immediate when none is advertised.

    OnStartUpdateRequest comes last, and only if the service has the action StartUpdate.

    :param view: the UpdateService.
    :param values: the values that it advertises.
    :raises BmcUnsupported: only maintenance windows are offered.
    """
    if not isinstance(values, list) or not values:
        return APPLY_TIMES[0]
    for wanted in APPLY_TIMES:
        if wanted in values:
            return wanted
    if ON_START in values and start_target(view) is not None:
        return ON_START
    offered = ', '.join(short(str(v)[:40]) for v in values[:5])
    raise BmcUnsupported(bmc=view.ref.bmc, uri=view.ref.uri, what=f'images are applied only at {offered} (OperationApplyTime)')


def start_target(view: ResourceView) -> str | None:
    """The target of the action StartUpdate; None if the service has no such action."""
    action = view.part('Actions', START)
    return None if action is None else action.text('target')


def refuses_force(exc: BmcRefused) -> bool:
    """Whether an error refuses ForceUpdate, in any spelling, or says that the request body could not be read."""
    if not isinstance(exc, HttpRefused) or not (400 <= exc.status < 500 or exc.status == 501):
        return False
    return bool(exc.about & _UNREAD) or any(_NAMES_FORCE.search(text) for text in (exc.what, *exc.about))
