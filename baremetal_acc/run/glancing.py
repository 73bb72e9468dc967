# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is everything still as a look has found it? Asked in a glance: only what bore witness then is read again.

A look says what it rests on (:func:`witnesses`): the resources of locks, versions and identities, and those without which a
mechanism would say something else, which is found by leaving out one after the other. A glance reads these, compares, and says
which say something else now (:func:`glance`). What has changed is for a whole look to find out; a glance judges nothing. It
keeps one session with each BMC, for a login and a logout would cost more requests than it does (:class:`Sessions`); but where
sessions do not outlive the pause between two glances (``Connection.lasts``).
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from baremetal_acc.bmc.api import BmcAddress, Connection, Document, Look, Reader
from baremetal_acc.bmc.lasting import digest, tells_as_much
from baremetal_acc.errors import BmcError
from baremetal_acc.locks.api import Mechanism
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import BmcName, Ref
from baremetal_acc.model.witness import Witness
from baremetal_acc.run.looking import said_of
from baremetal_acc.run.tools import Target

MOST_READS = 20_000
"""Of one device by one mechanism, in one look, to find out what it rests on: some seconds. A BMC says how many devices and
resources there are, and the work grows with their product."""


# ---------------------------------------------------------------------------------------------------- what a look rests on


def witnesses(
    looks: Iterable[Look],
    inventory: Inventory,
    mechanisms: Iterable[Mechanism],
    now: datetime,
    heard: Mapping[Ref, Document] | None = None,
) -> tuple[Witness, ...]:
    """What a look rests on, sorted. Asks no BMC: all of it was read by that look.

    :param looks: those that the inventory was made of.
    :param heard: what a glance right before that look was answered. A BMC may show a resource in another way when it is read
        with its collection, and the next glance will be answered as this one was; so that is what it is compared with. But only
        where it says all that the look has judged, and every mechanism would judge it the same: a lock that was open for the
        moment of the glance is none to go by, nor is a setting that the look was not shown.
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
            found.append(Witness(ref=ref, said=digest(said.body), lock=ref in locks))
    return tuple(found)


def _shown_by(a: Accelerator) -> Iterator[Ref]:
    """Where identity, versions and functions of a device are read."""
    yield a.primary
    yield from (c.ref for c in a.firmware)
    for slot in a.slots:
        if slot.function is not None:
            yield slot.function.ref
        if slot.item is not None:
            yield slot.item.ref


def _as_much(other: Document, readers: Mapping[BmcName, Reader]) -> bool:
    reader = readers.get(other.ref.bmc)
    document = None if reader is None else reader.peek(other.ref.uri)
    return document is not None and tells_as_much(other.body, document.body)


def _read(
    mechanism: Mechanism, accelerators: tuple[Accelerator, ...], offline: Iterable['_Offline'], now: datetime
) -> tuple[object, ...]:
    """What a mechanism says of all devices."""
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
    """Those of other answers with which every mechanism says what it has said."""
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
    """What a mechanism has asked for, if it would say something else with these answers; nothing if it would not."""
    bare = tuple(replace(a, locks=()) for a in accelerators)
    plain = [_Offline(name, reader) for name, reader in sorted(readers.items())]
    other = [_Offline(name, reader, instead=heard) for name, reader in sorted(readers.items())]
    same = _read(mechanism, bare, plain, now) == _read(mechanism, bare, other, now)
    return set() if same else {ref for reader in (*plain, *other) for ref in reader.given}


def _grounds(
    mechanism: Mechanism, accelerators: tuple[Accelerator, ...], readers: Mapping[BmcName, Reader], now: datetime
) -> set[Ref]:
    """The resources without which a mechanism would say something else of a device.

    Where there are very many, all that it has asked for: to leave out one after the other would take too long.
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
    """The answers of a look, as they were, with one of them missing, or with some of them as they were given at another time.

    :ivar given: what was asked for and is no collection. Which members a collection has is for whole looks: a card that came in
        addition opens no lock of those that are there, and one that has gone is missed at its own place.
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
        """What the look has read there.

        :raises BmcError: it has read nothing, or this is what is left out.
        """
        found = self.peek(uri)
        if found is None:
            raise BmcError(bmc=self.name, uri=uri, what='the look has not read it')
        return found

    def collection(self, uri: str) -> Document:
        """The same of a collection: the look has read all of its pages.

        :raises BmcError: as :meth:`get`.
        """
        return self.get(uri)

    def peek(self, uri: str) -> Document | None:
        """The same, None where there is nothing."""
        found = self._reader.peek(uri)
        if found is None or found.ref == self._without:
            return None
        if 'Members' not in found.body and found.ref.uri.count('/') > 2:
            self.given.add(found.ref)
        return self._instead.get(found.ref, found)


# ---------------------------------------------------------------------------------------------------------------- glances


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What a glance has seen.

    :ivar heard: what the witnesses say now; without those that could not be read.
    :ivar changed: those that say something else.
    :ivar unread: those that could not be read, with the reason.
    """

    heard: Mapping[Ref, Document]
    changed: tuple[Ref, ...]
    unread: tuple[tuple[Ref, str], ...]

    @property
    def quiet(self) -> bool:
        """Everything was read and says what it said. A glance at nothing is not quiet."""
        return bool(self.heard) and not self.changed and not self.unread


def glance(target: Target, sessions: 'Kept', before: Iterable[Witness], within: timedelta) -> Glance:
    """Read the witnesses again, each BMC's over the session that is kept with it.

    :param before: what they said.
    :param within: the time for the glance at one BMC.
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
                unread.append((witness.ref, 'was not asked' if answer is None else answer.what))
    return Glance(heard=heard, changed=tuple(changed), unread=tuple(unread))


def _answers(
    address: BmcAddress | None, sessions: 'Kept', uris: list[str], within: timedelta
) -> Mapping[str, Document | BmcError]:
    if address is None:
        return dict.fromkeys(uris, BmcError(bmc='?', what='the target has no BMC of that name any more'))
    try:
        with sessions.of(address) as connection:
            answers = connection.glance(uris, within)
            silent = [answer for answer in answers.values() if isinstance(answer, BmcError)]
            if silent and len(silent) == len(answers):
                raise silent[0]  # such a session is not kept
            return answers
    except BmcError as exc:
        return dict.fromkeys(uris, exc)


class Sessions:
    """The sessions that are kept, one with each BMC of each target. Safe to use from several threads."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, BmcName], tuple[BmcAddress, Connection]] = {}
        self._guard = threading.Lock()

    def for_target(self, owner: str, connect: Callable[[BmcAddress], Connection]) -> 'Kept':
        """Those of one target, by whatever names it alone."""
        return Kept(self, owner, connect)

    def taken(self, owner: str, address: BmcAddress) -> Connection | None:
        """The session with a BMC, if one is kept and was opened for this very address; nobody else gets it meanwhile."""
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
        """Whose sessions are kept."""
        with self._guard:
            return frozenset(owner for owner, _ in self._open)

    def forget(self, owners: Iterable[str]) -> None:
        """Log out of the sessions of these."""
        gone = frozenset(owners)
        with self._guard:
            leaving = [self._open.pop(key) for key in list(self._open) if key[0] in gone]
        _close(*(connection for _, connection in leaving))


class Kept:
    """The kept sessions of one target."""

    def __init__(self, sessions: Sessions, owner: str, connect: Callable[[BmcAddress], Connection]) -> None:
        self._sessions = sessions
        self._owner = owner
        self._connect = connect

    @contextmanager
    def of(self, address: BmcAddress) -> Iterator[Connection]:
        """The session with a BMC, opened if there is none. One that is left by an error, or would not last, is closed.

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
    """Log out, and let nobody wait for the answers. One thread for all: a BMC ends what nobody has ended."""
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
