# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Redfish driver: the entry point ``redfish``, which logs in to a BMC and returns a :class:`.RedfishConnection`.

What hardware: any service of DSP0266 1.6 and later; each vendor's oddities are in :mod:`baremetal_acc.bmc.quirks`.
How it is found: by the scheme of the BMC's address, ``https`` (or ``http``, if the operator writes that).
What it can do: take an inventory, read and write settings, push images or let the BMC pull them, follow tasks, power and reset.
Which write paths it blocks: none; the lock mechanisms do that.
How an update behaves: one POST with one Target, then StartUpdate where the BMC requires it; the Task resource is polled; the
caller reads the version back.
What it was tried on: the eight recordings (see doc/source/reference/inventory.rst) and the emulator; no hardware.
"""

from dataclasses import replace

from baremetal_acc.bmc import device_ids as table
from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.concurrency import BmcHabits, Pace, RememberedBmc
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.discovery import ROOT
from baremetal_acc.bmc.redfish.login import Login
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import BmcAnswerInvalid, BmcRefused
from baremetal_acc.http.transport import Dial
from baremetal_acc.model.ref import Ref

_REMEMBERED = RememberedBmc()


class RedfishDriver:
    """The Redfish driver: entry point ``redfish`` of the group ``baremetal_acc.bmc``."""

    protocol = 'redfish'

    def __init__(
        self,
        devices: Devices | None = None,
        patience: ReadRetry | None = None,
        remembered: RememberedBmc | None = None,
        dial: Dial | None = None,
    ) -> None:
        """Create the driver.

        :param devices: the table of devices that are accelerators; the shipped table when None.
        :param patience: retry policy of reads.
        :param remembered: what is known of how BMCs behave; that of the whole process when None.
        :param dial: opens connections to BMCs; over the network when None.
        """
        self._devices = devices
        self._patience = patience
        self._dial = dial
        self._remembered = _REMEMBERED if remembered is None else remembered

    def connect(self, address: BmcAddress) -> RedfishConnection:
        """Log in to a BMC.

        :raises BmcUnreachable: no answer. ``BmcUntrusted``: the certificate does not verify. ``BmcNotAuthorised``: wrong
            credentials. ``BmcAnswerInvalid``: no Redfish service there. ``UsageError``: the address is malformed.
        """
        connector = Connector(address, self._patience, self._dial)
        habits = self._remembered.of(address.address, lambda: BmcHabits(pace=Pace(ceiling=max(1, address.concurrency))))
        habits.pace.bound(max(1, address.concurrency))
        connector.pushed_back = habits.pace.pushed_back
        connector.silent = habits.silent
        login = Login(address, habits.accounts.of(address.username, address.password))
        # With a concurrency of one, the login is not sent in parallel: the limit holds for all requests.
        arrived = login.ahead(connector) if address.concurrency > 1 else lambda: None
        try:
            try:
                root = _root(connector, address)
            finally:
                arrived()
            login.begin(connector, _sessions(root))
        except BaseException:
            login.close()
            connector.close()
            raise
        return RedfishConnection(address, connector, login, root, habits, self._devices or table.shipped())


def _root(connector: Connector, address: BmcAddress) -> Document:
    """The service root, which needs no login.

    :raises BmcAnswerInvalid: there is no Redfish service.
    """
    try:
        root = fresh(connector, address.name, f'{ROOT}/')
    except (BmcRefused, BmcAnswerInvalid) as exc:
        raise BmcAnswerInvalid(
            bmc=connector.label,
            uri=f'{ROOT}/',
            what=f'no Redfish service at this address: {exc.what}',
            hint='check the address',
        ) from exc
    if 'RedfishVersion' not in root.body and 'Systems' not in root.body and 'Chassis' not in root.body:
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=f'{ROOT}/', what='no Redfish service at this address', hint='check the address'
        )
    return replace(root, ref=Ref(bmc=address.name, uri=ROOT))


def _sessions(root: Document) -> str | None:
    """The URI of the session collection; None if the BMC has no sessions."""
    view = ResourceView.of(root, [])
    service = view.link('SessionService')
    return view.link('Links', 'Sessions') or (f'{service.rstrip("/")}/Sessions' if service else None)
