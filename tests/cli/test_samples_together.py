# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The samples of etc/baremetal_acc fit each other: with all of them a machine of the samples can be planned."""

import hashlib
import re
import tomllib
from pathlib import Path

import pytest
import yaml

from baremetal_acc.emulator.image import build_image
from baremetal_acc.images import catalogue
from baremetal_acc.scheduling import pools

TARGET = 'rack1-node7'

COMPONENTS = {'HGX_FW_GPU_*': ('h100', 'gpu'), 'HGX_FW_ERoT_GPU_*': ('h100', 'erot'), 'Slot*': ('d5005', 'slot')}
"""Model and component of the emulator's images, by the component of the sample."""


@pytest.fixture
def etc(tree) -> Path:
    """The folder of the samples."""
    return tree / 'etc' / 'baremetal_acc'


def write_catalogue(desk, text: str) -> None:
    """The sample with images that the emulator accepts, and their sizes and digests in place of the invented ones."""
    (desk.folder / 'images').mkdir()
    for entry in tomllib.loads(text)['image']:
        model, component = COMPONENTS[entry['component']]
        keys = {'kind': entry['kind'], 'function': entry['function']} if 'function' in entry else {}
        image = build_image(
            model=model,
            component=component,
            version=entry['version'],
            security_version=entry['security_version'],
            size_bytes=20_000,
            **keys,
        )
        (desk.folder / entry['source']).write_bytes(image)
        text = text.replace(entry['digest'], f'sha256:{hashlib.sha256(image).hexdigest()}')
        text = text.replace(f'size = {entry["size"]}\n', f'size = {len(image)}\n')
        if 'signature' in entry:
            text = text.replace(f'signature = "{entry["signature"]}"\n', '')
    # The date of the sample will pass.
    desk.write('catalogue.toml', re.sub(r'\nexpires = .*', '\nexpires = 2999-01-01T00:00:00Z', text))


def write_target(desk, sample: Path, machine) -> None:
    """The first target of the sample, with the BMCs of an emulated machine."""
    target = yaml.safe_load(sample.read_text())['targets'][TARGET]
    for name, bmc in machine.bmcs.items():
        keys = {'address': bmc.address, 'username': bmc.username, 'password': bmc.password, 'verify_ca': bmc.verify_ca}
        target['bmcs'][name] = {**keys, 'system': bmc.system}
    assert set(target['bmcs']) == set(machine.bmcs)
    desk.bmcs({TARGET: target})


@pytest.mark.parametrize(('baseline', 'gpus'), [('baseline.toml', 8), ('baseline-identical-cards.toml', 2)])
def test_a_machine_is_planned_with_the_samples(desk, emulated_machine, etc, baseline, gpus):
    """Every image that the baseline demands is in the catalogue and fits; nothing is refused."""
    machine = emulated_machine('acc-server', gpus=gpus)
    write_target(desk, etc / 'bmcs.yaml', machine)
    write_catalogue(desk, (etc / 'catalogue.toml').read_text())
    desk.write('baseline.toml', (etc / baseline).read_text())
    planned = desk.run('plan', '--baseline', 'baseline.toml', '--catalogue', 'catalogue.toml', '--no-publish', '-f', 'json')
    [target] = planned.document['targets']
    assert (3, []) == (planned.code, target['refusals']), planned.err
    written = {action['image'] for action in target['actions'] if action['image']}
    wanted = tomllib.loads((etc / baseline).read_text())['rule']
    firmware = {version for rule in wanted for version in rule.get('firmware', {}).values()}
    functions = {name for rule in wanted for name in rule.get('functions', {}).values()}
    entries = tomllib.loads((etc / 'catalogue.toml').read_text())['image']
    found = [entry for entry in entries if entry['name'] in written]
    assert firmware <= {entry['version'] for entry in found if entry['kind'] == 'firmware'}
    assert functions == {entry['function'] for entry in found if entry['kind'] == 'function'}


def test_the_pools_name_functions_of_the_catalogue(etc):
    """And the rule that programs functions allows them."""
    images = catalogue.parse((etc / 'catalogue.toml').read_text(), '/etc/baremetal_acc/catalogue.toml')
    wanted = {pool.function for pool in pools.parse((etc / 'pools.toml').read_text(), 'pools.toml').pools}
    assert wanted <= {image.function for image in images}
