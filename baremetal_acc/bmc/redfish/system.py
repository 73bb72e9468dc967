# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Power and reset of a ComputerSystem or Manager: read PowerState, LastResetTime and BootProgress; send ComputerSystem.Reset.

Source: DSP8010 2025.4, ComputerSystem v1_27_0 (LastResetTime, BootProgress) and Manager v1_24_0, Reset; ActionInfo v1.
"""

import logging
from collections.abc import Callable
from functools import partial

from baremetal_acc.bmc.driver import Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView, power_state
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.redfish.task import said_against
from baremetal_acc.errors import BmcError, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import HostReading, Objection, PowerState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref

LOG = logging.getLogger(__name__)

RESET = '#ComputerSystem.Reset'
_ALLOWED = 'ResetType@Redfish.AllowableValues'
MANAGER_RESET = '#Manager.Reset'

WORDS: dict[ResetKind, tuple[str, ...]] = {
    ResetKind.NONE: (),
    ResetKind.BMC_RESET: ('GracefulRestart', 'ForceRestart'),
    ResetKind.SYSTEM_RESET: ('ForceRestart', 'GracefulRestart', 'PowerCycle'),
    ResetKind.POWER_CYCLE: ('PowerCycle',),
    ResetKind.AUX_POWER_CYCLE: (),
    ResetKind.AC_POWER_CYCLE: (),
}
"""The ResetTypes for each kind of reset, the preferred first. A restart is not a power cycle.

For standby power see :mod:`baremetal_acc.bmc.redfish.standby`.
"""

SWITCH: dict[PowerState, tuple[str, ...]] = {PowerState.ON: ('On', 'ForceOn'), PowerState.OFF: ('ForceOff',)}


_LONGEST_BOOT = 10**9
"""Seconds. A larger LastBootTimeSeconds is not a boot time."""


def host(view: ResourceView) -> HostReading:
    """PowerState of a System and the properties that show its last start, without a further request."""
    return HostReading(
        power=power_state(view),
        last_reset=view.literal('LastResetTime'),
        boot_progress=_boot_progress(view.part('BootProgress')),
    )


def _boot_progress(progress: ResourceView | None) -> str | None:
    """BootProgress as one text: LastState, its time, and LastBootTimeSeconds, as far as they are present.

    The LastState of a host that is off is the word ``None``, which is a value like any other.
    """
    if progress is None:
        return None
    state = 'None' if progress.body.get('LastState') == 'None' else progress.literal('LastState')
    seconds = progress.body.get('LastBootTimeSeconds')
    is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 <= seconds < _LONGEST_BOOT
    said = (
        state,
        progress.literal('OemLastState'),
        progress.literal('LastStateTime'),
        f'{seconds:.3f} s' if is_time else None,
    )
    return ' '.join(filter(None, said)) or None


def read(connector: Connector, system: Ref) -> ResourceView:
    """Read a System now.

    :raises BmcError: it could not be read.
    """
    return ResourceView.of(fresh(connector, system.bmc, system.uri), [])


def set_power(connector: Connector, system: Ref, wanted: PowerState) -> Objection | None:
    """Request On or Off of a System.

    :returns: a failure or warning in the BMC's answer of success.
    :raises BmcUnsupported: the System offers no ResetType for it. ``BmcError``: the BMC did not accept it.
    """
    words = SWITCH.get(wanted)
    if words is None:
        raise BmcUnsupported(bmc=connector.label, uri=system.uri, what=f'power state {wanted} cannot be requested')
    return _reset(connector, read(connector, system), words)


def reset(connector: Connector, system: Ref, kind: ResetKind) -> Objection | None:
    """Request a reset of that kind of a System or, for a BMC reset, of a Manager.

    :returns: a failure or warning in the BMC's answer of success; None too for a kind that has no ResetType.
    :raises BmcUnsupported: the resource offers no ResetType for it. ``BmcError``: the BMC did not accept it.
    """
    words = WORDS[kind]
    if not words:
        return None
    name = MANAGER_RESET if kind is ResetKind.BMC_RESET else RESET
    return _reset(connector, read(connector, system), words, name)


def restartable(view: ResourceView) -> bool:
    """Whether a Manager offers Manager.Reset."""
    action = view.part('Actions', MANAGER_RESET)
    return action is not None and action.text('target') is not None


def resettable(view: ResourceView) -> bool:
    """Whether a System offers ComputerSystem.Reset."""
    action = view.part('Actions', RESET)
    return action is not None and action.text('target') is not None


def action_info(view: ResourceView) -> str | None:
    """The URI of the ActionInfo with a System's ResetTypes, if its action does not list them itself."""
    action = view.part('Actions', RESET)
    return None if action is None or action.text('target') is None else _action_info(action)


def resets(view: ResourceView, get: Callable[[str], Document]) -> frozenset[ResetKind] | None:
    """The kinds of reset that a System offers; ``none`` among them if it can be powered off and on.

    Powering off and on counts as a restart and as a power cycle. None if the ResetTypes are not advertised or could not be
    read.

    :param get: reads an ActionInfo, which is read only if the action itself does not list its ResetTypes.
    """
    action = view.part('Actions', RESET)
    values = None if action is None else offered(action, get)
    if values is None:
        return None
    switches = all(any(word in values for word in words) for words in SWITCH.values())
    found = {kind for kind, words in WORDS.items() if any(word in values for word in words)} - {ResetKind.BMC_RESET}
    return frozenset(found | ({ResetKind.NONE, ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE} if switches else set()))


def offers_reset(connector: Connector, system: Ref, kind: ResetKind) -> bool:
    """Whether a System offers a reset of that kind in one request, or does not advertise its ResetTypes.

    :raises BmcError: it could not be read.
    """
    view = read(connector, system)
    action = view.part('Actions', RESET)
    values = None if action is None else offered(action, partial(fresh, connector, view.ref.bmc))
    return values is None or any(word in values for word in WORDS[kind])


def _reset(connector: Connector, view: ResourceView, words: tuple[str, ...], name: str = RESET) -> Objection | None:
    action = view.part('Actions', name)
    target = action.text('target') if action is not None else None
    if action is None or target is None:
        raise BmcUnsupported(
            bmc=connector.label, uri=view.ref.uri, what=f'this {name[1:].partition(".")[0]} has no Reset action'
        )
    values = offered(action, partial(fresh, connector, view.ref.bmc))
    word = words[0] if values is None else next((w for w in words if w in values), None)
    if word is None:
        raise BmcUnsupported(
            bmc=connector.label,
            uri=view.ref.uri,
            what=short(f'none of {", ".join(words)} is available; ResetTypes are {", ".join(sorted(values or ()))}'),
        )
    try:
        answer = connector.send('POST', target, body={'ResetType': word})
    except BmcUnreachable as exc:
        if not exc.sent:
            raise
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=f'{exc.what}; {word} may have arrived', hint=exc.hint) from exc
    return said_against(connector, answer, view.ref.bmc)


def offered(action: ResourceView, get: Callable[[str], Document]) -> frozenset[str] | None:
    """The ResetTypes that an action advertises, itself or in its ActionInfo; None if it advertises none."""
    values = action.body.get(_ALLOWED)
    info = _action_info(action)
    if info is not None:
        try:
            found = ResourceView.of(get(info), [])
        except BmcError as exc:
            LOG.info('%s', exc)
            return None
        for parameter in found.parts('Parameters'):
            if parameter is not None and parameter.text('Name') == 'ResetType':
                values = parameter.body.get('AllowableValues')
    return frozenset(v for v in values if isinstance(v, str)) if isinstance(values, list) and values else None


def _action_info(action: ResourceView) -> str | None:
    info = action.body.get('@Redfish.ActionInfo')
    return info if action.body.get(_ALLOWED) is None and isinstance(info, str) and info else None
