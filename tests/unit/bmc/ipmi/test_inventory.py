# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is made of boards and components that a hostile machine shows: never more than gaps, and names that can be printed."""

import contextlib
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.ipmi import discovery, inventory, sdr
from baremetal_acc.bmc.ipmi.connection import IpmiConnection
from baremetal_acc.bmc.ipmi.controller_access import ControllerAccess
from baremetal_acc.bmc.ipmi.endpoint import place
from baremetal_acc.bmc.ipmi.hpm.image import Version
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry
from baremetal_acc.errors import BmcError
from baremetal_acc.model.ref import HOST
from tests.unit.bmc.ipmi.cards import Fake, area, board, fru_locator, mc_locator, memory, product, sensor

NOW = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


@pytest.fixture(autouse=True, scope='module')
def no_pauses():
    """Between reservations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sdr.wait, 'sleep', lambda seconds: None)
        yield


class Hostile(Fake):
    """A controller that answers HPM.1, and the chassis, with whatever it likes; and whose FRUs are damaged."""

    stopped = False

    def __init__(self, draw, **more):
        super().__init__(**more)
        self.draw = draw

    @contextlib.contextmanager
    def limited(self, budget):
        yield

    def close(self):
        pass

    def answer(self, netfn, command, data):
        if netfn in (0x2C, 0x00):
            # Mostly as long as it has to be: HPM.1 version 0 and eight components, or a name or a version of any bytes.
            right = st.binary(min_size=12, max_size=12).map(
                lambda b: b'\0\0\0' + b[:5] + b'\xff' if command == 0x2E else b'\0\0' + b
            )
            return self.draw(st.one_of(right, right, right, st.binary(min_size=1, max_size=20)))
        return super().answer(netfn, command, data)


def damaged(draw, content):
    """Some bytes of it are others."""
    content = bytearray(content)
    for _ in range(draw(st.integers(0, 3))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


NAMES = st.sampled_from(['Alveo U50', 'Alveo U250', 'Mystery', '\x1b[2J', '', 'NVIDIA H100'])


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_whatever_a_machine_shows_becomes_devices_and_gaps(data):
    """Ids are unique, texts can be printed, and every look ends; an error is one of that BMC."""
    frus = {
        n: damaged(
            data.draw,
            memory(board=board(product=data.draw(NAMES), serial=data.draw(st.sampled_from(['S1', 'S2', '']))), size=256),
        )
        for n in range(3)
    }
    near = Hostile(data.draw, address=0x72, frus={0: frus[0]})
    repository = (
        fru_locator(1, fru=1),
        fru_locator(2, fru=2, name='\x07' if data.draw(st.booleans()) else 'slot'),
        damaged(data.draw, mc_locator(3, address=0x72)),
    )
    raw = Hostile(data.draw, frus=frus, repository=repository, behind={(0, 0x72): near})
    address = BmcAddress(name=HOST, address='ipmi://192.0.2.1', username='a', password='b', budget=timedelta(minutes=1))
    where = place('x', '192.0.2.1', username='a', password='b')
    connection = IpmiConnection(address, ControllerAccess(where, raw, address.budget), device_ids.shipped())
    try:
        look = connection.look(NOW)
    except BmcError:
        return
    ids = [a.id for a in look.accelerators]
    assert len(ids) == len(set(ids))
    texts = [*ids, *(g.reason for g in look.gaps)]
    for accelerator in look.accelerators:
        assert len(accelerator.firmware) == len({c.id for c in accelerator.firmware})
        texts += [
            accelerator.model,
            accelerator.serial or '',
            accelerator.location or '',
            *(c.id for c in accelerator.firmware),
        ]
    texts += [text for device in look.platform_devices for text in (device.model or '', device.reason)]
    assert all(text.isprintable() for text in texts), texts
    for uri, said in connection.glance([a.primary.uri for a in look.accelerators], timedelta(seconds=5)).items():
        assert isinstance(said, BmcError) or said == look.reader.peek(uri)


def test_versions_are_written_as_the_catalogue_writes_them():
    """So that a baseline can name them."""
    assert ('1.05', '2.15.00090000') == (Version(major=1, minor=5).text, Version(major=2, minor=0x15, aux=b'\0\x09\0\0').text)


# ------------------------------------------------------------------------------------------------------------------- what hides

CARD = memory(board=board(product='Board X', serial='B1'), product=product('Alveo U50', 'P1'), size=256)
BAD_PRODUCT = CARD[: CARD[4] * 8 + 6] + b'~' + CARD[CARD[4] * 8 + 7 :]
BAD_BOARD = CARD[: CARD[3] * 8 + 9] + b'~' + CARD[CARD[3] * 8 + 10 :]
NAMELESS = memory(board=area(b'\x19\0\0\0' + b'\xc0' * 5), size=256)
UNKNOWN = memory(board=board(product='Board X', serial='B1'), size=256)
SPD = bytes.fromhex('23120c010421000800600003080b8000') + bytes(240)


def found_in(content, *, entity=0x0B, modifier=0, name='Slot 7', known=None, code=None):
    """What is made of a machine with one FRU, number 7."""
    raw = Fake(frus={0: SERVER, 7: content}, repository=(fru_locator(1, fru=7, name=name, entity=entity, modifier=modifier),))
    if code is not None:
        answer = raw.answer
        raw.answer = lambda netfn, command, data: (
            bytes([code]) if netfn == 10 and command in (0x10, 0x11) and data[0] == 7 else answer(netfn, command, data)
        )
    quiet = NodeBusyRetry(timedelta(0))
    return inventory.found(discovery.look(raw, quiet), (), HOST, known or device_ids.shipped(), None)


SERVER = memory(board=board(product='Server', serial='S0'))


@pytest.mark.parametrize(
    ('content', 'accelerators', 'hides', 'gaps'),
    [
        (CARD, 1, 0, 0),
        (BAD_BOARD, 1, 0, 1),
        (BAD_PRODUCT, 0, 1, 2),  # Board X is unknown, too
        (NAMELESS, 0, 1, 1),
        (memory(board=board(product='N/A'), product=product('To be filled by O.E.M.', 'P1')), 0, 1, 1),
        (memory(board=board(product='Alveo U50'), product=product('N/A', 'None')), 1, 0, 0),
        (UNKNOWN, 0, 0, 1),
        (SPD, 0, 1, 1),
        (b'\xff' * 256, 0, 1, 1),
        (bytes(256), 0, 1, 1),
        (b'', 0, 1, 1),
    ],
)
def test_of_a_card_a_name_that_is_not_known_for_sure_hides(content, accelerators, hides, gaps):
    """A good board area beside a damaged product area is no proof: the product is what the table knows."""
    found = found_in(content)
    assert (accelerators, hides, gaps) == (len(found.accelerators), sum(gap.hides for gap in found.gaps), len(found.gaps))
    memory_module = found_in(content, entity=0x20, modifier=1)
    assert (accelerators, 0) == (len(memory_module.accelerators), sum(gap.hides for gap in memory_module.gaps))


@pytest.mark.parametrize('code', [0xC0, 0xC1, 0xC3, 0xC9, 0xCE, 0xD4, 0xFF, 0x81, 0x82])
@pytest.mark.parametrize(('entity', 'modifier', 'hides'), [(0x0B, 0, 1), (0xC1, 0, 1), (0, 0, 1), (0x0F, 0, 0), (0x20, 1, 0)])
def test_what_a_bay_answers_hides_where_a_card_may_be(code, entity, modifier, hides):
    """A drive backplane and a DIMM are told, and hide nothing."""
    found = found_in(CARD, entity=entity, modifier=modifier, code=code)
    assert ([], 1, hides) == ([*found.accelerators], len(found.gaps), sum(gap.hides for gap in found.gaps))
    assert not hides or "the name 'Slot 7' to a file in [baremetal_acc] devices" in found.gaps[0].reason


def test_a_bay_that_is_said_to_be_absent_is_no_gap():
    """CBh, of a card too."""
    assert ((), ()) == (found_in(CARD, code=0xCB).accelerators, found_in(CARD, code=0xCB).gaps)


@pytest.mark.parametrize(('name', 'pattern'), [('PERC2', 'PERC[0-9]'), ('Riser #1', 'Riser #1'), (None, 'entity 0Bh.97')])
@pytest.mark.parametrize('content', [BAD_PRODUCT, NAMELESS, SPD, None])
def test_an_operator_can_say_that_nothing_is_hidden_there(tmp_path, name, pattern, content):
    """By the name of the locator, else by its entity, in a file of devices.d; what is an accelerator by its FRU stays one."""
    table = tmp_path / 'bays.toml'
    table.write_text(f'format = 1\n[[device]]\nkind = "none"\nnames = ["{pattern}"]\n')
    known = device_ids.load([table])
    more = {'name': name or '', 'code': None if content else 0xC9}
    assert [True] == [
        gap.hides for gap in found_in(content or CARD, **more).gaps if 'not in the device table' not in gap.reason
    ]
    named = found_in(content or CARD, known=known, **more)
    assert ([], False) == ([*named.accelerators], any(gap.hides for gap in named.gaps))
    assert content is NAMELESS or named.gaps, 'what is damaged is told all the same'
    assert 1 == len(found_in(CARD, name=name or '', known=known).accelerators)


def test_a_board_that_is_known_to_be_none_does_not_speak_for_a_product_that_cannot_be_read():
    """A DPU may have the board of a network card."""
    content = memory(board=board(product='MCX653105A', serial='B1'), product=product('Alveo U50', 'P1'), size=256)
    row = device_ids.shipped().by_name('MCX653105A')
    assert row is not None
    assert row.kind is None
    damaged = content[: content[4] * 8 + 6] + b'~' + content[content[4] * 8 + 7 :]
    assert [True] == [gap.hides for gap in found_in(damaged).gaps]


def test_the_board_of_the_bmc_hides_nothing():
    """A blank FRU 0, as many servers have it."""
    raw = Fake(frus={0: b'\xff' * 256, 7: CARD}, repository=(fru_locator(1, fru=7, entity=0x0B),))
    found = inventory.found(discovery.look(raw), (), HOST, device_ids.shipped(), None)
    assert (1, [False]) == (len(found.accelerators), [gap.hides for gap in found.gaps])


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_device_is_missed_without_a_gap_that_hides(data):
    """Whatever bytes of an FRU are damaged, however it and its records are refused, for ever or for some commands."""
    records = (fru_locator(1, fru=1, entity=0x0B), mc_locator(2, address=0x72), fru_locator(3, fru=2, entity=0), sensor(4))

    def content(serial):
        whole = bytearray(memory(board=board(product='Board X'), product=product('Alveo U50', serial), size=256))
        for start in data.draw(st.sets(st.sampled_from([0, 8, whole[4] * 8]), max_size=3)):
            # One byte of each area: a sum shows it.
            length = {0: 8}.get(start, whole[start + 1] * 8)
            whole[start + data.draw(st.integers(0, length - 1))] ^= data.draw(st.integers(1, 255))
        return bytes(whole[: data.draw(st.sampled_from([256, 256, 100, 40, 8, 0]))])

    class Ill(Fake):
        """Refuses commands about some FRU or record."""

        ill = data.draw(
            st.lists(
                st.tuples(
                    st.sampled_from([0x10, 0x11, 0x23, 0x20, 0x22]),
                    st.sampled_from([0, 1, 2, 3]),
                    st.sampled_from([0xC0, 0x81, 0xC3, 0xC5, 0xC8, 0xC9, 0xCA, 0xCE, 0xD4, 0xFF]),
                    st.sampled_from([1, 2, 10, 10**6]),
                ),
                max_size=3,
            )
        )

        def answer(self, netfn, command, sent):
            about = sent[2] if command == 0x23 else sent[0] if sent else 0
            for n, (one, number, code, left) in enumerate(self.ill):
                if netfn == 10 and (one, left > 0) == (command, True) and (command in (0x20, 0x22) or about == number):
                    self.ill[n] = one, number, code, left - 1
                    return bytes([code])
            return super().answer(netfn, command, sent)

    near = Fake(address=0x72, frus={0: content('P3')}, longest=25, most=24)
    raw = Ill(frus={0: SERVER, 1: content('P1'), 2: content('P2')}, repository=records, behind={(0, 0x72): near})
    found = inventory.found(discovery.look(raw, NodeBusyRetry(timedelta(0))), (), HOST, device_ids.shipped(), None)
    assert 3 == len(found.accelerators) or any(gap.hides for gap in found.gaps)
    assert 3 >= len(found.accelerators)
