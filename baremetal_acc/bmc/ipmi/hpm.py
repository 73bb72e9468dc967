# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is firmware listed, activated and rolled back by HPM.1? Uploads are in :mod:`baremetal_acc.bmc.ipmi.transfer`.

Activate and Manual Rollback are sent once. Whatever is answered, or nothing, it is followed by :func:`look`, which can be
repeated at will and after any restart, and :func:`became`.

Source: facts/ipmi.md, section 3 (HPM.1 as ipmitool 1.8.19, Wireshark and python-ipmi 0.6.1 have it).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, Flag, IntEnum
from typing import TypeVar

from baremetal_acc.bmc.ipmi.hpm_image import UNIT, ActionKind, Version, bits, listed, text, version
from baremetal_acc.bmc.ipmi.wire import AWAY, GROUP_PICMG, NOT_THERE, Code, CommandRefused, NetFn, Raw, Reply, ask, refusal
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import TaskState

_T = TypeVar('_T')

IN_PROGRESS = 0x80
"""Completion code of a long command that goes on; Get Upgrade Status shows its end."""

LEAST_PATIENCE = timedelta(seconds=30)
"""With a controller that says that it needs no time, or does not say: restarts of small controllers take about 10 s."""

_HPM_2 = 2

_BACKUP_BY_COMMAND = 1
"""Of a component's two bits of rollback and backup: 2 says that it goes back, and needs no backup to be asked for."""

_NOT_BY_THIS_INTERFACE = 0x81
"""Completion code of Get Target Upgrade Capabilities."""


class Command(IntEnum):
    """Of NetFn 2Ch, body code 00h."""

    TARGET_CAPABILITIES = 0x2E
    COMPONENT_PROPERTIES = 0x2F
    ABORT = 0x30
    INITIATE = 0x31
    UPLOAD = 0x32
    FINISH = 0x33
    STATUS = 0x34
    ACTIVATE = 0x35
    SELF_TEST = 0x36
    ROLLBACK_STATUS = 0x37
    ROLLBACK = 0x38
    HPM2_CAPABILITIES = 0x3E


NAMES = {
    Command.TARGET_CAPABILITIES: 'Get Target Upgrade Capabilities',
    Command.COMPONENT_PROPERTIES: 'Get Component Properties',
    Command.ABORT: 'Abort Firmware Upgrade',
    Command.INITIATE: 'Initiate Upgrade Action',
    Command.UPLOAD: 'Upload Firmware Block',
    Command.FINISH: 'Finish Firmware Upload',
    Command.STATUS: 'Get Upgrade Status',
    Command.ACTIVATE: 'Activate Firmware',
    Command.SELF_TEST: 'Query Self-test Results',
    Command.ROLLBACK_STATUS: 'Query Rollback Status',
    Command.ROLLBACK: 'Initiate Manual Rollback',
    Command.HPM2_CAPABILITIES: 'Get HPM.x Capabilities',
}
"""For messages."""


class Selector(IntEnum):
    """What of a component is asked for."""

    GENERAL = 0
    CURRENT = 1
    NAME = 2
    ROLLBACK = 3
    DEFERRED = 4


class Feature(Flag):
    """What a target says that it can, and does to others."""

    SELF_TEST = 0x01
    AUTO_ROLLBACK = 0x02
    MANUAL_ROLLBACK = 0x04
    SERVICES_AFFECTED = 0x08
    DEFERRED_ACTIVATION = 0x10
    DEGRADED = 0x20
    AUTO_ROLLBACK_OVERRIDE = 0x40
    UNDESIRABLE = 0x80


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a target says of its upgrades.

    :ivar upgrade: longest time of a command that answers 80h.
    :ivar self_test: with ``rollback`` and ``inaccessible``: how long each may take after activation.
    """

    features: Feature
    upgrade: timedelta
    self_test: timedelta
    rollback: timedelta
    inaccessible: timedelta
    components: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """What one component can.

    :ivar rollback: it can go back to what it ran before.
    :ivar backup: what it runs has to be saved by a command for that; it may be that without one it does so by itself.
    :ivar cold_reset: what was activated runs only after a reset of the payload, or a power cycle.
    """

    rollback: bool
    backup: bool
    prepare: bool
    compare: bool
    deferred: bool
    cold_reset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """One component of a target.

    :ivar properties: with ``name`` and the versions, None where the target has none or did not say; ``unread`` tells why it did
        not, one sentence each.
    :ivar deferred: what waits to be activated.
    """

    number: int
    properties: Properties | None
    name: str | None
    current: Version | None
    rollback: Version | None
    deferred: Version | None
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The last long command.

    :ivar code: 80h while it goes on.
    """

    command: int
    code: int
    percent: int | None = None


class SelfTest(Enum):
    """How the self-test after an activation went."""

    NONE = 'none'
    RUNNING = 'running'
    PASSED = 'passed'
    FAILED = 'failed'


class Rollback(Enum):
    """What became of a rollback."""

    NONE = 'none'
    RUNNING = 'running'
    DONE = 'done'
    FAILED = 'failed'
    OVERRIDDEN = 'overridden'
    DENIED = 'denied'


# ------------------------------------------------------------------------------------------------------ requests and answers


def encode_plain() -> bytes:
    """Of the commands that ask for nothing in particular: 2Eh, 30h, 34h, 36h, 37h and 38h."""
    return bytes([GROUP_PICMG])


def encode_properties(component: int, selector: Selector) -> bytes:
    """Get Component Properties."""
    return bytes([GROUP_PICMG, component, selector])


def encode_initiate(components: frozenset[int], action: ActionKind) -> bytes:
    """Initiate Upgrade Action. An upload is of one component."""
    return bytes([GROUP_PICMG, sum(1 << n for n in components), action])


def encode_block(number: int, data: bytes) -> bytes:
    """Upload Firmware Block."""
    return bytes([GROUP_PICMG, number & 0xFF]) + data


def encode_finish(component: int, length: int) -> bytes:
    """Finish Firmware Upload, with the number of bytes that were sent."""
    return bytes([GROUP_PICMG, component]) + length.to_bytes(4, 'little')


def encode_activate(override_auto_rollback: bool = False) -> bytes:
    """Activate Firmware."""
    return bytes([GROUP_PICMG, 1]) if override_auto_rollback else bytes([GROUP_PICMG])


def encode_hpm2_capabilities() -> bytes:
    """Get HPM.x Capabilities, of HPM.2."""
    return bytes([GROUP_PICMG, _HPM_2])


def encode_lan_parameter(first: int) -> bytes:
    """Get LAN Configuration Parameters: HPM.2's channel capabilities, the first of its own parameters, of this channel."""
    return bytes([0x0E, first, 0, 0])


def parse_capabilities(data: bytes, bmc: str) -> Capabilities:
    """Of Get Target Upgrade Capabilities.

    :raises BmcUnsupported: it speaks another HPM.1.
    """
    raw = _body(data, bmc, Command.TARGET_CAPABILITIES, 7)
    if raw[0] != 0:
        raise BmcUnsupported(bmc=bmc, what=f'it speaks HPM.1 version {raw[0]}; only version 0 is known')
    return Capabilities(
        features=Feature(raw[1]),
        upgrade=raw[2] * UNIT,
        self_test=raw[3] * UNIT,
        rollback=raw[4] * UNIT,
        inaccessible=raw[5] * UNIT,
        components=bits(raw[6]),
    )


def parse_general(data: bytes, bmc: str) -> Properties:
    """Of Get Component Properties, selector 0."""
    flags = _body(data, bmc, Command.COMPONENT_PROPERTIES, 1)[0]
    return Properties(
        rollback=bool(flags & 0x03),
        backup=flags & 0x03 == _BACKUP_BY_COMMAND,
        prepare=bool(flags & 0x04),
        compare=bool(flags & 0x08),
        deferred=bool(flags & 0x10),
        cold_reset=bool(flags & 0x20),
    )


def parse_version(data: bytes, bmc: str) -> Version | None:
    """Of Get Component Properties, selectors 1, 3 and 4; None: there is none."""
    return version(_body(data, bmc, Command.COMPONENT_PROPERTIES, 6)[:6])


def parse_name(data: bytes, bmc: str) -> str:
    """Of Get Component Properties, selector 2."""
    return text(_body(data, bmc, Command.COMPONENT_PROPERTIES, 1)[:12])


def parse_section(data: bytes, bmc: str) -> tuple[int, int] | None:
    """Of Upload Firmware Block: from where, and how much, it wants next; None: what follows."""
    raw = _body(data, bmc, Command.UPLOAD, 0)
    if not raw:
        return None
    if len(raw) < 8:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[Command.UPLOAD]}: {len(raw)} bytes of a section, and 8 are needed')
    section = (int.from_bytes(raw[:4], 'little'), int.from_bytes(raw[4:8], 'little'))
    return section if any(section) else None


def parse_status(data: bytes, bmc: str) -> Status:
    """Of Get Upgrade Status."""
    raw = _body(data, bmc, Command.STATUS, 2)
    percent = raw[2] & 0x7F if len(raw) > 2 else None
    return Status(command=raw[0], code=raw[1], percent=percent if percent is not None and percent <= 100 else None)


def parse_self_test(reply: Reply, bmc: str) -> tuple[SelfTest, str, frozenset[int] | None]:
    """Of Query Self-test Results, with its completion code: how it went, for people, and the components that failed it.

    :returns: with no components where it does not tell which.
    """
    if reply.code == IN_PROGRESS:
        return SelfTest.RUNNING, 'the self-test is running', None
    if reply.code == Code.NOT_IN_STATE or reply.code in NOT_THERE:
        return SelfTest.NONE, 'there is no self-test', None
    if not reply.ok:
        return SelfTest.FAILED, f'the self-test ended with completion code {reply.code:02X}h', None
    raw = _body(reply.data, bmc, Command.SELF_TEST, 2)
    if raw[0] == 0x55:
        return SelfTest.PASSED, 'the self-test passed', None
    if raw[0] == 0x60:
        failed = bits(raw[1])
        return SelfTest.FAILED, f'the self-test failed for component {listed(failed) or "none"}', failed or None
    return SelfTest.FAILED, f'the self-test failed with result {raw[0]:02X}h {raw[1]:02X}h', None


_BACK = {IN_PROGRESS: Rollback.RUNNING, 0x81: Rollback.FAILED, 0x82: Rollback.OVERRIDDEN, 0x83: Rollback.DENIED}


def parse_rollback(reply: Reply, bmc: str) -> tuple[Rollback, frozenset[int]]:
    """Of Query Rollback Status, with its completion code: what became of it, and the components that were rolled back."""
    if not reply.ok:
        return _BACK.get(reply.code, Rollback.NONE), frozenset()
    components = bits(_body(reply.data, bmc, Command.ROLLBACK_STATUS, 1)[0])
    return (Rollback.DONE, components) if components else (Rollback.NONE, components)


def parse_hpm2_capabilities(data: bytes, bmc: str) -> tuple[int, int]:
    """Of Get HPM.x Capabilities: the LAN channels that have them, as a mask, and the first of their parameters."""
    raw = _body(data, bmc, Command.HPM2_CAPABILITIES, 7)
    if raw[0] != _HPM_2 or raw[5] < 0xC0:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[Command.HPM2_CAPABILITIES]}: the answer is not about HPM.2')
    return int.from_bytes(raw[2:4], 'little'), raw[5]


def parse_lan_parameter(data: bytes, bmc: str) -> int:
    """Of Get LAN Configuration Parameters: bytes that an inbound message may have at most."""
    if len(data) < 8 or data[0] != 0x11:
        raise BmcAnswerInvalid(bmc=bmc, what="Get LAN Configuration Parameters: the answer is none of HPM.2's parameters")
    return int.from_bytes(data[4:6], 'little')


def _body(data: bytes, bmc: str, command: Command, least: int) -> bytes:
    """What comes after the body code."""
    if not data or data[0] != GROUP_PICMG:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[command]}: the answer does not have the body code of PICMG')
    if len(data) < least + 1:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[command]}: the answer has {len(data)} bytes, and {least + 1} are needed')
    return data[1:]


# --------------------------------------------------------------------------------------------------------------- reading


def capabilities(raw: Raw) -> Capabilities | None:
    """What the controller says of its upgrades; None: it does not speak HPM.1, or not here, an ordinary answer.

    :raises BmcError: it could not be asked, or its answer is none.
    """
    reply = raw(NetFn.GROUP, Command.TARGET_CAPABILITIES, encode_plain())
    if reply.code in NOT_THERE or reply.code == _NOT_BY_THIS_INTERFACE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[Command.TARGET_CAPABILITIES], reply)
    return parse_capabilities(reply.data, raw.label)


def status(raw: Raw) -> Status | None:
    """The last long command; None: it does not tell, an ordinary answer.

    :raises BmcError: it could not be asked, or its answer is none.
    """
    reply = raw(NetFn.GROUP, Command.STATUS, encode_plain())
    if reply.code in NOT_THERE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[Command.STATUS], reply)
    return parse_status(reply.data, raw.label)


def component(raw: Raw, number: int) -> Component:
    """Read one component. What it refuses to say is missing, with the reason.

    :raises BmcUnreachable: it does not answer.
    """
    unread: list[str] = []

    def read(selector: Selector, parse: Callable[[bytes, str], _T]) -> _T | None:
        what = f'{NAMES[Command.COMPONENT_PROPERTIES]} of component {number}, {selector.name.lower()}'
        try:
            data = ask(raw, NetFn.GROUP, Command.COMPONENT_PROPERTIES, encode_properties(number, selector), what=what, least=1)
            return parse(data, raw.label)
        except BmcUnreachable:
            raise
        except CommandRefused as exc:
            if exc.code != _NO_SUCH_PROPERTY:
                unread.append(exc.what)
        except BmcError as exc:
            unread.append(exc.what)
        return None

    properties = read(Selector.GENERAL, parse_general)
    return Component(
        number=number,
        properties=properties,
        current=read(Selector.CURRENT, parse_version),
        name=read(Selector.NAME, parse_name),
        rollback=read(Selector.ROLLBACK, parse_version) if properties is None or properties.rollback else None,
        deferred=read(Selector.DEFERRED, parse_version) if properties is None or properties.deferred else None,
        unread=tuple(unread),
    )


_NO_SUCH_PROPERTY = 0x83


def components(raw: Raw, target: Capabilities) -> tuple[Component, ...]:
    """Read all components of a target, in their order.

    :raises BmcUnreachable: it does not answer.
    """
    return tuple(component(raw, number) for number in sorted(target.components))


# --------------------------------------------------------------------------------------------- activation and rollback


def activate(raw: Raw, *, override_auto_rollback: bool = False) -> bool:
    """Activate what is staged. Sent once: what became of it is seen by :func:`look`, whatever this says.

    Some controllers activate by themselves what has no deferred activation, when its upload is finished. They have nothing left
    to activate then, and say so: that is no refusal.

    :returns: it said that it is done; False: it goes on, or nobody knows whether it began.
    :raises BmcBusy: it says that it is busy; it may have been done all the same, as a bus may repeat a command.
    :raises BmcError: it was refused, or could not be sent; it has not begun.
    """
    try:
        return _once(raw, Command.ACTIVATE, encode_activate(override_auto_rollback))
    except CommandRefused as exc:
        if exc.code != Code.NOT_IN_STATE:
            raise
        return False


def roll_back(raw: Raw) -> bool:
    """Go back to the firmware before, of all components that were activated. As of :func:`activate`."""
    return _once(raw, Command.ROLLBACK, encode_plain())


def _once(raw: Raw, command: Command, data: bytes) -> bool:
    try:
        reply = raw(NetFn.GROUP, command, data, once=True)
    except BmcUnreachable as exc:
        if not exc.sent:
            raise
        return False
    if reply.ok:
        return True
    if reply.code == IN_PROGRESS or reply.code in AWAY:
        return False
    raise refusal(raw, NAMES[command], reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How a controller stands after an activation or a rollback.

    :ivar away: why it could not be asked now, None where it could.
    :ivar failed: the components that failed the self-test; None where it does not tell which.
    :ivar rolled_back: the components of the last rollback.
    """

    away: str | None = None
    status: Status | None = None
    test: SelfTest = SelfTest.NONE
    test_says: str = ''
    failed: frozenset[int] | None = None
    back: Rollback = Rollback.NONE
    rolled_back: frozenset[int] = frozenset()


def look(raw: Raw) -> Standing:
    """Look how a controller stands, as often as wanted: at least 0.1 s apart, and again after a restart of this process.

    :raises BmcError: an answer is none, or the user may not. That it is away is a reading.
    """
    try:
        answers = [
            raw(NetFn.GROUP, command, encode_plain())
            for command in (Command.STATUS, Command.SELF_TEST, Command.ROLLBACK_STATUS)
        ]
    except BmcUnreachable as exc:
        return Standing(away=exc.what)
    away = next((reply.code for reply in answers if reply.code == Code.BUSY or reply.code in AWAY), None)
    if away is not None:
        return Standing(away=f'it answers {away:02X}h')
    status, test, back = answers
    if status.code == Code.PRIVILEGE:
        raise refusal(raw, NAMES[Command.STATUS], status)
    result, says, failed = parse_self_test(test, raw.label)
    try:
        if result in (SelfTest.FAILED, SelfTest.RUNNING) and not _tests_itself(raw):
            result, says, failed = SelfTest.NONE, 'its self-test is none of upgrades', None
    except BmcUnreachable as exc:
        return Standing(away=exc.what)
    what, which = parse_rollback(back, raw.label)
    return Standing(
        status=parse_status(status.data, raw.label) if status.ok else None,
        test=result,
        test_says=says,
        failed=failed,
        back=what,
        rolled_back=which,
    )


def _tests_itself(raw: Raw) -> bool:
    """Whether what it says of a self-test is about an upgrade. Some that have none say there how the controller itself is.

    :raises BmcUnreachable: it does not answer.
    """
    try:
        target = capabilities(raw)
    except BmcUnreachable:
        raise
    except BmcError:
        return True
    return target is None or Feature.SELF_TEST in target.features


def became(standing: Standing, number: int, command: Command) -> tuple[TaskState, str]:
    """What a standing says of the last Activate or Manual Rollback, of one component, and for people.

    Only the version that runs is success; that is for whoever asks to read.
    """
    status = standing.status
    if status is not None and status.code == IN_PROGRESS:
        return TaskState.ACTIVE, f'{named(status.command)} goes on'
    if standing.test is SelfTest.RUNNING:
        return TaskState.ACTIVE, standing.test_says
    if standing.back is Rollback.RUNNING:
        return TaskState.ACTIVE, 'a rollback goes on'
    if command is Command.ROLLBACK and standing.back in (Rollback.FAILED, Rollback.DENIED):
        return TaskState.FAILED, f'the rollback: {standing.back.value}'
    if status is None or status.command != command:
        what = 'a rollback' if command is Command.ROLLBACK else 'an activation'
        return TaskState.GONE, f'it does not say what became of {what}'
    if command is Command.ACTIVATE and status.code == Code.NOT_IN_STATE:
        return TaskState.GONE, 'it had nothing to activate any more'
    if status.code:
        return TaskState.FAILED, f'{named(status.command)} ended with completion code {status.code:02X}h'
    ours = standing.failed is None or number in standing.failed
    if command is Command.ACTIVATE and standing.test is SelfTest.FAILED and ours:
        return TaskState.FAILED, standing.test_says
    if command is Command.ACTIVATE and number in standing.rolled_back:
        return TaskState.FAILED, 'it was rolled back'
    return TaskState.SUCCEEDED, f'{named(status.command)} ended well'


def named(command: int) -> str:
    """A command, for people."""
    return NAMES[Command(command)] if command in tuple(Command) else f'command {command:02X}h'
