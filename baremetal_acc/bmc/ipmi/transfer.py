# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How is firmware uploaded by HPM.1?

An upload is a :class:`Transfer`: a value that :func:`step` carries one command further, so that whoever owns it decides when
and how long to go on, and sleeps (:func:`turn` does both). Until Activate the controller runs what it ran, and an upload can
begin anew at any time, with Abort and the first block.

Source: facts/ipmi.md, section 3.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from baremetal_acc.bmc.ipmi.hpm import (
    IN_PROGRESS,
    LEAST_PATIENCE,
    NAMES,
    Capabilities,
    Command,
    Properties,
    encode_block,
    encode_finish,
    encode_hpm2_capabilities,
    encode_initiate,
    encode_lan_parameter,
    encode_plain,
    parse_hpm2_capabilities,
    parse_lan_parameter,
    parse_section,
    parse_status,
)
from baremetal_acc.bmc.ipmi.hpm_image import ActionKind, Image, Upload
from baremetal_acc.bmc.ipmi.wire import AWAY, GROUP_PICMG, NOT_THERE, TOO_LONG, Code, NetFn, Raw, Reply, ask, refusal, series
from baremetal_acc.errors import BmcError, BmcUnreachable, WriteFailed

POLL = timedelta(seconds=1)
"""Between two looks at what goes on, at most, and before asking again whoever was away."""

SOON = timedelta(milliseconds=20)
"""Before the second look at a command that goes on: the first is taken at once, and each pause is as long as all before it.

Some controllers say of every page of their flash that it goes on, and have done it when they are asked.
"""

BUSY_PAUSE = timedelta(milliseconds=100)
"""Before asking again whoever was busy, at least: as long as ipmitool waits."""

SAFE_BLOCK = 23
"""Bytes that go through every bridge known (ipmitool's block behind one)."""

PLAIN_BLOCK = 36
"""Bytes of ipmitool's blocks where there is no bridge: every controller that was ever written takes them."""

_ANEW = 2
"""How often an upload is begun anew by itself: once for its blocks, and once for an outage."""

_LAN_PARAMETERS = 0x02
"""Get LAN Configuration Parameters, of NetFn Transport; of channel Eh, the one that it is asked by."""

_PAYLOAD_OVERHEAD = 7
"""Bytes of an IPMI message over LAN beside its data: two addresses, NetFn, sequence number, command, two checksums."""

_BLOCK_OVERHEAD = 2
"""Body code and block number."""

_OUT_OF_ORDER = frozenset({Code.INVALID_FIELD, 0x82})
"""Of a block that was sent again: some have taken it the first time, and expect the next one."""

_NO_SECTION = bytes([GROUP_PICMG])
"""The answer to a block that says nothing of where to go on."""

_AT_NONE = 'it is at no upload any more: it may have restarted, or somebody else has begun or ended one'

_MEANS = {
    (Command.INITIATE, 0x81): 'it does not take this component for that',
    (Command.UPLOAD, 0x81): 'it does not take this component, or no more of it',
    (Command.UPLOAD, 0x82): 'a sum within the block does not fit',
    (Command.FINISH, 0x81): 'it has got another number of bytes',
    (Command.FINISH, 0x82): 'the firmware is not what it takes for whole',
    (Command.FINISH, 0x83): 'the firmware differs from the one that it was compared with',
    (Command.UPLOAD, Code.NOT_IN_STATE): _AT_NONE,
    (Command.FINISH, Code.NOT_IN_STATE): _AT_NONE,
}
"""What completion codes mean with one command only."""


class Block(NamedTuple):
    """Bytes of firmware with which an upload begins; it backs off from there.

    :ivar told: it is what the controller has said that it takes.
    """

    size: int
    told: bool = False


def block_size(raw: Raw) -> Block:
    """What HPM.2 says, else what the session can carry.

    :raises BmcUnreachable: it does not answer.
    """
    longest, told = raw.longest, False
    try:
        data = ask(
            raw,
            NetFn.GROUP,
            Command.HPM2_CAPABILITIES,
            encode_hpm2_capabilities(),
            what=NAMES[Command.HPM2_CAPABILITIES],
        )
        channels, first = parse_hpm2_capabilities(data, raw.label)
        if channels:
            what = "Get LAN Configuration Parameters, HPM.2's"
            data = ask(raw, NetFn.TRANSPORT, _LAN_PARAMETERS, encode_lan_parameter(first), what=what)
            inbound = parse_lan_parameter(data, raw.label) - _PAYLOAD_OVERHEAD
            if inbound > SAFE_BLOCK:
                longest, told = min(longest, inbound), True
    except BmcUnreachable:
        raise
    except BmcError:
        pass  # without HPM.2 nobody says how long a block may be
    return Block(max(1, longest - _BLOCK_OVERHEAD), told)


class Stage(StrEnum):
    """What an upload does next, in this order."""

    ABORT = 'abort'
    BACKUP = 'backup'
    PREPARE = 'prepare'
    OPEN = 'open'
    SEND = 'send'
    FINISH = 'finish'
    STAGED = 'staged'


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """How far the upload of one component is. In memory only.

    :ivar stages: what comes after ``stage``; ``course`` all that is done anew when it has to be.
    :ivar size: bytes of the next block; ``taken`` the largest that was taken, ``refused`` the smallest that was too long.
    :ivar offset: of the next block in the firmware; ``end`` is the end of what is wanted now.
    :ivar number: of the next block; eight bits of it are sent.
    :ivar sent: bytes that were taken.
    :ivar looking: Get Upgrade Status is asked next; ``doubt``: nobody knows whether the command before it arrived.
    :ivar wanted: from where, and how much, it wants next, by the answer to a block that goes on.
    :ivar anew: how often it was begun anew by itself.
    :ivar taken_up: it was told to go on, and nothing was done since: what was done before may be lost by now.
    :ivar since: when waiting began, by the caller's clock.
    :ivar pause: how long to leave it alone before the next step.
    """

    upload: Upload
    patience: timedelta
    size: int
    stage: Stage
    stages: tuple[Stage, ...]
    course: tuple[Stage, ...]
    taken: int = 0
    refused: int | None = None
    offset: int = 0
    end: int = 0
    number: int = 0
    sent: int = 0
    looking: bool = False
    doubt: bool = False
    wanted: tuple[int, int] | None = None
    anew: int = 0
    taken_up: bool = False
    since: float | None = None
    pause: timedelta = timedelta(0)

    @property
    def staged(self) -> bool:
        """The controller has all of it, and takes it for whole."""
        return self.stage is Stage.STAGED

    @property
    def percent(self) -> int:
        """Of the firmware's bytes."""
        return 100 if self.staged else min(99, self.sent * 100 // len(self.upload.firmware))


def begin(
    image: Image, upload: Upload, target: Capabilities, properties: Properties, block: Block, *, further: bool = False
) -> Transfer:
    """The upload of one component, before its first command.

    The image's actions before the upload are done where the component says that it has them.

    :param block: from :func:`block_size`. More than the controller has told is not tried.
    :param further: other components of this image are staged already, by this process and for the same activation: they would
        be lost by an Abort, with which an upload begins otherwise.
    """
    stages = [Stage.OPEN, Stage.SEND, Stage.FINISH, Stage.STAGED]
    if properties.prepare and image.asks(ActionKind.PREPARE, upload.component):
        stages.insert(0, Stage.PREPARE)
    course = tuple(stages) if further else (Stage.ABORT, *stages)
    if properties.backup and image.asks(ActionKind.BACKUP, upload.component):
        stages.insert(0, Stage.BACKUP)
    if not further:
        stages.insert(0, Stage.ABORT)
    return Transfer(
        upload=upload,
        patience=max(target.upgrade, target.inaccessible, LEAST_PATIENCE),
        size=block.size,
        refused=block.size + 1 if block.told else None,
        stage=stages[0],
        stages=tuple(stages[1:]),
        course=course,
        end=len(upload.firmware),
    )


def paused(transfer: Transfer, now: float) -> str:
    """How far an upload is, as text: whoever goes on with it needs the same firmware, and no more.

    :param now: by the clock of :func:`turn`. The time that was waited in vain counts on, the time in between does not.
    """
    told = {name: getattr(transfer, name) for name in _KEPT}
    told['patience'] = transfer.patience.total_seconds()
    told['waited'] = None if transfer.since is None else now - transfer.since
    return json.dumps(told, separators=(',', ':'))


def resumed(upload: Upload, text: str, now: float) -> Transfer | None:
    """The upload that :func:`paused` told of; None where nobody can go on with that, and it has to begin anew."""
    try:
        told = json.loads(text)
        waited, wanted = told['waited'], told['wanted']
        return Transfer(
            upload=upload,
            patience=timedelta(seconds=told['patience']),
            stage=Stage(told['stage']),
            stages=tuple(Stage(stage) for stage in told['stages']),
            course=tuple(Stage(stage) for stage in told['course']),
            taken_up=True,
            wanted=None if wanted is None else (int(wanted[0]), int(wanted[1])),
            since=None if waited is None else now - float(waited),
            **{name: told[name] for name in _KEPT if name not in ('stage', 'stages', 'course', 'wanted')},
        )
    except (ValueError, KeyError, TypeError, IndexError):
        return None


_KEPT = (
    'stage',
    'stages',
    'course',
    'size',
    'taken',
    'refused',
    'offset',
    'end',
    'number',
    'sent',
    'looking',
    'doubt',
    'wanted',
    'anew',
)


def turn(
    raw: Raw, transfer: Transfer, *, clock: Callable[[], float], sleep: Callable[[float], None], within: timedelta
) -> Transfer:
    """Go on with an upload for about this long, or until it is staged.

    :param clock: seconds that never go back; the same one for all turns of an upload.
    :raises WriteFailed: it cannot be done; nothing was activated, and it has to begin again.
    :raises BmcError: the controller's answer is none, or the user may not.
    """
    until = clock() + within.total_seconds()
    while not transfer.staged and clock() < until:
        transfer = _row(raw, transfer, clock, until) if _is_settled(transfer) else step(raw, transfer, clock())
        if transfer.pause:
            sleep(transfer.pause.total_seconds())
    return transfer


def step(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Send one command of an upload.

    A block whose answer was lost is sent again with its number, which says that it is a retransmission. Of any other command
    whose answer was lost the status is looked at first.

    :raises WriteFailed: as of :func:`turn`.
    :raises BmcError: as of :func:`turn`.
    """
    if transfer.pause:
        transfer = replace(transfer, pause=timedelta(0))
    if transfer.staged:
        return transfer
    if transfer.looking:
        return _watch(raw, transfer, now)
    if transfer.stage is Stage.SEND:
        return _send(raw, transfer, now)
    if transfer.stage is Stage.ABORT:
        return _clear(raw, transfer, now)
    return _order(raw, transfer, now)


def _clear(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Break off what another upload has left, where there may be one.

    Some controllers restart after Abort even if there was something to break off only: without need it is not sent. It is where
    the last command was one of an upload, or where nobody says which it was.
    """
    try:
        reply = raw(NetFn.GROUP, Command.STATUS, encode_plain())
    except BmcUnreachable as exc:
        return _wait(raw, transfer, now, exc.what)
    if reply.ok and parse_status(reply.data, raw.label).command not in _OF_UPLOADS:
        return _done(transfer)
    return _order(raw, transfer, now)


_OF_UPLOADS = frozenset({Command.INITIATE, Command.UPLOAD, Command.FINISH})


def _order(raw: Raw, transfer: Transfer, now: float) -> Transfer:
    """Send a command that is no block."""
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
        return _wait(raw, replace(transfer, looking=True, doubt=False), now, f'{NAMES[command]} goes on', least=_NOW)
    if reply.code == Code.BUSY:
        return _wait(raw, transfer, now, 'it is busy', least=BUSY_PAUSE)
    if reply.code in AWAY:
        return _wait(raw, replace(transfer, looking=True, doubt=True), now, f'it answered {reply.code:02X}h')
    if transfer.stage is Stage.ABORT and reply.code != Code.PRIVILEGE:
        return _done(transfer)  # there was nothing to abort
    return _after_refusal(raw, transfer, command, reply)


def _after_refusal(raw: Raw, transfer: Transfer, command: Command, reply: Reply) -> Transfer:
    """Begin an upload anew that a controller has refused, where that may be ours to mend.

    * It may have restarted while nobody spoke to it, and know nothing of an upload that had come so far.
    * Its blocks may have been longer than all take, though it has called none too long: some cut them, and say that it is done.

    :raises WriteFailed: it is not, or was done before.
    """
    stage = transfer.stage
    if reply.code != Code.PRIVILEGE and reply.code not in NOT_THERE and transfer.anew < _ANEW:
        if transfer.taken_up and stage in (Stage.SEND, Stage.FINISH):
            return _anew(transfer)
        if stage is Stage.FINISH and reply.code in _NOT_WHOLE and transfer.refused is None and transfer.size > PLAIN_BLOCK:
            return _anew(replace(transfer, size=PLAIN_BLOCK, taken=PLAIN_BLOCK, refused=PLAIN_BLOCK + 1))
    raise _failed(raw, transfer, command, reply)


_NOT_WHOLE = frozenset({0x81, 0x82})
"""Of Finish Firmware Upload."""


def _anew(transfer: Transfer) -> Transfer:
    """The upload from its first block, and from what prepares it; what is there of it is broken off."""
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


def _request(transfer: Transfer) -> tuple[Command, bytes]:
    """The command of a stage."""
    number = transfer.upload.component
    if transfer.stage is Stage.ABORT:
        return Command.ABORT, encode_plain()
    if transfer.stage is Stage.FINISH:
        return Command.FINISH, encode_finish(number, transfer.sent)
    return Command.INITIATE, encode_initiate(frozenset({number}), _ACTIONS[transfer.stage])


_ACTIONS = {Stage.BACKUP: ActionKind.BACKUP, Stage.PREPARE: ActionKind.PREPARE, Stage.OPEN: ActionKind.UPLOAD}


def _is_settled(transfer: Transfer) -> bool:
    """Whole blocks go out one after another, none of them the last one, and another size is not tried any more."""
    goes_on = transfer.stage is Stage.SEND and not transfer.looking and not transfer.pause and transfer.since is None
    whole = transfer.offset + transfer.size < transfer.end
    return goes_on and whole and transfer.size == transfer.taken == _next_size(transfer.taken, transfer.refused)


def _row(raw: Raw, transfer: Transfer, clock: Callable[[], float], until: float) -> Transfer:
    """Send whole blocks for about this long, up to the last but one, or to the first that is not plainly taken.

    Another :class:`Transfer` is made of all of them together: a block takes 30 microseconds less than by :func:`step`.
    """
    firmware, size = transfer.upload.firmware, transfer.size
    count, now = 0, clock()

    def blocks() -> Iterator[bytes]:
        for number, offset in enumerate(range(transfer.offset, transfer.end - size, size), transfer.number):
            if clock() >= until:
                return
            yield encode_block(number, firmware[offset : offset + size])

    def taken(reply: Reply) -> bool:
        nonlocal count, now
        if reply.code or reply.data != _NO_SECTION:
            return False
        count, now = count + 1, clock()
        return True

    answer: Reply | BmcUnreachable | None
    try:
        answer = series(raw, NetFn.GROUP, Command.UPLOAD, blocks(), taken)
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


def _answer(raw: Raw, number: int, block: bytes) -> Reply | BmcUnreachable:
    """What becomes of a block that is sent."""
    try:
        return raw(NetFn.GROUP, Command.UPLOAD, encode_block(number, block))
    except BmcUnreachable as exc:
        return exc


def _heard(raw: Raw, transfer: Transfer, reply: Reply | BmcUnreachable, now: float) -> Transfer:
    """What comes after a block of which that was heard."""
    if isinstance(reply, BmcUnreachable):
        if not reply.sent:
            return _wait(raw, transfer, now, reply.what)
        if not transfer.sent and transfer.size > SAFE_BLOCK:  # what is too long may get lost: shorter, and from the beginning
            smaller = max(SAFE_BLOCK, transfer.size // 4)
            opened = replace(transfer, size=smaller, stage=Stage.OPEN, stages=(Stage.SEND, Stage.FINISH, Stage.STAGED))
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
            f'{NAMES[Command.UPLOAD]} goes on',
            least=_NOW,
        )
    if reply.code in _OUT_OF_ORDER and (reply.again or transfer.doubt):
        return _taken(raw, transfer, None)  # Finish says whether all is there
    length = len(_block(transfer))
    if reply.code in TOO_LONG and length > max(1, transfer.taken):
        smaller = transfer.taken + (length - transfer.taken) // 2
        return replace(transfer, size=smaller, refused=length)
    if reply.code == Code.BUSY:
        return _wait(raw, transfer, now, f'it answered {reply.code:02X}h', least=BUSY_PAUSE)
    if reply.code in AWAY:
        return _wait(raw, replace(transfer, doubt=True), now, f'it answered {reply.code:02X}h')
    return _after_refusal(raw, transfer, Command.UPLOAD, reply)


def _block(transfer: Transfer) -> bytes:
    return transfer.upload.firmware[transfer.offset : min(transfer.offset + transfer.size, transfer.end)]


def _next_size(taken: int, refused: int | None) -> int:
    """Between what was taken and what was too long, until they are near each other."""
    return taken if refused is None or refused - taken <= max(1, taken // 32) else (taken + refused) // 2


def _taken(raw: Raw, transfer: Transfer, section: tuple[int, int] | None) -> Transfer:
    """A block was taken: what comes next.

    A controller may skip parts of the firmware, and never gets more bytes than the firmware has.
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
            what = f'it asks for {section[1]} bytes from {section[0]} after {sent} of {whole} were sent'
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
    """Look at what became of the last command."""
    command = Command.UPLOAD if transfer.stage is Stage.SEND else _request(transfer)[0]
    try:
        reply = raw(NetFn.GROUP, Command.STATUS, encode_plain())
    except BmcUnreachable as exc:
        return _wait(raw, transfer, now, exc.what)
    if reply.code == Code.BUSY or reply.code in AWAY:
        return _wait(raw, transfer, now, f'it answered {reply.code:02X}h')
    if not reply.ok:
        raise _failed(raw, transfer, Command.STATUS, reply)
    status = parse_status(reply.data, raw.label)
    if status.code == IN_PROGRESS:
        return _wait(raw, transfer, now, f'{NAMES[command]} goes on', least=SOON)
    if transfer.doubt and not (transfer.stage is Stage.FINISH and status.command == command):
        return _wait(raw, replace(transfer, looking=False, doubt=False), now, f'{NAMES[command]} was not answered')
    if status.code != Code.OK and transfer.stage is not Stage.ABORT:
        return _after_refusal(raw, transfer, command, Reply(status.code))
    return _taken(raw, transfer, transfer.wanted) if transfer.stage is Stage.SEND else _done(transfer)


def _done(transfer: Transfer) -> Transfer:
    """The next stage."""
    transfer = replace(
        transfer,
        stage=transfer.stages[0],
        stages=transfer.stages[1:],
        looking=False,
        doubt=False,
        taken_up=False,
        since=None,
    )
    if transfer.stage is not Stage.SEND:
        return transfer
    return replace(transfer, offset=0, end=len(transfer.upload.firmware), number=0, sent=0)


_NOW = timedelta(0)


def _wait(raw: Raw, transfer: Transfer, now: float, why: str, *, least: timedelta = POLL) -> Transfer:
    """Later, if there is patience left.

    :param least: the shortest pause. Pauses are as long as all that was waited before them, up to :data:`POLL`.
    """
    since = now if transfer.since is None else transfer.since
    if now - since > transfer.patience.total_seconds():
        what = f'{why}, for longer than the {transfer.patience.total_seconds():.0f} s that it is given'
        raise WriteFailed([_sentence(transfer, what)], hint=_AGAIN)
    return replace(transfer, since=since, pause=min(POLL, max(least, timedelta(seconds=now - since))))


_AGAIN = 'nothing of it is activated; it has to be uploaded again from the beginning'


def _failed(raw: Raw, transfer: Transfer, command: Command, reply: Reply) -> Exception:
    """The error for a command of an upload that ended badly."""
    if reply.code == Code.PRIVILEGE or reply.code in NOT_THERE:
        return refusal(raw, NAMES[command], reply)
    means = _MEANS.get((command, reply.code))
    what = f'{NAMES[command]} ended with completion code {reply.code:02X}h' + (f': {means}' if means else '')
    return WriteFailed([_sentence(transfer, what)], hint=_AGAIN)


def _sentence(transfer: Transfer, what: str) -> str:
    """Where the upload was. Of which BMC and component it is says whoever turns it."""
    return f'upload ({transfer.stage}): {what}'
