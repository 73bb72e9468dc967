# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which cards of a machine that nobody uses are proven closed to its host, and what is wrong while it is on."""

from dataclasses import replace

import pytest

from baremetal_acc.decide import untended, waiver
from baremetal_acc.decide.untended import Unproven
from baremetal_acc.decide.verify import verify
from baremetal_acc.decide.watch import TroubleKind
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.lock import LockState, Scope
from tests.unit.decide import values as v

RECORDS = (v.engagement(),)
FRESH = {'session': 'another'}


def gpu(*states: LockState, records=RECORDS):
    """A GPU with one lock for each state, at places of their own."""
    locks = [v.reading(state, **FRESH) for state in states]
    return v.gpu(locks=tuple(replace(r, part=str(n)) if n else r for n, r in enumerate(locks)))


def unproven(*cards, baseline=None, records=RECORDS, **changes):
    """Of a machine with these cards."""
    named = {name: changes.pop(name) for name in ('cards', 'blockable') if name in changes}
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
    assert {LockState.UNKNOWN} == {f.state for f in unmet if f.subject == 'lock host-device'}
    assert Unproven(open=frozenset({v.FPGA})) == unproven(card, baseline=rules, records=())


def test_what_a_waiver_lets_be_open_counts_as_closed():
    """As in every verification; but not where a mechanism has vanished."""
    assert Unproven() == unproven(gpu(), baseline=v.waiving(), records=())
    gone = waiver.blockable([gpu(LockState.UNLOCKED)])
    assert Unproven() != unproven(gpu(), baseline=v.waiving(), records=(), blockable=gone)


def test_a_card_that_is_not_shown_is_open_unless_something_hides_it():
    shown = gpu(LockState.LOCKED_REPORTED)
    assert Unproven(open=frozenset({v.FPGA})) == unproven(shown, cards={v.GPU, v.FPGA})
    hidden = Gap(ref=v.ref('Systems/1/Processors'), reason='HTTP 503', hides=True)
    assert Unproven(unread=frozenset({v.FPGA})) == unproven(shown, cards={v.GPU, v.FPGA}, gaps=(hidden,))


def test_open_cards_are_one_certain_trouble_and_expose_where_something_was_proven_before():
    found = Unproven(open=frozenset({v.GPU}), unread=frozenset({v.FPGA}))
    [trouble] = untended.troubles(found, state='available', trusted=True)
    assert (TroubleKind.HOST_ON, True, frozenset({v.GPU})) == (trouble.kind, trouble.certain, trouble.of)
    [first] = untended.troubles(found, state='enroll', trusted=False)
    assert (trouble.key, frozenset()) == (first.key, first.of)


def test_unread_cards_are_an_uncertain_trouble_of_another_kind_and_expose_nothing():
    [trouble] = untended.troubles(Unproven(unread=frozenset({v.FPGA})), state='available', trusted=True)
    assert (TroubleKind.UNREADABLE, False, frozenset()) == (trouble.kind, trouble.certain, trouble.of)
    host = untended.unread_host('silent', state='available')
    assert (TroubleKind.UNREADABLE, False) == (host.kind, host.certain)
    assert trouble.key != host.key


def test_nothing_unproven_is_no_trouble():
    assert () == untended.troubles(Unproven(), state='available', trusted=True)
