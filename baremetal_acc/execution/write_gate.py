# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Block every write to a BMC that would change something which does not belong to the target alone.

A plan refuses what it knows to be shared. This is the last check before a request is sent: however long ago a write was
planned, a BMC that serves several machines is asked again which resources belong to which System.
"""

import itertools
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from baremetal_acc.bmc.driver import BmcAddress, Connection, Document, JsonObject, Look, Writer
from baremetal_acc.bmc.settings_reader import RestoresSettings, SettingSight
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.execution.target_identity import origin
from baremetal_acc.model.action import RestoreSetting
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import Objection, PowerState, TaskReading
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.target_limit import TargetLimit


def limit_of(address: BmcAddress, bmcs: Iterable[BmcAddress], ownership: Ownership | None) -> TargetLimit:
    """Return what of a BMC belongs to the target: the Systems that the target names there, by whatever name it calls the BMC.

    :param bmcs: of the target.
    """
    # A gateway may tell by the user that logs in which BMC is meant.
    same = [b for b in bmcs if (origin(b), b.username) == (origin(address), address.username)]
    called = {b.name: b.system for b in same if b.system is not None}
    # Where the protocol has only one machine (IPMI), there is no System to name.
    known = Ownership(machines=frozenset()) if ownership is None else ownership
    named = {name: known.named(system) for name, system in called.items()}
    before = itertools.takewhile(lambda name: name != address.name, named)
    return TargetLimit(
        bmc=address.name,
        named=frozenset(named.values()),
        ownership=ownership,
        own=named.get(address.name),
        before=frozenset(named[name] for name in before) if address.name in named else frozenset(),
    )


class GatedWriter:
    """A writer that refuses to write what does not belong to the target alone."""

    def __init__(self, writer: Writer, check: Callable[[str], None]) -> None:
        self._writer = writer
        self._check = check
        self.session = writer.session
        self.name = writer.name
        self.accepted = writer.accepted
        self.unconditional = writer.unconditional
        self.objections = writer.objections

    def fresh(self, uri: str) -> Document:
        """Read a resource now."""
        return self._writer.fresh(uri)

    def patch(self, document: Document, body: JsonObject) -> None:
        """PATCH a resource.

        :raises BmcUnsupported: it does not belong to the target alone.
        """
        self._check(document.ref.uri)
        self._writer.patch(document, body)

    def post(self, uri: str, body: JsonObject) -> None:
        """POST to a URI.

        :raises BmcUnsupported: it does not belong to the target alone.
        """
        self._check(uri)
        self._writer.post(uri, body)


class GatedConnection:
    """A connection that refuses to change what does not belong to the target alone; everything else is passed on."""

    def __init__(self, connection: Connection, address: BmcAddress, bmcs: tuple[BmcAddress, ...]) -> None:
        """No request is sent yet.

        :param address: of the BMC; ``bmcs`` all of the target.
        """
        self._connection = connection
        self._address = address
        self._bmcs = bmcs
        self._limit: TargetLimit | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def look(self, now: datetime) -> Look:
        """Inspect the BMC. The inspection also tells which resources belong to whom."""
        found = self._connection.look(now)
        self._limit = limit_of(self._address, self._bmcs, found.ownership)
        return found

    def writer(self) -> Writer:
        """Return a gated writer, for locks and settings."""
        return GatedWriter(self._connection.writer(), self._check)

    def restore(self, action: RestoreSetting, *, send: bool) -> SettingSight:
        """Restore a setting of the BMC.

        :raises BmcUnsupported: the resource does not belong to the target alone, or the protocol restores no settings.
        """
        if not isinstance(self._connection, RestoresSettings):
            what = 'settings of a BMC that is used over this protocol are not restored'
            raise BmcUnsupported(bmc=self._address.label, uri=action.ref.uri, what=what)
        if send:
            self._check(action.ref.uri)
        return self._connection.restore(action, send=send)

    def push(self, target: Ref, upload: Upload) -> TaskReading | Objection | UploadProgress | None:
        """Send an image to a component.

        :raises BmcUnsupported: it, or what the BMC is told to write in its place, does not belong to the target alone.
        """
        self._check_upload(target, upload)
        return self._connection.push(target, upload)

    def go_on(self, target: Ref, upload: Upload, progress: UploadProgress) -> TaskReading | Objection | UploadProgress | None:
        """Take one turn of an upload.

        :raises BmcUnsupported: the component does not belong to the target alone.
        """
        self._check_upload(target, upload)
        return self._connection.go_on(target, upload, progress)

    def set_power(self, system: Ref, wanted: PowerState) -> Objection | None:
        """Power a System on or off.

        :raises BmcUnsupported: it does not belong to the target alone.
        """
        self._check(system.uri)
        return self._connection.set_power(system, wanted)

    def reset(self, system: Ref, kind: ResetKind) -> Objection | None:
        """Reset a System or a Manager.

        :raises BmcUnsupported: it does not belong to the target alone.
        """
        self._check(system.uri)
        return self._connection.reset(system, kind)

    def _check_upload(self, target: Ref, upload: Upload) -> None:
        """Check all targets of an upload. Without targets the BMC writes to everything that the image fits, of any machine."""
        self._check(target.uri)
        for uri in upload.targets or ():
            self._check(uri)
        if (upload.untargeted or upload.targets == ()) and not self._known().has_all:
            raise BmcUnsupported(
                bmc=self._address.label,
                uri=target.uri,
                what='nothing was written: an image that names no single component goes to all machines of this BMC',
                hint='write it to single components, or in a target that names all Systems of the BMC (system)',
            )

    def _known(self) -> TargetLimit:
        if self._limit is None:
            self._limit = limit_of(self._address, self._bmcs, self._connection.ownership())
        return self._limit

    def _check(self, uri: str) -> None:
        limit = self._known()
        if not limit.may_write(uri):
            others = ', '.join(limit.others(uri)) or 'another machine'
            raise BmcUnsupported(
                bmc=self._address.label,
                uri=uri,
                what=f'nothing was written: the resource also belongs to {others}',
                hint=(
                    'name the System of the target (system); a resource that several machines share is not written '
                    'for one of them'
                ),
            )
