# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Identical cards of one machine get different firmware by their location: planned, applied, and reported when swapped."""

from pathlib import Path

import pytest

from baremetal_acc.emulator.image import build_image
from tests.cli.desk import NEW_GPU

OTHER_GPU = '96.00.9F.00.04'

SAMPLE = (Path(__file__).parents[2] / 'etc/baremetal_acc/baseline-identical-cards.toml').read_text(encoding='utf-8')

KEYS = {
    'location': ('GPU0', 'GPU1'),
    'serial': ('1603928570825', '1652914505909'),
    # The second as other programs write it.
    'pci_address': ('1b:00.0', '00000000:2B:00.0'),
}
"""What the two GPUs of the emulated machine show."""


def by(key: str) -> str:
    """The sample with another key than the place."""
    first, second = KEYS[key]
    return SAMPLE.replace('location = "GPU0"', f'{key} = "{first}"').replace('location = "GPU1"', f'{key} = "{second}"')


def prepare(desk, machine) -> None:
    """The sample, and a catalogue with both images."""
    desk.prepare(machine)
    image = build_image(model='h100', component='gpu', version=OTHER_GPU, security_version=2, size_bytes=30_000)
    fits, reset = 'fits = [{ pci = "0x10de:0x2330" }]', 'apply = { reset = "power-cycle" }'
    entry = desk._entry('gpu-other', 'firmware', image, 'HGX_FW_GPU_*', OTHER_GPU, fits, reset, 'restore = "none"')
    desk.write('catalogue.toml', '\n'.join(((desk.folder / 'catalogue.toml').read_text(), *entry, '')))
    desk.write('baseline.toml', SAMPLE)


@pytest.mark.parametrize('key', KEYS)
def test_each_of_two_identical_cards_gets_its_own_image(desk, emulated_machine, key):
    """The plan says which, by whichever key; apply writes it; verify holds, and finds the two swapped."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    prepare(desk, machine)
    desk.write('baseline.toml', by(key))
    planned = desk.run('plan', '-f', 'json', *desk.options)
    assert 3 == planned.code, planned.err
    flashes = [a for a in planned.document['targets'][0]['actions'] if a['action'] == 'flash']
    assert [('HGX_FW_GPU_0', 'gpu-new'), ('HGX_FW_GPU_1', 'gpu-other')] == [(a['subject'], a['image']) for a in flashes]
    if key != 'location':
        return  # The key decides the plan and nothing else.

    done = desk.run('apply', '--execute', '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    pushed = [e['body']['Targets'][0].rsplit('/', 1)[-1] for e in machine.log() if e['path'].endswith('update-multipart')]
    assert ['HGX_FW_GPU_0', 'HGX_FW_GPU_1'] == sorted(pushed)
    assert 0 == desk.run('verify', *desk.options).code

    first, second = KEYS[key]
    swapped = SAMPLE.replace(f'"{first}"', '"?"').replace(f'"{second}"', f'"{first}"').replace('"?"', f'"{second}"')
    desk.write('baseline.toml', swapped)
    found = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == found.code
    unmet = [f for f in found.document['targets'][0]['findings'] if f['met'] is not True]
    assert [
        ('firmware HGX_FW_GPU_0', OTHER_GPU, NEW_GPU, 'second'),
        ('firmware HGX_FW_GPU_1', NEW_GPU, OTHER_GPU, 'first'),
    ] == [(f['subject'], f['expected'], f['found'], f['rule']) for f in unmet]


def test_a_card_that_does_not_show_its_place_is_refused_and_not_met(desk, emulated_machine):
    """The DPU of the machine shows none: a rule by place alone may be for it, and nothing is written."""
    machine = emulated_machine('acc-server')
    prepare(desk, machine)
    desk.write(
        'baseline.toml', 'format = 1\n[[rule]]\nname = "by-place"\nmatch = { location = "GPU0" }\nblock = ["host-device"]\n'
    )
    planned = desk.run('plan', *desk.options)
    assert 4 == planned.code
    assert (
        'rule by-place: the BMC does not show the location that the rule matches on, so the rule may apply to this device'
        in planned.err
    )
    verified = desk.run('verify', '-f', 'json', *desk.options)
    assert 3 == verified.code
    unsure = [f for f in verified.document['targets'][0]['findings'] if f['subject'] == 'rule by-place']
    assert ['the location that the rule matches on'] == [f['expected'] for f in unsure]
    assert [] == machine.log()


def test_a_key_that_could_match_nothing_stops_before_any_bmc_is_asked(desk):
    """File, rule, key, and what to write."""
    desk.write('acc.conf', '')
    desk.write('catalogue.toml', 'format = 1\n')
    desk.bmcs({'node-1': {'bmcs': {'host': {'address': 'https://192.0.2.1', 'username': 'a', 'password': 'b'}}}})
    desk.write('baseline.toml', 'format = 1\n[[rule]]\n[rule.match]\npci_address = "17"\n')
    done = desk.run('plan', *desk.options)
    assert 2 == done.code
    assert 'baseline.toml, line 4: rule[0].match.pci_address: ' in done.err
    assert '"17:00.0"' in done.err
