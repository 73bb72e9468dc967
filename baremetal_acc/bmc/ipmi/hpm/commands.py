# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.1 commands to list, activate and roll back firmware: encode, parse and send them.

Activate Firmware and Initiate Manual Rollback are sent once. Whatever the controller answers, :func:`look` then reads its
state, as often as needed and after any restart, and :func:`became` derives the outcome. Uploads are in
:mod:`baremetal_acc.bmc.ipmi.hpm.upload`.

Source: PICMG HPM.1 R1.0, section 3, as ipmitool 1.8.19, Wireshark and python-ipmi 0.6.1 have it;
doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, Flag, IntEnum
from typing import TypeVar

from baremetal_acc.bmc.ipmi.command import (
    AWAY,
    GROUP_PICMG,
    NOT_THERE,
    CommandRefused,
    CommandReply,
    CompletionCode,
    NetFn,
    Raw,
    ask,
    refusal,
)
from baremetal_acc.bmc.ipmi.hpm.image import UNIT, ActionKind, Version, bits, listed, text, version
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcUnreachable, BmcUnsupported
from baremetal_acc.model.inventory import TaskState

_T = TypeVar('_T')

IN_PROGRESS = 0x80
"""Completion code of a long-running command that has begun; Get Upgrade Status shows when it ends."""

LEAST_PATIENCE = timedelta(seconds=30)
"""Minimum timeout for a controller that reports none, or zero: restarts of small controllers take about 10 s."""

_HPM_2 = 2

_BACKUP_BY_COMMAND = 1
"""Value of a component's two bits of rollback and backup; 2 means that it supports rollback and needs no backup command."""

_NOT_BY_THIS_INTERFACE = 0x81
"""Completion code of Get Target Upgrade Capabilities: not supported on this interface."""


class HpmCommand(IntEnum):
    """HPM.1 and HPM.2 commands of NetFn 2Ch, body code 00h."""

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
    HpmCommand.TARGET_CAPABILITIES: 'Get Target Upgrade Capabilities',
    HpmCommand.COMPONENT_PROPERTIES: 'Get Component Properties',
    HpmCommand.ABORT: 'Abort Firmware Upgrade',
    HpmCommand.INITIATE: 'Initiate Upgrade Action',
    HpmCommand.UPLOAD: 'Upload Firmware Block',
    HpmCommand.FINISH: 'Finish Firmware Upload',
    HpmCommand.STATUS: 'Get Upgrade Status',
    HpmCommand.ACTIVATE: 'Activate Firmware',
    HpmCommand.SELF_TEST: 'Query Self-test Results',
    HpmCommand.ROLLBACK_STATUS: 'Query Rollback Status',
    HpmCommand.ROLLBACK: 'Initiate Manual Rollback',
    HpmCommand.HPM2_CAPABILITIES: 'Get HPM.x Capabilities',
}
"""Names of the commands, for messages."""


class Selector(IntEnum):
    """Selector of Get Component Properties."""

    GENERAL = 0
    CURRENT = 1
    NAME = 2
    ROLLBACK = 3
    DEFERRED = 4


class ComponentFeature(Flag):
    """Capability bits of a target (Get Target Upgrade Capabilities)."""

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
    """A target's answer to Get Target Upgrade Capabilities.

    :ivar upgrade: timeout of a command that answers 80h.
    :ivar self_test: timeout of the self-test after activation.
    :ivar rollback: timeout of a rollback.
    :ivar inaccessible: how long the target may be inaccessible after activation.
    :ivar components: numbers of its components.
    """

    features: ComponentFeature
    upgrade: timedelta
    self_test: timedelta
    rollback: timedelta
    inaccessible: timedelta
    components: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """General properties of a component.

    :ivar rollback: it can roll back to the version that it ran before.
    :ivar backup: its backup is made by a command; False: it may make one by itself.
    :ivar prepare: it supports the prepare action.
    :ivar compare: it can compare an image with what it runs.
    :ivar deferred: it supports deferred activation.
    :ivar cold_reset: activated firmware runs only after a payload cold reset, or a power cycle.
    """

    rollback: bool
    backup: bool
    prepare: bool
    compare: bool
    deferred: bool
    cold_reset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HpmComponent:
    """One component of a target.

    :ivar properties: None, like ``name`` and the versions, where the target has none or did not report them; ``unread`` has the
        reasons for the latter, one sentence each.
    :ivar deferred: the version that waits to be activated.
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
    """Answer to Get Upgrade Status: the last long-running command.

    :ivar code: its completion code; 80h while it is in progress.
    """

    command: int
    code: int
    percent: int | None = None


class SelfTest(Enum):
    """Result of the self-test after an activation."""

    NONE = 'none'
    RUNNING = 'running'
    PASSED = 'passed'
    FAILED = 'failed'


class Rollback(Enum):
    """Result of a rollback."""

    NONE = 'none'
    RUNNING = 'running'
    DONE = 'done'
    FAILED = 'failed'
    OVERRIDDEN = 'overridden'
    DENIED = 'denied'


# ------------------------------------------------------------------------------------------------------ requests and answers


def encode_plain() -> bytes:
    """Encode the commands without parameters: 2Eh, 30h, 34h, 36h, 37h and 38h."""
    return bytes([GROUP_PICMG])


def encode_properties(component: int, selector: Selector) -> bytes:
    """Encode Get Component Properties."""
    return bytes([GROUP_PICMG, component, selector])


def encode_initiate(components: frozenset[int], action: ActionKind) -> bytes:
    """Encode Initiate Upgrade Action; for an upload, exactly one component."""
    return bytes([GROUP_PICMG, sum(1 << n for n in components), action])


def encode_block(number: int, data: bytes) -> bytes:
    """Encode Upload Firmware Block."""
    return bytes([GROUP_PICMG, number & 0xFF]) + data


def encode_finish(component: int, length: int) -> bytes:
    """Encode Finish Firmware Upload, with the number of bytes sent."""
    return bytes([GROUP_PICMG, component]) + length.to_bytes(4, 'little')


def encode_activate(override_auto_rollback: bool = False) -> bytes:
    """Encode Activate Firmware."""
    return bytes([GROUP_PICMG, 1]) if override_auto_rollback else bytes([GROUP_PICMG])


def encode_hpm2_capabilities() -> bytes:
    """Encode Get HPM.x Capabilities, for HPM.2."""
    return bytes([GROUP_PICMG, _HPM_2])


def encode_lan_parameter(first: int) -> bytes:
    """Encode Get LAN Configuration Parameters for HPM.2's channel capabilities (its first parameter) of this channel."""
    return bytes([0x0E, first, 0, 0])


def parse_capabilities(data: bytes, bmc: str) -> Capabilities:
    """Parse the answer to Get Target Upgrade Capabilities.

    :raises BmcUnsupported: the target has another version of HPM.1.
    """
    raw = _body(data, bmc, HpmCommand.TARGET_CAPABILITIES, 7)
    if raw[0] != 0:
        raise BmcUnsupported(bmc=bmc, what=f'it speaks HPM.1 version {raw[0]}; only version 0 is known')
    return Capabilities(
        features=ComponentFeature(raw[1]),
        upgrade=raw[2] * UNIT,
        self_test=raw[3] * UNIT,
        rollback=raw[4] * UNIT,
        inaccessible=raw[5] * UNIT,
        components=bits(raw[6]),
    )


def parse_general(data: bytes, bmc: str) -> Properties:
    """Parse the answer to Get Component Properties, selector 0."""
    flags = _body(data, bmc, HpmCommand.COMPONENT_PROPERTIES, 1)[0]
    return Properties(
        rollback=bool(flags & 0x03),
        backup=flags & 0x03 == _BACKUP_BY_COMMAND,
        prepare=bool(flags & 0x04),
        compare=bool(flags & 0x08),
        deferred=bool(flags & 0x10),
        cold_reset=bool(flags & 0x20),
    )


def parse_version(data: bytes, bmc: str) -> Version | None:
    """Parse the answer to Get Component Properties, selectors 1, 3 and 4; None: the component has no such version."""
    return version(_body(data, bmc, HpmCommand.COMPONENT_PROPERTIES, 6)[:6])


def parse_name(data: bytes, bmc: str) -> str:
    """Parse the answer to Get Component Properties, selector 2."""
    return text(_body(data, bmc, HpmCommand.COMPONENT_PROPERTIES, 1)[:12])


def parse_section(data: bytes, bmc: str) -> tuple[int, int] | None:
    """Parse the answer to Upload Firmware Block: offset and length of the section to send next; None: continue in order."""
    raw = _body(data, bmc, HpmCommand.UPLOAD, 0)
    if not raw:
        return None
    if len(raw) < 8:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[HpmCommand.UPLOAD]}: {len(raw)} bytes of a section, and 8 are needed')
    section = (int.from_bytes(raw[:4], 'little'), int.from_bytes(raw[4:8], 'little'))
    return section if any(section) else None


def parse_status(data: bytes, bmc: str) -> Status:
    """Parse the answer to Get Upgrade Status."""
    raw = _body(data, bmc, HpmCommand.STATUS, 2)
    percent = raw[2] & 0x7F if len(raw) > 2 else None
    return Status(command=raw[0], code=raw[1], percent=percent if percent is not None and percent <= 100 else None)


def parse_self_test(reply: CommandReply, bmc: str) -> tuple[SelfTest, str, frozenset[int] | None]:
    """Parse the answer to Query Self-test Results.

    :returns: the result, a text for people, and the components that failed; None for these where they are not reported.
    """
    if reply.code == IN_PROGRESS:
        return SelfTest.RUNNING, 'the self-test is running', None
    if reply.code == CompletionCode.NOT_IN_STATE or reply.code in NOT_THERE:
        return SelfTest.NONE, 'there is no self-test', None
    if not reply.ok:
        return SelfTest.FAILED, f'the self-test ended with completion code {reply.code:02X}h', None
    raw = _body(reply.data, bmc, HpmCommand.SELF_TEST, 2)
    if raw[0] == 0x55:
        return SelfTest.PASSED, 'the self-test passed', None
    if raw[0] == 0x60:
        failed = bits(raw[1])
        return SelfTest.FAILED, f'the self-test failed for component {listed(failed) or "none"}', failed or None
    return SelfTest.FAILED, f'the self-test failed with result {raw[0]:02X}h {raw[1]:02X}h', None


_BACK = {IN_PROGRESS: Rollback.RUNNING, 0x81: Rollback.FAILED, 0x82: Rollback.OVERRIDDEN, 0x83: Rollback.DENIED}


def parse_rollback(reply: CommandReply, bmc: str) -> tuple[Rollback, frozenset[int]]:
    """Parse the answer to Query Rollback Status: the result, and the components that were rolled back."""
    if not reply.ok:
        return _BACK.get(reply.code, Rollback.NONE), frozenset()
    components = bits(_body(reply.data, bmc, HpmCommand.ROLLBACK_STATUS, 1)[0])
    return (Rollback.DONE, components) if components else (Rollback.NONE, components)


def parse_hpm2_capabilities(data: bytes, bmc: str) -> tuple[int, int]:
    """Parse the answer to Get HPM.x Capabilities: the mask of LAN channels with HPM.2 parameters, and the first parameter."""
    raw = _body(data, bmc, HpmCommand.HPM2_CAPABILITIES, 7)
    if raw[0] != _HPM_2 or raw[5] < 0xC0:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[HpmCommand.HPM2_CAPABILITIES]}: the answer is not about HPM.2')
    return int.from_bytes(raw[2:4], 'little'), raw[5]


def parse_lan_parameter(data: bytes, bmc: str) -> int:
    """Parse HPM.2's channel capabilities: maximum bytes of an inbound message."""
    if len(data) < 8 or data[0] != 0x11:
        raise BmcAnswerInvalid(bmc=bmc, what="Get LAN Configuration Parameters: the answer is none of HPM.2's parameters")
    return int.from_bytes(data[4:6], 'little')


def _body(data: bytes, bmc: str, command: HpmCommand, least: int) -> bytes:
    """The bytes after the body code."""
    if not data or data[0] != GROUP_PICMG:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[command]}: the answer does not have the body code of PICMG')
    if len(data) < least + 1:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[command]}: the answer has {len(data)} bytes, and {least + 1} are needed')
    return data[1:]


# --------------------------------------------------------------------------------------------------------------- reading


def read_capabilities(raw: Raw) -> Capabilities | None:
    """Get Target Upgrade Capabilities; None: the controller has no HPM.1, or not on this interface, an ordinary answer.

    :raises BmcError: it was refused or not answered, or the answer is invalid.
    """
    reply = raw(NetFn.GROUP, HpmCommand.TARGET_CAPABILITIES, encode_plain())
    if reply.code in NOT_THERE or reply.code == _NOT_BY_THIS_INTERFACE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[HpmCommand.TARGET_CAPABILITIES], reply)
    return parse_capabilities(reply.data, raw.label)


def read_status(raw: Raw) -> Status | None:
    """Get Upgrade Status; None: the controller does not have the command, an ordinary answer.

    :raises BmcError: it was refused or not answered, or the answer is invalid.
    """
    reply = raw(NetFn.GROUP, HpmCommand.STATUS, encode_plain())
    if reply.code in NOT_THERE:
        return None
    if not reply.ok:
        raise refusal(raw, NAMES[HpmCommand.STATUS], reply)
    return parse_status(reply.data, raw.label)


def read_component(raw: Raw, number: int) -> HpmComponent:
    """Read one component. Values that it refuses to report are None, with the reason in ``unread``.

    :raises BmcUnreachable: the controller does not answer.
    """
    unread: list[str] = []

    def read(selector: Selector, parse: Callable[[bytes, str], _T]) -> _T | None:
        what = f'{NAMES[HpmCommand.COMPONENT_PROPERTIES]} of component {number}, {selector.name.lower()}'
        try:
            data = ask(
                raw, NetFn.GROUP, HpmCommand.COMPONENT_PROPERTIES, encode_properties(number, selector), what=what, least=1
            )
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
    return HpmComponent(
        number=number,
        properties=properties,
        current=read(Selector.CURRENT, parse_version),
        name=read(Selector.NAME, parse_name),
        rollback=read(Selector.ROLLBACK, parse_version) if properties is None or properties.rollback else None,
        deferred=read(Selector.DEFERRED, parse_version) if properties is None or properties.deferred else None,
        unread=tuple(unread),
    )


_NO_SUCH_PROPERTY = 0x83


def read_components(raw: Raw, target: Capabilities) -> tuple[HpmComponent, ...]:
    """Read all components of a target, in the order of their numbers.

    :raises BmcUnreachable: the controller does not answer.
    """
    return tuple(read_component(raw, number) for number in sorted(target.components))


# --------------------------------------------------------------------------------------------- activation and rollback


def activate(raw: Raw, *, override_auto_rollback: bool = False) -> bool:
    """Send Activate Firmware, once. Its outcome is read by :func:`look`, whatever the answer is.

    Some controllers activate firmware by themselves when its upload is finished, if the component has no deferred activation.
    They have nothing left to activate, and answer so (D5h): that is no refusal.

    :returns: True: the controller reports that it is done; False: it is in progress, or it is not known whether it began.
    :raises BmcBusy: the controller is busy; the activation may have been done all the same, as a bus may repeat a command.
    :raises BmcError: it was refused, or could not be sent; it has not begun.
    """
    try:
        return _once(raw, HpmCommand.ACTIVATE, encode_activate(override_auto_rollback))
    except CommandRefused as exc:
        if exc.code != CompletionCode.NOT_IN_STATE:
            raise
        return False


def roll_back(raw: Raw) -> bool:
    """Send Initiate Manual Rollback, for all components that were activated last. Otherwise as :func:`activate`."""
    return _once(raw, HpmCommand.ROLLBACK, encode_plain())


def _once(raw: Raw, command: HpmCommand, data: bytes) -> bool:
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
class UpgradeStatus:
    """State of a controller after an activation or a rollback.

    :ivar away: why the state could not be read now; None where it could.
    :ivar status: the last long-running command; None where it is not reported.
    :ivar test: result of the self-test.
    :ivar test_says: the same, for people.
    :ivar failed: the components that failed the self-test; None where they are not reported.
    :ivar back: result of the last rollback.
    :ivar rolled_back: the components of the last rollback.
    """

    away: str | None = None
    status: Status | None = None
    test: SelfTest = SelfTest.NONE
    test_says: str = ''
    failed: frozenset[int] | None = None
    back: Rollback = Rollback.NONE
    rolled_back: frozenset[int] = frozenset()


def look(raw: Raw) -> UpgradeStatus:
    """Read the state of a controller: as often as needed, at least 0.1 s apart, and also after a restart of this process.

    :raises BmcError: an answer is invalid, or the user lacks the privilege. A controller that does not answer is a state.
    """
    try:
        answers = [
            raw(NetFn.GROUP, command, encode_plain())
            for command in (HpmCommand.STATUS, HpmCommand.SELF_TEST, HpmCommand.ROLLBACK_STATUS)
        ]
    except BmcUnreachable as exc:
        return UpgradeStatus(away=exc.what)
    away = next((reply.code for reply in answers if reply.code == CompletionCode.BUSY or reply.code in AWAY), None)
    if away is not None:
        return UpgradeStatus(away=f'it answers {away:02X}h')
    status, test, back = answers
    if status.code == CompletionCode.PRIVILEGE:
        raise refusal(raw, NAMES[HpmCommand.STATUS], status)
    result, says, failed = parse_self_test(test, raw.label)
    try:
        if result in (SelfTest.FAILED, SelfTest.RUNNING) and not _tests_itself(raw):
            result, says, failed = SelfTest.NONE, 'its self-test is none of upgrades', None
    except BmcUnreachable as exc:
        return UpgradeStatus(away=exc.what)
    what, which = parse_rollback(back, raw.label)
    return UpgradeStatus(
        status=parse_status(status.data, raw.label) if status.ok else None,
        test=result,
        test_says=says,
        failed=failed,
        back=what,
        rolled_back=which,
    )


def _tests_itself(raw: Raw) -> bool:
    """Whether the self-test is that of an upgrade. Some controllers without one report their own health by the same command.

    :raises BmcUnreachable: the controller does not answer.
    """
    try:
        target = read_capabilities(raw)
    except BmcUnreachable:
        raise
    except BmcError:
        return True
    return target is None or ComponentFeature.SELF_TEST in target.features


def became(standing: UpgradeStatus, number: int, command: HpmCommand) -> tuple[TaskState, str]:
    """Outcome of the last Activate Firmware or Initiate Manual Rollback for one component, and a text for people.

    A success reported here is not enough: the caller has to check the version that runs.
    """
    status = standing.status
    if status is not None and status.code == IN_PROGRESS:
        return TaskState.ACTIVE, f'{named(status.command)} goes on'
    if standing.test is SelfTest.RUNNING:
        return TaskState.ACTIVE, standing.test_says
    if standing.back is Rollback.RUNNING:
        return TaskState.ACTIVE, 'a rollback goes on'
    if command is HpmCommand.ROLLBACK and standing.back in (Rollback.FAILED, Rollback.DENIED):
        return TaskState.FAILED, f'the rollback: {standing.back.value}'
    if status is None or status.command != command:
        what = 'a rollback' if command is HpmCommand.ROLLBACK else 'an activation'
        return TaskState.GONE, f'it does not say what became of {what}'
    if command is HpmCommand.ACTIVATE and status.code == CompletionCode.NOT_IN_STATE:
        return TaskState.GONE, 'it had nothing to activate any more'
    if status.code:
        return TaskState.FAILED, f'{named(status.command)} ended with completion code {status.code:02X}h'
    ours = standing.failed is None or number in standing.failed
    if command is HpmCommand.ACTIVATE and standing.test is SelfTest.FAILED and ours:
        return TaskState.FAILED, standing.test_says
    if command is HpmCommand.ACTIVATE and number in standing.rolled_back:
        return TaskState.FAILED, 'it was rolled back'
    return TaskState.SUCCEEDED, f'{named(status.command)} ended well'


def named(command: int) -> str:
    """Name of a command, for people."""
    return NAMES[HpmCommand(command)] if command in tuple(HpmCommand) else f'command {command:02X}h'
