# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the memory of an FRU by IPMI commands: its used part, and again where an area is damaged.

Source: IPMI 2.0 revision 1.1, section 34.
"""

import struct

from baremetal_acc.bmc.ipmi.command import (
    FRU_BUSY,
    FRU_INFO,
    FRU_READ,
    NOT_THERE,
    TOO_LONG,
    CommandReply,
    CompletionCode,
    NetFn,
    Raw,
    refusal,
)
from baremetal_acc.bmc.ipmi.fru import HEADER_BYTES, needed, parse
from baremetal_acc.bmc.ipmi.fru_contents import Contents
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError

MOST = 16 * 1024
"""Maximum bytes that are read of one FRU. Memories have 256 bytes to 8 KiB; 64 KiB behind a slow bus would take too long."""

MOST_AT_ONCE = 240
"""Maximum bytes requested by one command: an answer counts its bytes in one byte, and its message has further bytes."""

READ_AGAIN = 2
"""Maximum number of times that an FRU is read again."""

_NO_MATTER_HOW_MUCH = frozenset(
    {*NOT_THERE, FRU_BUSY, CompletionCode.BUSY, CompletionCode.DESTINATION_UNAVAILABLE, CompletionCode.PRIVILEGE}
)
"""Completion codes for which a shorter read does not help."""


def contents(raw: Raw, number: int = 0, *, lun: int = 0, whole: bool = False) -> Contents:
    """Read and parse an FRU. It is read again if an area with a name is invalid, since buses lose bits.

    :param number: FRU device id.
    :param whole: fail if only the beginning can be read.
    :raises BmcError: it was refused, or not answered.
    """
    best = parse(read(raw, number, lun=lun, whole=whole))
    for _ in range(READ_AGAIN):
        if not best.unsure:
            break
        try:
            again = parse(read(raw, number, lun=lun, whole=whole))
        except BmcError:
            break
        best = min(best, again, key=lambda found: (found.unsure, len(found.faults)))
    return best


def read(raw: Raw, number: int = 0, *, lun: int = 0, whole: bool = False) -> bytes:
    """Read the memory of an FRU, from its beginning to the end of the last area in use, or as far as it can be read.

    The reported size does not limit the read: some controllers report 0, or too little.

    :param number: FRU device id.
    :param whole: a refusal before the reported size is an error. Data beyond the reported size may be missing.
    :raises BmcError: it was refused, or not answered.
    """
    what = f'Read FRU Data of FRU {number}'
    told, unit, why = _info(raw, number, lun)
    size = min(told, MOST) // unit * unit
    unsized = why is not None
    longest = max(HEADER_BYTES, min(raw.longest - 2, MOST_AT_ONCE))
    step = longest // unit
    data = b''
    while len(data) < min(end := needed(data), MOST):
        left = size - len(data) if len(data) < size else end - len(data) + unit - 1
        count = max(1, min(step, left // unit))
        reply = raw(NetFn.STORAGE, FRU_READ, struct.pack('<BHB', number, len(data) // unit, count), lun=lun)
        part = _part(reply, count, unit)
        if part:
            data += part
            why = None
            continue
        why = why or _failure(raw, what, reply, count * unit)
        if reply.code in _NO_MATTER_HOW_MUCH:
            raise why
        if count > 1:
            # A shorter answer may fit, or come in time. Other errors get fewer retries: the length shrinks faster.
            step = max(1, count // (2 if reply.code in TOO_LONG else 4))
            continue
        if unit == 2 and not data:
            unit, step = 1, longest  # it reports access by words, but counts bytes
            continue
        if len(data) < min(HEADER_BYTES, size) or (unsized and not data) or (whole and len(data) < size):
            raise why
        break
    return data


def _part(reply: CommandReply, count: int, unit: int) -> bytes:
    """The data bytes of an answer; empty if it has fewer bytes than its count says, or more than were requested.

    :param count: number of units that were requested.
    """
    if not reply.ok or not reply.data:
        return b''
    given, body = reply.data[0], reply.data[1:]
    if given > count and given == len(body) == count * unit:
        return body  # it counts bytes although it is read by words
    return body[: given * unit] if given <= count and len(body) >= given * unit else b''


def _failure(raw: Raw, what: str, reply: CommandReply, count: int) -> BmcError:
    """The error for a read that returned no data.

    :param count: number of bytes that were requested.
    """
    if reply.code == FRU_BUSY:
        return BmcBusy(bmc=raw.label, what=f'{what}: the FRU device is busy (81h)')
    if not reply.ok:
        return refusal(raw, what, reply)
    told = f'the answer says {reply.data[0] if reply.data else 0} and contains {len(reply.data[1:])}'
    return BmcAnswerInvalid(bmc=raw.label, what=f'{what}: length {count} was requested, but {told}')


def _info(raw: Raw, number: int, lun: int) -> tuple[int, int, BmcError | None]:
    """Get FRU Inventory Area Info: size in bytes, bytes per unit (2 for access by words), and why these are unknown, or None.

    :raises BmcError: it was refused, or not answered.
    """
    reply = raw(NetFn.STORAGE, FRU_INFO, bytes([number]), lun=lun)
    what = f'Get FRU Inventory Area Info of FRU {number}'
    if reply.code == FRU_BUSY:
        raise BmcBusy(bmc=raw.label, what=f'{what}: the FRU device is busy (81h)')
    if reply.code in NOT_THERE:
        return 0, 1, refusal(raw, what, reply)  # it may have Read FRU Data all the same
    if not reply.ok:
        raise refusal(raw, what, reply)
    size = int.from_bytes(reply.data[:2], 'little')
    if len(reply.data) < 3:
        told = f'{what}: the answer is too short (length {len(reply.data)}, minimum 3 bytes)'
        return size, 1, BmcAnswerInvalid(bmc=raw.label, what=told)
    return size, 2 if reply.data[2] & 1 else 1, None
