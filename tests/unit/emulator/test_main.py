# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulator's arguments about IPMI do what they say."""

import argparse
from dataclasses import replace

import pytest

from baremetal_acc.emulator import main
from baremetal_acc.emulator.hw.parameters import BadParameter
from baremetal_acc.emulator.ipmi.hpm_ability import HABITS
from baremetal_acc.emulator.ipmi.inventory_habits import HABITS as INVENTORY_HABITS
from baremetal_acc.emulator.ipmi.site import IpmiOptions


def options(*words):
    """What the BMCs can do over IPMI."""
    parser = argparse.ArgumentParser()
    main.add_arguments(parser)
    return main._ipmi(parser.parse_args(['fpga-server', *words]))


def _has(ability, fields):
    """It has each of these, as it is said there."""
    return fields == {name: getattr(ability, name) for name in fields}


def test_without_further_options_the_bmcs_can_what_they_can_by_themselves():
    """The defaults stand in one place."""
    usual, found = IpmiOptions(), options('--ipmi')
    assert (None, usual, usual.line.loss) == (options(), replace(found, line=usual.line), found.line.loss)


@pytest.mark.parametrize(
    ('words', 'found'),
    [
        (['--ipmi-suites', '3'], lambda o: o.suites == (3,)),
        (['--ipmi-suites', '17,3'], lambda o: o.suites == (17, 3)),
        (['--ipmi-idle-seconds', '0'], lambda o: o.idle_seconds == 0),
        (['--ipmi-loss', '0.1'], lambda o: o.line.loss == 0.1),
        (['--ipmi-delay', '0.3'], lambda o: o.line.delay_seconds == 0.3),
        (['--no-hpm'], lambda o: not o.hpm),
        (['--no-long-blocks'], lambda o: o.inbound_bytes is None),
        (['--no-manual-rollback'], lambda o: not o.ability.manual_rollback),
        (['--automatic-rollback'], lambda o: o.ability.automatic_rollback),
        *((['--hpm-habit', habit], lambda o, habit=habit: _has(o.ability, HABITS[habit])) for habit in HABITS),
        *((['--inventory-habit', habit], lambda o, habit=habit: o.inventory_habits == (habit,)) for habit in INVENTORY_HABITS),
        (['--no-firewall'], lambda o: not o.firewall),
        (['--firewall-habit', 'forgets'], lambda o: not o.firewall_survives_reset),
        (['--firewall-habit', 'applies-in-part'], lambda o: o.firewall_applies_in_part),
        (['--firewall-habit', 'takes-no-qualifier'], lambda o: not o.firewall_needs_qualifier),
        (['--firewall-habit', 'ignores-qualifier'], lambda o: not o.firewall_reads_qualifier),
        (['--firewall-habit', 'wants-makers-qualifier'], lambda o: o.firewall_makers_qualifier == b'\x01'),
    ],
)
def test_each_option_changes_one_thing_and_is_refused_without_ipmi(words, found):
    """What is the default is not."""
    assert (True, False) == (found(options('--ipmi', *words)), found(IpmiOptions()))
    with pytest.raises(BadParameter, match=f'{words[0]}: the BMCs have no IPMI'):
        options(*words)


def test_what_is_not_there_has_no_habits():
    """Both at once are a mistake."""
    with pytest.raises(BadParameter, match=r'--firewall-habit: the BMCs have no firmware firewall .omit --no-firewall'):
        options('--ipmi', '--no-firewall', '--firewall-habit', 'forgets')
    with pytest.raises(BadParameter, match=r'--hpm-habit: the BMCs have no HPM.1 .omit --no-hpm'):
        options('--ipmi', '--no-hpm', '--hpm-habit', 'undesirable')


@pytest.mark.parametrize(
    ('words', 'reason'),
    [
        (['--ipmi-suites', '3,0'], '3,0 is not a list of cipher suites: give some of 3, 17'),
        (['--ipmi-loss', '2'], '2 is not a share'),
    ],
)
def test_what_cannot_be_is_refused(words, reason, capsys):
    """With what could be."""
    with pytest.raises(SystemExit):
        options('--ipmi', *words)
    assert reason in capsys.readouterr().err
