# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""FRUs and records of ordinary servers over RMCP+: one that cannot be read costs itself, and what may be a card hides."""

import pytest

from baremetal_acc.emulator.ipmi.controller import CommandAnswer, EmulatedPrivilege
from baremetal_acc.emulator.ipmi.lan import LanThread
from tests.wire.test_ipmi_driver import NOW, Site, board, ref

STORAGE = 0x0A
BRIDGE = (0x06, 0x34)


@pytest.fixture
def lan():
    """What serves the BMCs."""
    with LanThread() as thread:
        yield thread


@pytest.fixture
def site(lan):
    """A server with a card of its own (FRU 3), an unknown one and an AMC with a card."""
    return Site(lan)


def look(site, username='oper'):
    """What is seen of it."""
    with site.connect(username=username) as connection:
        return connection.look(NOW)


def serials(found):
    """Of all accelerators."""
    return [accelerator.serial for accelerator in found.accelerators]


def hiding(found):
    """The URIs of gaps that hide."""
    return [gap.ref.uri for gap in found.gaps if gap.hides]


@pytest.mark.parametrize(
    'commands',
    [
        {(STORAGE, 0x23)},
        {(STORAGE, 0x10)},
        {(STORAGE, 0x11)},
        {BRIDGE},
        {(STORAGE, 0x20), (STORAGE, 0x22), (STORAGE, 0x23), BRIDGE},
    ],
)
def test_what_is_refused_to_an_operator_is_read_as_an_administrator(site, commands):
    """Records, FRUs and bridges, where the account may be one; where it may not, that hides."""

    def refuse(request):
        refused = (
            (request.netfn, request.command) in commands
            and request.channel
            and request.privilege < EmulatedPrivilege.ADMINISTRATOR
        )
        return 0xD4 if refused else None

    site.bmc.guards.append(refuse)
    plain = ['A-1', 'A-2']
    assert (plain, []) == (serials(look(site, 'admin')), hiding(look(site, 'admin')))
    assert hiding(look(site))
    assert 0 == site.endpoint.sessions
    with site.connect(username='admin') as connection:
        found = connection.look(NOW)
        again = connection.glance(['/ipmi/fru/3', '/ipmi/0-72/fru/0'], connection.address.budget)
        assert [found.reader.peek(uri) for uri in again] == list(again.values())


def test_a_controller_behind_may_refuse_an_operator_what_its_bmc_passes_on(site):
    """It is the answer that came over the bridge that says D4h: nothing changes it, and the card is told."""
    site.amc.guards.append(lambda request: 0xD4 if (request.netfn, request.command) == (STORAGE, 0x11) else None)
    found = look(site, 'admin')
    assert (['A-1'], ['/ipmi/0-72/fru/0']) == (serials(found), hiding(found))


@pytest.mark.parametrize('command', [0x10, 0x11])
@pytest.mark.parametrize('times', [1, 3])
@pytest.mark.parametrize('there', ['bmc', 'amc'])
def test_an_fru_that_is_busy_for_a_moment_is_read(site, command, times, there):
    """81h, by Get FRU Inventory Area Info as well, on the BMC and behind it."""
    left = [times]

    def busy(request):
        if (request.netfn, request.command) != (STORAGE, command) or not left[0] or (there == 'bmc' and request.data[0] != 3):
            return None
        left[0] -= 1
        return 0x81

    getattr(site, there).guards.append(busy)
    found = look(site)
    assert (['A-1', 'A-2'], [], 0) == (serials(found), hiding(found), left[0])


def test_a_damaged_product_area_beside_a_good_board_area_hides(site):
    """The board has a name that the table does not know: the card may be one that it knows. Damaged once, it is read again."""
    whole = board('Alveo U250', 'A-1')
    whole = whole.replace(b'\xcaAlveo U250', b'\xcaBoard U250', 1)
    start = whole[3] * 8
    size = whole[start + 1] * 8
    area = whole[start : start + size - 1]
    whole = whole[:start] + area + bytes([-sum(area) & 0xFF]) + whole[start + size :]
    site.frus.contents[3] = bytearray(whole)
    assert (['A-1', 'A-2'], []) == (serials(look(site)), hiding(look(site)))
    damaged = bytearray(whole)
    damaged[whole[4] * 8 + 20] ^= 1
    site.frus.contents[3] = damaged
    found = look(site)
    assert (['A-2'], ['/ipmi/fru/3']) == (serials(found), hiding(found))
    plain, left = site.bmc.around, [1]

    def healed(request, execute):
        if (request.netfn, request.command, request.data[:1]) == (STORAGE, 0x11, b'\3'):
            site.frus.contents[3] = damaged if left else bytearray(whole)
            if left and request.data[1] >= whole[4] * 8:
                left.clear()
        return execute(request) if plain is None else plain(request, execute)

    site.bmc.around = healed
    found = look(site)
    assert (['A-1', 'A-2'], []) == (serials(found), hiding(found))


@pytest.mark.parametrize('code', [0xC3, 0xC9, 0xFF])
@pytest.mark.parametrize(
    ('number', 'but', 'cards', 'hides'), [(2, 5, ['A-1', 'A-2'], 1), (3, 5, ['A-1'], 1), (3, 14, ['A-1', 'A-2'], 0)]
)
def test_a_record_that_cannot_be_read_costs_itself(site, code, number, but, cards, hides):
    """The locator of the unknown card, and that of the AMC; of the latter all but its name can be read in the end."""

    def refuse(request):
        asked, offset, count = int.from_bytes(request.data[2:4], 'little'), *request.data[4:6]
        is_get = (request.netfn, request.command) == (STORAGE, 0x23)
        return code if is_get and asked == number and offset + count > but else None

    site.bmc.guards.append(lambda request: refuse(request) if request.command == 0x23 else None)
    found = look(site)
    assert (cards, hides) == (serials(found), len(hiding(found)))


def test_an_fru_that_cannot_be_read_to_its_end_is_known_by_what_comes_before(site):
    """Its board area names it; C3h is what comes of all that is longer or lies behind."""
    limit = site.frus.contents[3][4] * 8

    def refuse(request, execute):
        is_read = (request.netfn, request.command, request.data[:1]) == (STORAGE, 0x11, b'\3')
        return CommandAnswer(0xC3) if is_read and request.data[1] + request.data[3] > limit else execute(request)

    site.bmc.around = refuse
    found = look(site)
    assert ['A-2', 'BA-1'] == serials(found)
    assert [ref('/ipmi/fru/3')] == [gap.ref for gap in found.gaps if 'product area' in gap.reason]
