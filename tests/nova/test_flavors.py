# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The flavors of doc/source/howto/flavors.rst find the hosts that the page says: Nova's own checks and scheduler, real
placement.

The page is read: a flavor that is added to it is asked for here.
"""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import TREE
from tests.nova import machines
from tests.nova.conftest import Make
from tests.nova.machines import GOLD, Machine
from tests.nova.service import Nova
from tests.pages import rows

Specs = dict[str, str]

PAGE = (TREE / 'doc' / 'source' / 'howto' / 'flavors.rst').read_text(encoding='utf-8')

OWN_TRAIT = 'format = 1\n[[device]]\nkind = "GPU"\npci = ["0x10de:0x2330"]\ntraits = ["CUSTOM_RACK_COOLED"]\n'


def section(title: str) -> str:
    """A section of the page, without its title."""
    found = re.split(rf'^{title}\n[-=~]+\n', PAGE, flags=re.MULTILINE)
    assert 2 == len(found), title
    return re.split(r'^[^\n]+\n-{4,}\n', found[1], flags=re.MULTILINE)[0]


def flavors() -> Iterator[Specs]:
    """Extra specs of the flavors that the page shows. The first one is whole, the others say what is different."""
    text = section('Flavors').partition('.. list-table::')[0]
    common: Specs = {}
    for part in re.split(r'\n\s*\n', text):
        if '--property' not in part or not part.startswith(' '):
            continue
        words = shlex.split(part.replace('\\\n', ' '))
        specs = dict(words[n + 1].split('=', 1) for n, word in enumerate(words) if word == '--property')
        if not common:
            common = {name: value for name, value in specs.items() if name.startswith('resources:')}
        yield common | specs


FLAVORS = list(flavors())
ZEROES = dict.fromkeys(('resources:VCPU', 'resources:MEMORY_MB', 'resources:DISK_GB'), '0')
BARE = {f'resources:{GOLD}': '1', **ZEROES}


def told(specs: Specs) -> str:
    """A flavor in one line."""
    return ' '.join(f'{name}={value}' for name, value in specs.items() if name not in BARE)


class Cloud:
    """Machines that are published, and of which Nova was told."""

    def __init__(self, nova: Nova, placement: str, kinds: dict[str, Machine]) -> None:
        self.nova = nova
        self.kinds = kinds
        self.traits: dict[str, frozenset[str]] = {}
        self.names = {machine.uuid: name for name, machine in kinds.items()}
        publisher = machines.publisher(placement)
        for machine in kinds.values():
            tree, traits = machine.wanted()
            self.traits[machine.uuid] = traits
            answer = nova.do('report', nodes={machine.uuid: machine.node(traits)}, startup=True)
            assert [] == answer.errors
            publisher.publish(tree)

    def found(self, specs: Specs, on: str | None = None) -> list[dict[str, Any]]:
        """The ways to serve a flavor; all of them, or those of one machine."""
        answer = self.nova.do('ask', extra_specs=specs)
        assert answer.done['refused'] is None
        ways: list[dict[str, Any]] = answer.done['candidates']
        return [way for way in ways if on is None or self.kinds[on].uuid in way]


@pytest.fixture(scope='module')
def cloud(nova: Nova, placement: str, make: Make) -> Cloud:
    """One machine of each way to offer accelerators."""
    kinds = {
        'functions': make('fpga-server', machines.SINGLE, functions=machines.FUNCTIONS),
        'gpus': make('gpu-server', machines.SINGLE, gpus=8),
        'together': make('gpu-server', machines.TOGETHER, gpus=8, seed='2'),
        'regions': make('fpga-server', machines.REGIONS, functions=machines.FUNCTIONS, seed='2'),
        'own': make('gpu-server', machines.SINGLE, devices=OWN_TRAIT, seed='3'),
    }
    return Cloud(nova, placement, kinds)


def test_the_page_shows_flavors() -> None:
    """And the reader of the page finds them."""
    assert 5 <= len(FLAVORS)
    assert all(specs.items() >= BARE.items() for specs in FLAVORS)


def test_every_flavor_of_the_page_is_served_and_can_be_deployed(cloud: Cloud) -> None:
    """A candidate is a machine with accelerators of its own, and what Nova hands to Ironic is on the node."""
    for specs in FLAVORS:
        ways = cloud.found(specs)
        assert ways, told(specs)
        handed = set(cloud.nova.do('handed', extra_specs=specs).done)
        roots = {root for way in ways for root in way if root in cloud.names}
        assert [] == [cloud.names[root] for root in roots if handed - cloud.traits[root]], told(specs)
        groups = len({name.partition(':')[0] for name in specs if name.startswith('resources_')})
        for way in ways:
            [root] = set(way) & set(cloud.names)
            assert {GOLD: 1} == way[root], told(specs)
            assert groups == len(set(way) - {root}), told(specs)


def test_without_the_three_zeroes_nothing_is_found(cloud: Cloud) -> None:
    """Nova asks for memory and disk that no node has."""
    for specs in FLAVORS:
        bare = {name: value for name, value in specs.items() if name not in ZEROES}
        assert [] == cloud.found(bare), told(specs)


def test_a_flavor_without_the_class_of_a_machine_gets_a_device_alone(cloud: Cloud) -> None:
    """Which is why every flavor has to name it."""
    ways = cloud.found({**ZEROES, 'resources_ACC:PGPU': '1'})
    assert any(not set(way) & set(cloud.names) for way in ways)


# ------------------------------------------------------------------------------------------------- what does not work


def several_of_one(cloud: Cloud) -> None:
    """One group is not split; devices that are offered together have it, and so has one group for each."""
    eight = {**BARE, 'resources_ACC:PGPU': '8'}
    assert [] == cloud.found(eight, 'gpus')
    assert 1 == len(cloud.found(eight, 'together'))
    each = {f'resources_{letter}:PGPU': '1' for letter in 'AB'}
    assert cloud.found({**BARE, **each, 'group_policy': 'none'}, 'gpus')


def a_trait_that_ironic_lacks(cloud: Cloud) -> None:
    """Placement finds it; Ironic would refuse what Nova hands it. What an operator says of a device is on the node."""
    on = cloud.traits[cloud.kinds['own'].uuid]
    for trait, lacks in {'CUSTOM_OWNER_BAREMETAL_ACC': True, 'CUSTOM_RACK_COOLED': False}.items():
        specs = {**BARE, 'resources_ACC:PGPU': '1', f'trait_ACC:{trait}': 'required'}
        assert cloud.found(specs, 'own')
        assert {trait} == set(cloud.nova.do('handed', extra_specs=specs).done)
        assert lacks == (trait not in on)


def what_nova_cannot_say(cloud: Cloud) -> None:
    """It refuses one, and does not hand on the others."""
    specs = {**BARE, 'resources_ACC:PGPU': '1'}
    preferred = cloud.nova.do('ask', extra_specs={**specs, 'trait_ACC:CUSTOM_ACC_GPU': 'preferred'})
    assert 'required' in preferred.done['refused']
    usual = cloud.nova.do('ask', extra_specs=specs).done['query']
    for name, value in {'same_subtree': '_ACC', 'root_required': 'CUSTOM_ACC_GPU'}.items():
        assert usual == cloud.nova.do('ask', extra_specs={**specs, name: value}).done['query']


def a_class_that_nobody_has_made(cloud: Cloud) -> None:
    """Placement refuses the question, and Nova finds no host. Published or declared, it is only served by nobody."""
    specs = {**BARE, 'resources_ACC:CUSTOM_ACC_FN_NEVER_SEEN': '1'}
    answer = cloud.nova.do('ask', extra_specs=specs)
    assert [] == answer.done['candidates']
    assert any('CUSTOM_ACC_FN_NEVER_SEEN' in text for text in answer.errors)


SLOW = 'more than four groups of the same class'

WITHOUT = {
    '``resources_ACC:PGPU=8``': several_of_one,
    '``trait_ACC:X=required`` with a trait that the provider has and the node has not': a_trait_that_ironic_lacks,
    '``trait_ACC:X=preferred``, ``same_subtree``': what_nova_cannot_say,
    'a class that placement does not know': a_class_that_nobody_has_made,
}
"""How the rows of the page's table begin, and what shows that it is so. How long placement takes is not asked here."""


def test_all_that_the_page_says_not_to_work_is_tried() -> None:
    """A row that is added has to be shown."""
    found = rows('flavors', 'What does not work, and what to do')
    assert [] == [row for row in found if not row.startswith((SLOW, *WITHOUT))]
    assert len(found) == len(WITHOUT) + 1


@pytest.mark.parametrize('name', list(WITHOUT))
def test_what_the_page_says_not_to_work_does_not(cloud: Cloud, name: str) -> None:
    """And what it says to do instead does."""
    WITHOUT[name](cloud)
