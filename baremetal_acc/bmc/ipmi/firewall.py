# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Commands that write firmware and must be closed to the host on the system interface, and what closes and opens them.

The firmware firewall keeps a mask of enabled commands for each channel. What that of channel Fh says is a :class:`Firewall`;
what it means, and the writes that close it or open it again, are told here. :mod:`baremetal_acc.bmc.ipmi.masks` asks and
writes.

What a closed one does not prove: that OEM commands which the controller does not let be closed write no firmware; anything
about the host's own way to a card (PCIe), or about another system interface.

Source: facts/ipmi.md, section 2 (IPMI 2.0 revision 1.1, chapter 21, as ipmitool and FreeIPMI have it).
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from baremetal_acc.bmc.ipmi.wire import GROUP_PICMG, NetFn
from baremetal_acc.errors import StateError
from baremetal_acc.model.lock import LockState

SET_COMMAND_ENABLES, SET_SUBFUNCTION_ENABLES = 0x60, 0x62
"""The firewall's own commands, of NetFn App."""

_NOTHING: frozenset[int] = frozenset()

_OWN_STAGES = {SET_SUBFUNCTION_ENABLES: 1, SET_COMMAND_ENABLES: 2}
"""Of the firewall's own commands, when they are closed: after all others, one after the other."""

_DIGEST = 16
"""Characters."""

HALF = 128
"""Commands in one mask: operation 0 is for 00h to 7Fh, operation 1 for 80h to FFh."""

_MOST_RECORD = 64 * 1024
"""Characters of an undo record. What :func:`plan` closes fits in, whatever a controller says that it has: 512 for each of 25
subsets of vendors on each of four LUNs, 60 for their names and what is closed of the other NetFns, make 53,000.
"""

PICMG, REDFISH = bytes([GROUP_PICMG]), b'\x52'
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
    (NetFn.GROUP, PICMG): {
        0x30: 'Abort Firmware Upgrade',
        0x31: 'Initiate Upgrade Action',
        0x32: 'Upload Firmware Block',
        0x33: 'Finish Firmware Upload',
        0x35: 'Activate Firmware',
        0x38: 'Initiate Manual Rollback',
    },
    (NetFn.GROUP, REDFISH): {
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
    (NetFn.GROUP, PICMG): {0x36: 'Query Self-test Results'},
}
"""What is closed where the controller lets it be, and leaves a lock whole where not: a serial line is no way to write firmware,
and the self-test's result is there to be read, but one firmware rolls back by itself when a bad one is asked for.
"""

MAKERS = range(0x30, 0x40, 2)

VENDORS = (NetFn.FIRMWARE, NetFn.OEM_GROUP, *MAKERS)
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
            return _NOTHING, frozenset(range(2 * HALF))
        place = (netfn, qualifier or PICMG) if netfn == NetFn.GROUP else (netfn, qualifier)
        required, possible = frozenset(REQUIRED.get(place, ())), frozenset(WHERE_POSSIBLE.get(place, ()))
        if self.shared:  # 02h may be one of DCMI's, which nearly every controller has
            possible |= frozenset(REQUIRED[NetFn.GROUP, REDFISH])
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
    rest = frozenset(range(2 * HALF)).difference(*own)
    opens = bool(after - table.enabled)
    for operation in (0, 1):
        half = frozenset(range(operation * HALF, (operation + 1) * HALF))
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
