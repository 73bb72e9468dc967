# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Send IPMI reads with operator privilege, and repeat them as administrator where the BMC refuses them to an operator.

Some BMCs give sensor data records, FRUs or bridging to administrators only, and some refuse to an operator every command that
they do not know.

Source: IPMI 2.0 revision 1.1, table 5-2 (D4h) and appendix G (privileges of commands, which a BMC may raise).
"""

from datetime import timedelta

from baremetal_acc.bmc.ipmi.command import CommandReply, CompletionCode, Raw
from baremetal_acc.errors import BmcNotAuthorised


class Privileged:
    """A :class:`~baremetal_acc.bmc.ipmi.command.Raw` to a controller, for reads.

    Commands that may be sent only once are sent as operator only.

    :param raw: with operator privilege.
    :param administrator: to the same controller as administrator; ``BmcNotAuthorised`` from it is an ordinary answer.
    """

    def __init__(self, raw: Raw, administrator: Raw) -> None:
        self.label = raw.label
        self.longest = raw.longest
        self._raw = raw
        self._administrator = administrator
        self._refused: set[tuple[int, int]] = set()

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command and wait for the answer.

        :raises BmcError: as by :class:`~baremetal_acc.bmc.ipmi.command.Raw`; if bridging is refused to both, the operator's
            error.
        """
        if (netfn, command) in self._refused:
            return self._administrator(netfn, command, data, lun=lun, within=within)
        refused: CommandReply | BmcNotAuthorised
        try:
            refused = self._raw(netfn, command, data, lun=lun, once=once, within=within)
            if once or refused.code != CompletionCode.PRIVILEGE:
                return refused
        except BmcNotAuthorised as exc:
            if once:
                raise
            refused = exc
        try:
            reply = self._administrator(netfn, command, data, lun=lun, within=within)
        except BmcNotAuthorised:
            if isinstance(refused, BmcNotAuthorised):
                raise refused from None
            return refused
        if reply.code != CompletionCode.PRIVILEGE:
            self._refused.add((netfn, command))
        return reply
