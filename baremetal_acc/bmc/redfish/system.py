# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the power state of a System and what shows its last start; switch it, and reset it or a Manager.

Source: DSP8010 2025.4, ComputerSystem v1_27_0 (LastResetTime, BootProgress) and Manager v1_24_0, Reset; ActionInfo v1.
"""

import logging
from collections.abc import Callable
from functools import partial

from baremetal_acc.bmc.api import Document
from baremetal_acc.bmc.redfish.connector import Connector
from baremetal_acc.bmc.redfish.message import short
from baremetal_acc.bmc.redfish.parse import View, power_state
from baremetal_acc.bmc.redfish.reader import fresh
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
"""The ResetTypes that bring about a kind, the preferred first. A restart is no power cycle. How standby power is cycled is in
:mod:`baremetal_acc.bmc.redfish.standby`.
"""

SWITCH: dict[PowerState, tuple[str, ...]] = {PowerState.ON: ('On', 'ForceOn'), PowerState.OFF: ('ForceOff',)}


_LONGEST_BOOT = 10**9
"""Seconds. What is more is no time that a boot has taken."""


def host(view: View) -> HostReading:
    """Whether a System is on, and what it says of its last start: no request more."""
    return HostReading(
        power=power_state(view),
        last_reset=view.literal('LastResetTime'),
        boot_progress=_boot_progress(view.part('BootProgress')),
    )


def _boot_progress(progress: View | None) -> str | None:
    """Its state with its time, and how long the last boot took, those that there are.

    The state of a host that is off is the word ``None``, which is a value like any other.
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


def read(connector: Connector, system: Ref) -> View:
    """The System now.

    :raises BmcError: it could not be read.
    """
    return View.of(fresh(connector, system.bmc, system.uri), [])


def set_power(connector: Connector, system: Ref, wanted: PowerState) -> Objection | None:
    """Ask for On or Off.

    :returns: what the BMC says against it although it has accepted it.
    :raises BmcUnsupported: it offers no ResetType for it. ``BmcError``: it was not accepted.
    """
    words = SWITCH.get(wanted)
    if words is None:
        raise BmcUnsupported(bmc=connector.label, uri=system.uri, what=f'power state {wanted} cannot be asked for')
    return _reset(connector, read(connector, system), words)


def reset(connector: Connector, system: Ref, kind: ResetKind) -> Objection | None:
    """Ask for a reset of that kind, of a System or, where it is one of the BMC, of a Manager.

    :returns: what the BMC says against it although it has accepted it.
    :raises BmcUnsupported: it offers none. ``BmcError``: it was not accepted.
    """
    words = WORDS[kind]
    if not words:
        return None
    name = MANAGER_RESET if kind is ResetKind.BMC_RESET else RESET
    return _reset(connector, read(connector, system), words, name)


def restartable(view: View) -> bool:
    """The Manager offers Manager.Reset."""
    action = view.part('Actions', MANAGER_RESET)
    return action is not None and action.text('target') is not None


def resettable(view: View) -> bool:
    """The System offers ComputerSystem.Reset."""
    action = view.part('Actions', RESET)
    return action is not None and action.text('target') is not None


def action_info(view: View) -> str | None:
    """Where the ResetTypes of a System are, if its action does not list them itself."""
    action = view.part('Actions', RESET)
    return None if action is None or action.text('target') is None else _action_info(action)


def resets(view: View, get: Callable[[str], Document]) -> frozenset[ResetKind] | None:
    """The resets that can be asked for of a System; ``none`` among them: it can be powered off and on.

    A power cycle can also be had by powering it off and on. None where its ResetTypes are not advertised, or could not be read.

    :param get: reads an ActionInfo, which is asked for only where the action itself does not list its ResetTypes.
    """
    action = view.part('Actions', RESET)
    values = None if action is None else offered(action, get)
    if values is None:
        return None
    switches = all(any(word in values for word in words) for words in SWITCH.values())
    found = {kind for kind, words in WORDS.items() if any(word in values for word in words)} - {ResetKind.BMC_RESET}
    return frozenset(found | ({ResetKind.NONE, ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE} if switches else set()))


def offers_reset(connector: Connector, system: Ref, kind: ResetKind) -> bool:
    """A System takes a reset of that kind in one request.

    :raises BmcError: it could not be read.
    """
    view = read(connector, system)
    action = view.part('Actions', RESET)
    values = None if action is None else offered(action, partial(fresh, connector, view.ref.bmc))
    return values is None or any(word in values for word in WORDS[kind])


def _reset(connector: Connector, view: View, words: tuple[str, ...], name: str = RESET) -> Objection | None:
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
            what=short(f'it offers none of {", ".join(words)}; ResetTypes are {", ".join(sorted(values or ()))}'),
        )
    try:
        answer = connector.send('POST', target, body={'ResetType': word})
    except BmcUnreachable as exc:
        if not exc.sent:
            raise
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=f'{exc.what}; {word} may have arrived', hint=exc.hint) from exc
    return said_against(connector, answer, view.ref.bmc)


def offered(action: View, get: Callable[[str], Document]) -> frozenset[str] | None:
    """The ResetTypes that are advertised, at the action or in its ActionInfo; None when nothing is said."""
    values = action.body.get(_ALLOWED)
    info = _action_info(action)
    if info is not None:
        try:
            found = View.of(get(info), [])
        except BmcError as exc:
            LOG.info('%s', exc)
            return None
        for parameter in found.parts('Parameters'):
            if parameter is not None and parameter.text('Name') == 'ResetType':
                values = parameter.body.get('AllowableValues')
    return frozenset(v for v in values if isinstance(v, str)) if isinstance(values, list) and values else None


def _action_info(action: View) -> str | None:
    info = action.body.get('@Redfish.ActionInfo')
    return info if action.body.get(_ALLOWED) is None and isinstance(info, str) and info else None
