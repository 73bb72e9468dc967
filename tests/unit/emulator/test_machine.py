# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The emulated machine behaves like hardware: banks, locks per path, pending settings, tasks. Virtual clock, no HTTP."""

import json

import pytest

from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters
from baremetal_acc.emulator.image import BadImage, EmulatedImage, build_image, read_image
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Cause, EmulatedTaskState, Power, Start, Task, WriteRefused

GPU, EROT, BMC, FPGA, SLOT = 'host/HGX_FW_GPU_0', 'host/HGX_FW_ERoT_GPU_0', 'host/FW_BMC_0', 'host/FPGA1_FW', 'host/FPGA1_Slot0'
NIC = 'dpu/DPU_NIC'
POLICY = 'HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled'


def machine_of(product: str = 'acc-server', **changes: object) -> Machine:
    parameters = Parameters(virtual_clock=True, flash_seconds=10.0, reset_seconds=2.0, **changes)  # type: ignore[arg-type]
    return build(product, parameters).machine


def image(model: str = 'h100', component: str = 'gpu', version: str = '2.0.0', **more: object) -> EmulatedImage:
    return read_image(build_image(model=model, component=component, version=version, size_bytes=64, **more))  # type: ignore[arg-type]


def function(version: str = '1.0', name: str = 'aes') -> EmulatedImage:
    return image('d5005', 'slot', version, kind='function', function=name)


def passes(machine: Machine, seconds: float) -> None:
    machine.clock.advance(seconds)
    machine.settle()


def update(machine: Machine, key: str, what: EmulatedImage | BadImage, **more: bool) -> Task:
    task = machine.begin_update(machine.components[key].bmc, [key], **more)
    machine.image_arrived(task, what)
    return task


def version(machine: Machine, key: str) -> str:
    return machine.shown_version(key)


# -- banks ------------------------------------------------------------------------------------------------------------


def test_firmware_of_a_gpu_is_staged_by_the_update_and_in_force_after_a_restart_of_the_host():
    """The version changes neither at the request nor when the task is done, but with the restart."""
    machine = machine_of()
    old = version(machine, GPU)
    task = update(machine, GPU, image())
    passes(machine, 9)
    assert (EmulatedTaskState.RUNNING, 90) == (task.state, machine.percent(task))
    assert None is machine.components[GPU].staged
    passes(machine, 1)
    assert EmulatedTaskState.COMPLETED is task.state
    assert (old, '2.0.0') == (version(machine, GPU), machine.components[GPU].staged.version)
    machine.reset_system('host', 'GracefulRestart')
    passes(machine, 2)
    assert '2.0.0' == version(machine, GPU)
    assert (None, old) == (machine.components[GPU].staged, machine.components[GPU].previous.version)


def test_firmware_is_also_in_force_after_the_host_was_off_and_on_again():
    """Off alone does not do it: the card needs to start."""
    machine = machine_of()
    machine.reset_system('host', 'ForceOff')
    passes(machine, 2)
    update(machine, GPU, image())
    passes(machine, 10)
    assert version(machine, GPU) != '2.0.0'
    machine.reset_system('host', 'On')
    passes(machine, 2)
    assert '2.0.0' == version(machine, GPU)


@pytest.mark.parametrize(
    ('key', 'what'), [(EROT, image(component='erot')), (BMC, image('es2000', 'bmc')), (SLOT, function('2.0.0'))]
)
def test_roots_of_trust_the_bmc_and_functions_are_in_force_at_once(key, what):
    """Nothing waits for a restart of the host."""
    machine = machine_of()
    update(machine, key, what)
    passes(machine, 10)
    assert '2.0.0' == version(machine, key)
    assert None is machine.components[key].staged


def test_apply_time_on_reset_stages_even_what_could_be_in_force_at_once():
    """@Redfish.OperationApplyTime OnReset is honoured."""
    machine = machine_of()
    old = version(machine, EROT)
    update(machine, EROT, image(component='erot'), on_reset=True)
    passes(machine, 10)
    assert old == version(machine, EROT)
    machine.reset_system('host', 'ForceRestart')
    passes(machine, 2)
    assert '2.0.0' == version(machine, EROT)


@pytest.mark.parametrize(
    ('key', 'what', 'reason'),
    [
        (GPU, BadImage('cut'), 'bad-image'),
        (GPU, image('a100'), 'wrong-model'),
        (GPU, image(component='erot'), 'wrong-component'),
        (FPGA, function(), 'wrong-kind'),
        (SLOT, image('d5005', 'fpga'), 'wrong-kind'),
    ],
)
def test_an_image_that_does_not_fit_ends_in_exception_and_changes_nothing(key, what, reason):
    """A function image is refused by a firmware item and the reverse, as a wrong model, component or a broken image."""
    machine = machine_of()
    before = machine.truth()['components']
    task = update(machine, key, what)
    passes(machine, 20)
    assert (EmulatedTaskState.EXCEPTION, reason) == (task.state, task.messages[-1]['reason'])
    after = machine.truth()['components']
    assert before == after


# -- locks, per way ---------------------------------------------------------------------------------------------------


def test_write_protected_blocks_the_bmc_and_the_host():
    """SoftwareInventory.WriteProtected knows no paths."""
    machine = machine_of()
    machine.configure('HGX_FW_GPU_0/WriteProtected', True)
    task = update(machine, GPU, image())
    assert 'write-protected' == task.messages[-1]['reason']
    with pytest.raises(WriteRefused) as refused:
        machine.write_from_host('GPU_0', image(), path='pcie')
    assert 'locked' == refused.value.reason
    machine.configure('HGX_FW_GPU_0/WriteProtected', False)
    assert update(machine, GPU, image()).is_open
    assert GPU == machine.write_from_host('GPU_0', image(), path='pcie').key


def test_a_lock_that_is_closed_while_the_image_travels_still_holds():
    """What it blocks is the write, not the request."""
    machine = machine_of()
    task = update(machine, GPU, image())
    machine.configure('HGX_FW_GPU_0/WriteProtected', True)
    passes(machine, 10)
    assert (EmulatedTaskState.EXCEPTION, None) == (task.state, machine.components[GPU].staged)


def test_the_policy_of_a_root_of_trust_blocks_the_host_for_its_own_card_only():
    """InbandUpdatePolicyEnabled false: this GPU and this ERoT are closed to the host, the BMC and the next GPU are not."""
    machine = machine_of()
    machine.configure(POLICY, False)
    for component in ('gpu', 'erot'):
        with pytest.raises(WriteRefused, match='InbandUpdatePolicyEnabled'):
            machine.write_from_host('GPU_0', image(component=component), path='pcie', component=component)
    assert 'host' == machine.write_from_host('GPU_1', image(), path='pcie').active.writer
    task = update(machine, GPU, image())
    passes(machine, 10)
    assert EmulatedTaskState.COMPLETED is task.state


def test_programmable_from_host_of_a_slot_blocks_that_slot_only_and_that_of_the_fpga_blocks_all():
    """The BMC may program whatever the host may not."""
    machine = machine_of()
    machine.configure('FPGA1/Slot0/ProgrammableFromHost', False)
    with pytest.raises(WriteRefused, match='Slot0'):
        machine.write_from_host('FPGA1', function(), path='pcie', slot=0)
    machine.write_from_host('FPGA1', function('3.0'), path='pcie', slot=1)
    assert '3.0' == version(machine, 'host/FPGA1_Slot1')
    machine.write_from_host('FPGA1', image('d5005', 'fpga', '6.6'), path='pcie')
    assert '6.6' == version(machine, FPGA)

    machine.configure('FPGA1/ProgrammableFromHost', False)
    for slot, what in ((1, function()), (None, image('d5005', 'fpga'))):
        with pytest.raises(WriteRefused, match='FPGA1/ProgrammableFromHost'):
            machine.write_from_host('FPGA1', what, path='pcie', slot=slot)
    update(machine, SLOT, function('4.0'))
    passes(machine, 10)
    assert '4.0' == version(machine, SLOT)


def test_the_dpu_is_closed_only_when_both_of_its_locks_are_in_force():
    """Privilege level closes PCIe after any restart; rshim closes only after the power was away."""
    machine = machine_of()
    machine.configure('Bluefield/HostPrivilegeLevel', 'Restricted')
    machine.configure('Bluefield/HostRshim', 'Disabled')

    def open_ways() -> set[str]:
        return {way['path'] for way in machine.truth()['ways'] if way['device'] == 'DPU' and way['open']}

    assert {'pcie', 'rshim'} == open_ways()
    assert ('Disabled', 'Restricted') == (
        machine.shown('Bluefield/HostRshim'),
        machine.shown('Bluefield/HostPrivilegeLevel'),
    )
    assert 'Privileged' == machine.shown_in_force('Bluefield/HostPrivilegeLevel')
    machine.reset_system('dpu', 'GracefulRestart')
    passes(machine, 2)
    assert {'rshim'} == open_ways()
    machine.reset_system('dpu', 'PowerCycle')
    passes(machine, 2)
    assert set() == open_ways()


def test_a_power_cycle_of_the_host_is_one_of_the_dpu_and_a_warm_restart_is_not():
    """The slot powers the card."""
    machine = machine_of()
    machine.configure('Bluefield/HostRshim', 'Disabled')
    machine.reset_system('host', 'GracefulRestart')
    passes(machine, 2)
    assert not machine.is_closed('Bluefield/HostRshim')
    machine.reset_system('host', 'PowerCycle')
    passes(machine, 2)
    assert machine.is_closed('Bluefield/HostRshim')


# -- the host's own way -----------------------------------------------------------------------------------------------


def test_what_the_tenant_writes_is_really_there():
    """The version, the digest and who wrote it."""
    machine = machine_of()
    what = image(version='6.6.6')
    machine.write_from_host('GPU_1', what, path='pcie')
    bank = machine.components['host/HGX_FW_GPU_1'].active
    assert ('6.6.6', what.digest, 'host') == (bank.version, bank.digest, bank.writer)


def test_nobody_is_root_on_a_host_that_is_off_or_restarting():
    """The host door works only while the host runs."""
    machine = machine_of()
    for reset, seconds in (('GracefulRestart', 1), ('ForceOff', 2)):
        passes(machine, 5)
        machine.reset_system('host', reset)
        passes(machine, seconds)
        with pytest.raises(WriteRefused) as refused:
            machine.write_from_host('GPU_0', image(), path='pcie')
        assert 'host-off' == refused.value.reason


@pytest.mark.parametrize(
    ('device', 'path', 'slot', 'reason'),
    [
        ('GPU_7', 'pcie', None, 'no-such-way'),
        ('GPU_0', 'rshim', None, 'no-such-way'),
        ('FPGA1', 'pcie', 2, 'no-such-way'),
        ('GPU_0', 'pcie', None, 'wrong-model'),
    ],
)
def test_a_way_that_is_not_there_and_an_image_that_does_not_fit_are_refused(device, path, slot, reason):
    """The door refuses what hardware would refuse."""
    with pytest.raises(WriteRefused) as refused:
        machine_of().write_from_host(device, image('a100'), path=path, slot=slot)
    assert reason == refused.value.reason


# -- tasks ------------------------------------------------------------------------------------------------------------


def test_updates_of_different_components_run_together_and_the_same_component_waits():
    """Up to parallel_updates per BMC; another BMC of the machine is not counted."""
    machine = machine_of(parallel_updates=2)
    update(machine, GPU, image())
    assert f'{GPU} is being updated' == machine.busy('host', [GPU])
    update(machine, EROT, image(component='erot'))
    assert 'of at most 2 updates' in machine.busy('host', [FPGA])
    assert None is machine.busy('dpu', [NIC])
    passes(machine, 10)
    assert None is machine.busy('host', [GPU])


def test_a_restart_of_the_bmc_loses_tasks_and_leaves_the_component_as_it_was():
    """Tasks live in memory, as on OpenBMC."""
    machine = machine_of()
    old = machine.truth()['components'][GPU]
    update(machine, GPU, image())
    machine.reset_bmc('host')
    assert machine.is_bmc_down('host')
    assert not machine.is_bmc_down('dpu')
    passes(machine, 20)
    assert {} == machine.bmcs['host'].tasks
    assert not machine.is_bmc_down('host')
    assert old == machine.truth()['components'][GPU]


@pytest.mark.parametrize(
    ('rule', 'state', 'is_gone', 'is_written'),
    [
        ({'name': 'task-fails'}, EmulatedTaskState.EXCEPTION, False, False),
        ({'name': 'task-vanishes'}, None, True, False),
        ({'name': 'task-vanishes', 'completes': True}, None, True, True),
        ({'name': 'task-stuck', 'at_percent': 30}, EmulatedTaskState.RUNNING, False, False),
        ({'name': 'task-completed-version-unchanged'}, EmulatedTaskState.COMPLETED, False, False),
        ({'name': 'bmc-restart'}, None, True, False),
        ({'name': 'bmc-restart', 'completes': True}, None, True, True),
    ],
)
def test_a_fault_decides_how_a_task_ends(rule, state, is_gone, is_written):
    """What the task says and what the device holds are two things."""
    machine = machine_of()
    machine.faults.add(rule | {'device': 'GPU_0', 'count': 1})
    task = update(machine, EROT, image(component='erot'))
    passes(machine, 20)
    assert is_gone is (task.id not in machine.bmcs['host'].tasks)
    if state is not None:
        assert state is task.state
    assert is_written is (version(machine, EROT) == '2.0.0')
    if rule['name'] == 'task-stuck':
        assert (30, True) == (machine.percent(task), machine.busy('host', [EROT]) is not None)


def test_a_vanishing_task_is_there_until_its_percentage():
    """at_percent 50 of a flash of ten seconds is second five."""
    machine = machine_of()
    machine.faults.add({'name': 'task-vanishes'})
    task = update(machine, EROT, image(component='erot'))
    passes(machine, 4.9)
    assert task.id in machine.bmcs['host'].tasks
    passes(machine, 0.2)
    assert task.id not in machine.bmcs['host'].tasks


def test_an_old_task_is_forgotten_and_a_running_one_is_not():
    """A BMC keeps a hundred tasks."""
    machine = machine_of(parallel_updates=200)
    running = update(machine, GPU, image())
    for _ in range(150):
        update(machine, EROT, BadImage('x'))
    tasks = machine.bmcs['host'].tasks
    assert running.id in tasks
    assert 100 == len(tasks)


# -- faults of locks and versions -------------------------------------------------------------------------------------


def test_a_lock_that_is_ignored_stays_as_it_was():
    """The BMC says yes and does nothing: reading it back shows it."""
    machine = machine_of()
    machine.faults.add({'name': 'lock-ignored', 'device': 'GPU_0'})
    machine.configure(POLICY, False)
    assert True is machine.shown(POLICY)
    assert not machine.is_closed(POLICY)


def test_a_lock_that_lies_reads_locked_and_is_open():
    """No reading can find this one; only the tenant's write shows it, and the oracle knows."""
    machine = machine_of()
    machine.faults.add({'name': 'lock-reports-locked', 'device': 'GPU_0'})
    machine.configure(POLICY, False)
    assert False is machine.shown(POLICY)
    assert not machine.truth()['locks'][POLICY]['closed']
    assert GPU == machine.write_from_host('GPU_0', image(), path='pcie').key


def test_a_lock_that_is_lost_on_reset_is_open_afterwards():
    """The value goes back, in configuration and in force."""
    machine = machine_of()
    machine.faults.add({'name': 'lock-lost-on-reset', 'device': 'GPU_0', 'count': 1, 'uri': '*ERoT*'})
    machine.configure(POLICY, False)
    machine.configure('HGX_ERoT_GPU_1/InbandUpdatePolicyEnabled', False)
    machine.reset_system('host', 'GracefulRestart')
    passes(machine, 2)
    assert True is machine.shown(POLICY)
    assert machine.is_closed('HGX_ERoT_GPU_1/InbandUpdatePolicyEnabled')


def test_a_version_that_lies_is_not_what_is_true():
    """Shown is what the rule says, or what was last sent; the truth stays."""
    machine = machine_of()
    machine.faults.add({'name': 'version-lies', 'device': 'GPU_0', 'version': '9.9'})
    machine.faults.add({'name': 'version-lies', 'device': 'FPGA1'})
    old = version(machine, FPGA)
    update(machine, FPGA, image('d5005', 'fpga', '3.0'))
    assert ('9.9', '3.0') == (version(machine, GPU), version(machine, FPGA))
    assert old == machine.truth()['components'][FPGA]['active']['version']


# -- power ------------------------------------------------------------------------------------------------------------


def test_power_takes_its_time_and_refuses_a_second_order_meanwhile():
    """PowerState goes through PoweringOff and PoweringOn."""
    machine = machine_of()
    host = machine.systems['host']
    machine.reset_system('host', 'PowerCycle')
    assert Power.POWERING_OFF is host.power
    with pytest.raises(WriteRefused):
        machine.reset_system('host', 'On')
    passes(machine, 1)
    assert Power.POWERING_ON is host.power
    passes(machine, 1)
    assert (Power.ON, 1) == (host.power, host.resets)


def test_what_is_on_stays_on_and_what_is_off_stays_off():
    """On when on and ForceOff when off are no error and no reset."""
    machine = machine_of()
    machine.reset_system('host', 'On')
    assert (Power.ON, 0) == (machine.systems['host'].power, machine.systems['host'].resets)
    machine.reset_system('host', 'ForceOff')
    passes(machine, 2)
    machine.reset_system('host', 'ForceOff')
    assert Power.OFF is machine.systems['host'].power
    with pytest.raises(WriteRefused):
        machine.reset_system('host', 'GracefulRestart')


def test_what_has_started_the_host_and_for_how_long_it_was_on():
    """A hand unless somebody else is named; a restart is no power-on, and time counts only while it is on."""
    machine = machine_of()
    host = machine.systems['host']
    began = host.on_for(machine.clock.now())
    assert (Cause.POWER_BUTTON, 1) == (host.start.cause, host.logged)
    machine.reset_system('host', 'ForceOff')
    passes(machine, 2)
    on_for = host.on_for(machine.clock.now())
    assert (began + machine.reset_seconds, 2) == (on_for, host.logged)
    off_since = host.state_since
    passes(machine, 100)
    assert (on_for, off_since) == (host.on_for(machine.clock.now()), host.state_since)
    machine.reset_system('host', 'On', cause=Cause.COMMAND, channel=1)
    assert host.state_since > off_since
    passes(machine, 2)
    assert (Start(cause=Cause.COMMAND, channel=1), 3) == (host.start, host.logged)
    machine.reset_system('host', 'ForceRestart')
    passes(machine, 2)
    assert (Cause.RESET_BUTTON, Start(cause=Cause.COMMAND, channel=1)) == (host.start.cause, host.power_on)
    machine.reset_system('host', 'PowerCycle', cause=Cause.COMMAND)
    passes(machine, 2)
    assert (Start(cause=Cause.COMMAND), host.start) == (host.power_on, host.power_on)
    assert on_for + 6 == pytest.approx(host.on_for(machine.clock.now()))


@pytest.mark.parametrize('power', ['ForceOff', 'ForceRestart'])
def test_the_history_of_a_host_outlives_the_emulator(power):
    """And a state that was stored before there was one is taken all the same."""
    machine = machine_of()
    machine.reset_system('host', power, cause=Cause.CLOCK)
    passes(machine, 2)
    stored = json.loads(json.dumps(machine.dump()))
    again = machine_of()
    again.load(stored)
    shift = machine.clock.now() - again.clock.now()
    before, after = machine.systems['host'], again.systems['host']
    assert (before.asked, before.start, before.power_on) == (after.asked, after.start, after.power_on)
    assert before.logged == after.logged
    assert before.on_for(machine.clock.now()) == pytest.approx(after.on_for(again.clock.now()))
    assert (before.state_since, before.logged_at) == pytest.approx((after.state_since + shift, after.logged_at + shift))
    for name in ('state_since', 'on_since', 'on_seconds', 'starts', 'logged', 'logged_at'):
        del stored['systems']['host'][name]
    old = machine_of()
    old.load(stored)
    assert (before.on_since is None) == (old.systems['host'].on_since is None)


def test_a_boot_override_for_one_boot_is_gone_after_it():
    """Once becomes Disabled, Continuous stays."""
    machine = machine_of('gpu-server')
    key = '/redfish/v1/Systems/System_0/BootSourceOverrideEnabled'
    for value, expected in (('Once', 'Disabled'), ('Continuous', 'Continuous')):
        machine.configure(key, value)
        machine.reset_system('host', 'ForceRestart')
        passes(machine, 2)
        assert expected == machine.shown(key)


# -- state and parameters ---------------------------------------------------------------------------------------------


def test_the_state_survives_and_what_was_under_way_goes_on():
    """Banks, locks, power, tasks: dumped, written as JSON, loaded into a new machine of the same product."""
    machine = machine_of()
    machine.configure(POLICY, False)
    machine.configure('Bluefield/HostRshim', 'Disabled')
    machine.write_from_host('GPU_1', image(version='6.6.6'), path='pcie')
    machine.reset_system('host', 'ForceOff')
    passes(machine, 2)
    task = update(machine, GPU, image())
    passes(machine, 4)
    stored = json.loads(json.dumps(machine.dump()))

    again = machine_of()
    again.load(stored)
    before, after = machine.truth(), again.truth()
    for key in ('systems', 'components', 'locks', 'ways'):
        assert before[key] == after[key], key
    found = again.bmcs['host'].tasks[task.id]
    assert (EmulatedTaskState.RUNNING, 40) == (found.state, again.percent(found))
    passes(again, 6)
    assert (EmulatedTaskState.COMPLETED, '2.0.0') == (found.state, again.components[GPU].staged.version)


def test_a_task_whose_image_never_came_has_failed_after_a_restart_of_the_emulator():
    """Its bytes were in the memory of the process that is gone."""
    machine = machine_of()
    task = machine.begin_update('host', [GPU])
    again = machine_of()
    again.load(machine.dump())
    assert EmulatedTaskState.EXCEPTION is again.bmcs['host'].tasks[task.id].state


def test_the_state_of_another_product_is_refused():
    """It names both."""
    with pytest.raises(ValueError, match=r"'dpu'.*'acc-server'"):
        machine_of().load(machine_of('dpu').dump())


@pytest.mark.parametrize('product', sorted(PRODUCTS))
def test_the_ways_and_locks_of_every_product_name_what_is_there(product):
    """A way without its target or its lock would make the door pass or fail for the wrong reason."""
    machine = machine_of(product)
    for way in machine.ways:
        assert way.target in machine.components
        # A BMC whose system interface nothing closes is what this product is for.
        assert way.locks or (product, way.path) == ('lock-server', 'kcs')
        assert all(machine.settings[key].is_lock for key in way.locks)
    assert all(setting.locked != setting.open for setting in machine.settings.values() if setting.is_lock)


# -- two hosts --------------------------------------------------------------------------------------------------------

OTHER_GPU, SHARED = 'host/HGX_FW_GPU_1', 'host/SharedFPGA_FW'


def test_a_reset_of_one_of_two_hosts_does_nothing_to_the_other():
    """Neither its power nor what waits on its cards; what both have is in force at once, and belongs to neither's power."""
    machine = machine_of('twin-server', gpus=1)
    for key, what in ((GPU, image()), (OTHER_GPU, image()), (SHARED, image('d5005', 'fpga'))):
        update(machine, key, what)
    passes(machine, 10)
    machine.reset_system('node0', 'ForceRestart')
    passes(machine, 2)
    assert ('2.0.0', '2.0.0') == (version(machine, GPU), version(machine, SHARED))
    assert (False, '2.0.0') == (version(machine, OTHER_GPU) == '2.0.0', machine.components[OTHER_GPU].staged.version)
    assert [1, 0, 0] == [machine.systems[name].resets for name in ('node0', 'node1', 'shelf')]
    machine.reset_system('node1', 'PowerCycle')
    passes(machine, 2)
    assert '2.0.0' == version(machine, OTHER_GPU)
    assert [1, 1, 0] == [machine.systems[name].resets for name in ('node0', 'node1', 'shelf')]


def test_a_tenant_of_one_of_two_hosts_reaches_its_own_cards_and_the_shared_one():
    """By the door of a host that is on; a lock of the shared card closes the ways of both."""
    machine = machine_of('twin-server', gpus=1)
    assert ('node0', 'node1') == machine.hosts
    with pytest.raises(WriteRefused, match='no path pcie'):
        machine.write_from_host('GPU_1', image(), path='pcie', host='node0')
    machine.reset_system('node0', 'ForceOff')
    passes(machine, 2)
    for device in ('GPU_0', 'SharedFPGA'):
        with pytest.raises(WriteRefused, match='host is off'):
            machine.write_from_host(device, image(), path='pcie', host='node0')
    with pytest.raises(WriteRefused, match='host is off'):
        machine.write_from_host('GPU_0', image(), path='pcie', component='gpu')
    assert OTHER_GPU == machine.write_from_host('GPU_1', image(), path='pcie', component='gpu').key
    assert SHARED == machine.write_from_host('SharedFPGA', image('d5005', 'fpga'), path='pcie', host='node1').key
    machine.configure('SharedFPGA_FW/WriteProtected', True)
    for host in ('node1', None):
        with pytest.raises(WriteRefused, match='blocks the path pcie'):
            machine.write_from_host('SharedFPGA', image('d5005', 'fpga'), path='pcie', host=host)


def test_a_restart_of_one_of_two_hosts_loses_its_own_locks_alone():
    """Where a fault has locks lost with a restart."""
    machine = machine_of('twin-server', gpus=1)
    keys = [
        f'{item}/WriteProtected' for item in ('HGX_FW_GPU_0', 'UEFI_0', 'HGX_FW_GPU_1', 'UEFI_1', 'SharedFPGA_FW', 'FW_BMC_0')
    ]
    for key in keys:
        machine.configure(key, True)
    machine.add_fault({'name': 'lock-lost-on-reset'})
    machine.reset_system('node0', 'ForceRestart')
    passes(machine, 2)
    assert [False, False, True, True, True, True] == [machine.is_closed(key) for key in keys]


def test_power_that_fails_under_a_write_is_that_of_the_host_of_the_card():
    """The other host goes on."""
    machine = machine_of('twin-server', gpus=1)
    machine.add_fault({'name': 'power-lost', 'device': 'GPU_1'})
    update(machine, OTHER_GPU, image())
    passes(machine, 10)
    assert [Power.ON, Power.OFF] == [machine.systems[name].power for name in ('node0', 'node1')]


def test_products_are_data():
    """Number of GPUs, versions, functions and settings come from the parameters; what does not exist is refused by name."""
    machine = machine_of(
        'gpu-server',
        gpus=7,
        versions={'host/HGX_FW_GPU_6': '1.2.3'},
        settings={'HGX_ERoT_GPU_6/InbandUpdatePolicyEnabled': False},
    )
    assert '1.2.3' == version(machine, 'host/HGX_FW_GPU_6')
    assert machine.is_closed('HGX_ERoT_GPU_6/InbandUpdatePolicyEnabled')
    for wrong in ({'versions': {'x': '1'}}, {'settings': {'x': 1}}, {'functions': {'x': ('a', '1')}}, {'users': {'x': ()}}):
        with pytest.raises(BadParameter, match="'x'"):
            machine_of(**wrong)
    with pytest.raises(BadParameter, match='unknown product'):
        build('toaster', Parameters())


def test_another_seed_is_another_unit():
    """Serial numbers and UUIDs differ between units and are the same for the same seed."""

    def serial(seed: str) -> str:
        view = build('fpga-server', Parameters(seed=seed)).views['host']
        return view.tree.snapshot()['/redfish/v1/Systems/System_0/Processors/FPGA1'].render()['SerialNumber']

    assert serial('1') == serial('1')
    assert serial('1') != serial('2')


def test_a_card_that_one_bmc_no_longer_shows_is_gone_for_the_host_too():
    """A rule for the BMC that shows the card takes the card out of the machine."""
    machine = machine_of()
    machine.faults.add({'name': 'device-absent', 'bmc': 'host', 'device': 'GPU_0'})
    machine.faults.add({'name': 'device-absent', 'bmc': 'dpu', 'device': 'GPU_1'})
    assert [True, False] == [machine.is_gone('GPU_0'), machine.is_gone('GPU_1')]
    with pytest.raises(WriteRefused):
        machine.write_from_host('GPU_0', image(), path='pcie')


def test_a_task_that_was_stored_when_it_had_one_image_for_all_of_its_targets_is_finished():
    """As the emulator stored it before an upload was resolved into pairs of component and image."""
    machine = machine_of()
    update(machine, EROT, image(component='erot'))
    stored = json.loads(json.dumps(machine.dump()))
    (task,) = stored['bmcs']['host']['tasks']
    (write,) = task.pop('writes')
    del task['package']
    old = task | {'image': write['image'], 'bank': {'version': '2.0.0'}}
    stored['bmcs']['host']['tasks'] = [old]
    again = machine_of()
    again.load(stored)
    passes(again, 10)
    assert '2.0.0' == version(again, EROT)
