# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""State of the IPMI firmware firewall of the system interface, and the plan of the writes that lock or unlock it.

The firmware firewall keeps a mask of enabled commands for each channel. :class:`FirmwareFirewallState` holds the masks of
channel Fh, the system interface. This module lists the commands that must be disabled for the host so that it cannot write
firmware, judges the masks, and plans the writes. It is pure; :mod:`baremetal_acc.bmc.ipmi.firmware_firewall.masks` sends the
requests.

A locked firewall does not prove that OEM commands which the controller does not let us disable write no firmware. It proves
nothing about the host's own path to a card (PCIe), nor about another system interface.

Source: IPMI 2.0 revision 1.1, chapter 21, as ipmitool and FreeIPMI have it; doc/source/reference/ipmi_notes.rst, "Commands of
the firmware firewall" and "Controllers with a firmware firewall".
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from baremetal_acc.bmc.ipmi.command import GROUP_PICMG, NetFn
from baremetal_acc.errors import StateError
from baremetal_acc.model.lock import LockState

SET_COMMAND_ENABLES, SET_SUBFUNCTION_ENABLES = 0x60, 0x62
"""The firewall's own write commands, of NetFn App."""

_NOTHING: frozenset[int] = frozenset()

_OWN_STAGES = {SET_SUBFUNCTION_ENABLES: 1, SET_COMMAND_ENABLES: 2}
"""Order in which the firewall's own commands are disabled: after all others, and one after the other."""

_DIGEST = 16
"""Length of a digest, in characters."""

HALF = 128
"""Commands in one mask: operation 0 is for 00h to 7Fh, operation 1 for 80h to FFh."""

_MOST_RECORD = 64 * 1024
"""Maximum length of an undo record, in characters. Whatever commands a controller reports, those that :func:`plan` disables
fit: 512 for each of 25 vendor subsets on each of four LUNs, 60 for their names, and the disabled commands of the other NetFns
make 53,000.
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
"""Commands that must be disabled for the host, by NetFn and body code, besides the configurable commands of :data:`VENDORS`.

Send Message and the two commands of the ICMB bridge bypass the BMC's firewall by way of other controllers. Commands for users,
channel access and the Redfish bootstrap account create an administrator. Forwarded commands let the host answer the operator in
place of the BMC. A reset clears a firewall that is kept in memory only. Source: IPMI 2.0 revision 1.1, appendix G;
DSP0270 1.3.0, section 9; doc/source/reference/ipmi_notes.rst, "Commands to disable for the host".
"""

WHERE_POSSIBLE: Mapping[tuple[int, bytes], Mapping[int, str]] = {
    (NetFn.TRANSPORT, b''): {0x10: 'Set Serial/Modem Configuration'},
    (NetFn.GROUP, PICMG): {0x36: 'Query Self-test Results'},
}
"""Commands that are disabled where they are configurable, and that do not make a lock partial where they are not.

A serial line cannot write firmware, and the self-test result is meant to be read; but one firmware rolls back by itself when a
failed result is read.
"""

MAKERS = range(0x30, 0x40, 2)

VENDORS = (NetFn.FIRMWARE, NetFn.OEM_GROUP, *MAKERS)
"""NetFns of which every configurable command is disabled: firmware, OEM/group, and the OEM NetFns."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Subset:
    """The commands that one pair of masks covers.

    :ivar qualifier: body code with NetFn 2Ch, three bytes of IANA number with 2Eh; empty with the others, and where the
        controller refuses a qualifier. With 30h to 3Eh one or three bytes where the controller demands them.
    """

    netfn: int
    qualifier: bytes = b''
    lun: int = 0

    @property
    def text(self) -> str:
        """As in messages and records: ``2C.00/0``."""
        qualifier = f'.{self.qualifier.hex().upper()}' if self.qualifier else ''
        return f'{self.netfn:02X}{qualifier}/{self.lun}'


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallTable:
    """The masks of channel Fh for a subset.

    :ivar supported: commands that exist.
    :ivar configurable: commands that can be enabled and disabled.
    :ivar enabled: commands that are enabled.
    :ivar shared: one table for all body codes of NetFn 2Ch, since the controller does not tell them apart.
    """

    subset: Subset
    supported: frozenset[int]
    configurable: frozenset[int]
    enabled: frozenset[int]
    shared: bool = False

    @property
    def wanted(self) -> frozenset[int]:
        """Existing commands that have to be disabled. An enabled command exists, whatever the other masks say."""
        required, possible = self._named
        return required & (self.supported | self.configurable | self.enabled) | possible & self.configurable

    @property
    def left(self) -> frozenset[int]:
        """Enabled commands of :data:`VENDORS` or :data:`WHERE_POSSIBLE` that are neither configurable nor required to be
        disabled.
        """
        required, possible = self._named
        return (possible & self.enabled) - self.configurable - required

    @property
    def _named(self) -> tuple[frozenset[int], frozenset[int]]:
        """Commands that must be disabled, and commands that are disabled where they are configurable."""
        netfn, qualifier = self.subset.netfn, self.subset.qualifier
        if netfn in VENDORS:
            return _NOTHING, frozenset(range(2 * HALF))
        place = (netfn, qualifier or PICMG) if netfn == NetFn.GROUP else (netfn, qualifier)
        required, possible = frozenset(REQUIRED.get(place, ())), frozenset(WHERE_POSSIBLE.get(place, ()))
        if self.shared:  # 02h may be DCMI's command, which nearly every controller has
            possible |= frozenset(REQUIRED[NetFn.GROUP, REDFISH])
        return required, possible

    @property
    def open(self) -> frozenset[int]:
        """Commands that have to be disabled and are enabled."""
        return self.wanted & self.enabled


@dataclass(frozen=True, slots=True, kw_only=True)
class FirmwareFirewallState:
    """The masks of channel Fh for all subsets that matter to a lock.

    :ivar unread: masks that should have been read and could not be, one sentence each: their commands may be enabled.
    """

    tables: tuple[FirewallTable, ...]
    unread: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MaskWrite:
    """One Set Command Enables request.

    :ivar operation: 0 for commands 00h to 7Fh, 1 for 80h to FFh.
    :ivar before: all commands that were enabled in this half.
    :ivar after: all commands that are to be enabled.
    :ivar shown_by: only of the write that disables Set Command Enables: by subset, the configurable commands that are disabled
        on channel Fh when it is sent. If one of them is enabled on our own channel, the BMC keeps the masks of the two channels
        apart.
    """

    subset: Subset
    operation: int
    before: frozenset[int]
    after: frozenset[int]
    shown_by: tuple[tuple[Subset, frozenset[int]], ...] = ()

    @property
    def stage(self) -> int:
        """Position among the writes: the firewall's own commands are disabled last and enabled first, each by its own write."""
        if self.subset.netfn != NetFn.APP:
            return 0
        return max((_OWN_STAGES.get(command, 0) for command in self.before ^ self.after), default=0)

    @property
    def shuts_itself(self) -> bool:
        """Whether it disables Set Command Enables. If all channels had one mask, nothing could be enabled again."""
        return self.subset.netfn == NetFn.APP and SET_COMMAND_ENABLES in self.before - self.after


Undo = Mapping[Subset, frozenset[int]]
"""Undo record: commands that were enabled and that we have disabled, by subset."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirewallVerdict:
    """Lock state of the firmware firewall, which blocks the host's IPMI path over the system interface.

    :ivar state: ``locked-reported``, ``partial``, ``unlocked``, ``unsupported`` or ``unknown``.
    :ivar open: commands that are enabled, and masks that were not read, one phrase each.
    :ivar reason: why the state is unknown or unsupported.
    :ivar closes: undo record of the commands that :func:`plan` would disable; None where the state is unknown or unsupported.
    :ivar fixed: commands that have to be disabled, are enabled and are not configurable, one phrase each.
    :ivar leaves: digest of the commands of :attr:`FirewallTable.left`; empty where there are none.
    """

    state: LockState
    open: tuple[str, ...] = ()
    reason: str | None = None
    closes: str | None = None
    fixed: tuple[str, ...] = ()
    leaves: str | None = None


def judge(firewall: FirmwareFirewallState | None) -> FirewallVerdict:
    """Judge the lock state of a firewall; None stands for a BMC without one."""
    if firewall is None:
        return FirewallVerdict(state=LockState.UNSUPPORTED, reason='the BMC has no firmware firewall')
    named = tuple(_name(table.subset, command) for table in firewall.tables for command in sorted(table.open))
    fixed = tuple(_name(t.subset, command) for t in firewall.tables for command in sorted(t.open - t.configurable))
    open_ = named + firewall.unread
    closed = any(table.wanted - table.enabled for table in firewall.tables)
    if not any(table.wanted for table in firewall.tables):
        return FirewallVerdict(
            state=LockState.UNKNOWN, open=open_, reason='the BMC reports none of the commands that have to be disabled'
        )
    closes = encode_undo(undo_of(plan(firewall)))
    left = encode_undo({table.subset: table.left for table in firewall.tables if table.left})
    leaves = hashlib.sha256(left.encode()).hexdigest()[:_DIGEST] if left else ''
    state = LockState.PARTIAL if closed else LockState.UNLOCKED
    return FirewallVerdict(
        state=state if open_ else LockState.LOCKED_REPORTED, open=open_, closes=closes, fixed=fixed, leaves=leaves
    )


def reopened(firewall: FirmwareFirewallState, undo: Undo) -> tuple[str, ...]:
    """Commands that we have disabled, that are enabled again, not configurable any more, and not required by a lock."""
    return tuple(_name(t.subset, n) for t in firewall.tables for n in sorted(t.left & undo.get(t.subset, _NOTHING)))


def _name(subset: Subset, command: int) -> str:
    named = [{**REQUIRED.get(p, {}), **WHERE_POSSIBLE.get(p, {})} for p in sorted(REQUIRED) if p[0] == subset.netfn]
    name = next((names[command] for names in named if command in names), None)
    return f'{command:02X}h of {subset.text}' + (f' ({name})' if name else '')


# --------------------------------------------------------------------------------------------------------------- planning


def plan(firewall: FirmwareFirewallState) -> tuple[MaskWrite, ...]:
    """The writes that disable the commands which have to be and can be disabled, in order. Nothing else is changed.

    Set Command Enables is disabled by the very last write, alone, and Set Command Sub-function Enables by the one before it. A
    BMC that does not keep the masks of channels apart is thus detected while the writes can still be undone.
    """
    after = {t.subset: t.enabled - (t.open & t.configurable) for t in firewall.tables}
    shown_by = tuple(
        (t.subset, closed) for t in firewall.tables if (closed := t.configurable - after[t.subset] - {*_OWN_STAGES})
    )
    writes = (w for t in firewall.tables for w in _writes(t, after[t.subset]))
    return tuple(sorted((replace(w, shown_by=shown_by) if w.shuts_itself else w for w in writes), key=_order))


def plan_release(firewall: FirmwareFirewallState, undo: Undo) -> tuple[MaskWrite, ...]:
    """The writes that enable the commands which we have disabled, and nothing else, in the opposite order."""
    return tuple(
        sorted(
            (w for t in firewall.tables for w in _writes(t, t.enabled | (undo.get(t.subset, _NOTHING) & t.configurable))),
            key=_order,
            reverse=True,
        )
    )


def _writes(table: FirewallTable, after: frozenset[int]) -> Iterable[MaskWrite]:
    own = [frozenset({command}) for command in _OWN_STAGES] if table.subset.netfn == NetFn.APP else []
    rest = frozenset(range(2 * HALF)).difference(*own)
    opens = bool(after - table.enabled)
    for operation in (0, 1):
        half = frozenset(range(operation * HALF, (operation + 1) * HALF))
        before = table.enabled & half
        for step in reversed((rest, *own)) if opens else (rest, *own):
            then = before - step | after & half & step
            if then != before:
                yield MaskWrite(subset=table.subset, operation=operation, before=before, after=then)
            before = then


def _order(write: MaskWrite) -> tuple[bool, int, int, int, bytes, int]:
    """Sort key: NetFn App last, and in it the firewall's own commands; LUN 0 after the other LUNs; upper half of commands
    first.
    """
    subset = write.subset
    return (subset.netfn == NetFn.APP, write.stage, -subset.lun, subset.netfn, subset.qualifier, -write.operation)


def undo_of(writes: Iterable[MaskWrite]) -> Undo:
    """Undo record of these writes: the commands that they disable. To be stored before the first write is sent."""
    undo: dict[Subset, frozenset[int]] = {}
    for write in writes:
        if closed := write.before - write.after:
            undo[write.subset] = undo.get(write.subset, _NOTHING) | closed
    return undo


def both(undo: Undo, more: Undo) -> Undo:
    """Merge two undo records: commands that were disabled before and are still recorded, and commands that are disabled now."""
    return {s: undo.get(s, _NOTHING) | more.get(s, _NOTHING) for s in sorted({*undo, *more})}


def encode_undo(undo: Undo) -> str:
    """Encode an undo record as text, for a job or a file: ``2C.00/0:303132333538 06/0:3452``."""
    return ' '.join(f'{subset.text}:{bytes(sorted(undo[subset])).hex().upper()}' for subset in sorted(undo))


def parse_undo(record: str) -> Undo:
    """Parse a stored undo record.

    :raises StateError: the text is no undo record.
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
        what = 'the record of the commands that were disabled in the firmware firewall cannot be parsed'
        raise StateError(what, hint='compare the masks of channel Fh with those of a node of the same model') from exc
    return undo
