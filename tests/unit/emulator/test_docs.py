# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page about the emulator names all faults, habits, components, locks and options."""

import argparse
import re
from pathlib import Path

import pytest

from baremetal_acc.emulator.fault import NAMES
from baremetal_acc.emulator.habit import HABITS
from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.main import add_arguments
from doc.tables import TABLES

PAGE = Path(__file__).parents[3] / 'doc' / 'source' / 'howto' / 'emulator.rst'


@pytest.fixture(scope='module')
def page() -> str:
    """The page."""
    return PAGE.read_text()


def general(key: str) -> str:
    """A key as the page writes it: n for a number of many."""
    return re.sub(r'(GPU_|UEFI_|Slot|NVSwitch_|PCIeRetimer_|CPU_|(?<=HGX_FW_)FPGA_|ERoT_FPGA_)\d+', r'\1n', key)


def test_the_page_lists_faults_and_habits_from_the_code(page: str) -> None:
    """A fault that nobody knows of is not used."""
    assert ['faults', 'habits'] == re.findall('^[.][.] from-code:: (.+)$', page, flags=re.MULTILINE)
    listed = '\n'.join(TABLES['faults']()).replace('\\', '')
    for name, (parameters, what) in NAMES.items():
        assert f'   * - ``{name}``\n' + f'     - {", ".join(parameters)}'.rstrip() + f'\n     - {what}\n' in listed
    listed = '\n'.join(TABLES['habits']()).replace('\\', '')
    for name, habit in HABITS.items():
        assert f'   * - ``{name}``\n     - {habit.what}. Source: {habit.source}\n' in listed


def test_every_from_code_of_a_page_has_its_table() -> None:
    """And every table stands in some page."""
    found = [
        name for p in PAGE.parents[1].rglob('*.rst') for name in re.findall('^[.][.] from-code:: (.+)$', p.read_text(), re.M)
    ]
    assert sorted(TABLES) == sorted(found)


def test_every_component_that_takes_an_image_and_every_lock_is_named(page: str) -> None:
    """Who builds an image needs model and component; who asks the oracle needs the key."""
    for product in PRODUCTS:
        machine = build(product, Parameters()).machine
        for key, component in machine.components.items():
            if component.updateable:
                rows = [line for line in page.splitlines() if line.startswith(f'``{general(key)}``')]
                assert any(f'{component.model}, {component.component} ' in row for row in rows), key
        locks = {general(key) for key, setting in machine.settings.items() if setting.is_lock and not key.startswith('/')}
        assert not [key for key in locks if f'``{key}``' not in page]


def test_every_option_is_named(page: str) -> None:
    """The table of options is complete."""
    parser = argparse.ArgumentParser(add_help=False)
    add_arguments(parser)
    options = {option for action in parser._actions for option in action.option_strings} - {'--ready-file'}
    assert {'--state', '--users'} < options
    assert not [option for option in options if f'``{option}' not in page]
