# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Detect whether a machine has changed since its last full inspection, by reading only a few Redfish resources again.

An inspection names the resources that its result rests on, the witnesses (:func:`witnesses`): those of locks, versions and
identities, and those without which a lock mechanism would judge differently, which is found by leaving out one resource after
the other. A re-read (:func:`glance`) reads the witnesses, compares their digests and reports which have changed. It judges
nothing: only a full inspection finds out what has changed. One session with each BMC is kept for it (:class:`WatchSessions`),
since a login and a logout would cost more requests than the re-read itself; except where the BMC ends sessions between two
re-reads (``Connection.lasts``).
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.driver import BmcAddress, Connection, Document, Look, Reader
from baremetal_acc.bmc.resource_digest import digest, tells_as_much
from baremetal_acc.errors import BmcError
from baremetal_acc.execution.context import Target
from baremetal_acc.execution.observation import said_of
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.watched_resource import WatchedResource

MOST_READS = 20_000
"""Limit of the device readings by which one mechanism finds out what an inspection rests on: some seconds.

A BMC says how many devices and resources there are, and the work grows with their product.
"""


# --------------------------------------------------------------------------------------------------------------- witnesses


def witnesses(
    looks: Iterable[Look],
    inventory: Inventory,
    mechanisms: Iterable[Mechanism],
    now: datetime,
    heard: Mapping[Ref, Document] | None = None,
) -> tuple[WatchedResource, ...]:
    """Return the resources that an inspection rests on, sorted. Sends no request: the inspection has read all of them.

    :param looks: the inspections of single BMCs that the inventory was made of.
    :param heard: the answers to a re-read right before that inspection. A BMC may show a resource in another way when it is
        read with its collection, and the next re-read will be answered as this one was; so the next one is compared with these
        answers. But only where an answer holds everything that the inspection has judged, and every mechanism would judge it
        the same: a lock that was open at the moment of the re-read must not become the reference, nor a setting that the
        inspection was not shown.
    """
    readers = {look.facts.name: look.reader for look in looks}
    locks = {r.ref for a in inventory.accelerators for r in a.locks} | {r.ref for r in inventory.platform_locks}
    asked = tuple(mechanisms)
    for mechanism in asked:
        locks |= _grounds(mechanism, inventory.accelerators, readers, now)
    others_said = _judged_alike(asked, inventory.accelerators, readers, now, heard or {})
    others = {ref for a in inventory.accelerators for ref in _shown_by(a)} - locks
    found = []
    for ref in sorted(locks | others):
        document = readers[ref.bmc].peek(ref.uri) if ref.bmc in readers else None
        if document is not None:
            said = others_said.get(ref, document)
            found.append(WatchedResource(ref=ref, said=digest(said.body), lock=ref in locks))
    return tuple(found)


def _shown_by(a: Accelerator) -> Iterator[Ref]:
    """List where identity, versions, functions and demanded settings of a device are read."""
    yield a.primary
    yield from (c.ref for c in a.firmware)
    for slot in a.slots:
        if slot.function is not None:
            yield slot.function.ref
        if slot.item is not None:
            yield slot.item.ref
    for setting in a.settings or ():
        yield setting.ref
        if setting.settings is not None:
            yield setting.settings


def _as_much(other: Document, readers: Mapping[BmcName, Reader]) -> bool:
    reader = readers.get(other.ref.bmc)
    document = None if reader is None else reader.peek(other.ref.uri)
    return document is not None and tells_as_much(other.body, document.body)


def _read(
    mechanism: Mechanism, accelerators: tuple[Accelerator, ...], offline: Iterable['_Offline'], now: datetime
) -> tuple[object, ...]:
    """Return what a mechanism reads of all devices."""
    asked = tuple(offline)
    said: list[object] = []
    for a in accelerators:
        mine = [r for r in asked if any(ref.bmc == r.name for ref in a.refs)]
        said += [replace(reading, session='') for reading in said_of(mechanism, a, mine, now)]
    return tuple(said)


def _judged_alike(
    mechanisms: tuple[Mechanism, ...],
    accelerators: tuple[Accelerator, ...],
    readers: Mapping[BmcName, Reader],
    now: datetime,
    heard: Mapping[Ref, Document],
) -> Mapping[Ref, Document]:
    """Return those of the other answers with which every mechanism reads the same as before."""
    left = {ref: document for ref, document in heard.items() if _as_much(document, readers)}
    while left:
        odd = set().union(*(_judged_otherwise(m, accelerators, readers, now, left) for m in mechanisms))
        if not odd:
            break
        left = {ref: document for ref, document in left.items() if ref not in odd} if odd & left.keys() else {}
    return left


def _judged_otherwise(
    mechanism: Mechanism,
    accelerators: tuple[Accelerator, ...],
    readers: Mapping[BmcName, Reader],
    now: datetime,
    heard: Mapping[Ref, Document],
) -> set[Ref]:
    """Return what a mechanism has read, if it would judge differently with these answers; nothing if it would not."""
    bare = tuple(replace(a, locks=()) for a in accelerators)
    plain = [_Offline(name, reader) for name, reader in sorted(readers.items())]
    other = [_Offline(name, reader, instead=heard) for name, reader in sorted(readers.items())]
    same = _read(mechanism, bare, plain, now) == _read(mechanism, bare, other, now)
    return set() if same else {ref for reader in (*plain, *other) for ref in reader.given}


def _grounds(
    mechanism: Mechanism, accelerators: tuple[Accelerator, ...], readers: Mapping[BmcName, Reader], now: datetime
) -> set[Ref]:
    """Return the resources without which a mechanism would judge a device differently.

    Where there are very many, everything that it has read is returned: leaving out one after the other would take too long.
    """
    bare = tuple(replace(a, locks=()) for a in accelerators)

    def read(without: Ref | None) -> tuple[tuple[object, ...], set[Ref]]:
        offline = [_Offline(name, reader, without) for name, reader in sorted(readers.items())]
        return _read(mechanism, bare, offline, now), {ref for reader in offline for ref in reader.given}

    whole, asked = read(None)
    if not whole:
        return set()
    if len(asked) * len(bare) > MOST_READS:
        return asked
    return {ref for ref in asked if read(ref)[0] != whole}


class _Offline:
    """The answers of an inspection as a reader without a BMC, with one of them missing, or some replaced by other answers.

    :ivar given: the resources that were asked for, without collections. Which members a collection has is for full inspections:
        an additional card opens no lock of those that are there, and a missing one is noticed at its own resource.
    """

    def __init__(
        self, name: BmcName, reader: Reader, without: Ref | None = None, instead: Mapping[Ref, Document] | None = None
    ) -> None:
        self.name = name
        self.session = reader.session
        self.given: set[Ref] = set()
        self._reader = reader
        self._without = without
        self._instead = instead or {}

    def get(self, uri: str) -> Document:
        """Return what the inspection has read at a URI.

        :raises BmcError: it has read nothing there, or this is the resource that is left out.
        """
        found = self.peek(uri)
        if found is None:
            raise BmcError(bmc=self.name, uri=uri, what='the inspection has not read it')
        return found

    def collection(self, uri: str) -> Document:
        """Return a collection; the inspection has read all of its pages.

        :raises BmcError: as :meth:`get`.
        """
        return self.get(uri)

    def peek(self, uri: str) -> Document | None:
        """Return what the inspection has read at a URI, None where there is nothing."""
        found = self._reader.peek(uri)
        if found is None or found.ref == self._without:
            return None
        if 'Members' not in found.body and found.ref.uri.count('/') > 2:
            self.given.add(found.ref)
        return self._instead.get(found.ref, found)


# ---------------------------------------------------------------------------------------------------------------- re-reads


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegrityReading:
    """The result of a re-read.

    :ivar heard: what the witnesses show now; without those that could not be read.
    :ivar changed: those that show something else than before.
    :ivar unread: those that could not be read, with the reason.
    """

    heard: Mapping[Ref, Document]
    changed: tuple[Ref, ...]
    unread: tuple[tuple[Ref, str], ...]

    @property
    def quiet(self) -> bool:
        """Whether everything was read and is unchanged. A re-read of no resource is not quiet."""
        return bool(self.heard) and not self.changed and not self.unread


def glance(target: Target, sessions: 'KeptReading', before: Iterable[WatchedResource], within: timedelta) -> IntegrityReading:
    """Read the witnesses again, over the session that is kept with each BMC.

    :param before: the witnesses, with the digests of what they showed.
    :param within: the time for the re-read of one BMC.
    """
    known = tuple(before)
    addresses = {b.name: b for b in target.bmcs}
    heard: dict[Ref, Document] = {}
    changed: list[Ref] = []
    unread: list[tuple[Ref, str]] = []
    for name in sorted({w.ref.bmc for w in known}):
        mine = [w for w in known if w.ref.bmc == name]
        answers = _answers(addresses.get(name), sessions, [w.ref.uri for w in mine], within)
        for witness in mine:
            answer = answers.get(witness.ref.uri)
            if isinstance(answer, Document):
                heard[witness.ref] = answer
                if digest(answer.body) != witness.said:
                    changed.append(witness.ref)
            else:
                unread.append((witness.ref, 'was not read' if answer is None else answer.what))
    return IntegrityReading(heard=heard, changed=tuple(changed), unread=tuple(unread))


def _answers(
    address: BmcAddress | None, sessions: 'KeptReading', uris: list[str], within: timedelta
) -> Mapping[str, Document | BmcError]:
    if address is None:
        return dict.fromkeys(uris, BmcError(bmc='?', what='the target no longer has a BMC of that name'))
    try:
        with sessions.of(address) as connection:
            answers = connection.glance(uris, within)
            silent = [answer for answer in answers.values() if isinstance(answer, BmcError)]
            if silent and len(silent) == len(answers):
                raise silent[0]  # leaves the block with an error, so that this session is not kept
            return answers
    except BmcError as exc:
        return dict.fromkeys(uris, exc)


class WatchSessions:
    """The sessions that are kept, one with each BMC of each target. Safe to use from several threads."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, BmcName], tuple[BmcAddress, Connection]] = {}
        self._guard = threading.Lock()

    def for_target(self, owner: str, connect: Callable[[BmcAddress], Connection]) -> 'KeptReading':
        """Return the kept sessions of one target, by a name that no other target has."""
        return KeptReading(self, owner, connect)

    def taken(self, owner: str, address: BmcAddress) -> Connection | None:
        """Take the session with a BMC, if one is kept that was opened for this very address; nobody else gets it meanwhile."""
        with self._guard:
            found = self._open.pop((owner, address.name), None)
        if found is None:
            return None
        if found[0] != address:
            _close(found[1])
            return None
        return found[1]

    def given(self, owner: str, address: BmcAddress, connection: Connection) -> None:
        """Keep a session."""
        with self._guard:
            other = self._open.pop((owner, address.name), None)
            self._open[owner, address.name] = (address, connection)
        if other is not None:
            _close(other[1])

    def owners(self) -> frozenset[str]:
        """Return the names of the targets whose sessions are kept."""
        with self._guard:
            return frozenset(owner for owner, _ in self._open)

    def forget(self, owners: Iterable[str]) -> None:
        """Log out of the sessions of these targets."""
        gone = frozenset(owners)
        with self._guard:
            leaving = [self._open.pop(key) for key in list(self._open) if key[0] in gone]
        _close(*(connection for _, connection in leaving))


class KeptReading:
    """The kept sessions of one target."""

    def __init__(self, sessions: WatchSessions, owner: str, connect: Callable[[BmcAddress], Connection]) -> None:
        self._sessions = sessions
        self._owner = owner
        self._connect = connect

    @contextmanager
    def of(self, address: BmcAddress) -> Iterator[Connection]:
        """Give the session with a BMC, opened if none is kept. It is closed after an error, and where it would not last.

        :raises BmcError: it cannot be opened.
        """
        connection = self._sessions.taken(self._owner, address) or self._connect(address)
        try:
            yield connection
        except BaseException:
            _close(connection)
            raise
        if connection.lasts:
            self._sessions.given(self._owner, address, connection)
        else:
            _close(connection)


def _close(*connections: Connection) -> None:
    """Log out in one thread for all connections, without waiting for the answers. A BMC ends sessions that are left over."""
    if not connections:
        return

    def close() -> None:
        for connection in connections:
            with suppress(BmcError):
                connection.close()

    try:
        threading.Thread(target=close, name='logout', daemon=False).start()
    except RuntimeError:  # the system gives us no thread
        close()
