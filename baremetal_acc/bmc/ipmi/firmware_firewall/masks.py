# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read and write the command masks of a controller's IPMI firmware firewall.

Only the masks of channel Fh, the system interface, are ever written. A request for another channel is refused before it is
encoded: once Set Command Enables is disabled on the LAN channel, it cannot be enabled again over LAN. The masks that were read
become a :class:`~baremetal_acc.bmc.ipmi.firmware_firewall.apply.FirmwareFirewallState`, from which the writes are planned.

Source: IPMI 2.0 revision 1.1, chapter 21, as ipmitool and FreeIPMI have it; doc/source/reference/ipmi_notes.rst, "Commands of
the firmware firewall" and "Controllers with a firmware firewall".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from baremetal_acc.bmc.ipmi.command import (
    NOT_THERE,
    TOO_LONG,
    CommandRefused,
    CommandReply,
    CompletionCode,
    NetFn,
    Raw,
    refusal,
)
from baremetal_acc.bmc.ipmi.firmware_firewall.apply import (
    HALF,
    MAKERS,
    PICMG,
    REDFISH,
    REQUIRED,
    SET_COMMAND_ENABLES,
    VENDORS,
    FirewallTable,
    FirewallVerdict,
    FirmwareFirewallState,
    MaskWrite,
    Subset,
    judge,
)
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcError, BmcUnreachable, BmcUnsupported, Refused
from baremetal_acc.model.lock import LockState

SYSTEM_INTERFACE = 0x0F
"""Channel of the host. Source: IPMI 2.0 revision 1.1, table 6-1."""

THIS_CHANNEL = 0x0E
"""Number for the channel by which a command arrives."""

GET_NETFN_SUPPORT = 0x09
GET_COMMAND_SUPPORT = 0x0A
GET_CONFIGURABLE_COMMANDS = 0x0C
GET_COMMAND_ENABLES = 0x61
GET_OEM_NETFN_IANA = 0x64

_NOTHING: frozenset[int] = frozenset()

_MOST_VENDORS = 16
"""Maximum number of vendors of a NetFn that are read."""

_NO_SUCH_NETFN = frozenset({CompletionCode.NOT_PRESENT, CompletionCode.INVALID_FIELD, *NOT_THERE})
_OTHER_LENGTH = frozenset({CompletionCode.LENGTH_INVALID, CompletionCode.LENGTH_EXCEEDED})
_NO_SUCH_VENDOR = _NO_SUCH_NETFN | {CompletionCode.OUT_OF_RANGE}

_TARGET_CAPABILITIES = 0x2E
"""A command of HPM.1 that changes nothing, and that every controller with HPM.1 has."""

_NOBODY_KNOWS = (
    'and the BMC does not show that the host has no such commands, which cannot be read over LAN '
    '(ask the vendor of the BMC; a rule without this path in its block accepts the node as it is)'
)

_DCMI = b'\xdc'
"""DCMI's body code of NetFn 2Ch."""


# ------------------------------------------------------------------------------------------------------ requests and answers


def encode_netfn_support(channel: int) -> bytes:
    """Encode Get NetFn Support."""
    return bytes([channel])


def encode_query(channel: int, subset: Subset, operation: int) -> bytes:
    """Encode Get Command Support, Get Configurable Commands, or Get Command Enables."""
    return bytes([channel, operation << 6 | subset.netfn, subset.lun]) + subset.qualifier


def encode_enables(channel: int, subset: Subset, operation: int, enabled: frozenset[int]) -> bytes:
    """Encode Set Command Enables. The qualifier comes last.

    :raises Refused: the channel is not the host's.
    """
    _only_host(channel)
    mask = bytes([channel, operation << 6 | subset.netfn, subset.lun]) + encode_mask(enabled, operation)
    return mask + subset.qualifier


def encode_oem_netfn(channel: int, netfn: int, index: int) -> bytes:
    """Encode Get OEM NetFn IANA Support."""
    return bytes([channel, netfn, index])


def encode_mask(commands: Iterable[int], operation: int) -> bytes:
    """Encode commands as a mask of 16 bytes: bit j of byte i is command 8 i + j, 80h more with operation 1."""
    first = operation * HALF
    return sum(1 << n - first for n in commands if first <= n < first + HALF).to_bytes(16, 'little')


def parse_mask(data: bytes, operation: int, bmc: str, what: str) -> frozenset[int]:
    """Parse a mask: the commands whose bits are set."""
    if len(data) < 16:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{what}: the mask is too short (length {len(data)}, minimum 16 bytes)')
    return frozenset(operation * HALF + n for n in _set(data[:16]))


def parse_netfn_support(data: bytes, bmc: str) -> Mapping[int, frozenset[int]]:
    """Parse the answer to Get NetFn Support: the request NetFns in use, by LUN; LUNs without commands are left out."""
    if len(data) < 17:
        raise BmcAnswerInvalid(
            bmc=bmc, what=f'Get NetFn Support: the answer is too short (length {len(data)}, minimum 17 bytes)'
        )
    used = {lun: frozenset(2 * n for n in _set(data[1 + 4 * lun : 5 + 4 * lun])) for lun in range(4)}
    return {lun: netfns for lun, netfns in used.items() if netfns or data[0] >> 2 * lun & 3}


def parse_oem_netfn(data: bytes, bmc: str) -> tuple[bool, bytes]:
    """Parse the answer to Get OEM NetFn IANA Support: whether it is certainly the last entry, and the qualifier.

    Sources differ on the meaning of the lower seven bits, so they are ignored.
    """
    if len(data) < 3:
        raise BmcAnswerInvalid(
            bmc=bmc, what=f'Get OEM NetFn IANA Support: the answer is too short (length {len(data)}, minimum 3 bytes)'
        )
    return bool(data[0] & 0x80), data[2:5]


def _set(mask: bytes) -> Iterable[int]:
    number = int.from_bytes(mask, 'little')
    return (n for n in range(8 * len(mask)) if number >> n & 1)


def _only_host(channel: int) -> None:
    if channel != SYSTEM_INTERFACE:
        what = f'the firmware firewall of channel {channel:X}h is not written, only that of channel Fh (system interface)'
        raise Refused([what], hint='a command that is disabled on the LAN channel could not be enabled again over LAN')


# --------------------------------------------------------------------------------------------------------------- reading


def observe(raw: Raw) -> FirmwareFirewallState | None:
    """Read the masks of channel Fh for all commands that have to be disabled; None: no firmware firewall, an ordinary answer.

    A NetFn is absent if the controller reports that it does not use it, and shows no command of it. If it is used, or may be,
    and its masks cannot be read, it is unread. NetFns with required commands are always queried on LUN 0. If the NetFns of a
    LUN are not reported, all are queried there: on LUN 0 a refusal leaves the NetFn unread; on the other LUNs, which most
    controllers do not have, a refusal that means "does not exist" is believed.

    :raises BmcError: no answer, an invalid one, or a refusal: the state is unknown.
    """
    app = Subset(netfn=NetFn.APP)
    probe = raw(NetFn.APP, GET_COMMAND_ENABLES, encode_query(SYSTEM_INTERFACE, app, 0))
    if probe.code in NOT_THERE:
        return None
    if not probe.ok:
        raise refusal(raw, f'{_QUERIES[GET_COMMAND_ENABLES]} of {app.text}', probe)
    tables: list[FirewallTable] = []
    unread: list[str] = []
    for lun, used in enumerate(_used(raw)):
        for netfn in sorted(_NAMED | set(VENDORS)):
            told = lun == 0 if used is None else netfn in used
            if not (told or used is None or (lun == 0 and netfn in _NAMED)):
                continue
            for one in (_group if netfn == NetFn.GROUP else _plain)(raw, netfn, lun, told=told):
                if isinstance(one, FirewallTable):
                    tables.append(one)
                else:
                    unread.append(f'NetFn {netfn:02X}h on LUN {lun}: {one.says}')
    return FirmwareFirewallState(tables=tuple(tables), unread=tuple(unread))


_NAMED = frozenset(netfn for netfn, _ in REQUIRED)


def _used(raw: Raw) -> Sequence[frozenset[int] | None]:
    """The NetFns that each LUN uses; None where they are unknown. An answer without App on LUN 0 is wrong, and is not used."""
    reply = raw(NetFn.APP, GET_NETFN_SUPPORT, encode_netfn_support(SYSTEM_INTERFACE))
    told = parse_netfn_support(reply.data, raw.label) if reply.ok else {}
    if NetFn.APP not in told.get(0, _NOTHING):
        return [None] * 4
    # For a LUN that has commands, but of which no NetFn is listed, the NetFns are unknown.
    return [told[lun] or None if lun in told else _NOTHING for lun in range(4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    """Masks of a subset that could not be read, or not all of them.

    :ivar says: why.
    :ivar code: completion code of the first refusal; None: another failure.
    :ivar none: each refusal means that the subset does not exist, and the masks that were read show no command.
    :ivar empty: in addition, both halves of the support mask were read and are empty: the controller itself reports no
        commands.
    """

    says: str
    code: int | None = None
    none: bool = False
    empty: bool = False


def _ask(raw: Raw, subset: Subset) -> FirewallTable | _Unread:
    """Read enables, support and configurability for both halves: only all six together show that a subset does not exist."""
    told: dict[tuple[int, int], frozenset[int]] = {}
    refused: list[CommandRefused] = []
    for command in _QUERIES:
        for operation in (0, 1):
            try:
                told[command, operation] = _mask(raw, command, subset, operation)
            except (BmcUnreachable, BmcBusy):
                raise
            except CommandRefused as exc:
                if exc.code not in _NO_SUCH_NETFN:
                    return _Unread(says=exc.what, code=exc.code)
                refused.append(exc)
            except BmcError as exc:
                return _Unread(says=exc.what)
    both = {command: told.get((command, 0), _NOTHING) | told.get((command, 1), _NOTHING) for command in _QUERIES}
    asked_for = frozenset(n + operation * HALF for c, operation in told if c == GET_COMMAND_SUPPORT for n in range(HALF))
    supported = asked_for - both[GET_COMMAND_SUPPORT]
    configurable, enabled = both[GET_CONFIGURABLE_COMMANDS], both[GET_COMMAND_ENABLES]
    if not refused:
        return FirewallTable(subset=subset, supported=supported, configurable=configurable, enabled=enabled)
    if supported | configurable | enabled:
        return _Unread(says=f'{refused[0].what}, but other masks of the same NetFn show commands', code=refused[0].code)
    return _Unread(says=refused[0].what, code=refused[0].code, none=True, empty=len(asked_for) == 2 * HALF)


def _plain(raw: Raw, netfn: int, lun: int, *, told: bool) -> Iterator[FirewallTable | _Unread]:
    """Read the subsets of a NetFn whose commands have no body code."""
    subsets = [Subset(netfn=netfn, lun=lun)]
    if netfn == NetFn.OEM_GROUP:
        try:
            subsets = [Subset(netfn=netfn, lun=lun, qualifier=vendor) for vendor in _vendors(raw, netfn)]
        except (BmcUnreachable, BmcBusy):
            raise
        except BmcError as exc:
            none = isinstance(exc, BmcUnsupported) or (isinstance(exc, CommandRefused) and exc.code in _NO_SUCH_VENDOR)
            if told or not none:
                yield _Unread(says=exc.what)
            return
    for subset in subsets:
        one = _ask(raw, subset)
        if isinstance(one, _Unread) and one.code in _OTHER_LENGTH and netfn in MAKERS:
            one = _qualified(raw, subset, one)
        if isinstance(one, FirewallTable) or not one.none or (told and not (one.empty and subset.qualifier)):
            yield one


def _qualified(raw: Raw, subset: Subset, refused: _Unread) -> FirewallTable | _Unread:
    """Read the masks of an OEM NetFn, whose query was refused by its length, with the single qualifier that is reported for it.

    The standard has no qualifier there, but one firmware requires a byte. With several qualifiers the undo record would not
    fit.
    """
    try:
        listed, _ = _listed(raw, subset.netfn)
    except (BmcUnreachable, BmcBusy):
        raise
    except BmcError:
        return refused
    if len(listed) != 1 or len(listed[0]) not in (1, 3):
        return refused
    return _ask(raw, replace(subset, qualifier=listed[0]))


def _listed(raw: Raw, netfn: int) -> tuple[tuple[bytes, ...], bool]:
    """The vendors of a NetFn, and whether the list is complete: up to the entry marked last, or the first that is missing."""
    found: list[bytes] = []
    for index in range(_MOST_VENDORS):
        reply = raw(NetFn.APP, GET_OEM_NETFN_IANA, encode_oem_netfn(SYSTEM_INTERFACE, netfn, index))
        if not reply.ok and found:
            return tuple(found), reply.code in _NO_SUCH_VENDOR
        if not reply.ok:
            raise refusal(raw, 'Get OEM NetFn IANA Support', reply)
        last, whose = parse_oem_netfn(reply.data, raw.label)
        if whose in found:
            return tuple(found), False
        found.append(whose)
        if last:
            return tuple(found), True
    raise BmcAnswerInvalid(bmc=raw.label, what=f'Get OEM NetFn IANA Support: more than {_MOST_VENDORS} vendors')


def _vendors(raw: Raw, netfn: int) -> tuple[bytes, ...]:
    """The qualifiers (IANA numbers) of NetFn 2Eh."""
    found, _ = _listed(raw, netfn)
    for vendor in found:
        if len(vendor) != 3:
            raise BmcAnswerInvalid(
                bmc=raw.label, what=f'Get OEM NetFn IANA Support: an IANA number has 3 bytes, length {len(vendor)} found'
            )
    return found


def _group(raw: Raw, netfn: int, lun: int, *, told: bool) -> Iterator[FirewallTable | _Unread]:
    """Read the subsets of NetFn 2Ch that matter to a lock.

    If a controller refuses the length of a query, it may know no qualifier, and is queried without one. If both body codes have
    equal masks, the controller ignores the body code. If the controller reports that it uses the NetFn, a body code whose masks
    it refuses is absent only if the controller itself shows that, see :func:`_has_no`.
    """
    first = _ask(raw, Subset(netfn=netfn, qualifier=PICMG, lun=lun))
    if isinstance(first, _Unread) and first.code in TOO_LONG:
        asked = {PICMG: _shared(_ask(raw, Subset(netfn=netfn, lun=lun)))}
    else:
        second = _ask(raw, Subset(netfn=netfn, qualifier=REDFISH, lun=lun))
        one_for_both = (
            isinstance(first, FirewallTable)
            and isinstance(second, FirewallTable)
            and replace(second, subset=first.subset) == first
        )
        asked = {PICMG: _shared(first)} if one_for_both else {PICMG: first, REDFISH: second}
    another = any(isinstance(one, FirewallTable) for one in asked.values())
    for body, one in asked.items():
        if isinstance(one, FirewallTable) or not one.none:
            yield one
        elif told and not (one.empty or _has_no(raw, body, lun, another=another)):
            yield replace(one, says=f'{one.says}, {_NOBODY_KNOWS}')


def _shared(one: FirewallTable | _Unread) -> FirewallTable | _Unread:
    return replace(one, shared=True) if isinstance(one, FirewallTable) else one


def _has_no(raw: Raw, body: bytes, lun: int, *, another: bool) -> bool:
    """Whether the controller itself shows that the host has no commands of a body code whose masks it refuses.

    Either it lists the body codes of channel Fh, and this one is not among them; or it has no such list, but has masks of
    another body code, so that it does distinguish them and has refused this one. That our own channel lacks a command proves
    nothing for the host's channel; that it has the command is enough to say no. Only HPM.1 is tried so: Redfish's command would
    create an account.

    :param another: it is known to have masks of another body code.
    """
    if body == PICMG and raw(NetFn.GROUP, _TARGET_CAPABILITIES, PICMG).code not in NOT_THERE:
        return False
    listed: tuple[bytes, ...] = ()
    try:
        listed, whole = _listed(raw, NetFn.GROUP)
    except (BmcUnreachable, BmcBusy):
        raise
    except BmcError:
        whole = False
    if whole or body in {whose[:1] for whose in listed}:
        return body not in {whose[:1] for whose in listed}
    return another or isinstance(_ask(raw, Subset(netfn=NetFn.GROUP, qualifier=_DCMI, lun=lun)), FirewallTable)


_QUERIES = {
    GET_COMMAND_ENABLES: 'Get Command Enables',
    GET_COMMAND_SUPPORT: 'Get Command Support',
    GET_CONFIGURABLE_COMMANDS: 'Get Configurable Commands',
}


def _mask(raw: Raw, command: int, subset: Subset, operation: int, channel: int = SYSTEM_INTERFACE) -> frozenset[int]:
    what = f'{_QUERIES[command]} of {subset.text}'
    reply = raw(NetFn.APP, command, encode_query(channel, subset, operation))
    if reply.ok:
        return parse_mask(reply.data, operation, raw.label, what)
    if reply.code in NOT_THERE:  # for this NetFn only: the firewall exists, see observe
        raise CommandRefused(raw, what, reply.code)
    raise refusal(raw, what, reply)


def read(observed: Callable[[], FirmwareFirewallState | None]) -> FirewallVerdict:
    """Judge a firewall that is read by ``observed``. A BMC that does not answer, or not validly, is a verdict too: unknown."""
    try:
        return judge(observed())
    except BmcError as exc:
        return FirewallVerdict(state=LockState.UNKNOWN, reason=exc.what)


# --------------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskProblem:
    """The write that failed, and the state in which it left the firewall.

    :ivar says: why it failed.
    :ivar repaired: the masks are as they were before that write.
    :ivar silent: the controller did not answer.
    """

    write: MaskWrite
    says: str
    repaired: bool
    silent: bool = False


class _Failure(NamedTuple):
    """Why a write failed."""

    says: str
    silent: bool = False


def perform(raw: Raw, writes: Iterable[MaskWrite]) -> MaskProblem | None:
    """Send the writes, each once, until one fails. The caller verifies the result by :func:`read`, over another session.

    Some controllers change bits before they refuse, so the mask is read after a failed write too, and the previous mask is
    written back if it has changed. Some may not keep the masks of channels apart: the mask of our own channel is compared
    before and after each write, and a write that changed it is undone at once. Set Command Enables, without which nothing can
    be undone, is disabled only if a command that is disabled on channel Fh is seen enabled on our own channel.

    :returns: what failed; None: each mask was read back as planned.
    """
    for write in writes:
        try:
            own = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL)
            if write.shuts_itself and not _kept_apart(raw, write):
                return MaskProblem(write=write, says=_NOT_SHOWN, repaired=True)
        except BmcError as exc:
            says = f'nothing was written, because the mask of our own channel could not be read: {exc.what}'
            return MaskProblem(write=write, says=says, repaired=True, silent=isinstance(exc, BmcUnreachable))
        failed = _send(raw, write, write.after)
        try:
            now = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation)
            ours = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL)
        except BmcError as exc:
            says = (
                f'{failed.says if failed else "Set Command Enables was accepted"}, but its effect could not be read: {exc.what}'
            )
            return MaskProblem(write=write, says=says, repaired=False, silent=isinstance(exc, BmcUnreachable))
        if ours != own:
            says = f'Set Command Enables of {write.subset.text} for channel Fh also changed the mask of our own channel'
            return MaskProblem(write=write, says=says, repaired=_repair(raw, write) and _is_own(raw, write, own))
        if now == write.after:
            continue
        says, silent = failed or _Failure(
            f'Set Command Enables of {write.subset.text} was accepted, but another mask is read back'
        )
        return MaskProblem(write=write, says=says, repaired=now == write.before or _repair(raw, write), silent=silent)
    return None


_NOT_SHOWN = (
    'Set Command Enables was left enabled: no command that is disabled on channel Fh is enabled on our own channel, so that '
    'nothing shows that the BMC keeps their masks apart (disable another command on channel Fh by hand, and retry)'
)


def _kept_apart(raw: Raw, write: MaskWrite) -> bool:
    """Whether a command that is disabled on channel Fh is enabled on ours."""
    return any(
        closed & _mask(raw, GET_COMMAND_ENABLES, subset, operation, THIS_CHANNEL)
        for subset, closed in write.shown_by
        for operation in sorted({command // HALF for command in closed})
    )


def _send(raw: Raw, write: MaskWrite, enabled: frozenset[int]) -> _Failure | None:
    """Send one Set Command Enables, once; why it failed, or None."""
    data = encode_enables(SYSTEM_INTERFACE, write.subset, write.operation, enabled)
    what = f'Set Command Enables of {write.subset.text}'
    try:
        reply = raw(NetFn.APP, SET_COMMAND_ENABLES, data, once=True)
    except BmcError as exc:
        return _Failure(f'{what}: {exc.what}', silent=isinstance(exc, BmcUnreachable))
    return None if reply.ok else _Failure(f'{what}: {_why(reply)}')


def _why(reply: CommandReply) -> str:
    if reply.code == 0x80:
        return 'refused (80h): a command in the mask is not supported, or not configurable'
    if reply.code == CompletionCode.PRIVILEGE:
        return 'refused (D4h): the user lacks the privilege, or Set Command Enables is disabled on our own channel'
    return f'refused with completion code {reply.code:02X}h'


def _repair(raw: Raw, write: MaskWrite) -> bool:
    """Write the previous mask back, and read it to check."""
    _send(raw, write, write.before)
    try:
        return _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation) == write.before
    except BmcError:
        return False


def _is_own(raw: Raw, write: MaskWrite, own: frozenset[int]) -> bool:
    try:
        return _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL) == own
    except BmcError:
        return False
