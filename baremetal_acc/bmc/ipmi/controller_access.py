# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The sessions to one BMC, as operator and as administrator, and the controllers that are reached over them."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from baremetal_acc.bmc.ipmi import controller_inventory, discovery, endpoint
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.controller_path import Path, bridged
from baremetal_acc.bmc.ipmi.endpoint import LoginPrivilege
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry
from baremetal_acc.bmc.ipmi.privileged import Privileged
from baremetal_acc.bmc.ipmi.session_renewal import RmcpSessions


class ControllerAccess:
    """Sessions to one BMC, and the controllers that are reached over them.

    Reads use the operator's session. Writes, and reads that are refused to an operator, use sessions of an administrator.

    :ivar operator: the operator's session.
    """

    def __init__(self, where: endpoint.Endpoint, operator: RmcpSessions, budget: timedelta) -> None:
        """Keep the sessions. None is opened here.

        :param budget: time budget of an inspection.
        """
        self.operator = operator
        self._where = where
        self._budget = budget
        self._others: list[RmcpSessions] = []
        self._uploading: RmcpSessions | None = None
        self._reading_administrator = self.administrator()
        self._patience: NodeBusyRetry | None = None

    def close(self) -> None:
        """Log out."""
        for raw in filter(None, (self._uploading, self.operator)):
            raw.close()

    def stop(self) -> None:
        """Let every command from now on fail at once. May be called from any thread."""
        for raw in (self.operator, *self._others):
            raw.stopped = True

    def administrator(self) -> RmcpSessions:
        """A separate administrator's session for what is written; :meth:`stop` stops it too."""
        raw = RmcpSessions(self._where, LoginPrivilege.ADMINISTRATOR)
        self._others.append(raw)
        return raw

    def uploading(self, path: Path) -> Raw:
        """To a controller, in one administrator's session for all turns of an upload."""
        self._uploading = self._uploading or self.administrator()
        return bridged(self._uploading, path)

    @contextmanager
    def reading(self) -> Iterator[NodeBusyRetry]:
        """Context for reads: busy controllers are retried for a short time in all, within the time budget of an inspection."""
        self._patience = NodeBusyRetry()
        try:
            with self.budgeted():
                yield self._patience
        finally:
            self._patience = None

    @contextmanager
    def budgeted(self) -> Iterator[None]:
        """Context with the time budget of an inspection; at its end the administrator's session for reads is closed."""
        with ExitStack() as stack:
            stack.enter_context(self._reading_administrator)
            for raw in filter(None, (self.operator, self._reading_administrator, self._uploading)):
                stack.enter_context(raw.limited(self._budget))
            yield

    def discover(self, patience: NodeBusyRetry) -> controller_inventory.ControllerInventory:
        """Discover the controllers and FRUs of the machine, within :meth:`reading`.

        :raises BmcError: no answer, or the BMC does not answer Get Device ID.
        """
        return discovery.look(self.operator, patience, self._reading_administrator)

    def as_operator(self, path: Path) -> Raw:
        """To a controller, as operator."""
        return bridged(self.operator, path, self._patience)

    def as_may(self, path: Path) -> Raw:
        """To a controller, within :meth:`budgeted`: as operator, and as administrator for commands that are refused.

        Some controllers refuse to an operator every command that they do not know, so that only an administrator learns that
        the command does not exist.
        """
        return Privileged(self.as_operator(path), bridged(self._reading_administrator, path, self._patience))
