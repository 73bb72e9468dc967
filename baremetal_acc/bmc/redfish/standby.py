# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find and send the action that cycles the standby (auxiliary) power of a machine.

The standard has ResetType ``FullPowerCycle`` of a Chassis for it: as if the utility lines were removed and restored.
``PowerCycle`` does not do it, as external power stays; and ``FullPowerCycle`` of a System starts the host. Vendors have OEM
actions (:data:`baremetal_acc.bmc.quirks.STANDBY_RESETS`).

Source: DSP8010 2025.4, Resource v1_22, ResetType; Chassis v1_28_0, Reset.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.quirks import STANDBY_RESETS
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.redfish.system import offered
from baremetal_acc.bmc.redfish.task import said_against
from baremetal_acc.errors import BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import Objection
from baremetal_acc.model.ref import Ref

_FULL = 'FullPowerCycle'

_CHASSIS_RESET = '#Chassis.Reset'


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A POST of the action: its target and its body."""

    target: str
    body: Mapping[str, str]


def place(system: ResourceView, chassis: Mapping[str, ResourceView], get: Callable[[str], Document]) -> Ref | None:
    """The resource whose action cycles the standby power of a System; None if none is known.

    Vendors' OEM actions come first, as they start no host. The standard action is looked for at the System's Chassis.

    :param chassis: all Chassis of the BMC, by URI; the BMC serves no other machine.
    :param get: reads an ActionInfo.
    """
    views = [*(chassis[uri] for uri in sorted(chassis)), system]
    by_maker = next((view.ref for view in views if _of_maker(_quiet(view), get) is not None), None)
    if by_maker is not None:
        return by_maker
    linked = (chassis[uri] for uri in _quiet(system).links('Links', 'Chassis') if uri in chassis)
    return next((view.ref for view in linked if _standard(_quiet(view), get) is not None), None)


def cycle(connector: Connector, ref: Ref) -> Objection | None:
    """Send the action that cycles the standby power.

    :param ref: the resource that :func:`place` returned.
    :returns: a failure or warning in the BMC's answer of success.
    :raises BmcUnsupported: the resource no longer has such an action. ``BmcError``: the BMC did not accept it.
    """
    view = ResourceView.of(fresh(connector, ref.bmc, ref.uri), [])
    get = partial(fresh, connector, ref.bmc)
    found = _of_maker(view, get) or _standard(view, get)
    if found is None:
        raise BmcUnsupported(bmc=connector.label, uri=ref.uri, what='no action that cycles the standby power is available')
    try:
        answer = connector.send('POST', found.target, body=found.body)
    except BmcUnreachable as exc:
        if not exc.sent:
            raise
        what = f'{exc.what}; {found.body["ResetType"]} may have arrived'
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=what, hint=exc.hint) from exc
    return said_against(connector, answer, ref.bmc)


def _quiet(view: ResourceView) -> ResourceView:
    """The same view, with a throw-away list of gaps: its oddities were noted when it was read for the inventory."""
    return ResourceView(view.ref, view.body, [])


def _of_maker(view: ResourceView, get: Callable[[str], Document]) -> _Request | None:
    """The request of a vendor's OEM action of a resource; None if it has none."""
    oem = view.part('Actions', 'Oem')
    parts = (
        []
        if oem is None
        else [oem, *(ResourceView(view.ref, part, []) for part in oem.body.values() if isinstance(part, dict))]
    )
    for row in STANDBY_RESETS:
        for part in parts:
            target = _target(part, row.name, row.reset_type, get)
            if target is not None:
                return _Request(target=target, body={'ResetType': row.reset_type, **dict(row.more)})
    return None


def _standard(view: ResourceView, get: Callable[[str], Document]) -> _Request | None:
    """The request of Chassis.Reset with FullPowerCycle; None if the resource does not offer it."""
    actions = view.part('Actions')
    target = None if actions is None else _target(actions, _CHASSIS_RESET, _FULL, get)
    return None if target is None else _Request(target=target, body={'ResetType': _FULL})


def _target(actions: ResourceView, name: str, reset_type: str, get: Callable[[str], Document]) -> str | None:
    """The target of an action; None if it does not advertise the ResetType."""
    action = actions.part(name)
    target = None if action is None else action.text('target')
    if action is None or target is None:
        return None
    values = offered(action, get)
    return target if values is not None and reset_type in values else None


__all__ = ['cycle', 'place']
