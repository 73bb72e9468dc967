# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The places of locks are read beside the devices, last of all, and cost no request more than when they are read afterwards."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.driver import Lead
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.discovery import Discovery
from baremetal_acc.locks.mechanism import Leading
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import LockState
from tests.wire.recorded import bodies, inventory_of

pytestmark = pytest.mark.usefixtures('steady')

MANAGERS = '/redfish/v1/Managers'
INTERFACES = f'{MANAGERS}/BMC/HostInterfaces'

RECORDED = {
    'supermicro/hgx-h100-8gpu': 6,
    'lenovo/sr670v2-8xl40-bluefield2': 4,
    'dell/r750-h100-bluefield2': 5,
    'hpe/dl380a-gen11-2xh100nvl': 5,
    'nvidia/gh200': 5,
    'dmtf/rackmount': 4,
    'nvidia/bluefield3': 4,
}
"""How many requests for locks and their Managers came after the walk, one after the other, while slots were idle."""


@pytest.fixture
def after(bmc: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Tells what was asked for since the devices are known."""
    walked: list[int] = []
    run = Discovery.run

    def noted(walk: Discovery) -> Any:
        tree = run(walk)
        walked[:] = [len(bmc.seen)]
        return tree

    monkeypatch.setattr(Discovery, 'run', noted)
    return lambda: [uri for _, uri in bmc.seen[walked[0] :]]


def _said(found: Inventory) -> list[str]:
    parts = (found.accelerators, found.platform_locks, found.platform_devices, sorted(map(repr, found.gaps)))
    return [re.sub("session='[^']*'", '', repr(part)) for part in parts]


@pytest.mark.parametrize('expand', [True, False])
@pytest.mark.parametrize('name', sorted(RECORDED))
def test_a_recorded_machine_is_asked_nothing_after_its_devices_and_nothing_more(
    bmc: Any, shared: Path, after: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch, name: str, expand: bool
) -> None:
    """The record is the same, and so is what was asked, in another order."""
    bmc.tree = bodies(shared / 'recordings' / name, expand=expand)
    # One request at a time without $expand: whether lists of one are asked for their only member is chance with several.
    slots = {} if expand else {'concurrency': 1}
    ahead, asked = _said(inventory_of(bmc, **slots)), sorted(bmc.seen)
    assert [] == after()
    bmc.seen.clear()
    monkeypatch.setattr(RedfishConnection, 'read_ahead', lambda connection, leads: None)
    assert ahead == _said(inventory_of(bmc, **slots))
    assert asked == sorted(bmc.seen)
    assert expand or RECORDED[name] == len([uri for uri in after() if not uri.endswith('ResetActionInfo')])


@pytest.fixture
def card(bmc: Any) -> Any:
    """A machine with a card, and a Manager with a host interface that is off."""
    processors = '/redfish/v1/Systems/1/Processors'
    bmc.tree['/redfish/v1/Systems/1']['Processors'] = {'@odata.id': processors}
    bmc.collection(processors, 'GPU')
    bmc.put(f'{processors}/GPU', ProcessorType='GPU', Model='NVIDIA H100 PCIe', SerialNumber='S1')
    bmc.collection(MANAGERS, 'BMC')
    bmc.put(f'{MANAGERS}/BMC', HostInterfaces={'@odata.id': INTERFACES})
    bmc.collection(INTERFACES, '1')
    bmc.put(f'{INTERFACES}/1', InterfaceEnabled=False)
    return bmc


def test_places_of_locks_come_when_nothing_else_waits(card: Any, after: Callable[[], list[str]]) -> None:
    """One request at a time: all of the devices come before the first of the locks."""
    inventory_of(card, concurrency=1)
    uris = [uri for _, uri in card.seen]
    assert [MANAGERS, f'{MANAGERS}/BMC', INTERFACES, f'{INTERFACES}/1'] == uris[-4:]
    assert [] == after()


def test_a_machine_without_accelerators_is_not_asked_for_locks(card: Any) -> None:
    """Nothing would be made of the answers."""
    card.tree['/redfish/v1/Systems/1/Processors/GPU'] |= {'ProcessorType': 'CPU', 'Model': 'CPU'}
    inventory_of(card)
    assert 0 == card.count('GET', INTERFACES)


def test_a_place_that_fails_is_unknown_and_is_asked_for_as_often_as_afterwards(
    card: Any, reply: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is no gap of the devices."""
    card.replies['GET', f'{INTERFACES}/1'] = reply(403)
    found = inventory_of(card)
    assert [LockState.UNKNOWN] == [r.state for r in found.platform_locks if r.mechanism == 'host_interface']
    asked = card.count('GET', f'{INTERFACES}/1')
    card.seen.clear()
    monkeypatch.setattr(RedfishConnection, 'read_ahead', lambda connection, leads: None)
    assert _said(found) == _said(inventory_of(card))
    assert asked == card.count('GET', f'{INTERFACES}/1') == 1


@pytest.mark.parametrize('gone', [MANAGERS, f'{MANAGERS}/BMC', INTERFACES, f'{INTERFACES}/1'])
def test_a_place_that_is_not_there_says_what_it_says_afterwards(card: Any, monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    """A link to nothing is a gap that hides, where a lock was to be."""
    del card.tree[gone]
    found = _said(inventory_of(card))
    monkeypatch.setattr(RedfishConnection, 'read_ahead', lambda connection, leads: None)
    assert found == _said(inventory_of(card))


SYSTEM = '/redfish/v1/Systems/Bluefield'
EXTENSION = f'{SYSTEM}/Oem/Nvidia'


def _without_level(tree: dict[str, Any]) -> None:
    tree[f'{SYSTEM}/Bios'] = json.loads(tree[f'{SYSTEM}/Bios']) | {'Attributes': {}}


def _without_link_to_settings(tree: dict[str, Any]) -> None:
    tree[f'{SYSTEM}/Bios'] = json.loads(tree[f'{SYSTEM}/Bios'])
    del tree[f'{SYSTEM}/Bios']['@Redfish.Settings']


def _with_its_extension_inside(tree: dict[str, Any]) -> None:
    tree[SYSTEM] = json.loads(tree[SYSTEM]) | {'Oem': {'Nvidia': json.loads(tree[EXTENSION])}}


def _of_no_card(tree: dict[str, Any]) -> None:
    tree[SYSTEM] = json.loads(tree[SYSTEM]) | {'Model': 'Server', 'Name': 'Server'}


@pytest.mark.parametrize(
    'change',
    [
        _without_level,
        _without_link_to_settings,
        _with_its_extension_inside,
        _of_no_card,
        lambda tree: tree.pop(f'{SYSTEM}/Bios'),
        lambda tree: tree.pop(f'{SYSTEM}/Bios/Settings'),
        lambda tree: tree.pop(EXTENSION),
        lambda tree: tree.pop(f'{EXTENSION}/Connectx/ExternalHostPrivileges'),
    ],
)
def test_a_card_is_asked_ahead_for_what_it_is_asked_afterwards(
    bmc: Any, shared: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], object]
) -> None:
    """Which places its System has differs by firmware; what a place says decides whether the next one is read."""
    bmc.tree = bodies(shared / 'recordings' / 'nvidia/bluefield3')
    change(bmc.tree)
    ahead, asked = _said(inventory_of(bmc)), sorted(bmc.seen)
    bmc.seen.clear()
    monkeypatch.setattr(RedfishConnection, 'read_ahead', lambda connection, leads: None)
    assert ahead == _said(inventory_of(bmc))
    assert asked == sorted(bmc.seen)


def test_each_lead_begins_at_what_the_root_lists() -> None:
    """A mechanism with a lead elsewhere would read nothing ahead."""
    given = [lead for mechanism in mechanisms() if isinstance(mechanism, Leading) for lead in mechanism.leads]
    leads = [lead for lead in given if isinstance(lead, Lead)]
    assert {'Managers'} == {lead.above for lead in leads}
    assert 6 <= len(set(leads))
