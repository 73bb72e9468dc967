# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the commands by which the host writes firmware over the system interface: the IPMI firmware firewall of channel Fh.

What hardware: BMCs with the optional commands Get and Set Command Enables. Many have none, OpenBMC among them: then there is no
reading, and a rule that demands the path finds that no mechanism blocks it.
How it is found: the IPMI driver shows it at ``/ipmi/firewall/f``.
What it can do: read, engage (close every command that writes firmware, reaches other controllers, makes users or opens the
firewall), release (open what was closed by us, and nothing else).
Which write paths it blocks: ``host-bmc-ipmi``.
How an update behaves: ours comes by the LAN channel, whose firewall is never written.
What it cannot prove: that commands of the vendor that the BMC does not let be closed write nothing; and nothing of the host's
own way to a card.
What it was tried on: the emulator, with a Linux guest under QEMU as the host; no hardware.

Source: IPMI 2.0 revision 1.1, chapter 21; doc/source/reference/ipmi_notes.rst, "Commands to disable for the host".
"""

from collections.abc import Iterable, Iterator

from baremetal_acc.bmc.driver import Document, Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.bmc_setting import BmcWideMechanism, SettingPlace
from baremetal_acc.locks.harmless_write import KEEP_CHANNEL_ACCESS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, value_at
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath

URI = '/ipmi/firewall/f'
FIELD = 'State'

_MOST_NAMED = 6
"""Limit of the commands that a reason names."""

_STATES = {s.value: s for s in (LockState.LOCKED_REPORTED, LockState.PARTIAL, LockState.UNLOCKED, LockState.UNKNOWN)}


class FirmwareFirewall(BmcWideMechanism):
    """Entry point ``ipmi_firmware_firewall``."""

    name = 'ipmi_firmware_firewall'
    about = MechanismInfo(
        hardware='BMCs with IPMI 2.0 that have the firmware firewall',
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        read_back='Get Command Support, Get Configurable Commands and Get Command Enables of channel Fh',
        cannot_prove='that commands of the vendor that cannot be closed write nothing',
        source='IPMI 2.0 revision 1.1, chapter 21',
        harmless=(KEEP_CHANNEL_ACCESS,),
        # A controller may keep it in volatile memory; it cannot be told whether this one does.
        volatile=True,
    )

    def places(self, reader: Reader, top: str) -> Iterator[SettingPlace]:
        """Read the firewall of a BMC that is reached by IPMI; a Redfish BMC is not asked for it."""
        document = reader.peek(URI)
        if document is None:
            return
        said, opened, fixed, reason, closes, leaves = (
            value_at(document.body, name) for name in (FIELD, 'Open', 'Fixed', 'Reason', 'Closes', 'Leaves')
        )
        state = _STATES.get(said, LockState.UNKNOWN)
        open_ = opened if isinstance(opened, list) else []
        fixed = fixed if isinstance(fixed, list) else []
        reasons = [str(reason)] if isinstance(reason, str) else []
        if fixed:
            reasons.append(f'cannot be closed: {_some(fixed)}')
        rest = [one for one in open_ if one not in fixed]
        if rest:
            reasons.append(f'open: {_some(rest)}')
        yield SettingPlace(
            ref=document.ref,
            field=FIELD,
            value=said if open_ == [] else [said, *open_],
            state=state,
            closable=not fixed,
            closes=closes if isinstance(closes, str) else '',
            leaves=leaves if isinstance(leaves, str) else None,
            reason='; '.join(reasons) or (None if said is not MISSING else 'the firewall does not show its state'),
        )

    def engage(self, writer: Writer, reading: LockReading, closed: Iterable[str] = ()) -> None:
        """Close every command that can be closed.

        :raises BmcError: it was not accepted, or leaves open what we have closed before.
        """
        writer.patch(_at(reading), {'Closed': True, 'Before': list(closed)})

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Refuse: without the records it is not known what was closed.

        :raises BmcUnsupported: always.
        """
        self.reopen(writer, reading, ())

    def reopen(self, writer: Writer, reading: LockReading, closed: Iterable[str]) -> None:
        """Open the commands that were closed.

        :raises BmcUnsupported: there is no record. ``BmcError``: it was not accepted.
        """
        records = list(closed)
        if not records:
            raise BmcUnsupported(
                bmc=writer.name,
                uri=reading.ref.uri,
                what='there is no record of what was closed in its firmware firewall, and nothing else is opened',
                hint='a reset of the BMC to its defaults opens it; so does Set Command Enables for channel Fh over LAN',
            )
        writer.patch(_at(reading), {'Open': records})


def _at(reading: LockReading) -> Document:
    """Return what the lock is written to. The driver reads its present state again, in the session that writes."""
    return Document(ref=reading.ref, body={})


def _some(phrases: list[object]) -> str:
    more = len(phrases) - _MOST_NAMED
    return ', '.join(map(str, phrases[:_MOST_NAMED])) + (f' and {more} more' if more > 0 else '')
