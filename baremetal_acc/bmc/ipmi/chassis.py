# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the power state of a machine and what its BMC reports of the last start, by IPMI chassis commands and Get SEL Info.

Get Chassis Status is needed for the power state, and also reports the last power event. Each other command is one more request,
and is optional: where the BMC lacks or refuses it, the value is None, and that is no fault.

Source: IPMI 2.0 revision 1.1, sections 28.2 (Get Chassis Status), 28.11 (Get System Restart Cause), 28.14 (Get POH Counter) and
31.2 (Get SEL Info).
"""

from baremetal_acc.bmc.ipmi import device
from baremetal_acc.bmc.ipmi.command import NetFn, Raw, ask
from baremetal_acc.errors import BmcError
from baremetal_acc.model.inventory import HostReading, PowerEvent, PowerState

_STATUS, _RESTART_CAUSE, _POH_COUNTER, _SEL_INFO = 0x01, 0x07, 0x0F, 0x40

_EVENTS = {
    0x01: PowerEvent.MAINS_LOST,
    0x02: PowerEvent.OVERLOAD,
    0x04: PowerEvent.INTERLOCK,
    0x08: PowerEvent.FAULT,
    0x10: PowerEvent.ON_BY_COMMAND,
}

_BY_COMMAND = 0x1

_CAUSES = {
    _BY_COMMAND: 'Chassis Control',
    0x2: 'reset button',
    0x3: 'power button',
    0x4: 'watchdog',
    0x5: 'OEM',
    0x6: 'mains, always on',
    0x7: 'mains, as before',
    0x8: 'reset by an event filter',
    0x9: 'power cycle by an event filter',
    0xA: 'soft reset',
    0xB: 'clock alarm',
}
"""0h is missing: the BMC reports that the cause is unknown."""


def status(raw: Raw) -> HostReading:
    """The power state of the machine, and the last power event.

    :raises BmcError: Get Chassis Status failed.
    """
    data = ask(raw, NetFn.CHASSIS, _STATUS, what='Get Chassis Status', least=3)
    return HostReading(
        power=PowerState.ON if data[0] & 0x01 else PowerState.OFF,
        power_event=frozenset(event for bit, event in _EVENTS.items() if data[1] & bit),
    )


def restart_cause(raw: Raw) -> str | None:
    """The cause of the machine's last start; for Chassis Control, with the channel of the command. None: not reported.

    :raises BmcError: the BMC no longer answers.
    """
    data = _said(raw, NetFn.CHASSIS, _RESTART_CAUSE, what='Get System Restart Cause', least=1)
    cause = 0 if data is None else data[0] & 0x0F
    if data is None or not cause:
        return None
    name = _CAUSES.get(cause, f'cause {cause:X}h')
    return f'{name}, channel {data[1] & 0x0F:X}h' if cause == _BY_COMMAND and len(data) > 1 else name


def power_on_hours(raw: Raw) -> int | None:
    """How long the machine has been on, in minutes, in whole units of the BMC's counter: most count hours. None: not reported.

    :raises BmcError: the BMC no longer answers.
    """
    data = _said(raw, NetFn.CHASSIS, _POH_COUNTER, what='Get POH Counter', least=5)
    return None if data is None or not data[0] else data[0] * int.from_bytes(data[1:5], 'little')


def log_mark(raw: Raw) -> str | None:
    """A text that changes when an entry is added to the System Event Log, or when the log is cleared. None: not reported.

    :raises BmcError: the BMC no longer answers.
    """
    data = _said(raw, NetFn.STORAGE, _SEL_INFO, what='Get SEL Info', least=9)
    if data is None:
        return None
    entries, added = int.from_bytes(data[1:3], 'little'), int.from_bytes(data[5:9], 'little')
    return f'{entries} entries, the last at {added}'


def _said(raw: Raw, netfn: NetFn, command: int, *, what: str, least: int) -> bytes | None:
    """The data of the answer; None if it is missing or unusable, while the BMC itself still answers."""
    try:
        return ask(raw, netfn, command, what=what, least=least)
    except BmcError as exc:
        device.check(raw, exc)
        return None
