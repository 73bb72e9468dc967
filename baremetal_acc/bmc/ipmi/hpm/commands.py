# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HPM.1 and HPM.2 commands to list, upload, activate and roll back firmware: encode requests and parse answers.

Source: PICMG HPM.1 R1.0, section 3, as ipmitool 1.8.19, Wireshark and python-ipmi 0.6.1 have it;
doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum, Flag, IntEnum

from baremetal_acc.bmc.ipmi.command import GROUP_PICMG, NOT_THERE, CommandReply, CompletionCode
from baremetal_acc.bmc.ipmi.hpm.image import UNIT, ActionKind, Version, bits, listed, text, version
from baremetal_acc.errors import BmcAnswerInvalid, BmcUnsupported

IN_PROGRESS = 0x80
"""Completion code of a long-running command that has begun; Get Upgrade Status shows when it ends."""

LEAST_PATIENCE = timedelta(seconds=30)
"""Minimum timeout for a controller that reports none, or zero: restarts of small controllers take about 10 s."""

_HPM_2 = 2

_BACKUP_BY_COMMAND = 1
"""Value of a component's two bits of rollback and backup; 2 means that it supports rollback and needs no backup command."""


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
        raise BmcUnsupported(bmc=bmc, what=f'HPM.1 version {raw[0]} is not supported, only version 0')
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
        raise BmcAnswerInvalid(
            bmc=bmc, what=f'{NAMES[HpmCommand.UPLOAD]}: the section is too short (length {len(raw)}, minimum 8 bytes)'
        )
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
        raise BmcAnswerInvalid(bmc=bmc, what='Get LAN Configuration Parameters: the answer is not an HPM.2 parameter')
    return int.from_bytes(data[4:6], 'little')


def _body(data: bytes, bmc: str, command: HpmCommand, least: int) -> bytes:
    """The bytes after the body code."""
    if not data or data[0] != GROUP_PICMG:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{NAMES[command]}: the answer does not have the body code of PICMG')
    if len(data) < least + 1:
        raise BmcAnswerInvalid(
            bmc=bmc, what=f'{NAMES[command]}: the answer is too short (length {len(data)}, minimum {least + 1} bytes)'
        )
    return data[1:]


def named(command: int) -> str:
    """Name of a command, for people."""
    return NAMES[HpmCommand(command)] if command in tuple(HpmCommand) else f'command {command:02X}h'
