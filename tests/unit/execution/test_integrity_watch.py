# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When a round of the integrity watch is quiet, what the next one compares with, and to whom a session belongs."""

from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import pytest

from baremetal_acc.bmc.driver import BmcAddress, Document
from baremetal_acc.bmc.resource_digest import digest
from baremetal_acc.errors import BmcUnreachable
from baremetal_acc.execution import Target, integrity_watch
from baremetal_acc.execution.integrity_watch import IntegrityReading, WatchSessions
from baremetal_acc.locks.write_protected import WriteProtected
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.policy.baseline_rules import NodeFacts
from tests.unit.planning import values as v

LOCK, OTHER = (Ref(bmc=HOST, uri=f'/redfish/v1/Chassis/{n}') for n in ('RoT', 'Card'))
ADDRESS = BmcAddress(name=HOST, address='https://192.0.2.1')
WITHIN = timedelta(seconds=1)


class Bmc:
    """Says what it is told to say; ``silent`` says nothing."""

    lasts = True

    def __init__(self, bodies):
        self.bodies = bodies
        self.silent = False
        self.opened = self.closed = 0

    def connect(self, address):
        self.opened += 1
        return self

    def close(self):
        self.closed += 1

    def glance(self, uris, within):
        gone = BmcUnreachable(bmc='host', what='no answer')
        refs = [Ref(bmc=HOST, uri=uri) for uri in uris]
        return {r.uri: gone if self.silent or r not in self.bodies else Document(ref=r, body=self.bodies[r]) for r in refs}


@pytest.fixture
def bmc():
    return Bmc({LOCK: {'Closed': True}, OTHER: {'Version': '1'}})


@pytest.fixture
def look(bmc, monkeypatch):
    """Glances at that BMC; logging out happens at once."""
    monkeypatch.setattr(integrity_watch, '_close', lambda *connections: [connection.close() for connection in connections])
    sessions = WatchSessions()
    kept = sessions.for_target('node', bmc.connect)
    target = Target(name='node', node=NodeFacts(name='node'), bmcs=(ADDRESS,))
    witnesses = tuple(WatchedResource(ref=ref, said=digest(body), lock=ref is LOCK) for ref, body in bmc.bodies.items())

    def glance(before=witnesses, target=target):
        return integrity_watch.glance(target, kept, before, WITHIN)

    glance.sessions, glance.target, glance.witnesses = sessions, target, witnesses
    return glance


def test_a_glance_is_quiet_when_everything_was_read_and_says_what_it_said(bmc, look):
    """Over one session, however many rounds."""
    assert look().quiet
    assert look().quiet
    assert (1, 0) == (bmc.opened, bmc.closed)


def test_a_session_that_would_end_before_the_next_glance_is_not_kept(bmc, look):
    """A session of IPMI ends after a minute: it would keep one of few places until then, and serve nobody."""
    bmc.lasts = False
    assert look().quiet
    assert ((1, 1), frozenset()) == ((bmc.opened, bmc.closed), look.sessions.owners())
    assert look().quiet
    assert (2, 2) == (bmc.opened, bmc.closed)


def test_what_has_changed_what_is_gone_and_a_bmc_that_is_silent_are_not_quiet(bmc, look):
    """Each is named, and a session that brings nothing is not kept."""
    bmc.bodies[LOCK] = {'Closed': False}
    assert ((LOCK,), False) == (look().changed, look().quiet)
    del bmc.bodies[LOCK]
    assert [(LOCK, 'no answer')] == list(look().unread)
    assert not look().quiet
    assert 0 == bmc.closed
    bmc.silent = True
    seen = look()
    assert (2, {}, False) == (len(seen.unread), seen.heard, seen.quiet)
    assert 1 == bmc.closed
    assert frozenset() == look.sessions.owners()


def test_a_glance_at_nothing_and_one_without_its_bmc_are_not_quiet(look):
    """Nothing passes because it was not asked."""
    assert not look(before=()).quiet
    assert not IntegrityReading(heard={}, changed=(), unread=()).quiet
    lost = look(target=replace(look.target, bmcs=()))
    assert (2, False) == (len(lost.unread), lost.quiet)


@pytest.mark.parametrize(
    ('heard', 'goes_by'),
    [
        ({'Closed': True, 'Actions': {}}, 'heard'),
        ({'Closed': True}, 'look'),
        ({'Closed': False, 'Actions': {}}, 'look'),
        ({'Closed': 1, 'Actions': {}}, 'look'),
        ({'Actions': {}}, 'look'),
        (None, 'look'),
    ],
)
def test_the_next_glance_compares_with_what_one_before_the_look_has_heard_if_the_look_has_judged_it(heard, goes_by):
    """A BMC may show a resource in another way with its collection; what was so for a moment only does not count."""
    judged = {'Closed': True, '@odata.etag': '"1"'}
    card = v.gpu(locks=(v.reading(place='Chassis/RoT'),))

    class Read:
        name, session = HOST, 's'

        def peek(self, uri):
            return Document(ref=LOCK, body=judged) if uri == LOCK.uri else None

    look = SimpleNamespace(facts=SimpleNamespace(name=HOST), reader=Read())
    before = {} if heard is None else {LOCK: Document(ref=LOCK, body=heard)}
    (witness,) = integrity_watch.witnesses([look], v.inventory(card), (), v.NOW, before)
    assert (LOCK, True) == (witness.ref, witness.lock)
    assert digest(judged if goes_by == 'look' else heard) == witness.said


def protected(cards):
    """A look at that many cards, each of which shows an item that is write-protected."""
    refs = [v.ref(f'UpdateService/FirmwareInventory/G{n}') for n in range(cards)]
    bodies = {ref: {'Id': ref.uri[-2:], 'WriteProtected': True, 'Updateable': False} for ref in refs}
    collection = v.ref('UpdateService/FirmwareInventory')
    links = {
        Ref(bmc=HOST, uri='/redfish/v1'): {'UpdateService': {'@odata.id': v.ref('UpdateService').uri}},
        v.ref('UpdateService'): {'FirmwareInventory': {'@odata.id': collection.uri}},
    }
    whole = {collection: {'Members': [{'@odata.id': ref.uri} for ref in refs]}} | links | bodies
    found = []
    for n, ref in enumerate(refs):
        place = v.ref(f'Systems/1/Processors/G{n}')
        item = replace(v.component(f'G{n}'), ref=ref, write_protected=True)
        lock = replace(v.reading(accelerator=f'uuid:{n}'), ref=ref)
        found.append(v.gpu(id=f'uuid:{n}', primary=place, refs=(place,), firmware=(item,), locks=(lock,)))

    class Read:
        name, session = HOST, 's'

        def peek(self, uri):
            ref = Ref(bmc=HOST, uri=uri)
            return Document(ref=ref, body=whole[ref]) if ref in whole else None

    return SimpleNamespace(facts=SimpleNamespace(name=HOST), reader=Read()), v.inventory(*found), bodies


class Counting(WriteProtected):
    """How often it was asked."""

    def __init__(self):
        super().__init__()
        self.times = 0

    def read(self, accelerator, readers, now):
        self.times += 1
        return super().read(accelerator, readers, now)


@pytest.mark.parametrize(('most', 'times'), [(20_000, 5 * 7), (5 * 4, 5)])
def test_how_often_a_mechanism_is_asked_does_not_grow_with_the_square_of_what_a_bmc_shows(monkeypatch, most, times):
    """Above a number of reads all that was asked for bears witness, and not less."""
    monkeypatch.setattr(integrity_watch, 'MOST_READS', most)
    look, seen, bodies = protected(5)
    mechanism = Counting()
    found = integrity_watch.witnesses([look], seen, [mechanism], v.NOW)
    assert times == mechanism.times
    assert {w.ref for w in found if w.lock} >= set(bodies)


@pytest.mark.parametrize(
    ('more', 'goes_by'),
    [
        ({'Actions': {}}, 'heard'),
        ({'@Message.ExtendedInfo': [{'MessageId': 'Base.1.0.InternalError', 'Severity': 'Critical'}]}, 'look'),
    ],
)
def test_what_a_glance_was_told_beside_the_look_is_gone_by_only_if_every_lock_would_read_the_same(more, goes_by):
    """A trouble that the look was not shown is one to look at, and not the state to come back to."""
    look, seen, bodies = protected(1)
    (ref,) = bodies
    heard = {ref: Document(ref=ref, body=bodies[ref] | more)}
    found = {w.ref: w.said for w in integrity_watch.witnesses([look], seen, [WriteProtected()], v.NOW, heard)}
    assert digest(heard[ref].body if goes_by == 'heard' else bodies[ref]) == found[ref]


def test_a_session_is_for_one_address_of_one_target(bmc, look):
    """Another password, or another owner, gets a session of its own; what is forgotten is closed."""
    look()
    moved = replace(look.target, bmcs=(replace(ADDRESS, password='new'),))
    assert look(target=moved).quiet
    assert (2, 1) == (bmc.opened, bmc.closed)
    with look.sessions.for_target('other', bmc.connect).of(ADDRESS):
        assert 3 == bmc.opened
    assert {'node', 'other'} == look.sessions.owners()
    look.sessions.forget(['node'])
    assert ({'other'}, 2) == (look.sessions.owners(), bmc.closed)
    with pytest.raises(ValueError, match='x'), look.sessions.for_target('other', bmc.connect).of(ADDRESS):
        raise ValueError('x')
    assert (frozenset(), 3) == (look.sessions.owners(), bmc.closed)
