# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Request power states and restarts of a machine by Chassis Control, and restarts of its BMC by Cold Reset."""

from baremetal_acc.bmc.ipmi.command import CommandRefused, CompletionCode, NetFn, Raw, ask
from baremetal_acc.errors import BmcBusy, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import PowerState
from baremetal_acc.model.lock import ResetKind

_CHASSIS_CONTROL, _COLD_RESET = 0x02, 0x02
_CONTROL = {PowerState.OFF: 0x00, PowerState.ON: 0x01, ResetKind.POWER_CYCLE: 0x02, ResetKind.SYSTEM_RESET: 0x03}
"""Data byte of Chassis Control. Source: IPMI 2.0 revision 1.1, section 28.3."""


def request_chassis_control(raw: Raw, wanted: PowerState | ResetKind) -> None:
    """Request a power state, a restart or a power cycle of the machine by Chassis Control, once.

    :param raw: to the BMC, as operator.
    :raises BmcUnsupported: Chassis Control has no such request.
    :raises BmcBusy: the power state does not allow it now.
    :raises BmcError: the request was not accepted.
    """
    word = _CONTROL.get(wanted)
    if word is None:
        raise BmcUnsupported(bmc=raw.label, what=f'{wanted} cannot be requested over IPMI')
    try:
        ask(raw, NetFn.CHASSIS, _CHASSIS_CONTROL, bytes([word]), what='Chassis Control', once=True)
    except CommandRefused as exc:
        if exc.code != CompletionCode.NOT_IN_STATE:
            raise
        # BMCs answer so while the power state is changing. The caller reads whether the wanted state was reached.
        what = f'{exc.what}: the power state does not allow {wanted} now'
        raise BmcBusy(bmc=exc.bmc, uri=exc.uri, what=what) from exc
    except BmcUnreachable as exc:
        if not exc.sent:
            raise
        what = f'{exc.what}; Chassis Control ({wanted}) may have arrived'
        raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=what, hint=exc.hint) from exc


def request_cold_reset(raw: Raw) -> None:
    """Request a restart of the BMC by Cold Reset, once.

    :param raw: to the BMC, as administrator.
    :raises BmcError: the request was not accepted.
    """
    ask(raw, NetFn.APP, _COLD_RESET, what='Cold Reset', once=True)
