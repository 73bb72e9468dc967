# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An ordinary server, with DIMMs, empty bays and blank EEPROMs among its FRUs, is planned, locked and verified over IPMI."""

import pytest

from baremetal_acc.emulator.ipmi.inventory_habits import HABITS
from baremetal_acc.emulator.ipmi.site import IpmiOptions
from tests.cli.desk import CONF

BASELINE = 'format = 1\n[[rule]]\nblock = ["host-bmc-ipmi"]\n'
NAMED = 'format = 1\n[[device]]\nkind = "none"\nnames = ["PERC[0-9]"]\n'
HARMLESS = tuple(name for name in HABITS if name not in ('empty-slot', 'damaged-card'))


@pytest.fixture
def rented(desk, emulated_machine):
    """A machine that is spoken to by IPMI alone, with these habits."""

    def make(*habits):
        machine = emulated_machine('fpga-server', ipmi=IpmiOptions(inventory_habits=habits))
        bmc = machine.bmcs['host']
        keys = {'address': f'ipmi://127.0.0.1:{bmc.ipmi_port}', 'username': bmc.username, 'password': bmc.password}
        desk.bmcs({'node-1': {'resource_class': 'gold', 'bmcs': {'host': keys}}})
        desk.write('baseline.toml', BASELINE)
        desk.write('acc.conf', CONF)
        desk.images()
        return machine

    return make


def seen(desk):
    """The serial numbers of accelerators, the gaps that hide, and the number of all."""
    found = desk.run('inventory', '-f', 'json', *desk.options[:2])
    assert 0 == found.code, found.err
    target = found.document['targets'][0]
    gaps = target['gaps']
    return [one['serial'] for one in target['accelerators']], [gap for gap in gaps if gap['hides']], len(gaps)


def test_an_ordinary_server_is_planned_locked_and_verified(desk, rented):
    """Everything at once; the card behind the BMC is found, and nothing hides one."""
    rented()
    plain = seen(desk)
    rented(*HARMLESS)
    serials, hiding, gaps = seen(desk)
    assert (plain[0], []) == (serials, hiding)
    assert serials
    assert gaps > plain[2], 'what cannot be read is told'
    planned = desk.run('plan', *desk.options)
    assert 3 == planned.code, planned.err
    locked = desk.run('lock', '--execute', *desk.options)
    assert 0 == locked.code, locked.err
    assert 0 == desk.run('verify', *desk.options).code


def test_an_empty_slot_for_a_card_is_named_by_the_operator(desk, rented):
    """It answers C9h and may be any card: refused and not met, until a file of devices.d names it."""
    rented(*HARMLESS, 'empty-slot')
    _, hiding, _ = seen(desk)
    assert 1 == len(hiding)
    assert "the name 'PERC2' to a file in [baremetal_acc] devices" in hiding[0]['reason']
    assert 4 == desk.run('plan', *desk.options).code
    assert 3 == desk.run('verify', *desk.options).code
    (desk.folder / 'devices.d').mkdir()
    desk.write('devices.d/bays.toml', NAMED)
    desk.write('acc.conf', f'{CONF}devices = {desk.folder}/devices.d\n')
    assert [] == seen(desk)[1]
    assert 3 == desk.run('plan', *desk.options).code
    assert 0 == desk.run('lock', '--execute', *desk.options).code
    assert 0 == desk.run('verify', *desk.options).code


def test_a_card_of_which_one_bit_was_changed_is_not_left_out(desk, rented):
    """Its product area was damaged, or somebody has seen to that: it is no accelerator by its board area, and hides."""
    rented('damaged-card')
    serials, hiding, _ = seen(desk)
    assert (1, ['/ipmi/fru/16']) == (len(serials), [gap['uri'] for gap in hiding])
    assert 4 == desk.run('lock', '--execute', *desk.options).code
    assert 3 == desk.run('verify', *desk.options).code
