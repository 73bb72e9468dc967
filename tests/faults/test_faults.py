# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A job that meets a fault ends as it should: done, restored, or failed and closed, in time and with the reason."""

from collections.abc import Callable

import pytest

from baremetal_acc.model.job import Done, Failed
from tests.faults.cases import CASES, Case, Ending
from tests.faults.left_out import chosen
from tests.faults.rig import CARDS, EROT, ITEM, NEW, OLD, Rig


@pytest.mark.parametrize('name', chosen(CASES))
def test_a_job_that_meets_a_fault_ends_as_the_table_says(name: str, rig: Callable[..., Rig]) -> None:
    """Judged by what the machine knows; the row says the end and a part of the error."""
    case = CASES[name]
    found = rig(what=case.what, hold=case.hold, machine=case.machine, address=case.address, image_bytes=case.image_bytes)
    if case.found_off:
        found.power_off()
    assert () == found.begin()
    case.meets(found)
    found.turn()
    found.judge(opens_by_itself=case.opens)
    _ended(found, case)


def test_every_row_that_does_not_end_well_asks_for_words_that_name_the_cause() -> None:
    """The name of a component says where, and not why."""
    places = [ITEM[what].format(card) for what in ITEM for card in range(CARDS[what])]
    for name, case in CASES.items():
        assert (case.ends is Ending.DONE) is (() == case.says), name
        assert [] == [words for words in case.says if len(words.split()) < 2 or words in places], name


def test_two_cards_that_failed_for_each_other_are_put_back_one_after_the_other(rig: Callable[..., Rig]) -> None:
    """F43. The BMC says that it takes two images at once, and has the memory for one."""
    found = rig(address={'parallel_updates': 2})
    assert () == found.begin()
    found.machine.fault('memory-exhausted')
    found.turn()
    found.judge()
    assert (OLD[EROT], OLD[EROT]) == (found.version(0), found.version(1))
    assert 2 == found.reasons.count('is restored to'), found.reasons


def _ended(rig: Rig, case: Case) -> None:
    if case.ends is Ending.DONE:
        assert isinstance(rig.outcome, Done), rig.reasons
        assert rig.was_met is not case.idle, 'a job that has met no fault proves nothing'
        return
    assert isinstance(rig.outcome, Failed)
    assert [] == [words for words in case.says if words not in rig.reasons], rig.reasons
    quarantined = rig.outcome.quarantined
    match case.ends:
        case Ending.RESTORED:
            assert () == quarantined, rig.reasons
            assert OLD[case.what] == rig.version(0)
            assert f'is restored to {OLD[case.what]}' in rig.reasons
        case Ending.QUARANTINED:
            assert quarantined
            assert all(device in rig.reasons for device in quarantined)
            assert 'is quarantined' in rig.reasons
            assert not case.hold or rig.host_is_off
        case Ending.UNKNOWN:
            # Nothing was sent to it after that, and its host stays off.
            assert () == quarantined, rig.reasons
            assert 'is held: whether ' in rig.reasons
            assert 1 == len(rig.pushes(0))
            assert not case.hold or rig.host_is_off
        case Ending.UNTOUCHED:
            assert () == quarantined
            assert [] == rig.pushes(0)
        case Ending.HELD:
            assert () == quarantined
            assert rig.host_is_off
            refused = 'as before, and nothing shows that anything was written' in rig.reasons
            assert (NEW if rig.pushes(0) and not refused else OLD)[case.what] == rig.version(0)
    assert {rig.version(card) for card in range(1, CARDS[case.what])} <= {OLD[case.what], NEW[case.what]}
