# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which cards of a machine that nobody uses are proven closed to its host, and what is wrong while it is on."""

from dataclasses import replace

import pytest

from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, Scope, WritePath
from baremetal_acc.planning import lock_evidence, untended, waivers
from baremetal_acc.planning.untended import Unproven
from baremetal_acc.planning.watch_alarms import TroubleKind
from tests.unit.planning import trouble_words as said
from tests.unit.planning import values as v
from tests.unit.planning.finding_words import verify

RECORDS = (v.engagement(),)
FRESH = {'session': 'another'}


def gpu(*states: LockState, records=RECORDS):
    """A GPU with one lock for each state, at places of their own."""
    locks = [v.reading(state, **FRESH) for state in states]
    return v.gpu(locks=tuple(replace(r, part=str(n)) if n else r for n, r in enumerate(locks)))


def unproven(*cards, baseline=None, records=RECORDS, **changes):
    """Of a machine with these cards."""
    named = {name: changes.pop(name) for name in ('cards', 'blockable', 'ways') if name in changes}
    seen = v.inventory(*cards, **changes)
    return untended.unproven(seen, baseline or v.baseline(), v.NODE, records, lifecycle=v.LIFECYCLE, **named)


def test_a_lock_of_ours_that_was_read_back_proves_a_card_closed():
    assert Unproven() == unproven(gpu(LockState.LOCKED_REPORTED))


def test_a_lock_that_nobody_of_us_has_closed_proves_nothing():
    assert Unproven(open=frozenset({v.GPU})) == unproven(gpu(LockState.LOCKED_REPORTED), records=())


@pytest.mark.parametrize('state', [LockState.UNLOCKED, LockState.PARTIAL, LockState.PENDING_RESET, LockState.UNSUPPORTED])
def test_a_lock_that_is_not_closed_leaves_the_card_open(state):
    assert Unproven(open=frozenset({v.GPU})) == unproven(gpu(state))


def test_a_card_without_a_lock_is_open_where_a_rule_wants_one_and_no_trouble_where_none_does():
    assert Unproven(open=frozenset({v.GPU})) == unproven(gpu())
    assert Unproven() == unproven(gpu(), baseline=v.baseline(block=frozenset()))


def test_a_lock_that_could_not_be_read_is_no_open_one():
    assert Unproven(unread=frozenset({v.GPU})) == unproven(gpu(LockState.UNKNOWN))


def test_an_open_part_beside_one_that_could_not_be_read_is_open():
    """A verdict names the one that is unknown, and that must not hide the other."""
    states = {'Slot0': LockState.UNKNOWN, 'Slot1': LockState.UNLOCKED}
    locks = (v.reading(LockState.UNKNOWN, accelerator=v.FPGA, scope=Scope.FIRMWARE, mechanism='other', place='x'),)
    locks += tuple(
        v.reading(state, accelerator=v.FPGA, scope=Scope.SLOT, part=part, place=part) for part, state in states.items()
    )
    card = v.fpga(slots=(v.slot(0), v.slot(1)), locks=locks)
    rules = v.baseline(firmware=None)
    unmet = verify(v.inventory(card), rules, v.NODE, (), (), lifecycle=v.LIFECYCLE).unmet
    assert {LockState.UNKNOWN} == {f.state for f in unmet if str(f.subject) == 'lock host-device'}
    assert Unproven(open=frozenset({v.FPGA})) == unproven(card, baseline=rules, records=())


def test_what_a_waiver_lets_be_open_counts_as_closed():
    """As in every verification; but not where a mechanism has vanished."""
    assert Unproven() == unproven(gpu(), baseline=v.waiving(), records=())
    gone = waivers.blockable([gpu(LockState.UNLOCKED)])
    assert Unproven() != unproven(gpu(), baseline=v.waiving(), records=(), blockable=gone)


def test_a_card_that_is_not_shown_is_open_unless_something_hides_it():
    shown = gpu(LockState.LOCKED_REPORTED)
    assert Unproven(open=frozenset({v.FPGA})) == unproven(shown, cards={v.GPU, v.FPGA})
    hidden = Gap(ref=v.ref('Systems/1/Processors'), reason='HTTP 503', hides=True)
    assert Unproven(unread=frozenset({v.FPGA})) == unproven(shown, cards={v.GPU, v.FPGA}, gaps=(hidden,))


def test_a_way_to_a_bmc_that_is_not_shown_any_more_leaves_its_cards_unread():
    """Nobody can say whether it is closed, however well those are that are shown still."""
    path = frozenset({WritePath.HOST_BMC_REDFISH})
    locks = [v.reading(blocks=path, place=place, scope=Scope.BMC, **FRESH) for place in ('Interfaces/1', 'Interfaces/2')]
    records, rules = [v.engagement(r, scope=r.scope) for r in locks], v.baseline(block=path)
    before, now = v.gpu(locks=tuple(locks)), v.gpu(locks=(locks[0],))
    ways = lock_evidence.ways([before])
    assert Unproven() == unproven(before, baseline=rules, records=records, ways=ways)
    assert Unproven(unread=frozenset({v.GPU})) == unproven(now, baseline=rules, records=records[:1], ways=ways)
    assert Unproven() == unproven(now, baseline=rules, records=records[:1])


def test_open_cards_are_one_certain_trouble_and_expose_where_something_was_proven_before():
    found = Unproven(open=frozenset({v.GPU}), unread=frozenset({v.FPGA}))
    [trouble] = said.untended_troubles(found, state='available', trusted=True)
    assert (TroubleKind.HOST_ON, True, frozenset({v.GPU})) == (trouble.kind, trouble.certain, trouble.of)
    [first] = said.untended_troubles(found, state='enroll', trusted=False)
    assert (trouble.key, frozenset()) == (first.key, first.of)


def test_unread_cards_are_an_uncertain_trouble_of_another_kind_and_expose_nothing():
    [trouble] = said.untended_troubles(Unproven(unread=frozenset({v.FPGA})), state='available', trusted=True)
    assert (TroubleKind.UNREADABLE, False, frozenset()) == (trouble.kind, trouble.certain, trouble.of)
    host = said.unread_host('silent', state='available')
    assert (TroubleKind.UNREADABLE, False) == (host.kind, host.certain)
    assert trouble.key != host.key


FIRST_OF_IT = ' (nothing was ever verified on this node, so no proof is lost)'


@pytest.mark.parametrize(('trusted', 'end'), [(True, ''), (False, FIRST_OF_IT)])
def test_the_text_of_open_cards_says_what_is_the_matter_and_whether_anything_is_lost_by_it(trusted, end):
    [trouble] = said.untended_troubles(Unproven(open=frozenset({v.GPU, v.FPGA})), state='available', trusted=trusted)
    text = (
        'the host is on, and the node is available: these cards are not proven to be locked against it: uuid:fpga-1, uuid:gpu-0'
    )
    assert text + end == trouble.fact.text


def test_the_texts_of_what_could_not_be_read_say_of_what_nobody_knows_it():
    [trouble] = said.untended_troubles(Unproven(unread=frozenset({v.GPU})), state='manageable', trusted=False)
    text = 'the host is on, and the node is manageable: it cannot be read whether these cards are locked against it: uuid:gpu-0'
    assert text == trouble.fact.text
    host = said.unread_host('HTTP 503', state='available')
    assert 'the node is available, and it is unknown whether its host is off: HTTP 503' == host.fact.text


@pytest.mark.parametrize(('cards', 'more'), [(1, ''), (8, ''), (9, ' and 1 more'), (16, ' and 8 more')])
def test_a_text_names_eight_cards_and_says_how_many_more_there_are(cards, more):
    names = [f'uuid:{n:02}' for n in range(cards)]
    [trouble] = said.untended_troubles(Unproven(open=frozenset(names)), state='available', trusted=True)
    assert trouble.fact.text.endswith(f'locked against it: {", ".join(names[:8])}{more}')


def test_what_a_bmc_says_at_length_is_cut():
    """Whoever answers for a BMC does not fill our logs."""
    assert said.unread_host(480 * 'x', state='available').fact.text.endswith(f'is off: {480 * "x"}')
    assert said.unread_host(481 * 'x', state='available').fact.text.endswith(f'is off: {477 * "x"}...')


def test_each_trouble_is_the_one_that_it_was_in_the_last_release():
    """An alarm that is stored is told from a new one by what it is of."""
    [opened] = said.untended_troubles(Unproven(open=frozenset({v.GPU})), state='available', trusted=True)
    [unread] = said.untended_troubles(Unproven(unread=frozenset({v.GPU})), state='available', trusted=True)
    host = said.unread_host('silent', state='available')
    assert [('host-on', None, 'host'), ('unreadable', None, 'locks'), ('unreadable', None, 'host')] == [
        trouble.key for trouble in (opened, unread, host)
    ]


def test_nothing_unproven_is_no_trouble():
    assert () == said.untended_troubles(Unproven(), state='available', trusted=True)
