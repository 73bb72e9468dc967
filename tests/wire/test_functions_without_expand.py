# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Without $expand PCIe functions are read from lists of them, or by the query ``only``; where a BMC errs none is missed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from tests.wire.recorded import ONLY, bodies, inventory_of, observe, of_one

from .test_deep_expansion import DEVICES, NAMES, _below, _look, _plain

SYSTEM = '/redfish/v1/Systems/1'
PROCESSORS = f'{SYSTEM}/Processors'
FUNCTIONS = {name: f'{DEVICES}/{name}/PCIeFunctions' for name in NAMES}


def _single(bmc: Any) -> dict[str, Any]:
    """Three cards of one function each, and two CPUs."""
    tree = _plain(bmc)
    for functions in FUNCTIONS.values():
        bmc.collection(functions, '0')
        del tree[f'{functions}/1']
    tree[SYSTEM]['Processors'] = {'@odata.id': PROCESSORS}
    bmc.collection(PROCESSORS, '1', '2')
    for number in '12':
        bmc.put(f'{PROCESSORS}/{number}', ProcessorType='CPU')
    return tree


def _serials(bmc: Any, remembered: RememberedBmc | None = None) -> dict[str | None, int]:
    """How many functions each card has."""
    found = _look(bmc, remembered).accelerators
    return {a.serial: len([ref for ref in a.refs if '/PCIeFunctions/' in ref.uri]) for a in found}


def _read_by_collection(bmc: Any) -> set[str]:
    return {uri.split('?')[0] for _, uri in bmc.seen if uri.split('?')[0].endswith('/PCIeFunctions')}


def _list(bmc: Any, name: str, *numbers: str) -> None:
    links = [{'@odata.id': f'{FUNCTIONS[name]}/{number}'} for number in numbers]
    bmc.tree[f'{DEVICES}/{name}']['Links'] = {'PCIeFunctions': links, 'PCIeFunctions@odata.count': len(links)}


TWO = {f'S{name}': 2 for name in NAMES}
ONE = {f'S{name}': 1 for name in NAMES}


def test_functions_that_a_device_lists_itself_need_no_collection(bmc: Any) -> None:
    """Three requests less for three cards."""
    _plain(bmc)
    for name in NAMES:
        _list(bmc, name, '0', '1')
    assert TWO == _serials(bmc)
    assert set() == _read_by_collection(bmc)


def test_functions_that_the_system_lists_need_no_collection(bmc: Any) -> None:
    """ComputerSystem.PCIeFunctions; a card of which it lists none is asked."""
    tree = _plain(bmc)
    tree[SYSTEM]['PCIeFunctions'] = [{'@odata.id': f'{FUNCTIONS[name]}/{n}'} for name in 'AB' for n in '01']
    assert TWO == _serials(bmc)
    assert {FUNCTIONS['C']} == _read_by_collection(bmc)


def test_lists_that_may_not_name_all_functions_are_not_relied_on(bmc: Any) -> None:
    """One of several functions, fewer than the count says, and another list than that of the System."""
    tree = _plain(bmc)
    for name in NAMES:
        _list(bmc, name, '0')
    tree[f'{DEVICES}/A']['DeviceType'] = 'MultiFunction'
    tree[f'{DEVICES}/B']['Links']['PCIeFunctions@odata.count'] = 2
    tree[SYSTEM]['PCIeFunctions'] = [{'@odata.id': f'{FUNCTIONS["C"]}/{n}'} for n in '01']
    assert TWO == _serials(bmc)
    assert set(FUNCTIONS.values()) == _read_by_collection(bmc)


@pytest.mark.parametrize('place', [f'{DEVICES}/B/PCIeFunctions/0', '/redfish/v1/Systems/1/PCIeDevices/A/PCIeFunctions/0'])
def test_functions_elsewhere_are_not_those_of_the_collection(bmc: Any, place: str) -> None:
    """The list may name them below another device."""
    _plain(bmc)
    bmc.tree[f'{DEVICES}/A']['Links'] = {'PCIeFunctions': [{'@odata.id': place}]}
    _serials(bmc)
    assert FUNCTIONS['A'] in _read_by_collection(bmc)


def test_only_brings_a_function_in_place_of_its_collection(bmc: Any) -> None:
    """The processors, of which there are several, show that the BMC does it right."""
    bmc.tree = of_one(_single(bmc))
    assert ONE == _serials(bmc)
    assert [f'{PROCESSORS}{ONLY}'] == [u for _, u in bmc.seen if u.startswith(PROCESSORS) and ONLY in u]
    assert [f'/{name}/PCIeFunctions{ONLY}' for name in NAMES] == [u for u in _below(bmc) if 'PCIeFunctions' in u]


def test_the_next_look_asks_so_again(bmc: Any) -> None:
    """All at once, as long as the process lives."""
    bmc.tree = of_one(_single(bmc))
    remembered = RememberedBmc()
    for _ in range(2):
        bmc.seen.clear()
        assert ONE == _serials(bmc, remembered)
        assert {f'{uri}{ONLY}' for uri in FUNCTIONS.values()} == {u for _, u in bmc.seen if 'PCIeFunctions' in u}


def test_several_functions_come_as_their_collection(bmc: Any) -> None:
    """Then each of them is read, as without the query."""
    tree = _single(bmc)
    bmc.collection(FUNCTIONS['B'], '0', '1')
    bmc.put(f'{FUNCTIONS["B"]}/1', VendorId='0x10de', DeviceId='0x2331', ClassCode='0x030200')
    bmc.tree = of_one(tree)
    assert ONE | {'SB': 2} == _serials(bmc)


def test_a_bmc_that_brings_one_of_several_is_not_asked_so(bmc: Any) -> None:
    """The others would never be seen."""
    tree = of_one(_plain(bmc))
    tree[SYSTEM] = tree[SYSTEM] | {'Processors': {'@odata.id': PROCESSORS}}
    bmc.tree = tree
    bmc.collection(PROCESSORS, '1', '2')
    for number in '12':
        bmc.put(f'{PROCESSORS}/{number}', ProcessorType='CPU')
    tree[PROCESSORS + ONLY] = tree[f'{PROCESSORS}/1']
    for functions in FUNCTIONS.values():
        tree[functions + ONLY] = tree[f'{functions}/0']
    assert TWO == _serials(bmc)
    assert [] == [u for _, u in bmc.seen if 'PCIeFunctions' in u and ONLY in u]


@pytest.mark.parametrize('code', [400, 501])
@pytest.mark.parametrize('place', [PROCESSORS, FUNCTIONS['A']])
def test_a_query_that_is_refused_is_not_sent_again(bmc: Any, reply: Callable[..., Any], code: int, place: str) -> None:
    """Not in the next look either."""
    bmc.tree = of_one(_single(bmc))
    bmc.replies['GET', place + ONLY] = reply(code)
    remembered = RememberedBmc()
    assert ONE == _serials(bmc, remembered)
    bmc.seen.clear()
    assert ONE == _serials(bmc, remembered)
    assert [] == [u for _, u in bmc.seen if ONLY in u]


@pytest.mark.parametrize('lost', ['Id', 'Name', '@odata.id'])
def test_what_is_no_whole_member_of_the_collection_is_not_taken(bmc: Any, lost: str) -> None:
    """It may be that of another one."""
    bmc.tree = of_one(_single(bmc))
    whole = bmc.tree[FUNCTIONS['A'] + ONLY]
    bmc.tree[FUNCTIONS['A'] + ONLY] = {k: v for k, v in whole.items() if k != lost}
    assert ONE == _serials(bmc)
    assert {'GET'} == {m for m, u in bmc.seen if u in (FUNCTIONS['A'], f'{FUNCTIONS["A"]}/0')}


RECORDED = {
    'dell/r750-h100-bluefield2': 97,
    'supermicro/hgx-h100-8gpu': 183,
    'hpe/dl380a-gen11-2xh100nvl': 83,
    'nvidia/gh200': 88,
}


@pytest.mark.parametrize('name', sorted(RECORDED))
def test_a_recorded_machine_costs_fewer_requests_and_is_the_same(bmc: Any, shared: Path, name: str) -> None:
    """192 for the machine of eight GPUs without the query."""
    bmc.tree = of_one(bodies(shared / 'recordings' / name))
    found = inventory_of(bmc)
    assert RECORDED[name] == len(bmc.seen)
    bmc.tree['/redfish/v1'] = bmc.tree['/redfish/v1'] | {'ProtocolFeaturesSupported': {}}
    again = inventory_of(bmc)
    assert [(a.id, a.refs, a.pci, a.firmware) for a in found.accelerators] == [
        (a.id, a.refs, a.pci, a.firmware) for a in again.accelerators
    ]
    assert found.gaps == again.gaps


def test_a_recorded_machine_whose_devices_list_their_functions_needs_no_collections(bmc: Any, shared: Path) -> None:
    """124 requests as long as each collection was asked for."""
    bmc.tree = bodies(shared / 'recordings' / 'lenovo' / 'sr670v2-8xl40-bluefield2')
    observe(bmc)
    assert 108 == len(bmc.seen)
