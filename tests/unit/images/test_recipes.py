# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every sample of the page of recipes is a catalogue that is read, and comes in force as the text beside it says."""

import re
import textwrap
from pathlib import Path

from baremetal_acc.images import catalogue
from baremetal_acc.model.lock import ResetKind

PAGE = Path(__file__).parents[3] / 'doc/source/howto/recipes.rst'


def samples():
    """The blocks of TOML of the page."""
    found = re.findall(r'^\.\. code-block:: toml\n\n((?:   .*\n|\n)+)', PAGE.read_text(encoding='utf-8'), re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_every_sample_is_a_catalogue():
    """With the reset of each of its parts."""
    resets = [[image.reset for image in read(text)] for text in samples()]
    assert [
        [ResetKind.POWER_CYCLE, ResetKind.AC_POWER_CYCLE],
        [ResetKind.AUX_POWER_CYCLE],
        [ResetKind.BMC_RESET],
    ] == resets


def read(text):
    """Its images."""
    return catalogue.parse(text, '/etc/baremetal_acc/catalogue.toml')


def test_no_recipe_claims_hardware_and_each_names_its_source():
    """Nothing here was tried on a machine."""
    text = PAGE.read_text(encoding='utf-8')
    assert 'None of them was tried' in text
    assert len(samples()) == text.count('*Sources.*') == text.count('*Tried') == text.count('*What to expect.*')
