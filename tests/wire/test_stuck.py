# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every message of doc/source/howto/stuck.rst is given, word by word, when its cause occurs. A real placement."""

import re
import uuid
from collections.abc import Callable

import pytest

from baremetal_acc.bmc.device_ids import shipped
from baremetal_acc.errors import AccError
from baremetal_acc.model.action import Program
from baremetal_acc.model.plan import Plan
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.scheduling import provider_traits, region_claims
from tests.pages import messages, pattern
from tests.unit.planning import values as v
from tests.wire.test_placement import CONSUMER, HELD, Adapter, Cloud, gpu_of, met, slot_of, wanted

MESSAGES = messages('stuck')


def to(sending: Adapter) -> Publisher:
    return Publisher(PlacementClient(sending), sleep=lambda seconds: None)


def held(cloud: Cloud, url: str) -> None:
    """Somebody has claimed a slot that is to get another function."""
    root = cloud.root()
    to(Adapter(url)).publish(wanted(root))
    cloud.claim(CONSUMER, slot_of(root), HELD)
    to(Adapter(url)).withdraw(root)


def no_root(cloud: Cloud, url: str) -> None:
    """No nova-compute manages the node."""
    to(Adapter(url)).publish(wanted(str(uuid.uuid4())))


def no_role(cloud: Cloud, url: str) -> None:
    """A token without the role that it needs."""
    to(Adapter(url, token='nobody')).publish(wanted(cloud.root()))


def another_root(cloud: Cloud, url: str) -> None:
    """A provider of one node was made below another."""
    root, other = cloud.root(), cloud.root()
    body = {'uuid': gpu_of(root), 'name': f'copied-{root}', 'parent_provider_uuid': other}
    cloud.ask('POST', '/resource_providers', body)
    to(Adapter(url)).publish(wanted(root))


def name_taken(cloud: Cloud, url: str) -> None:
    """Somebody has made one with its name."""
    root = cloud.root()
    [name] = [p.name for p in wanted(root).providers if p.uuid == gpu_of(root)]
    cloud.ask('POST', '/resource_providers', {'uuid': str(uuid.uuid4()), 'name': name})
    to(Adapter(url)).publish(wanted(root))


def kept_changing(cloud: Cloud, url: str) -> None:
    """Something writes to the same providers without an end."""
    root, sending = cloud.root(), Adapter(url)
    to(sending).publish(wanted(root))

    def meddle(method: str, path: str) -> None:
        if method == 'GET' and path.endswith('/inventories'):
            cloud.offer(gpu_of(root), 'PGPU', reserved=1)

    sending.before = meddle
    to(sending).publish(wanted(root))


def below_ours(cloud: Cloud, url: str) -> None:
    """Somebody has put a provider below one of ours that is to be deleted."""
    root = cloud.root()
    to(Adapter(url)).publish(wanted(root))
    cloud.child(gpu_of(root))
    to(Adapter(url)).publish(wanted(root, accelerators=(v.fpga(),)), delete_gone=True)


def unknown_trait(cloud: Cloud, url: str) -> None:
    """A list of known devices has a misspelt one."""
    root = cloud.root()
    to(Adapter(url)).publish(wanted(root, accelerators=(v.gpu(traits=frozenset({'HW_NIC_SRIVO'})),)))


def away(cloud: Cloud, url: str) -> None:
    """Nobody listens there."""
    to(Adapter('http://127.0.0.1:9')).publish(wanted(str(uuid.uuid4())))


def another_function(cloud: Cloud, url: str) -> None:
    """A service step under the tenant."""
    root = cloud.root()
    seen = v.inventory(v.fpga())
    held = {slot_of(root): frozenset({HELD})}
    program = Program(accelerator=v.FPGA, slot='Slot0', ref=v.ref('x'), image='i', function='aes', version='1', expects=None)
    region_claims.keep(region_claims.regions(held, root, seen), Plan(target='node-1', actions=(program,)), {}, seen)


def another_function_beside(cloud: Cloud, url: str) -> None:
    """A step of a deployment, or a service step, at a slot that the tenant has not claimed."""
    seen = v.inventory(v.fpga())
    program = Program(accelerator=v.FPGA, slot='Slot0', ref=v.ref('x'), image='i', function='aes', version='1', expects=None)
    region_claims.keep((), Plan(target='node-1', actions=(program,)), {(v.FPGA, 'Slot0'): 'gzip'}, seen)


def too_many_traits(cloud: Cloud, url: str) -> None:
    """The operator has most of Ironic's fifty."""
    others = frozenset(f'CUSTOM_MINE_{n}' for n in range(47))
    provider_traits.node_traits(v.inventory(v.gpu()), met(), {}, others=others)


PROVOKED: dict[str, Callable[[Cloud, str], None]] = {
    'provider ... is held': held,
    'placement has no root provider': no_root,
    'placement: ...: status 403': no_role,
    'placement has provider ... below another root': another_root,
    'placement has another provider with the name': name_taken,
    'its providers kept changing': kept_changing,
    'it has child providers that are not ours': below_ours,
    'placement does not know': unknown_trait,
    'placement: ...: no answer': away,
    'the instance has claimed': another_function,
    'it is published as its function': another_function_beside,
    'traits of the node': too_many_traits,
}
"""How a message begins on the page, and what brings it about."""

ELSEWHERE = ('placement: ...: status 401', 'placement counts')
"""401 takes a keystone: tests/ironic/test_roles.py. The other takes placement's database: tests/wire/test_nobodys.py."""


def test_every_message_of_the_page_is_brought_about() -> None:
    """One that is added has to be, too."""
    assert [] == [m for m in MESSAGES if not m.startswith((*PROVOKED, *ELSEWHERE))]
    assert len(MESSAGES) == len(PROVOKED) + len(ELSEWHERE)


@pytest.mark.parametrize('begins', list(PROVOKED))
def test_it_is_said_as_the_page_has_it(begins: str, url: str) -> None:
    """What varies is an ellipsis there, or in capitals."""
    [message] = [m for m in MESSAGES if m.startswith(begins)]
    cloud = Cloud(url)
    try:
        with pytest.raises(AccError) as failed:
            PROVOKED[begins](cloud, url)
    finally:
        cloud.free(CONSUMER, ok=False)
    assert re.search(pattern(message, 'CLASS', 'UUID'), str(failed.value)), str(failed.value)


def test_a_device_of_the_shipped_list_is_published_with_all_its_names(cloud: Cloud, url: str) -> None:
    """Placement knows or takes every one of them; what was published before gains the new ones, and stays on offer."""
    root = cloud.root()
    card = v.gpu(pci=v.PciIds(vendor_id='0x10de', device_id='0x1db6'))
    to(Adapter(url)).publish(wanted(root, accelerators=(card,)))
    cloud.claim(CONSUMER, gpu_of(root), 'PGPU')
    before = cloud.offers(gpu_of(root))
    named = v.gpu(pci=card.pci, traits=shipped().traits(card.kind, '0x10de', '0x1db6'))
    assert {'CUSTOM_NVIDIA_1DB6', 'HW_GPU_CUDA_COMPUTE_CAPABILITY_V7_0'} == named.traits
    sending = Adapter(url)
    to(sending).publish(wanted(root, accelerators=(named,)))
    assert named.traits < cloud.traits(gpu_of(root))
    assert before == cloud.offers(gpu_of(root))
    assert [] == [line for line in sending.sent if line.startswith('PUT') and line.endswith('/inventories')]
    found = cloud.ask('GET', f'/resource_providers?in_tree={root}&required=CUSTOM_NVIDIA_1DB6')['resource_providers']
    assert [gpu_of(root)] == [p['uuid'] for p in found]


@pytest.fixture
def cloud(url: str):
    cloud = Cloud(url)
    yield cloud
    cloud.free(CONSUMER, ok=False)
