# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The System Event Log of an emulated BMC: the number of entries and the time of the last addition. No entry can be read.

Source: IPMI 2.0 revision 1.1, section 31.2.
"""

from collections.abc import Callable

from baremetal_acc.emulator.ipmi.controller import STORAGE, CommandRequest, EmulatedController, EmulatedPrivilege

_INFO = 0x40
_VERSION = 0x51
_ENTRY_BYTES, _BYTES = 16, 0x4000
_NEVER = b'\xff\xff\xff\xff'


class EventLog:
    """The System Event Log.

    :param entries: returns the number of entries.
    :param added: returns when the last one was added, in seconds since 1970.
    """

    def __init__(self, entries: Callable[[], int], added: Callable[[], int]) -> None:
        self._entries = entries
        self._added = added

    def join(self, controller: EmulatedController) -> None:
        """Register Get SEL Info at a controller."""
        controller.add(STORAGE, _INFO, self._info, privilege=EmulatedPrivilege.USER)

    def _info(self, _: CommandRequest) -> bytes:
        entries = self._entries()
        free = max(0, _BYTES - _ENTRY_BYTES * entries)
        return (
            bytes((_VERSION,))
            + entries.to_bytes(2, 'little')
            + free.to_bytes(2, 'little')
            + self._added().to_bytes(4, 'little')
            + _NEVER
            + bytes(1)
        )
