# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Activate firmware by HPM.1 or roll it back, and find the outcome.

Activate Firmware and Initiate Manual Rollback are sent once. Whatever the controller answers, :func:`look` then reads its
state, as often as needed and after any restart, and :func:`became` derives the outcome.

Source: PICMG HPM.1 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Commands of HPM.1".
"""

from dataclasses import dataclass

from baremetal_acc.bmc.ipmi.command import AWAY, CommandRefused, CompletionCode, NetFn, Raw, refusal
from baremetal_acc.bmc.ipmi.hpm.commands import (
    IN_PROGRESS,
    NAMES,
    ComponentFeature,
    HpmCommand,
    Rollback,
    SelfTest,
    Status,
    encode_activate,
    encode_plain,
    named,
    parse_rollback,
    parse_self_test,
    parse_status,
)
from baremetal_acc.bmc.ipmi.hpm.upgrade_target import read_capabilities
from baremetal_acc.errors import BmcError, BmcUnreachable
from baremetal_acc.model.inventory import TaskState


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
        return UpgradeStatus(away=f'the controller answers {away:02X}h')
    status, test, back = answers
    if status.code == CompletionCode.PRIVILEGE:
        raise refusal(raw, NAMES[HpmCommand.STATUS], status)
    result, says, failed = parse_self_test(test, raw.label)
    try:
        if result in (SelfTest.FAILED, SelfTest.RUNNING) and not _tests_itself(raw):
            result, says, failed = SelfTest.NONE, 'the self-test is not one of upgrades', None
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
        return TaskState.ACTIVE, f'{named(status.command)} is in progress'
    if standing.test is SelfTest.RUNNING:
        return TaskState.ACTIVE, standing.test_says
    if standing.back is Rollback.RUNNING:
        return TaskState.ACTIVE, 'a rollback is in progress'
    if command is HpmCommand.ROLLBACK and standing.back in (Rollback.FAILED, Rollback.DENIED):
        return TaskState.FAILED, f'the result of the rollback is: {standing.back.value}'
    if status is None or status.command != command:
        what = 'a rollback' if command is HpmCommand.ROLLBACK else 'an activation'
        return TaskState.GONE, f'the controller does not report the result of {what}'
    if command is HpmCommand.ACTIVATE and status.code == CompletionCode.NOT_IN_STATE:
        return TaskState.GONE, 'the controller had no firmware to activate'
    if status.code:
        return TaskState.FAILED, f'{named(status.command)} ended with completion code {status.code:02X}h'
    ours = standing.failed is None or number in standing.failed
    if command is HpmCommand.ACTIVATE and standing.test is SelfTest.FAILED and ours:
        return TaskState.FAILED, standing.test_says
    if command is HpmCommand.ACTIVATE and number in standing.rolled_back:
        return TaskState.FAILED, 'the component was rolled back'
    return TaskState.SUCCEEDED, f'{named(status.command)} succeeded'
