# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Upload firmware to a component by HPM.1.

An upload is a value, a :class:`~baremetal_acc.bmc.ipmi.hpm.upload_state.Transfer`. :func:`step` sends one command and returns
the next value, so that the caller decides when to proceed and when to sleep (:func:`turn` does both). Until Activate Firmware
the controller runs what it ran before, unless it activates by itself (see
:func:`baremetal_acc.bmc.ipmi.hpm.activation.activate`). An upload can be started again at any time, with Abort Firmware
Upgrade and the first block.

Source: PICMG HPM.1 R1.0, section 3; HPM.2 R1.0, section 3; doc/source/reference/ipmi_notes.rst, "Upload by HPM.1".
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from baremetal_acc.bmc.ipmi.command import (
    AWAY,
    GROUP_PICMG,
    NOT_THERE,
    TOO_LONG,
    CommandReply,
    CompletionCode,
    NetFn,
    Raw,
    refusal,
    series,
)
from baremetal_acc.bmc.ipmi.hpm.commands import (
    IN_PROGRESS,
    NAMES,
    HpmCommand,
    encode_block,
    encode_finish,
    encode_initiate,
    encode_plain,
    parse_section,
    parse_status,
)
from baremetal_acc.bmc.ipmi.hpm.image import ActionKind
from baremetal_acc.bmc.ipmi.hpm.upload_block import SAFE_BLOCK
from baremetal_acc.bmc.ipmi.hpm.upload_state import Transfer, UploadStage
from baremetal_acc.errors import BmcUnreachable, WriteFailed

POLL = timedelta(seconds=1)
"""Longest pause between two polls of a command in progress, and the pause before retrying an unreachable controller."""

SOON = timedelta(milliseconds=20)
"""Pause before the second poll of a command in progress. The first poll is sent at once, and each pause is as long as all
before.

Some controllers answer "in progress" for every flash page, and have finished by the first poll.
"""

BUSY_PAUSE = timedelta(milliseconds=100)
"""Minimum pause before retrying a busy controller: as long as ipmitool waits."""

PLAIN_BLOCK = 36
"""Bytes per block of ipmitool without a bridge: every known controller accepts them."""

_ANEW = 2
"""How often an upload restarts by itself: once because of its block size, and once because of an outage."""

_OUT_OF_ORDER = frozenset({CompletionCode.INVALID_FIELD, 0x82})
"""Completion codes for a retransmitted block: some controllers have accepted the first copy, and expect the next block."""

_NO_SECTION = bytes([GROUP_PICMG])
"""The answer to a block that requests no other section of the firmware."""

_AT_NONE = 'no upload is in progress any more: the controller may have restarted, or another client has begun or ended one'

_MEANS = {
    (HpmCommand.INITIATE, 0x81): 'the controller does not support this action for the component',
    (HpmCommand.UPLOAD, 0x81): 'the controller does not accept this component, or no more bytes for it',
    (HpmCommand.UPLOAD, 0x82): 'a checksum within the block is wrong',
    (HpmCommand.FINISH, 0x81): 'the controller has received another number of bytes',
    (HpmCommand.FINISH, 0x82): 'the controller reports that the firmware is damaged or incomplete',
    (HpmCommand.FINISH, 0x83): 'the firmware differs from the one that it was compared with',
    (HpmCommand.UPLOAD, CompletionCode.NOT_IN_STATE): _AT_NONE,
    (HpmCommand.FINISH, CompletionCode.NOT_IN_STATE): _AT_NONE,
}
"""Meaning of command-specific completion codes."""


def turn(
    raw: Raw, transfer: Transfer, *, clock: Callable[[], float], sleep: Callable[[float], None], within: timedelta
) -> Transfer:
    """Continue an upload for about this long, or until it is staged.

    :param clock: monotonic seconds; the same clock for all turns of an upload.
    :raises WriteFailed: the upload failed; nothing was activated, and it has to begin again.
    :raises BmcError: an answer of the controller is invalid, or the user lacks the privilege.
    """
    until = clock() + within.total_seconds()
    while not transfer.staged and clock() < until:
        transfer = _row(raw, transfer, clock, until) if _is_settled(transfer) else step(raw, transfer, clock())
        if transfer.pause:
            sleep(transfer.pause.total_seconds())
    return transfer


def step(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Send one command of an upload.

    A block without an answer is sent again with the same number, which marks it as a retransmission. After any other command
    without an answer, Get Upgrade Status is sent first.

    :raises WriteFailed: as by :func:`turn`.
    :raises BmcError: as by :func:`turn`.
    """
    if transfer.pause:
        transfer = replace(transfer, pause=timedelta(0))
    if transfer.staged:
        return transfer
    if transfer.looking:
        return _watch(raw, transfer, now)
    if transfer.stage is UploadStage.SEND:
        return _send(raw, transfer, now)
    if transfer.stage is UploadStage.ABORT:
        return _clear(raw, transfer, now)
    return _order(raw, transfer, now)


def _clear(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Abort a previous upload, where there may be one.

    Some controllers restart after Abort Firmware Upgrade, so it is sent only where it may be needed: the controller's last
    command belongs to an upload, or is not reported.
    """
    try:
        reply = raw(NetFn.GROUP, HpmCommand.STATUS, encode_plain())
    except BmcUnreachable as exc:
        return _wait(raw, transfer, now, exc.what)
    if reply.ok and parse_status(reply.data, raw.label).command not in _OF_UPLOADS:
        return _done(transfer)
    return _order(raw, transfer, now)


_OF_UPLOADS = frozenset({HpmCommand.INITIATE, HpmCommand.UPLOAD, HpmCommand.FINISH})


def _order(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Send the command of a stage other than a block."""
    command, data = _request(transfer)
    try:
        reply = raw(NetFn.GROUP, command, data, once=True)
    except BmcUnreachable as exc:
        if not exc.sent:
            return _wait(raw, transfer, now, exc.what)
        return _wait(raw, replace(transfer, looking=True, doubt=True), now, exc.what)
    if reply.ok:
        return _done(transfer)
    if reply.code == IN_PROGRESS:
        return _wait(raw, replace(transfer, looking=True, doubt=False), now, f'{NAMES[command]} is in progress', least=_NOW)
    if reply.code == CompletionCode.BUSY:
        return _wait(raw, transfer, now, 'the controller is busy', least=BUSY_PAUSE)
    if reply.code in AWAY:
        return _wait(raw, replace(transfer, looking=True, doubt=True), now, f'the controller answered {reply.code:02X}h')
    if transfer.stage is UploadStage.ABORT and reply.code != CompletionCode.PRIVILEGE:
        return _done(transfer)  # there was nothing to abort
    return _after_refusal(raw, transfer, command, reply)


def _after_refusal(raw: Raw, transfer: Transfer, command: HpmCommand, reply: CommandReply) -> Transfer:
    """Restart an upload that a controller has refused, if a restart may help.

    * The controller may have restarted between two turns, and have lost the upload.
    * The blocks may have been too long, though none was refused: some controllers truncate them, and answer with success.

    :raises WriteFailed: a restart does not help, or was done :data:`_ANEW` times already.
    """
    stage = transfer.stage
    if reply.code != CompletionCode.PRIVILEGE and reply.code not in NOT_THERE and transfer.anew < _ANEW:
        if transfer.taken_up and stage in (UploadStage.SEND, UploadStage.FINISH):
            return _anew(transfer)
        if (
            stage is UploadStage.FINISH
            and reply.code in _NOT_WHOLE
            and transfer.refused is None
            and transfer.size > PLAIN_BLOCK
        ):
            return _anew(replace(transfer, size=PLAIN_BLOCK, taken=PLAIN_BLOCK, refused=PLAIN_BLOCK + 1))
    raise _failed(raw, transfer, command, reply)


_NOT_WHOLE = frozenset({0x81, 0x82})
"""Completion codes of Finish Firmware Upload."""


def _anew(transfer: Transfer) -> Transfer:
    """Restart the upload from its first stage other than backup. That stage is an Abort, except with ``further``."""
    return replace(
        transfer,
        stage=transfer.course[0],
        stages=transfer.course[1:],
        looking=False,
        doubt=False,
        wanted=None,
        anew=transfer.anew + 1,
        taken_up=False,
        since=None,
    )


def _request(transfer: Transfer) -> tuple[HpmCommand, bytes]:
    """The command of a stage other than sending blocks."""
    number = transfer.upload.component
    if transfer.stage is UploadStage.ABORT:
        return HpmCommand.ABORT, encode_plain()
    if transfer.stage is UploadStage.FINISH:
        return HpmCommand.FINISH, encode_finish(number, transfer.sent)
    return HpmCommand.INITIATE, encode_initiate(frozenset({number}), _ACTIONS[transfer.stage])


_ACTIONS = {UploadStage.BACKUP: ActionKind.BACKUP, UploadStage.PREPARE: ActionKind.PREPARE, UploadStage.OPEN: ActionKind.UPLOAD}


def _is_settled(transfer: Transfer) -> bool:
    """Whether whole blocks of a final size, except the last one, can be sent in a row."""
    goes_on = transfer.stage is UploadStage.SEND and not transfer.looking and not transfer.pause and transfer.since is None
    whole = transfer.offset + transfer.size < transfer.end
    return goes_on and whole and transfer.size == transfer.taken == _next_size(transfer.taken, transfer.refused)


def _row(raw: Raw, transfer: Transfer, clock: Callable[[], float], until: float) -> Transfer:
    """Send whole blocks for about this long, up to the last but one, or to the first whose answer is not a plain success.

    One new :class:`Transfer` covers all of them: this takes 30 microseconds less per block than :func:`step`.
    """
    firmware, size = transfer.upload.firmware, transfer.size
    count, now = 0, clock()

    def blocks() -> Iterator[bytes]:
        for number, offset in enumerate(range(transfer.offset, transfer.end - size, size), transfer.number):
            if clock() >= until:
                return
            yield encode_block(number, firmware[offset : offset + size])

    def taken(reply: CommandReply) -> bool:
        nonlocal count, now
        if reply.code or reply.data != _NO_SECTION:
            return False
        count, now = count + 1, clock()
        return True

    answer: CommandReply | BmcUnreachable | None
    try:
        answer = series(raw, NetFn.GROUP, HpmCommand.UPLOAD, blocks(), taken)
    except BmcUnreachable as exc:
        answer = exc
    done = count * size
    after = replace(
        transfer,
        offset=transfer.offset + done,
        number=transfer.number + count,
        sent=transfer.sent + done,
        taken_up=transfer.taken_up and not count,
    )
    return after if answer is None else _heard(raw, after, answer, now)


def _send(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Send a block."""
    return _heard(raw, transfer, _answer(raw, transfer.number, _block(transfer)), now)


def _answer(raw: Raw, number: int, block: bytes) -> CommandReply | BmcUnreachable:
    """Send a block; its reply, or the error if there is none."""
    try:
        return raw(NetFn.GROUP, HpmCommand.UPLOAD, encode_block(number, block))
    except BmcUnreachable as exc:
        return exc


def _heard(raw: Raw, transfer: Transfer, reply: CommandReply | BmcUnreachable, now: float) -> Transfer:
    """The next state after the reply to a block."""
    if isinstance(reply, BmcUnreachable):
        if not reply.sent:
            return _wait(raw, transfer, now, reply.what)
        if not transfer.sent and transfer.size > SAFE_BLOCK:  # a long block may get lost: restart with shorter ones
            smaller = max(SAFE_BLOCK, transfer.size // 4)
            opened = replace(
                transfer,
                size=smaller,
                stage=UploadStage.OPEN,
                stages=(UploadStage.SEND, UploadStage.FINISH, UploadStage.STAGED),
            )
            return _wait(raw, opened, now, reply.what)
        return _wait(raw, replace(transfer, doubt=True), now, reply.what)
    if reply.ok:
        return _taken(raw, transfer, parse_section(reply.data, raw.label))
    if reply.code == IN_PROGRESS:
        wanted = parse_section(reply.data, raw.label) if reply.data else None
        return _wait(
            raw,
            replace(transfer, looking=True, doubt=False, wanted=wanted),
            now,
            f'{NAMES[HpmCommand.UPLOAD]} is in progress',
            least=_NOW,
        )
    if reply.code in _OUT_OF_ORDER and (reply.again or transfer.doubt):
        return _taken(raw, transfer, None)  # Finish Firmware Upload checks that all blocks arrived
    length = len(_block(transfer))
    if reply.code in TOO_LONG and length > max(1, transfer.taken):
        smaller = transfer.taken + (length - transfer.taken) // 2
        return replace(transfer, size=smaller, refused=length)
    if reply.code == CompletionCode.BUSY:
        return _wait(raw, transfer, now, f'the controller answered {reply.code:02X}h', least=BUSY_PAUSE)
    if reply.code in AWAY:
        return _wait(raw, replace(transfer, doubt=True), now, f'the controller answered {reply.code:02X}h')
    return _after_refusal(raw, transfer, HpmCommand.UPLOAD, reply)


def _block(transfer: Transfer) -> bytes:
    return transfer.upload.firmware[transfer.offset : min(transfer.offset + transfer.size, transfer.end)]


def _next_size(taken: int, refused: int | None) -> int:
    """The next block size to try, between the accepted and the refused one, until they are close to each other."""
    return taken if refused is None or refused - taken <= max(1, taken // 32) else (taken + refused) // 2


def _taken(raw: Raw, transfer: Transfer, section: tuple[int, int] | None) -> Transfer:
    """The next state after a block was accepted.

    A controller may skip sections of the firmware, but it never gets more bytes than the firmware has.
    """
    length = len(_block(transfer))
    size, taken = transfer.size, transfer.taken
    if length == size:
        taken = max(taken, size)
        size = _next_size(taken, transfer.refused)
    sent, offset, end = transfer.sent + length, transfer.offset + length, transfer.end
    if section is not None:
        offset, end = section[0], sum(section)
        whole = len(transfer.upload.firmware)
        if offset == end or end > whole or sent + (end - offset) > whole:
            what = (
                f'the controller requests length {section[1]} from offset {section[0]} after {sent} of {whole} bytes were sent'
            )
            raise WriteFailed([_sentence(transfer, what)], hint=_AGAIN)
    transfer = replace(
        transfer,
        size=size,
        taken=taken,
        sent=sent,
        offset=offset,
        end=end,
        number=transfer.number + 1,
        looking=False,
        doubt=False,
        wanted=None,
        taken_up=False,
        since=None,
    )
    return transfer if offset < end else _done(transfer)


def _watch(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Poll the outcome of the last command."""
    command = HpmCommand.UPLOAD if transfer.stage is UploadStage.SEND else _request(transfer)[0]
    try:
        reply = raw(NetFn.GROUP, HpmCommand.STATUS, encode_plain())
    except BmcUnreachable as exc:
        return _wait(raw, transfer, now, exc.what)
    if reply.code == CompletionCode.BUSY or reply.code in AWAY:
        return _wait(raw, transfer, now, f'the controller answered {reply.code:02X}h')
    if not reply.ok:
        raise _failed(raw, transfer, HpmCommand.STATUS, reply)
    status = parse_status(reply.data, raw.label)
    if status.code == IN_PROGRESS:
        return _wait(raw, transfer, now, f'{NAMES[command]} is in progress', least=SOON)
    if transfer.doubt and not (transfer.stage is UploadStage.FINISH and status.command == command):
        return _wait(raw, replace(transfer, looking=False, doubt=False), now, f'{NAMES[command]} was not answered')
    if status.code != CompletionCode.OK and transfer.stage is not UploadStage.ABORT:
        return _after_refusal(raw, transfer, command, CommandReply(status.code))
    return _taken(raw, transfer, transfer.wanted) if transfer.stage is UploadStage.SEND else _done(transfer)


def _done(transfer: Transfer) -> Transfer:
    """Go to the next stage."""
    transfer = replace(
        transfer,
        stage=transfer.stages[0],
        stages=transfer.stages[1:],
        looking=False,
        doubt=False,
        taken_up=False,
        since=None,
    )
    if transfer.stage is not UploadStage.SEND:
        return transfer
    return replace(transfer, offset=0, end=len(transfer.upload.firmware), number=0, sent=0)


_NOW = timedelta(0)


def _wait(raw: Raw, transfer: Transfer, now: float, why: str, *, least: timedelta = POLL) -> Transfer:
    """Set a pause before the next step, or fail if the timeout is used up.

    :param least: the shortest pause. Each pause is as long as the wait before it, up to :data:`POLL`.
    """
    since = now if transfer.since is None else transfer.since
    if now - since > transfer.patience.total_seconds():
        what = f'{why}, for longer than the timeout of {transfer.patience.total_seconds():.0f} s'
        raise WriteFailed([_sentence(transfer, what)], hint=_AGAIN)
    return replace(transfer, since=since, pause=min(POLL, max(least, timedelta(seconds=now - since))))


_AGAIN = 'nothing was activated; the image has to be uploaded again from the beginning'


def _failed(raw: Raw, transfer: Transfer, command: HpmCommand, reply: CommandReply) -> Exception:
    """The error for a command of an upload that failed."""
    if reply.code == CompletionCode.PRIVILEGE or reply.code in NOT_THERE:
        return refusal(raw, NAMES[command], reply)
    means = _MEANS.get((command, reply.code))
    what = f'{NAMES[command]} ended with completion code {reply.code:02X}h' + (f': {means}' if means else '')
    return WriteFailed([_sentence(transfer, what)], hint=_AGAIN)


def _sentence(transfer: Transfer, what: str) -> str:
    """Prefix a message with the stage of the upload. The caller adds the BMC and the component."""
    return f'upload ({transfer.stage}): {what}'
