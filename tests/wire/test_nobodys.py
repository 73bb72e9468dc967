# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A claim that placement counts, and whose consumer it has lost: nobody sees it or can delete it. Who cannot go on says so.

Placement 16.0.0 makes such claims itself, with PostgreSQL, when a claim is deleted while another request writes it
(``make soak-race``). Here the consumer is deleted by SQL.
"""

import re
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest

from baremetal_acc.errors import ClaimedAlone, PlacementRefused
from baremetal_acc.placement import provider_reader
from baremetal_acc.placement.client import PlacementClient
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.placement.publish import Publisher
from baremetal_acc.placement.reshape import Reshaper, Wish
from tests.pages import messages, pattern
from tests.wire.test_placement import HELD, Adapter, Cloud, gpu_of, slot_of, wanted

Orphan = Callable[[str, str], str]


@pytest.fixture
def cloud(url: str) -> Cloud:
    return Cloud(url)


@pytest.fixture
def root(cloud: Cloud) -> str:
    return cloud.root()


@pytest.fixture
def orphan(cloud: Cloud, placement_folder: Path) -> Orphan:
    """Claims something of a provider for a consumer that placement loses."""

    def claim(provider: str, resource_class: str) -> str:
        consumer = str(uuid.uuid4())
        cloud.claim(consumer, provider, resource_class)
        [database] = placement_folder.rglob('placement.sqlite')
        with sqlite3.connect(database, timeout=20) as connection:
            connection.execute('DELETE FROM consumers WHERE uuid = ?', (consumer,))
        connection.close()
        assert {} == cloud.ask('GET', f'/allocations/{consumer}')['allocations']
        assert {} == cloud.ask('GET', f'/resource_providers/{provider}/allocations')['allocations']
        assert 1 == cloud.ask('GET', f'/resource_providers/{provider}/usages')['usages'][resource_class]
        return consumer

    return claim


def told(provider: str, resource_class: str) -> str:
    return f'placement counts 1 {resource_class} of provider {provider} as used, but has no consumer for it'


def test_it_is_found(cloud: Cloud, orphan: Orphan, url: str, root: str) -> None:
    """And no claim that somebody has is one, nor anything of a provider that is not there."""
    client = PlacementClient(Adapter(url))
    Publisher(client).publish(wanted(root))
    consumer = str(uuid.uuid4())
    cloud.claim(consumer, slot_of(root), HELD)
    every = (root, str(uuid.uuid4()), slot_of(root), gpu_of(root))
    assert None is provider_reader.nobodys(client, every)
    orphan(gpu_of(root), 'PGPU')
    found = provider_reader.nobodys(client, every)
    assert found is not None
    assert told(gpu_of(root), 'PGPU') == found.text
    assert f'openstack resource provider show --allocations {gpu_of(root)}' in str(found.error())
    cloud.free(consumer)


@pytest.mark.parametrize('frees', [True, False])
def test_who_claims_or_frees_while_it_is_asked_is_none(cloud: Cloud, url: str, root: str, frees: bool) -> None:
    """The two answers are of two moments then."""
    sending = Adapter(url)
    client = PlacementClient(sending)
    Publisher(client).publish(wanted(root))
    consumer = str(uuid.uuid4())
    if frees:
        cloud.claim(consumer, gpu_of(root), 'PGPU')

    def meddle(method: str, path: str) -> None:
        if path.endswith('/allocations'):
            cloud.free(consumer) if frees else cloud.claim(consumer, gpu_of(root), 'PGPU')

    sending.after = meddle
    assert None is provider_reader.nobodys(client, (gpu_of(root),))


def test_all_else_is_withdrawn_and_the_error_says_what_to_do(cloud: Cloud, orphan: Orphan, url: str, root: str) -> None:
    """That stays, wholly reserved; nobody is waited for, since nobody can free it but the operator."""
    publisher = Publisher(PlacementClient(Adapter(url)), sleep=lambda seconds: None)
    publisher.publish(wanted(root))
    orphan(gpu_of(root), 'PGPU')
    with pytest.raises(ClaimedAlone) as caught:
        publisher.withdraw(root)
    assert told(gpu_of(root), 'PGPU') in str(caught.value)
    [message] = [m for m in messages('stuck') if m.startswith('placement counts')]
    assert re.search(pattern(message, 'CLASS'), str(caught.value)), str(caught.value)
    assert 'placement-manage db online_data_migrations' in str(caught.value)
    assert not caught.value.waiting_helps
    assert ({}, {'PGPU': (1, 1)}) == (cloud.offers(slot_of(root)), cloud.offers(gpu_of(root)))


def test_a_machine_is_not_taken_off_the_shelf(cloud: Cloud, orphan: Orphan, url: str, root: str) -> None:
    """Nothing was changed."""
    client = PlacementClient(Adapter(url))
    Publisher(client).publish(wanted(root))
    orphan(gpu_of(root), 'PGPU')
    shelf = NodeWithdrawal(client)
    with pytest.raises(PlacementRefused, match=told(gpu_of(root), 'PGPU')):
        shelf.withdraw(root, shelf.look(root))
    assert ({HELD: (1, 0)}, {'PGPU': (1, 0)}) == (cloud.offers(slot_of(root)), cloud.offers(gpu_of(root)))


def test_nothing_is_reshaped(cloud: Cloud, orphan: Orphan, url: str, root: str) -> None:
    """It would be lost, or placement refuses it without a word of why."""
    cloud.offer(root, 'PGPU')
    orphan(root, 'PGPU')
    client = PlacementClient(Adapter(url))
    reshaper = Reshaper(client, Publisher(client), sleep=lambda seconds: None)
    with pytest.raises(PlacementRefused, match=told(root, 'PGPU')):
        reshaper.apply(Wish(root_uuid=root, wanted=wanted(root)))
    assert {'PGPU': (1, 0)} == cloud.offers(root)


def test_with_its_consumer_back_it_can_be_deleted(
    cloud: Cloud, orphan: Orphan, url: str, root: str, placement_folder: Path
) -> None:
    """As the error says."""
    publisher = Publisher(PlacementClient(Adapter(url)))
    publisher.publish(wanted(root))
    consumer = orphan(gpu_of(root), 'PGPU')
    migrate(placement_folder)
    assert [consumer] == list(cloud.ask('GET', f'/resource_providers/{gpu_of(root)}/allocations')['allocations'])
    cloud.free(consumer)
    publisher.withdraw(root)
    assert {} == cloud.offers(gpu_of(root))


def migrate(folder: Path) -> None:
    """Run ``placement-manage db online_data_migrations``."""
    [conf] = folder.rglob('placement.conf')
    command = [
        str(Path(sys.executable).with_name('placement-manage')),
        '--config-file',
        str(conf),
        'db',
        'online_data_migrations',
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
