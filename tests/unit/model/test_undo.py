# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Records of what was closed, so that it can be opened again."""

from dataclasses import replace

from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.lock import MOST_CLOSED, LockState, LockUndoRecord, closed_by_us, opened_again, to_be_closed
from tests.unit.planning import values as v

READING = replace(v.reading(LockState.UNLOCKED), closes='06/0:34')
OTHER = replace(READING, field='Other', closes='06/0:47')


def test_a_record_is_kept_for_each_place():
    """One that was closed before stays among them; another place is another record."""
    undos = to_be_closed((), READING)
    assert ('06/0:34',) == closed_by_us(undos, READING.place)
    undos = to_be_closed(undos, replace(READING, closes='0A/0:12'))
    undos = to_be_closed(undos, OTHER)
    assert ('06/0:34', '0A/0:12') == closed_by_us(undos, READING.place)
    assert ('06/0:47',) == closed_by_us(undos, OTHER.place)
    assert undos == decode(tuple[LockUndoRecord, ...], encode(undos))
    assert ('06/0:47',) == closed_by_us(opened_again(undos, READING.place), OTHER.place)
    assert () == closed_by_us(opened_again(undos, READING.place), READING.place)


def test_nothing_is_written_down_twice_or_for_nothing():
    """A lock that needs no memory says None, one that is closed says nothing."""
    undos = to_be_closed((), READING)
    for closes in ('06/0:34', '', None):
        assert undos == to_be_closed(undos, replace(READING, closes=closes))
    assert () == to_be_closed((), replace(READING, closes=None))


def test_who_toggles_it_fills_no_memory():
    """The first ones count: what was open before anybody had the machine."""
    undos = ()
    for number in range(3 * MOST_CLOSED):
        undos = to_be_closed(undos, replace(READING, closes=f'06/0:{number:02X}'))
    assert tuple(f'06/0:{number:02X}' for number in range(MOST_CLOSED)) == closed_by_us(undos, READING.place)
