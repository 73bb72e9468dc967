# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which root of trust belongs to a device, and how its lock is read, word by word. Documents only, without HTTP."""

from typing import Any

import pytest

from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.nvidia.inband_update_policy import InbandUpdatePolicy
from baremetal_acc.model.lock import LockReading, LockState, Scope
from baremetal_acc.model.ref import HOST, Ref
from tests.unit.locks.documents import NOW, TOP, Tree, device, members
from tests.unit.planning import values

GPU_0 = f'{TOP}/Systems/HGX/Processors/GPU_0'
EROT = f'{TOP}/Chassis/HGX_ERoT_GPU_0'
PARTS = f'{EROT}/Oem/Nvidia/RoTProtectedComponents'
SLOTS = f'{PARTS}/AP/ImageSlots'
MANAGER = f'{TOP}/Managers/Card_BMC'
ITEM = f'{TOP}/UpdateService/FirmwareInventory/Card'

LOCKED, UNKNOWN = LockState.LOCKED_REPORTED, LockState.UNKNOWN
UNSURE = 'this BMC also reports false when it could not read the root of trust, and nothing in the answer shows that it could'
SIGNS = {'AutomaticBackgroundCopyEnabled': True, 'BackgroundCopyStatus': 'Completed'}
TROUBLE = [{'MessageId': 'Base.1.0.InternalError', 'MessageSeverity': 'Critical'}]
WRONG = 'the BMC reports an error next to it (Critical: Base.1.0.InternalError)'


def _chassis(value: object = False, *protects: object, signs: Any = SIGNS, **oem: object) -> dict[str, Any]:
    return {
        'Status': {'State': 'Enabled', 'Health': 'OK'},
        'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': value, **signs, **oem}},
        'Links': {'Oem': {'Nvidia': {'ComponentsProtected': [{'@odata.id': uri} for uri in protects]}}},
    }


def _tree(**chassis: Any) -> Tree:
    """The chassis of a BMC, by their names."""
    tree = Tree('host')
    tree[TOP] = {'Chassis': {'@odata.id': f'{TOP}/Chassis'}}
    tree[f'{TOP}/Chassis'] = members(*(f'{TOP}/Chassis/{name}' for name in chassis))
    for name, body in chassis.items():
        tree[f'{TOP}/Chassis/{name}'] = body
    return tree


def _read(tree: Tree, *uris: str) -> tuple[LockReading, ...]:
    return InbandUpdatePolicy().read(device(*(uris or (GPU_0,)), bmc='host', items=(ITEM,)), [tree], NOW)


def _said(tree: Tree, *uris: str) -> list[tuple[str, LockState, str | None]]:
    return [(r.ref.uri.rpartition('/')[2], r.state, r.reason) for r in _read(tree, *uris)]


def _reading(**changed: Any) -> LockReading:
    said: dict[str, Any] = {
        'mechanism': 'nvidia_inband_update_policy',
        'accelerator': values.GPU,
        'blocks': values.HOST_DEVICE,
        'ref': Ref(bmc=HOST, uri=EROT),
        'field': 'Oem/Nvidia/InbandUpdatePolicyEnabled',
        'value': 'false',
        'state': LOCKED,
        'at': NOW,
        'session': 'reading-session',
    }
    return LockReading(**said | changed)


def test_a_reading_says_all_that_evidence_needs() -> None:
    """Of the device that it links; of the image of a BMC that it links; of one that cannot be read, why."""
    assert (_reading(),) == _read(_tree(HGX_ERoT_GPU_0=_chassis(False, GPU_0)))
    tree = _tree(HGX_ERoT_GPU_0=_chassis(False, MANAGER))
    tree[MANAGER] = {'Links': {'ActiveSoftwareImage': {'@odata.id': ITEM}}}
    assert (_reading(scope=Scope.COMPONENT, part='Card'),) == _read(tree, GPU_0, MANAGER)
    busy = _reading(value=None, state=UNKNOWN, reason='the BMC is busy')
    assert (busy,) == _read(_tree(HGX_ERoT_GPU_0='the BMC is busy'))


@pytest.mark.parametrize(
    ('body', 'state', 'reason'),
    [
        (_chassis(True, GPU_0), LockState.UNLOCKED, None),
        (_chassis(None, GPU_0), UNKNOWN, 'neither true nor false'),
        (_chassis('false', GPU_0), UNKNOWN, 'neither true nor false'),
        (_chassis(0, GPU_0), UNKNOWN, 'neither true nor false'),
        (_chassis(True), LockState.UNLOCKED, None),
        (_chassis(False), UNKNOWN, 'the BMC does not say which device this root of trust protects'),
        (_chassis(False, 7, GPU_0), LOCKED, None),
        (
            _chassis(False, GPU_0, signs={}),
            UNKNOWN,
            f'{UNSURE}: AutomaticBackgroundCopyEnabled, BackgroundCopyStatus',
        ),
        (_chassis(False, GPU_0) | {'Status': {}}, UNKNOWN, f'{UNSURE}: Status.State Enabled, Status.Health OK'),
    ],
)
def test_what_a_root_of_trust_says_of_itself(body: Any, state: LockState, reason: str | None) -> None:
    """False counts from one that the BMC could ask, for a device that the BMC names."""
    assert [('HGX_ERoT_GPU_0', state, reason)] == _said(_tree(HGX_ERoT_GPU_0=body))


@pytest.mark.parametrize(
    ('part', 'slots', 'state', 'reason'),
    [
        ({'InbandUpdatePolicyEnabled': False}, (), LOCKED, None),
        ({'InbandUpdatePolicyEnabled': False}, ({},), LOCKED, None),
        ({}, ({'WriteProtected': True}, {}), LOCKED, None),
        ({}, ({}, {}), UNKNOWN, f'{UNSURE}: AutomaticBackgroundCopyEnabled, BackgroundCopyStatus'),
        (
            {'InbandUpdatePolicyEnabled': True},
            (),
            UNKNOWN,
            f'{PARTS}/AP says otherwise: InbandUpdatePolicyEnabled is true',
        ),
        ({}, ({'WriteProtected': None},), UNKNOWN, f'{SLOTS}/0 says otherwise: WriteProtected is null'),
        (
            {'InbandUpdatePolicyEnabled': False, 'InbandUpdatePolicyEnabled@Message.ExtendedInfo': TROUBLE},
            (),
            UNKNOWN,
            f'{PARTS}/AP: {WRONG}',
        ),
        ({}, ({'WriteProtected': True, 'WriteProtected@Message.ExtendedInfo': TROUBLE},), UNKNOWN, f'{SLOTS}/0: {WRONG}'),
        ({}, ('the BMC is busy',), UNKNOWN, 'a second source for it could not be read: the BMC is busy'),
    ],
)
def test_what_a_second_source_adds(part: Any, slots: tuple[Any, ...], state: LockState, reason: str | None) -> None:
    """One that agrees stands for the signs, whatever others leave open; one that does not is named with what it says."""
    parts = {'@odata.id': PARTS}
    tree = _tree(HGX_ERoT_GPU_0=_chassis(False, GPU_0, signs={}, RoTProtectedComponents=parts))
    tree[PARTS] = members(f'{PARTS}/AP', f'{PARTS}/Self')
    tree[f'{PARTS}/AP'] = {**part, 'ImageSlots': {'@odata.id': SLOTS}}
    tree[f'{PARTS}/Self'] = {}
    tree[SLOTS] = members(*(f'{SLOTS}/{n}' for n in range(len(slots))))
    for number, body in enumerate(slots):
        tree[f'{SLOTS}/{number}'] = body
    assert [('HGX_ERoT_GPU_0', state, reason)] == _said(tree)


@pytest.mark.parametrize('name', ['ERoT_GPU_0', 'HGX_ERoT_GPU_0', 'IRoT_GPU_0', 'HGX_IRoT_GPU_0'])
@pytest.mark.parametrize('uri', [GPU_0, f'{TOP}/Chassis/HGX_GPU_0', f'{TOP}/Chassis/GPU_0'])
def test_a_root_of_trust_that_links_nothing_is_found_by_its_name(name: str, uri: str) -> None:
    """With the prefix of the board or without, on either side."""
    assert [(name, LockState.UNLOCKED, None)] == _said(_tree(**{name: _chassis(True)}), uri)


@pytest.mark.parametrize('name', ['ERoT_GPU_1', 'RoT_GPU_0', 'Board_ERoT_GPU_0', 'GPU_0', 'HGX_GPU_0', 'ERoT_HGX_GPU_0'])
def test_a_chassis_of_another_name_that_links_nothing_is_nobodys(name: str) -> None:
    """Even when it shows the policy."""
    assert [] == _said(_tree(**{name: _chassis(True)}), GPU_0)


def test_a_root_of_trust_that_links_another_device_is_not_ours_and_hides_none() -> None:
    """What it links counts, not its name; the next one is read all the same."""
    other = _chassis(True, f'{TOP}/Systems/HGX/Processors/GPU_1')
    ours = _chassis(True, GPU_0)
    assert [('IRoT_X', LockState.UNLOCKED, None)] == _said(_tree(ERoT_GPU_0=other, IRoT_X=ours))


def test_a_root_of_trust_of_a_device_and_of_its_bmc_is_the_devices() -> None:
    """Whichever is linked first."""
    for order in ((GPU_0, MANAGER), (MANAGER, GPU_0)):
        (found,) = _read(_tree(HGX_ERoT_GPU_0=_chassis(True, *order)), GPU_0, MANAGER)
        assert (Scope.DEVICE, None) == (found.scope, found.part)


def test_the_first_bmc_of_a_card_whose_image_is_known_is_the_one_that_counts() -> None:
    """A Manager that cannot be read, or runs nothing of the card, is passed over."""
    managers = [f'{MANAGER}_{n}' for n in range(3)]
    tree = _tree(HGX_ERoT_GPU_0=_chassis(True, *managers))
    tree[managers[0]] = 'the BMC is busy'
    tree[managers[1]] = {}
    tree[managers[2]] = {'Links': {'ActiveSoftwareImage': {'@odata.id': f'{ITEM}/'}}}
    (found,) = _read(tree, GPU_0, *managers)
    assert (Scope.COMPONENT, 'Card') == (found.scope, found.part)


def test_one_that_cannot_be_read_hides_no_other_and_is_named_without_its_slash() -> None:
    """It is unknown, and the closed one beside it partial."""
    tree = _tree(ERoT_GPU_0=_chassis(False, GPU_0))
    away = f'{TOP}/Chassis/IRoT_GPU_0'
    tree[f'{TOP}/Chassis'] = members(f'{away}/', f'{TOP}/Chassis/ERoT_GPU_0')
    assert [
        ('IRoT_GPU_0', UNKNOWN, 'it is not there'),
        ('ERoT_GPU_0', LockState.PARTIAL, f'{away} also protects it, and is unknown'),
    ] == _said(tree)


def test_the_chassis_are_where_the_root_links_them() -> None:
    """And at the usual place where it links nothing."""
    tree = _tree(ERoT_GPU_0=_chassis(True, GPU_0))
    tree[TOP] = {}
    assert [('ERoT_GPU_0', LockState.UNLOCKED, None)] == _said(tree)
    tree[TOP] = {'Chassis': {'@odata.id': f'{TOP}/Boards'}}
    assert [] == _said(tree)
    tree[f'{TOP}/Boards'] = members(f'{TOP}/Chassis/ERoT_GPU_0')
    assert [('ERoT_GPU_0', LockState.UNLOCKED, None)] == _said(tree)


@pytest.mark.parametrize('listed', [None, 7, [7], [None], [{}], [{'@odata.id': 7}]])
def test_a_list_of_chassis_that_is_none_has_none(listed: Any) -> None:
    """A BMC sends what it likes."""
    tree = _tree()
    tree[f'{TOP}/Chassis'] = {'Members': listed}
    assert [] == _said(tree)


def test_a_chassis_that_shows_everything_but_the_policy_is_not_written() -> None:
    """It is another chassis now."""
    tree = _tree(HGX_ERoT_GPU_0=_chassis(False, GPU_0))
    (found,) = _read(tree)
    tree[EROT] = {'Oem': {'Nvidia': SIGNS}}
    with pytest.raises(BmcUnsupported) as refused:
        InbandUpdatePolicy().release(tree, found)
    assert f'BMC host, {EROT}: it no longer shows InbandUpdatePolicyEnabled' == str(refused.value)
    assert [] == tree.wrote
