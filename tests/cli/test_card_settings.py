# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the command says of SR-IOV and of the mode of a DPU, and sets back, with an emulated DPU over HTTPS."""

from typing import Any

import pytest
import requests

ROOT = '/redfish/v1'
SYSTEM = f'{ROOT}/Systems/Bluefield'
ADAPTER = f'{ROOT}/Chassis/Card1/NetworkAdapters/NvidiaNetworkAdapter'
NIC_MODE, SRIOV = f'{SYSTEM}/Bios/NicMode', 'Bluefield/SRIOVEnabled'
RULE = 'format = 1\n[[rule]]\nname = "cards"\nblock = []\nmeasure = "off"\ncustody = "reported"\n'
JUDGED = f'{RULE}sriov = "disabled"\ndpu_mode = "dpu"\n'
RESTORED = f"""{RULE}
sriov = {{ expect = "disabled", restore = true }}
dpu_mode = {{ expect = "dpu", restore = true }}
"""


APPLY = ('apply', '--execute', '--keep-host-running')
"""The host of this DPU has no BMC here that could hold it."""


def found(desk) -> tuple[int, dict[str, dict[str, Any]]]:
    """How verify ended, and its findings about settings."""
    done = desk.run('verify', '-f', 'json', *desk.options)
    [target] = done.document['targets']
    about = 'setting '
    return done.code, {f['subject'].removeprefix(about): f for f in target['findings'] if f['subject'].startswith(about)}


def unmet(findings: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What was found of the settings that are not as the rules demand."""
    return {name: f['found'] for name, f in findings.items() if not f['met']}


def dpu(desk, emulated_machine, rules: str, *, features=('sriov',), **settings: object) -> Any:
    """A DPU, and the rules for it."""
    machine = emulated_machine('dpu', features=frozenset(features), settings=settings)
    desk.prepare(machine)
    desk.write('baseline.toml', rules)
    return machine


def write(machine, method: str, uri: str, body: Any) -> None:
    """Change something as another client of the BMC does."""
    bmc = machine.bmcs['dpu']
    client = requests.Session()
    client.auth = (bmc.username, bmc.password)
    answer = client.request(method, f'{bmc.address}{uri}', json=body, verify=str(bmc.verify_ca), timeout=10)
    assert answer.ok, answer.text


def written(machine) -> list[str]:
    """Method and path of everything that was written."""
    return [f'{e["method"]} {e["path"]}' for e in machine.log()]


def test_another_mode_and_sriov_are_found_and_not_changed_without_restore(desk, emulated_machine):
    """Each property that differs is named; a rule that only judges has nothing set."""
    machine = dpu(desk, emulated_machine, JUDGED, **{NIC_MODE: 'NicMode', SRIOV: True})
    code, all_of = found(desk)
    assert (3, {'cards'}, {'dpu_mode', 'sriov'}) == (code, {f['rule'] for f in all_of.values()}, all_of.keys())
    functions = [f'dpu:{ADAPTER}/NetworkDeviceFunctions/{n} VirtualFunctionsEnabled' for n in (0, 1)]
    enabled = f'dpu:{ADAPTER} Controllers/0/ControllerCapabilities/VirtualizationOffload/SRIOV/SRIOVEnabled'
    assert {
        'dpu_mode': f'nic (dpu:{SYSTEM}/Bios Attributes/NicMode); nic (dpu:{SYSTEM}/Oem/Nvidia Mode)',
        'sriov': '; '.join(f'enabled ({place})' for place in (enabled, *functions)),
    } == unmet(all_of)
    applied = desk.run(*APPLY, '-f', 'json', *desk.options)
    assert 3 == applied.code, applied.err
    assert [] == [line for line in written(machine) if 'Settings' in line or 'Mode.Set' in line]


def test_a_setting_that_the_bmc_does_not_show_is_not_met(desk, emulated_machine):
    """Nor is it written: nobody could tell what the write has done."""
    machine = dpu(desk, emulated_machine, RESTORED, features=())
    applied = desk.run(*APPLY, *desk.options)
    assert 3 == applied.code, applied.err
    assert 'setting sriov: expected disabled, found not shown by the BMC' in applied.out + applied.err
    assert [] == [line for line in written(machine) if 'Settings' in line or 'Mode.Set' in line]


def test_settings_are_set_back_and_take_effect_with_one_reset(desk, emulated_machine):
    """A dry run says what is set; the job reads it back, resets the card once, and sees it in effect."""
    machine = dpu(desk, emulated_machine, RESTORED, **{NIC_MODE: 'NicMode', SRIOV: True})
    dry = desk.run('apply', '--keep-host-running', '-f', 'json', *desk.options)
    [target] = dry.document['targets']
    assert [('dpu_mode', 'nic', 'dpu', 'power-cycle'), ('sriov', 'enabled', 'disabled', 'system-reset')] == sorted(
        (a['subject'], a['from'], a['to'], a['reset']) for a in target['actions'] if a['action'] == 'set-card-setting'
    )
    assert [] == written(machine)
    done = desk.run(*APPLY, '-f', 'json', *desk.options)
    assert 0 == done.code, done.err
    assert done.document['targets'][0]['verdict']['met']
    assert [f'PATCH {ADAPTER}/Settings', f'POST {SYSTEM}/Oem/Nvidia/Actions/Mode.Set'] == sorted(
        line for line in written(machine) if 'Reset' not in line
    )
    machine.reset_log()
    assert 0 == desk.run(*APPLY, *desk.options).code
    assert [] == written(machine)


def test_a_mode_that_somebody_has_set_for_the_next_start_is_found_and_set_back(desk, emulated_machine):
    """The card still works in the demanded mode: that it would not after the next start is what is not met."""
    machine = dpu(desk, emulated_machine, RESTORED)
    write(machine, 'PATCH', f'{SYSTEM}/Bios/Settings', {'Attributes': {'NicMode': 'NicMode'}})
    write(machine, 'PATCH', f'{ADAPTER}/Settings', {'Controllers': [sriov_on()]})
    said = unmet(found(desk)[1])
    assert f'nic (dpu:{SYSTEM}/Oem/Nvidia Mode)' == said['dpu_mode']
    assert said['sriov'].startswith('disabled (')
    assert said['sriov'].endswith('), with enabled set for the next reset')
    assert 0 == desk.run(*APPLY, *desk.options).code
    code, after = found(desk)
    assert (0, {}) == (code, unmet(after))


def sriov_on() -> dict[str, Any]:
    """A controller with SR-IOV."""
    return {'ControllerCapabilities': {'VirtualizationOffload': {'SRIOV': {'SRIOVEnabled': True}}}}


@pytest.mark.parametrize(
    ('lie', 'uri', 'setting', 'value', 'name'),
    [
        ('setting-ignored', f'{SYSTEM}/Bios', NIC_MODE, 'NicMode', 'dpu_mode'),
        ('setting-never-in-force', f'{SYSTEM}/Bios', NIC_MODE, 'NicMode', 'dpu_mode'),
        ('setting-ignored', ADAPTER, SRIOV, True, 'sriov'),
    ],
)
def test_a_bmc_that_accepts_a_setting_and_does_not_do_it_fails_the_job(
    desk, emulated_machine, lie: str, uri: str, setting: str, value: object, name: str
):
    """Whether it changes nothing, or nothing comes in force with the reset: the action has failed, and the rule is not met."""
    machine = dpu(desk, emulated_machine, RESTORED, **{setting: value})
    machine.fault(lie, uri=uri)
    done = desk.run(*APPLY, '-f', 'json', *desk.options)
    assert 6 == done.code, done.err
    [target] = done.document['targets']
    assert f'set {name} of ' in done.err
    assert 'the BMC accepted ' in done.err
    assert 'failed' == next(a['state'] for a in target['actions'] if a['action'] == 'set-card-setting')
    unmet_ones = [f['subject'] for f in target['verdict']['findings'] if not f['met']]
    assert [f'setting {name}'] == unmet_ones
