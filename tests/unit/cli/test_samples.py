# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The samples of etc/ are right: they parse, and they show every key that there is."""

import re
from pathlib import Path

import pytest

from baremetal_acc.bmc import device_ids
from baremetal_acc.cli import bmcs
from baremetal_acc.errors import DocumentError
from baremetal_acc.images import catalogue
from baremetal_acc.model.bmc_state import BmcSetting
from baremetal_acc.policy import baseline


@pytest.fixture
def etc(tree) -> Path:
    """The folder of the samples."""
    return tree / 'etc' / 'baremetal_acc'


def test_bmcs_parses_and_holds_no_password(etc):
    """It may be copied with any mode; all ways to write a target are shown."""
    targets, password_line = bmcs.parse((etc / 'bmcs.yaml').read_text(), 'bmcs.yaml')
    assert ['rack1-node7', 'rack1-node8', 'rack1-node9'] == [t.name for t in targets]
    assert [['host', 'dpu'], ['host', 'dpu'], ['host']] == [[b.name for b in t.bmcs] for t in targets]
    assert password_line is None


def test_baseline_and_catalogue_parse_and_belong_together(etc):
    """The version that the baseline demands is one that the catalogue has an image for."""
    rules = baseline.parse((etc / 'baseline.toml').read_text(), 'baseline.toml').rules
    images = catalogue.parse((etc / 'catalogue.toml').read_text(), '/etc/baremetal_acc/catalogue.toml')
    assert ['h100-nodes', 'fpga-functions', 'dpus', 'own-machines', 'tenants'] == [r.name for r in rules]
    wanted = dict(rules[0].firmware or ())['HGX_FW_GPU_*']
    assert wanted in {i.version for i in images}
    assert {'gzip'} <= {i.function for i in images}


def test_the_rules_for_identical_cards_parse_and_tell_them_apart(etc):
    """One card by each place, and both by the model; with images that are not the same."""
    text = (etc / 'baseline-identical-cards.toml').read_text()
    first, second, every, _ = baseline.parse(text, 'baseline-identical-cards.toml').rules
    assert ['GPU0', 'GPU1', None] == [r.match.location for r in (first, second, every)]
    assert [1, 1, 2] == [r.count for r in (first, second, every)]
    assert first.firmware != second.firmware


def test_the_waiver_that_the_baseline_shows_is_one(etc):
    """It is commented out, since nobody answers for a copy of it."""
    text = (etc / 'baseline.toml').read_text().replace('\non_missing = "refuse"', '')
    shown = re.sub(r'\n#   (on_missing = "waive"|waiver = )', r'\n\1', text)
    (rule,) = [r for r in baseline.parse(shown, 'baseline.toml').rules if r.waiver is not None]
    assert ('tenants', 'hardware security') == (rule.name, rule.waiver and rule.waiver.role)


def test_devices_parse(etc):
    """What the folder adds is read before the shipped table, and wins."""
    found = device_ids.load(sorted((etc / 'devices.d').glob('*.toml')))
    row = found.by_pci('0x1e52', '0x401e', display=True)
    assert row is not None
    assert frozenset({'CUSTOM_ASIC_TENSTORRENT'}) == row.traits


@pytest.mark.parametrize(
    ('sample', 'parse'),
    [
        ('baseline.toml', baseline.parse),
        ('catalogue.toml', catalogue.parse),
        ('bmcs.yaml', bmcs.parse),
    ],
)
def test_a_misspelt_key_of_a_sample_is_found(etc, sample, parse):
    """Every key that a sample shows is one that is understood, so a changed one is an error."""
    text = (etc / sample).read_text()
    lines = text.splitlines()
    keys = [n for n, line in enumerate(lines) if re.match(r'\s*[a-z_]+( =|:)', line)]
    assert len(keys) > 10
    for number in keys:
        changed = [*lines]
        changed[number] = re.sub(r'[a-z_]+', lambda m: f'{m.group()}x', changed[number], count=1)
        if sample == 'bmcs.yaml' and lines[number].strip() in ('host:', 'dpu:'):
            continue  # a name, which is free
        with pytest.raises(DocumentError):
            parse('\n'.join(changed) + '\n', sample)


def test_the_rules_for_bmcs_name_every_setting(etc):
    """Whoever copies the sample sees every key, and finds it in the documentation."""
    rules = baseline.parse((etc / 'baseline-bmc.toml').read_text(), 'baseline-bmc.toml').bmc
    assert set(BmcSetting) == {demand.setting for demand in rules[-1].demands}
    page = (etc.parents[1] / 'doc/source/reference/baseline.rst').read_text()
    assert [] == [setting for setting in BmcSetting if f'   * - ``{setting}``\n' not in page]
