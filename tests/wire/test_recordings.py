# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The inventory of recorded real BMCs agrees with what was worked out by hand."""

import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from baremetal_acc.errors import BmcError
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.lock import LockState, Scope
from tests.mechanisms.switch import switches
from tests.wire.recorded import compared, observe

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

DIFFERENCES: dict[str, tuple[str, ...]] = {
    'nvidia/gh200': (),
    'nvidia/bluefield3': (),
    'dmtf/rackmount': (),
    'dmtf/smartnic': (),
    'supermicro/hgx-h100-8gpu': (),
    'lenovo/sr670v2-8xl40-bluefield2': (),
    'dell/r750-h100-bluefield2': (),
    'hpe/dl380a-gen11-2xh100nvl': (),
}
"""What is missing, line by line as compare.py says it. A line too many here fails as one too few does. None is left."""

REQUESTS = {
    'nvidia/gh200': 95,
    'nvidia/bluefield3': 45,
    'dmtf/rackmount': 30,
    'dmtf/smartnic': 35,
    'supermicro/hgx-h100-8gpu': 230,
    'lenovo/sr670v2-8xl40-bluefield2': 130,
    'dell/r750-h100-bluefield2': 105,
    'hpe/dl380a-gen11-2xh100nvl': 100,
}
"""Most requests for one look, without $expand (these replies do not know it)."""


@pytest.mark.shows('inventory', hardware=('hgx-gpu', 'pcie-gpu', 'fpga', 'bluefield', 'smartnic'), on='recording')
@pytest.mark.parametrize('name', sorted(DIFFERENCES))
def test_a_recorded_bmc_is_reported_as_it_is(name: str, recording: Callable[[str], Any], shared: Path) -> None:
    """The inventory agrees with expected.yaml but for the differences that are listed, word by word."""
    bmc = recording(name)
    found = observe(bmc)
    assert DIFFERENCES[name] == compared(shared, shared / 'recordings' / name, found)
    assert REQUESTS[name] >= len(bmc.seen)


@pytest.mark.parametrize('name', sorted(DIFFERENCES))
def test_what_compare_does_not_compare_agrees_too(name: str, recording: Callable[[str], Any], shared: Path) -> None:
    """What identifies each device, its slots and its functions, and which firmware is certain."""
    expected = yaml.safe_load((shared / 'recordings' / name / 'expected.yaml').read_text())['accelerators']
    found = {ref.uri: a for a in observe(recording(name)) for ref in a.refs}
    assert len(expected) == len({a.id for a in found.values()})
    for want in expected:
        seen = found[want['primary_uri']]
        assert (name, want['label'], want['identity']) == (name, want['label'], seen.identity.value)
        slots = [(s['slot_id'], s['programmable_from_host']) for s in want.get('reconfiguration_slots', ())]
        assert slots == [(s.slot_id, s.programmable_from_host) for s in seen.slots]
        functions = [(f['uri'], f['type'], f['version']) for f in want.get('acceleration_functions', ())]
        assert functions == [(f.ref.uri, f.type, f.version) for f in seen.functions]
        certain = {c['id']: c['certain'] for c in want['firmware'] if c['id'] is not None}
        assert not {c.id for c in seen.firmware if c.certain and not certain.get(c.id or '', True)}


@pytest.mark.parametrize('name', sorted(DIFFERENCES))
def test_nothing_is_asked_for_twice(name: str, recording: Callable[[str], Any]) -> None:
    """A look and the reading of all locks ask for no resource twice."""
    bmc = recording(name)
    observe(bmc)
    gets = [uri for method, uri in bmc.seen if method == 'GET']
    assert len(set(gets)) == len(gets)


@pytest.mark.shows(mechanisms=('bluefield_host_privilege',), on='recording')
def test_the_recorded_locked_dpu_reads_locked_but_not_verified(recording: Callable[[str], Any]) -> None:
    """A card that was found closed is locked-reported: nobody of us engaged it."""
    (card,) = observe(recording('nvidia/bluefield3'))
    (reading,) = [r for r in card.locks if r.mechanism == 'bluefield_host_privilege']
    assert (LockState.LOCKED_REPORTED, '{"HostPrivilegeLevel": "Restricted", "HostRshim": "Disabled"}') == (
        reading.state,
        reading.value,
    )


def test_every_lock_of_the_recorded_dpu_has_the_verdict_that_was_worked_out_by_hand(
    recording: Callable[[str], Any], shared: Path
) -> None:
    """Default of a privilege beside a level that is Restricted is unknown; policy and write protection are the card's BMC's."""
    expected = yaml.safe_load((shared / 'recordings' / 'nvidia' / 'bluefield3' / 'expected.yaml').read_text())
    said = {lock['uri']: lock['verdict'] for lock in expected['accelerators'][0]['locks'] if 'verdict' in lock}
    words = {LockState.LOCKED_REPORTED: 'locked', LockState.UNLOCKED: 'unlocked', LockState.UNKNOWN: 'unknown'}
    (card,) = observe(recording('nvidia/bluefield3'))
    # The level and the console port are one reading, of the System that both belong to.
    judged = {}
    for r in card.locks:
        uri = f'{r.ref.uri}/Bios' if r.mechanism == 'bluefield_host_privilege' else r.ref.uri
        if uri in said:
            judged[r.mechanism] = (said[uri], words[r.state])
    assert {'bluefield_host_privilege', 'bluefield_external_host_privilege', 'nvidia_inband_update_policy'} <= set(judged)
    assert [] == [mechanism for mechanism, (wanted, found) in judged.items() if wanted != found]


@pytest.mark.shows(mechanisms=('write_protected',), on='recording')
def test_write_protected_on_every_item_is_unknown(recording: Callable[[str], Any]) -> None:
    """A BMC that says true on all 43 items, Updateable ones too, proves nothing."""
    found = observe(recording('lenovo/sr670v2-8xl40-bluefield2'))
    mine = [r for a in found for r in a.locks if r.mechanism == 'write_protected']
    assert {('true', LockState.UNKNOWN)} == {(r.value, r.state) for r in mine}


WHOLE: dict[str, set[tuple[str, LockState]]] = {
    'dell/r750-h100-bluefield2': {('dell_system_lockdown', LockState.UNLOCKED)},
    'hpe/dl380a-gen11-2xh100nvl': {('hpe_virtual_nic', LockState.LOCKED_REPORTED)},
    'lenovo/sr670v2-8xl40-bluefield2': set(),
    'supermicro/hgx-h100-8gpu': {('supermicro_sys_lockdown', LockState.UNLOCKED)},
    'nvidia/gh200': set(),
    'nvidia/bluefield3': set(),
    'dmtf/rackmount': set(),
    'dmtf/smartnic': set(),
}
"""What each recorded BMC says of locks of its machine that are not in tests/mechanisms (platform_locks of expected.yaml)."""


@pytest.mark.shows(
    on='recording',
    mechanisms=(
        'dell_system_lockdown',
        'host_interface',
        'hpe_host_authentication',
        'hpe_kcs',
        'hpe_virtual_nic',
        'lenovo_kcs',
        'supermicro_kcs',
        'supermicro_sys_lockdown',
    ),
)
@pytest.mark.parametrize('name', sorted(WHOLE))
def test_the_locks_of_a_whole_machine_are_read(name: str, recording: Callable[[str], Any]) -> None:
    """Every device that the BMC shows has them all, at the same places; they cost a few requests, however many devices ask."""
    bmc = recording(name)
    mine = [m for m in mechanisms() if m.about.protects == {Scope.BMC}]
    with bmc.connect() as connection:
        look = connection.look(NOW)
        before = len(bmc.seen)
        found = [[r for m in mine for r in m.read(a, [look.reader], NOW)] for a in look.accelerators]
    more = {(mechanism, one.recorded[name]) for mechanism, one in switches().items() if name in one.recorded}
    assert WHOLE[name] | more == {(r.mechanism, r.state) for r in found[0]}
    assert {frozenset(r.place for r in found[0])} == {frozenset(r.place for r in locks) for locks in found}
    assert {Scope.BMC} >= {r.scope for r in found[0]}
    assert 6 >= len(bmc.seen) - before


HISTORY: dict[str, tuple[str | None, str | None, str | None]] = {
    'nvidia/gh200': (
        '2024-08-23T17:25:40+00:00',
        'OSRunning 2024-08-23T17:27:19.763200+00:00',
        '2024-08-22T22:58:46+00:00',
    ),
    'nvidia/bluefield3': (
        '1970-01-01T00:00:00+00:00',
        'OEM OsIsRunning 1970-01-21T01:08:26.189979+00:00',
        '2024-11-08T23:09:30+00:00',
    ),
    'dmtf/rackmount': ('2021-03-13T04:02:57+06:00', 'OSRunning 2021-03-13T04:14:13+06:00 676.000 s', None),
    'dmtf/smartnic': (None, None, None),
    'supermicro/hgx-h100-8gpu': (None, 'SystemHardwareInitializationComplete', '2023-11-30T20:33:42Z'),
    'lenovo/sr670v2-8xl40-bluefield2': (None, None, None),
    'dell/r750-h100-bluefield2': ('2024-06-11T00:14:47-05:00', None, '2024-03-08T20:38:30-06:00'),
    'hpe/dl380a-gen11-2xh100nvl': (None, 'OSRunning 114.000 s', None),
}
"""What a recorded BMC says of the last start of its host: LastResetTime, BootProgress, and LastResetTime of itself."""


@pytest.mark.parametrize('name', sorted(DIFFERENCES))
def test_what_a_recorded_bmc_says_of_the_last_start_of_its_host(name: str, recording: Callable[[str], Any]) -> None:
    """A look and a poll say the same of the System; the Manager is read by a look alone, for nothing where locks are read."""
    bmc = recording(name)
    with bmc.connect() as connection:
        look = connection.look(NOW)
        seen = len(bmc.seen)
        for mechanism in mechanisms():
            for accelerator in look.accelerators:
                mechanism.read(accelerator, [look.reader], NOW)
        managers = [uri for _, uri in bmc.seen if '/Managers' in uri]
        host = look.facts.host
        assert HISTORY[name] == (host.last_reset, host.boot_progress, host.bmc_reset)
        if look.facts.system is not None:
            assert replace(host, bmc_reset=None) == connection.host(look.facts.system)
    assert len(managers) == len(set(managers))
    assert 2 >= sum('/Managers' in uri for _, uri in bmc.seen[:seen]) or name == 'nvidia/bluefield3'


def test_what_only_a_vendors_own_resource_says_is_found(recording: Callable[[str], Any]) -> None:
    """The slot of a GPU (HPE) and its firmware version (Dell) are nowhere else."""
    first = recording('hpe/dl380a-gen11-2xh100nvl').look().accelerators[0]
    assert ('PCI-E Slot 14', ['21']) == (first.location, [c.id for c in first.firmware])
    (gpu,) = [a for a in recording('dell/r750-h100-bluefield2').look().accelerators if a.kind == 'GPU']
    assert [(None, '96.00.30.00.01')] == [(c.id, c.version) for c in gpu.firmware]


def test_the_system_that_is_handed_out_is_not_the_baseboard(recording: Callable[[str], Any]) -> None:
    """Of two physical Systems the one that can be reset is the host."""
    look = recording('nvidia/gh200').look()
    assert '/redfish/v1/Systems/System_0' == look.facts.system.uri
    assert ['/redfish/v1/Systems/HGX_Baseboard_0/Processors/FPGA_0'] == [p.ref.uri for p in look.platform_devices]


@pytest.mark.parametrize('name', sorted(DIFFERENCES))
def test_a_whole_recording_hides_nothing(name: str, recording: Callable[[str], Any]) -> None:
    """Dangling links and odd values are gaps, but no device may lie behind them: else nothing could ever be verified there."""
    assert [] == [gap for gap in recording(name).look().gaps if gap.hides]


def test_an_item_matched_by_its_number_alone_is_not_certain(recording: Callable[[str], Any]) -> None:
    """HGX_FW_GPU_SXM_1 shares only its ordinal with GPU1."""
    found = observe(recording('supermicro/hgx-h100-8gpu'))
    certain = {c.id: c.certain for a in found for c in a.firmware}
    assert (True, False) == (certain['GPU1'], certain['HGX_FW_GPU_SXM_1'])


ODD: tuple[Any, ...] = (
    None,
    '',
    'x',
    7,
    -1,
    True,
    [],
    {},
    [None],
    [7, 'x'],
    {'@odata.id': None},
    {'@odata.id': 7},
    [[]],
    '\x00' * 9,
)


def _damage(value: Any, dice: random.Random, chance: float) -> Any:
    if dice.random() < chance:
        return dice.choice(ODD)
    if isinstance(value, dict):
        return {k: _damage(v, dice, chance) for k, v in value.items() if dice.random() >= chance / 4}
    if isinstance(value, list):
        return [_damage(v, dice, chance) for v in value]
    return value


@pytest.mark.parametrize('seed', range(4))
@pytest.mark.parametrize(
    'name', ['nvidia/gh200', 'nvidia/bluefield3', 'dmtf/rackmount', 'dmtf/smartnic', 'dell/r750-h100-bluefield2']
)
def test_damage_anywhere_in_a_tree_never_crashes_a_look(name: str, seed: int, recording: Callable[[str], Any]) -> None:
    """Nulls, wrong types and missing properties become gaps, or one error of ours."""
    bmc = recording(name)
    dice = random.Random(f'{name}/{seed}')
    chance = (0.01, 0.03, 0.1, 0.3)[seed]
    for uri, text in bmc.tree.items():
        if uri != '/redfish/v1':
            bmc.tree[uri] = _damage(json.loads(text), dice, chance)
            if not isinstance(bmc.tree[uri], dict):
                bmc.tree[uri] = json.dumps(bmc.tree[uri])
    outcome = _attempt(bmc)
    assert isinstance(outcome, BmcError) or outcome.gaps


def _attempt(bmc: Any) -> Any:
    """A look with all locks read, or the error that it ended with."""
    try:
        with bmc.connect() as connection:
            look = connection.look(NOW)
            for accelerator in look.accelerators:
                for mechanism in mechanisms():
                    mechanism.read(accelerator, [look.reader], NOW)
            return look
    except BmcError as exc:
        return exc
