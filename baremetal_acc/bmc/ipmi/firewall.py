# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which commands that write firmware are open to the host on the system interface, and how are they closed and opened again?

The firmware firewall keeps a mask of enabled commands for each channel. Only that of channel Fh, the system interface, is ever
written: a request for another one is refused before it has a single byte, since who closes Set Command Enables on the LAN
channel cannot open it again over LAN.

What it does not prove: that OEM commands which the controller does not let be closed write no firmware; anything about the
host's own way to a card (PCIe), or about another system interface.

Source: facts/ipmi.md, section 2 (IPMI 2.0 revision 1.1, chapter 21, as ipmitool and FreeIPMI have it).
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from baremetal_acc.bmc.ipmi.wire import GROUP_PICMG, NOT_THERE, TOO_LONG, Code, NetFn, Raw, Reply, refusal
from baremetal_acc.errors import (
    BmcAnswerInvalid,
    BmcBusy,
    BmcError,
    BmcRefused,
    BmcUnreachable,
    BmcUnsupported,
    Refused,
    StateError,
)
from baremetal_acc.model.lock import LockState

SYSTEM_INTERFACE = 0x0F
"""The channel of the host. Source: IPMI 2.0 revision 1.1, table 6-1."""

THIS_CHANNEL = 0x0E
"""The one that a command comes by."""

GET_NETFN_SUPPORT = 0x09
GET_COMMAND_SUPPORT = 0x0A
GET_SUBFUNCTION_SUPPORT = 0x0B
GET_CONFIGURABLE_COMMANDS = 0x0C
GET_CONFIGURABLE_SUBFUNCTIONS = 0x0D
SET_COMMAND_ENABLES = 0x60
GET_COMMAND_ENABLES = 0x61
SET_SUBFUNCTION_ENABLES = 0x62
GET_SUBFUNCTION_ENABLES = 0x63
GET_OEM_NETFN_IANA = 0x64

_NOTHING: frozenset[int] = frozenset()

_OWN_STAGES = {SET_SUBFUNCTION_ENABLES: 1, SET_COMMAND_ENABLES: 2}
"""Of the firewall's own commands, when they are closed: after all others, one after the other."""

_DIGEST = 16
"""Characters."""

_HALF = 128
"""Commands in one mask: operation 0 is for 00h to 7Fh, operation 1 for 80h to FFh."""

_MOST_VENDORS = 16
"""Of NetFn 2Eh that are asked for."""

_MOST_RECORD = 64 * 1024
"""Characters of an undo record. What :func:`plan` closes fits in, whatever a controller says that it has: 512 for each of 25
subsets of vendors on each of four LUNs, 60 for their names and what is closed of the other NetFns, make 53,000.
"""

_NO_SUCH_NETFN = frozenset({Code.NOT_PRESENT, Code.INVALID_FIELD, *NOT_THERE})
_OTHER_LENGTH = frozenset({Code.LENGTH_INVALID, Code.LENGTH_EXCEEDED})
_NO_SUCH_VENDOR = _NO_SUCH_NETFN | {Code.OUT_OF_RANGE}

_TARGET_CAPABILITIES = 0x2E
"""Of HPM.1: it changes nothing, and whoever has HPM.1 has it."""

_NOBODY_KNOWS = (
    'and nothing that it says shows that the host has no such commands, which cannot be asked over the LAN '
    '(ask the maker of the BMC; a rule that leaves this path out of its block takes the machine all the same)'
)

_PICMG, _REDFISH, _DCMI = bytes([GROUP_PICMG]), b'\x52', b'\xdc'
"""Body codes of NetFn 2Ch."""

REQUIRED: Mapping[tuple[int, bytes], Mapping[int, str]] = {
    (NetFn.BRIDGE, b''): {
        0x20: 'Bridge Request',
        0x21: 'Bridge Message',
    },
    (NetFn.APP, b''): {
        0x02: 'Cold Reset',
        0x03: 'Warm Reset',
        0x05: 'Manufacturing Test On',
        0x34: 'Send Message',
        0x40: 'Set Channel Access',
        0x43: 'Set User Access',
        0x45: 'Set User Name',
        0x47: 'Set User Password',
        0x52: 'Master Write-Read',
        0x56: 'Set Channel Security Keys',
        0x60: 'Set Command Enables',
        0x62: 'Set Command Sub-function Enables',
    },
    (NetFn.STORAGE, b''): {
        0x12: 'Write FRU Data',
        0x24: 'Add SDR',
        0x25: 'Partial Add SDR',
        0x26: 'Delete SDR',
        0x27: 'Clear SDR Repository',
    },
    (NetFn.TRANSPORT, b''): {
        0x01: 'Set LAN Configuration Parameters',
        0x31: 'Set Forwarded Commands',
        0x33: 'Enable Forwarded Commands',
    },
    (NetFn.GROUP, _PICMG): {
        0x30: 'Abort Firmware Upgrade',
        0x31: 'Initiate Upgrade Action',
        0x32: 'Upload Firmware Block',
        0x33: 'Finish Firmware Upload',
        0x35: 'Activate Firmware',
        0x38: 'Initiate Manual Rollback',
    },
    (NetFn.GROUP, _REDFISH): {
        0x02: 'Get Bootstrap Account Credentials',
    },
}
"""What must not be open to the host, by NetFn and body code, beside what NetFns of firmware and of vendors let be closed.

Send Message and the two of the ICMB bridge go round the BMC to other controllers; users, channel access and the bootstrap
account of Redfish make an administrator; who has commands forwarded to himself answers the operator in the BMC's place; a
reset undoes what is kept in memory only. Source: facts/ipmi.md, section 2.1; IPMI 2.0 revision 1.1, appendix G; DSP0270 1.3.0,
section 9.
"""

WHERE_POSSIBLE: Mapping[tuple[int, bytes], Mapping[int, str]] = {
    (NetFn.TRANSPORT, b''): {0x10: 'Set Serial/Modem Configuration'},
    (NetFn.GROUP, _PICMG): {0x36: 'Query Self-test Results'},
}
"""What is closed where the controller lets it be, and leaves a lock whole where not: a serial line is no way to write firmware,
and the self-test's result is there to be read, but one firmware rolls back by itself when a bad one is asked for.
"""

_MAKERS = range(0x30, 0x40, 2)

VENDORS = (NetFn.FIRMWARE, NetFn.OEM_GROUP, *_MAKERS)
"""NetFns of which everything that can be closed is."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subset:
    """The commands that one pair of masks is about.

    :ivar qualifier: body code with NetFn 2Ch, three bytes of IANA number with 2Eh; none with the others, nor where the
        controller refuses one. With 30h to 3Eh one or three bytes where the controller demands them.
    """

    netfn: int
    qualifier: bytes = b''
    lun: int = 0

    @property
    def text(self) -> str:
        """For messages and records: ``2C.00/0``."""
        qualifier = f'.{self.qualifier.hex().upper()}' if self.qualifier else ''
        return f'{self.netfn:02X}{qualifier}/{self.lun}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What channel Fh says of a subset.

    :ivar supported: commands that there are.
    :ivar configurable: commands that can be opened and closed.
    :ivar enabled: commands that are open.
    :ivar shared: one table is that of all body codes of NetFn 2Ch, which the controller does not tell apart.
    """

    subset: Subset
    supported: frozenset[int]
    configurable: frozenset[int]
    enabled: frozenset[int]
    shared: bool = False

    @property
    def wanted(self) -> frozenset[int]:
        """Commands that have to be closed, of those that there are: what is open is there, whatever else is said of it."""
        required, possible = self._named
        return required & (self.supported | self.configurable | self.enabled) | possible & self.configurable

    @property
    def left(self) -> frozenset[int]:
        """Commands that are open and would be closed if they could be, which nobody demands of them."""
        required, possible = self._named
        return (possible & self.enabled) - self.configurable - required

    @property
    def _named(self) -> tuple[frozenset[int], frozenset[int]]:
        """Commands that must be closed, and commands that are where they can be."""
        netfn, qualifier = self.subset.netfn, self.subset.qualifier
        if netfn in VENDORS:
            return _NOTHING, frozenset(range(2 * _HALF))
        place = (netfn, qualifier or _PICMG) if netfn == NetFn.GROUP else (netfn, qualifier)
        required, possible = frozenset(REQUIRED.get(place, ())), frozenset(WHERE_POSSIBLE.get(place, ()))
        if self.shared:  # 02h may be one of DCMI's, which nearly every controller has
            possible |= frozenset(REQUIRED[NetFn.GROUP, _REDFISH])
        return required, possible

    @property
    def open(self) -> frozenset[int]:
        """Commands that have to be closed and are not."""
        return self.wanted & self.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class Firewall:
    """All that has to do with us on channel Fh.

    :ivar unread: what should have been read and could not be, one sentence each: that may be open.
    """

    tables: tuple[Table, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """One Set Command Enables.

    :ivar operation: 0 for commands 00h to 7Fh, 1 for 80h to FFh.
    :ivar before: all that was open in this half; ``after``: all that shall be.
    :ivar shown_by: of one that closes Set Command Enables: what is closed on channel Fh when it is sent, and could be open, by
        subset. Where our own channel has any of that open, the two are kept apart.
    """

    subset: Subset
    operation: int
    before: frozenset[int]
    after: frozenset[int]
    shown_by: tuple[tuple[Subset, frozenset[int]], ...] = ()

    @property
    def stage(self) -> int:
        """The firewall's own commands are closed last, and opened first, each by a write of its own."""
        if self.subset.netfn != NetFn.APP:
            return 0
        return max((_OWN_STAGES.get(command, 0) for command in self.before ^ self.after), default=0)

    @property
    def shuts_itself(self) -> bool:
        """It closes Set Command Enables: were channels not kept apart, nobody could open anything again."""
        return self.subset.netfn == NetFn.APP and SET_COMMAND_ENABLES in self.before - self.after


Undo = Mapping[Subset, frozenset[int]]
"""Commands that were open and that we have closed."""


# ------------------------------------------------------------------------------------------------------ requests and answers


def encode_netfn_support(channel: int) -> bytes:
    """Get NetFn Support."""
    return bytes([channel])


def encode_query(channel: int, subset: Subset, operation: int) -> bytes:
    """Get Command Support, Get Configurable Commands, Get Command Enables."""
    return bytes([channel, operation << 6 | subset.netfn, subset.lun]) + subset.qualifier


def encode_enables(channel: int, subset: Subset, operation: int, enabled: frozenset[int]) -> bytes:
    """Set Command Enables. The qualifier comes last.

    :raises Refused: another channel than the host's.
    """
    _only_host(channel)
    mask = bytes([channel, operation << 6 | subset.netfn, subset.lun]) + encode_mask(enabled, operation)
    return mask + subset.qualifier


def encode_subfunction_query(channel: int, subset: Subset, command: int) -> bytes:
    """Get Command Sub-function Support, Get Configurable Command Sub-functions, Get Command Sub-function Enables."""
    return bytes([channel, subset.netfn, subset.lun, command]) + subset.qualifier


def encode_subfunction_enables(channel: int, subset: Subset, command: int, enabled: frozenset[int], size: int) -> bytes:
    """Set Command Sub-function Enables. The qualifier comes before the mask.

    :param size: 4 or 8, the bytes of the mask that was read.
    :raises Refused: another channel than the host's.
    """
    _only_host(channel)
    mask = sum(1 << n for n in enabled).to_bytes(size, 'little')
    return bytes([channel, subset.netfn, subset.lun, command]) + subset.qualifier + mask


def encode_oem_netfn(channel: int, netfn: int, index: int) -> bytes:
    """Get OEM NetFn IANA Support."""
    return bytes([channel, netfn, index])


def encode_mask(commands: Iterable[int], operation: int) -> bytes:
    """16 bytes: bit j of byte i is command 8 i + j, 80h more with operation 1."""
    first = operation * _HALF
    return sum(1 << n - first for n in commands if first <= n < first + _HALF).to_bytes(16, 'little')


def parse_mask(data: bytes, operation: int, bmc: str, what: str) -> frozenset[int]:
    """The commands whose bits are set."""
    if len(data) < 16:
        raise BmcAnswerInvalid(bmc=bmc, what=f'{what}: the mask has {len(data)} bytes, and 16 are needed')
    return frozenset(operation * _HALF + n for n in _set(data[:16]))


def parse_netfn_support(data: bytes, bmc: str) -> Mapping[int, frozenset[int]]:
    """Of Get NetFn Support: the NetFns of requests that are used, by LUN that has commands by what is said of it or of them."""
    if len(data) < 17:
        raise BmcAnswerInvalid(bmc=bmc, what=f'Get NetFn Support: the answer has {len(data)} bytes, and 17 are needed')
    used = {lun: frozenset(2 * n for n in _set(data[1 + 4 * lun : 5 + 4 * lun])) for lun in range(4)}
    return {lun: netfns for lun, netfns in used.items() if netfns or data[0] >> 2 * lun & 3}


def parse_subfunctions(data: bytes, bmc: str) -> tuple[frozenset[int], int]:
    """Of Get Configurable Command Sub-functions and Get Command Sub-function Enables: the bits, and the bytes of the mask."""
    if len(data) < 4:
        raise BmcAnswerInvalid(bmc=bmc, what=f'sub-functions: the mask has {len(data)} bytes, and 4 or 8 are needed')
    size = 8 if len(data) >= 8 else 4
    return frozenset(_set(data[:size])), size


def parse_subfunction_support(data: bytes, bmc: str) -> frozenset[int]:
    """Of Get Command Sub-function Support: the sub-functions that there are. A bit that is set says that there is none."""
    missing, size = parse_subfunctions(data[3:], bmc)
    return frozenset(range(8 * size)) - missing


def parse_oem_netfn(data: bytes, bmc: str) -> tuple[bool, bytes]:
    """Of Get OEM NetFn IANA Support: is it the last one for certain, and the qualifier.

    Sources differ in what the seven bits below the highest mean: they are not looked at.
    """
    if len(data) < 3:
        raise BmcAnswerInvalid(bmc=bmc, what=f'Get OEM NetFn IANA Support: the answer has {len(data)} bytes, and 3 are needed')
    return bool(data[0] & 0x80), data[2:5]


def _set(mask: bytes) -> Iterable[int]:
    number = int.from_bytes(mask, 'little')
    return (n for n in range(8 * len(mask)) if number >> n & 1)


def _only_host(channel: int) -> None:
    if channel != SYSTEM_INTERFACE:
        what = f'the firmware firewall of channel {channel:X}h is not written, only that of Fh, the system interface'
        raise Refused([what], hint='closed on the LAN channel, a command could not be opened again over LAN')


# --------------------------------------------------------------------------------------------------------------- reading


def observe(raw: Raw) -> Firewall | None:
    """Read what channel Fh says of all that has to be closed; None: there is no firmware firewall, an ordinary answer.

    A NetFn counts as not there when the controller says that it does not use it, and shows no command of it. One that is used,
    or that might be, and whose masks cannot be read, is unread. Those of which single commands have to be closed are asked for
    on LUN 0 in any case. Where it is not told what a LUN has, all are asked for there: on LUN 0 a refusal leaves a NetFn
    unread; on the others, which most controllers do not have, one that says that there is nothing is believed.

    :raises BmcError: no answer, one that is none, or a refusal: nothing is known.
    """
    app = Subset(netfn=NetFn.APP)
    probe = raw(NetFn.APP, GET_COMMAND_ENABLES, encode_query(SYSTEM_INTERFACE, app, 0))
    if probe.code in NOT_THERE:
        return None
    if not probe.ok:
        raise refusal(raw, f'{_QUERIES[GET_COMMAND_ENABLES]} of {app.text}', probe)
    tables: list[Table] = []
    unread: list[str] = []
    for lun, used in enumerate(_used(raw)):
        for netfn in sorted(_NAMED | set(VENDORS)):
            told = lun == 0 if used is None else netfn in used
            if not (told or used is None or (lun == 0 and netfn in _NAMED)):
                continue
            for one in (_group if netfn == NetFn.GROUP else _plain)(raw, netfn, lun, told=told):
                if isinstance(one, Table):
                    tables.append(one)
                else:
                    unread.append(f'NetFn {netfn:02X}h on LUN {lun}: {one.says}')
    return Firewall(tables=tuple(tables), unread=tuple(unread))


_NAMED = frozenset(netfn for netfn, _ in REQUIRED)


def _used(raw: Raw) -> Sequence[frozenset[int] | None]:
    """The NetFns that each LUN uses. None where that is not told, or not to be believed: App is always used on LUN 0."""
    reply = raw(NetFn.APP, GET_NETFN_SUPPORT, encode_netfn_support(SYSTEM_INTERFACE))
    told = parse_netfn_support(reply.data, raw.label) if reply.ok else {}
    if NetFn.APP not in told.get(0, _NOTHING):
        return [None] * 4
    # A LUN that has commands, and of whose NetFns none is named, is not told.
    return [told[lun] or None if lun in told else _NOTHING for lun in range(4)]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unread:
    """Masks of a subset that are not told, or not all of them.

    :ivar says: why.
    :ivar code: with which completion code the first one was refused; None: that is not it.
    :ivar none: each refusal says that there is no such thing, and no command is shown by what was told all the same.
    :ivar empty: beside that, both halves of what is supported were told, and are empty: its own word that there is nothing.
    """

    says: str
    code: int | None = None
    none: bool = False
    empty: bool = False


def _ask(raw: Raw, subset: Subset) -> Table | _Unread:
    """Read enables, support and configurability of both halves: that there is nothing is known from all six together."""
    told: dict[tuple[int, int], frozenset[int]] = {}
    refused: list[BmcRefused] = []
    for command in _QUERIES:
        for operation in (0, 1):
            try:
                told[command, operation] = _mask(raw, command, subset, operation)
            except (BmcUnreachable, BmcBusy):
                raise
            except BmcRefused as exc:
                if exc.status not in _NO_SUCH_NETFN:
                    return _Unread(says=exc.what, code=exc.status)
                refused.append(exc)
            except BmcError as exc:
                return _Unread(says=exc.what)
    both = {command: told.get((command, 0), _NOTHING) | told.get((command, 1), _NOTHING) for command in _QUERIES}
    asked_for = frozenset(n + operation * _HALF for c, operation in told if c == GET_COMMAND_SUPPORT for n in range(_HALF))
    supported = asked_for - both[GET_COMMAND_SUPPORT]
    configurable, enabled = both[GET_CONFIGURABLE_COMMANDS], both[GET_COMMAND_ENABLES]
    if not refused:
        return Table(subset=subset, supported=supported, configurable=configurable, enabled=enabled)
    if supported | configurable | enabled:
        return _Unread(says=f'{refused[0].what}, and other masks of it show commands', code=refused[0].status)
    return _Unread(says=refused[0].what, code=refused[0].status, none=True, empty=len(asked_for) == 2 * _HALF)


def _plain(raw: Raw, netfn: int, lun: int, *, told: bool) -> Iterator[Table | _Unread]:
    """What there is of a NetFn whose commands have no body code."""
    subsets = [Subset(netfn=netfn, lun=lun)]
    if netfn == NetFn.OEM_GROUP:
        try:
            subsets = [Subset(netfn=netfn, lun=lun, qualifier=vendor) for vendor in _vendors(raw, netfn)]
        except (BmcUnreachable, BmcBusy):
            raise
        except BmcError as exc:
            none = isinstance(exc, BmcUnsupported) or (isinstance(exc, BmcRefused) and exc.status in _NO_SUCH_VENDOR)
            if told or not none:
                yield _Unread(says=exc.what)
            return
    for subset in subsets:
        one = _ask(raw, subset)
        if isinstance(one, _Unread) and one.code in _OTHER_LENGTH and netfn in _MAKERS:
            one = _qualified(raw, subset, one)
        if isinstance(one, Table) or not one.none or (told and not (one.empty and subset.qualifier)):
            yield one


def _qualified(raw: Raw, subset: Subset, refused: _Unread) -> Table | _Unread:
    """What there is of a NetFn of the maker, asked for with the one qualifier that is told for it: the length was refused.

    The standard has none there. One firmware wants a byte. Were there several, what is closed would not fit into a record.
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
    """Whose commands there are under a NetFn, and whether these are all: up to the one that says that it is the last, or the
    first that is not there."""
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
    """The qualifiers of NetFn 2Eh."""
    found, _ = _listed(raw, netfn)
    for vendor in found:
        if len(vendor) != 3:
            raise BmcAnswerInvalid(bmc=raw.label, what=f'Get OEM NetFn IANA Support: {len(vendor)} bytes are no IANA number')
    return found


def _group(raw: Raw, netfn: int, lun: int, *, told: bool) -> Iterator[Table | _Unread]:
    """What there is of NetFn 2Ch that has to do with us.

    A controller that refuses the length of a request may know no qualifier there: it is asked without. One that says the same
    of two body codes does not look at them. Where it says that it uses the NetFn, a body code whose masks it refuses is not
    there only by its own word, see :func:`_has_no`.
    """
    first = _ask(raw, Subset(netfn=netfn, qualifier=_PICMG, lun=lun))
    if isinstance(first, _Unread) and first.code in TOO_LONG:
        asked = {_PICMG: _shared(_ask(raw, Subset(netfn=netfn, lun=lun)))}
    else:
        second = _ask(raw, Subset(netfn=netfn, qualifier=_REDFISH, lun=lun))
        one_for_both = isinstance(first, Table) and isinstance(second, Table) and replace(second, subset=first.subset) == first
        asked = {_PICMG: _shared(first)} if one_for_both else {_PICMG: first, _REDFISH: second}
    another = any(isinstance(one, Table) for one in asked.values())
    for body, one in asked.items():
        if isinstance(one, Table) or not one.none:
            yield one
        elif told and not (one.empty or _has_no(raw, body, lun, another=another)):
            yield replace(one, says=f'{one.says}, {_NOBODY_KNOWS}')


def _shared(one: Table | _Unread) -> Table | _Unread:
    return replace(one, shared=True) if isinstance(one, Table) else one


def _has_no(raw: Raw, body: bytes, lun: int, *, another: bool) -> bool:
    """The controller itself says that the host has no commands of a body code, whose masks it refuses.

    It lists whose commands there are on channel Fh, and that body code is not among them; or it has no such list, and masks of
    another body code, so that it tells them apart and has refused this one. That our own channel has no such command proves
    nothing of the host's; that it has one, enough. That is asked of HPM.1 alone: Redfish's command would make an account.

    :param another: that it has masks of another body code is known.
    """
    if body == _PICMG and raw(NetFn.GROUP, _TARGET_CAPABILITIES, _PICMG).code not in NOT_THERE:
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
    return another or isinstance(_ask(raw, Subset(netfn=NetFn.GROUP, qualifier=_DCMI, lun=lun)), Table)


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
    if reply.code in NOT_THERE:  # of this NetFn: that there is a firewall has been seen
        raise BmcRefused(bmc=raw.label, what=f'{what}: refused with completion code {reply.code:02X}h', status=reply.code)
    raise refusal(raw, what, reply)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the firewall's state means for the host's way over the system interface.

    :ivar state: ``locked-reported``, ``partial``, ``unlocked``, ``unsupported`` or ``unknown``.
    :ivar open: what is open or may be, one phrase each.
    :ivar reason: why it is not known.
    :ivar closes: what :func:`plan` would close, as a record; None where nothing is known.
    :ivar fixed: what is open and cannot be closed, one phrase each.
    :ivar leaves: a digest of what is open and cannot be closed, and nobody demands; empty where there is nothing of that.
    """

    state: LockState
    open: tuple[str, ...] = ()
    reason: str | None = None
    closes: str | None = None
    fixed: tuple[str, ...] = ()
    leaves: str | None = None


def judge(firewall: Firewall | None) -> Verdict:
    """What was read means."""
    if firewall is None:
        return Verdict(state=LockState.UNSUPPORTED, reason='it has no firmware firewall')
    named = tuple(_name(table.subset, command) for table in firewall.tables for command in sorted(table.open))
    fixed = tuple(_name(t.subset, command) for t in firewall.tables for command in sorted(t.open - t.configurable))
    open_ = named + firewall.unread
    closed = any(table.wanted - table.enabled for table in firewall.tables)
    if not any(table.wanted for table in firewall.tables):
        return Verdict(state=LockState.UNKNOWN, open=open_, reason='it tells of none of the commands that matter')
    closes = encode_undo(undo_of(plan(firewall)))
    left = encode_undo({table.subset: table.left for table in firewall.tables if table.left})
    leaves = hashlib.sha256(left.encode()).hexdigest()[:_DIGEST] if left else ''
    state = LockState.PARTIAL if closed else LockState.UNLOCKED
    return Verdict(state=state if open_ else LockState.LOCKED_REPORTED, open=open_, closes=closes, fixed=fixed, leaves=leaves)


def reopened(firewall: Firewall, undo: Undo) -> tuple[str, ...]:
    """What we have closed, is open, and cannot be closed any more, though nobody demands it of such a command."""
    return tuple(_name(t.subset, n) for t in firewall.tables for n in sorted(t.left & undo.get(t.subset, _NOTHING)))


def read(raw: Raw) -> Verdict:
    """Observe and judge. That nobody answers, or that the answer is none, is a verdict: it is not known."""
    try:
        return judge(observe(raw))
    except BmcError as exc:
        return Verdict(state=LockState.UNKNOWN, reason=exc.what)


def _name(subset: Subset, command: int) -> str:
    named = [{**REQUIRED.get(p, {}), **WHERE_POSSIBLE.get(p, {})} for p in sorted(REQUIRED) if p[0] == subset.netfn]
    name = next((names[command] for names in named if command in names), None)
    return f'{command:02X}h of {subset.text}' + (f' ({name})' if name else '')


# --------------------------------------------------------------------------------------------------------------- planning


def plan(firewall: Firewall) -> tuple[Write, ...]:
    """The writes that close what can be closed, in their order. Nothing else is changed.

    Set Command Enables itself is closed by the very last one, alone, and Set Command Sub-function Enables by the one before it:
    that channels are not kept apart is seen while it can be taken back.
    """
    after = {t.subset: t.enabled - (t.open & t.configurable) for t in firewall.tables}
    shown_by = tuple(
        (t.subset, closed) for t in firewall.tables if (closed := t.configurable - after[t.subset] - {*_OWN_STAGES})
    )
    writes = (w for t in firewall.tables for w in _writes(t, after[t.subset]))
    return tuple(sorted((replace(w, shown_by=shown_by) if w.shuts_itself else w for w in writes), key=_order))


def plan_release(firewall: Firewall, undo: Undo) -> tuple[Write, ...]:
    """The writes that open what we have closed, and nothing else, in the opposite order."""
    return tuple(
        sorted(
            (w for t in firewall.tables for w in _writes(t, t.enabled | (undo.get(t.subset, _NOTHING) & t.configurable))),
            key=_order,
            reverse=True,
        )
    )


def _writes(table: Table, after: frozenset[int]) -> Iterable[Write]:
    own = [frozenset({command}) for command in _OWN_STAGES] if table.subset.netfn == NetFn.APP else []
    rest = frozenset(range(2 * _HALF)).difference(*own)
    opens = bool(after - table.enabled)
    for operation in (0, 1):
        half = frozenset(range(operation * _HALF, (operation + 1) * _HALF))
        before = table.enabled & half
        for step in reversed((rest, *own)) if opens else (rest, *own):
            then = before - step | after & half & step
            if then != before:
                yield Write(subset=table.subset, operation=operation, before=before, after=then)
            before = then


def _order(write: Write) -> tuple[bool, int, int, int, bytes, int]:
    """NetFn App last, in it the firewall's own commands, and LUN 0 last of each; the upper half first."""
    subset = write.subset
    return (subset.netfn == NetFn.APP, write.stage, -subset.lun, subset.netfn, subset.qualifier, -write.operation)


def undo_of(writes: Iterable[Write]) -> Undo:
    """What these writes close. To be stored before the first of them is sent."""
    undo: dict[Subset, frozenset[int]] = {}
    for write in writes:
        if closed := write.before - write.after:
            undo[write.subset] = undo.get(write.subset, _NOTHING) | closed
    return undo


def both(undo: Undo, more: Undo) -> Undo:
    """Two records as one: what was closed before and is still recorded, and what is closed now."""
    return {s: undo.get(s, _NOTHING) | more.get(s, _NOTHING) for s in sorted({*undo, *more})}


def encode_undo(undo: Undo) -> str:
    """A record as text, for a job or a file: ``2C.00/0:303132333538 06/0:3452``."""
    return ' '.join(f'{subset.text}:{bytes(sorted(undo[subset])).hex().upper()}' for subset in sorted(undo))


def parse_undo(record: str) -> Undo:
    """A record that was stored.

    :raises StateError: it is none.
    """
    undo: dict[Subset, frozenset[int]] = {}
    try:
        if len(record) > _MOST_RECORD:
            raise ValueError
        for entry in record.split():
            where, commands = entry.split(':')
            named, lun = where.split('/')
            netfn, _, qualifier = named.partition('.')
            subset = Subset(netfn=bytes.fromhex(netfn)[0], qualifier=bytes.fromhex(qualifier), lun=int(lun))
            if subset.netfn > 0x3F or not 0 <= subset.lun <= 3 or len(subset.qualifier) not in (0, 1, 3) or subset in undo:
                raise ValueError
            undo[subset] = frozenset(bytes.fromhex(commands))
    except (ValueError, IndexError) as exc:
        what = 'the record of what was closed in the firmware firewall cannot be read'
        raise StateError(what, hint='compare the masks of channel Fh with those of a machine of the same kind') from exc
    return undo


# --------------------------------------------------------------------------------------------------------------- writing


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """The write that stopped it, and what it left.

    :ivar repaired: the masks are as they were before that write.
    :ivar silent: the controller did not answer.
    """

    write: Write
    says: str
    repaired: bool
    silent: bool = False


class _Failure(NamedTuple):
    """Why a write failed."""

    says: str
    silent: bool = False


def perform(raw: Raw, writes: Iterable[Write]) -> Trouble | None:
    """Send the writes, each once, until one fails. Whether they hold is seen by :func:`read`, over another session.

    Some controllers change bits before they refuse, so that the mask is read after a write that failed, and the one before is
    written back where it changed in part. Some might not keep channels apart: the mask of our own channel is compared before
    and after each write, and a write that changed it is taken back at once. Set Command Enables, without which nothing could be
    taken back, is closed only where something that is closed on channel Fh is seen open on ours.

    :returns: what stopped it; None: all were accepted.
    """
    for write in writes:
        try:
            own = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL)
            if write.shuts_itself and not _kept_apart(raw, write):
                return Trouble(write=write, says=_NOT_SHOWN, repaired=True)
        except BmcError as exc:
            says = f'what is open on our own channel cannot be read, so that nothing is written: {exc.what}'
            return Trouble(write=write, says=says, repaired=True, silent=isinstance(exc, BmcUnreachable))
        failed = _send(raw, write, write.after)
        try:
            now = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation)
            ours = _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL)
        except BmcError as exc:
            says = f'{failed.says if failed else "it was accepted"}, and what it did cannot be read: {exc.what}'
            return Trouble(write=write, says=says, repaired=False, silent=isinstance(exc, BmcUnreachable))
        if ours != own:
            says = f'Set Command Enables of {write.subset.text} for channel Fh changed our own channel, too'
            return Trouble(write=write, says=says, repaired=_repair(raw, write) and _is_own(raw, write, own))
        if now == write.after:
            continue
        says, silent = failed or _Failure(
            f'Set Command Enables of {write.subset.text} was accepted, and is not what is read back'
        )
        return Trouble(write=write, says=says, repaired=now == write.before or _repair(raw, write), silent=silent)
    return None


_NOT_SHOWN = (
    'Set Command Enables is left open: nothing that is closed for channel Fh is open on our own, so that nothing shows that '
    'they are kept apart (close another command of it by hand, and try again)'
)


def _kept_apart(raw: Raw, write: Write) -> bool:
    """Something that is closed on channel Fh is open on ours."""
    return any(
        closed & _mask(raw, GET_COMMAND_ENABLES, subset, operation, THIS_CHANNEL)
        for subset, closed in write.shown_by
        for operation in sorted({command // _HALF for command in closed})
    )


def _send(raw: Raw, write: Write, enabled: frozenset[int]) -> _Failure | None:
    """Send one Set Command Enables, once; why it failed, or None."""
    data = encode_enables(SYSTEM_INTERFACE, write.subset, write.operation, enabled)
    what = f'Set Command Enables of {write.subset.text}'
    try:
        reply = raw(NetFn.APP, SET_COMMAND_ENABLES, data, once=True)
    except BmcError as exc:
        return _Failure(f'{what}: {exc.what}', silent=isinstance(exc, BmcUnreachable))
    return None if reply.ok else _Failure(f'{what}: {_why(reply)}')


def _why(reply: Reply) -> str:
    if reply.code == 0x80:
        return 'refused (80h): a command in it is not supported, or not configurable'
    if reply.code == Code.PRIVILEGE:
        return 'refused (D4h): the user lacks the privilege, or Set Command Enables is closed on our own channel'
    return f'refused with completion code {reply.code:02X}h'


def _repair(raw: Raw, write: Write) -> bool:
    """Write the mask back that was there, and read it."""
    _send(raw, write, write.before)
    try:
        return _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation) == write.before
    except BmcError:
        return False


def _is_own(raw: Raw, write: Write, own: frozenset[int]) -> bool:
    try:
        return _mask(raw, GET_COMMAND_ENABLES, write.subset, write.operation, THIS_CHANNEL) == own
    except BmcError:
        return False
