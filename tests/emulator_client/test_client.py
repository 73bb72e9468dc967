# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Redfish driver and the locks work with an emulated BMC: HTTPS, sessions, tasks, banks and enforced locks."""

import io
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress, Look, Upload
from baremetal_acc.bmc.registry import for_address
from baremetal_acc.emulator.image import build_image
from baremetal_acc.errors import BmcBusy, BmcNotAuthorised, BmcUnreachable, BmcUnsupported, BmcUntrusted
from baremetal_acc.locks.mechanism import Mechanism
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Accelerator, Kind
from baremetal_acc.model.inventory import PowerState, TaskReading, TaskState
from baremetal_acc.model.lock import LockReading, LockState, ResetKind
from baremetal_acc.model.ref import BmcName, Ref

GPU_ITEM = '/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_GPU_0'
SLOT_ITEM = '/redfish/v1/UpdateService/SoftwareInventory/FPGA1_Slot0'


def now() -> datetime:
    """The time."""
    return datetime.now(UTC)


def address(machine: Any, name: str, **more: Any) -> BmcAddress:
    """Where an emulated BMC is, its certificate's own CA trusted."""
    bmc = machine.bmcs[name]
    known = {'name': BmcName(name), 'address': bmc.address, 'username': bmc.username, 'password': bmc.password}
    return BmcAddress(**{**known, 'verify_ca': str(bmc.verify_ca), **more})


def connect(machine: Any, name: str = 'host', **more: Any) -> Any:
    """A connection to one of its BMCs."""
    where = address(machine, name, **more)
    return for_address(where).connect(where)


def look(machine: Any, name: str = 'host', **more: Any) -> Look:
    """One look, over a session of its own."""
    with connect(machine, name, **more) as connection:
        found: Look = connection.look(now())
        return found


def readings(machine: Any, name: str = 'host') -> Iterator[tuple[Mechanism, LockReading]]:
    """All readings of all devices of a BMC, over a session of their own."""
    with connect(machine, name) as connection:
        seen = connection.look(now())
        for accelerator in seen.accelerators:
            for mechanism in mechanisms():
                for reading in mechanism.read(accelerator, [seen.reader], now()):
                    yield mechanism, reading


def upload(image: bytes) -> Upload:
    """An image ready to be sent."""
    return Upload(file='image.bin', size_bytes=len(image), open=lambda: io.BytesIO(image))


def until_ended(connection: Any, task: TaskReading, seconds: float = 20) -> TaskReading:
    """The task's end."""
    deadline = time.monotonic() + seconds
    while task.state is TaskState.ACTIVE:
        assert time.monotonic() < deadline, task
        time.sleep(0.05)
        task = connection.task(task.ref)
    return task


def by_kind(found: Look) -> dict[Kind, list[Accelerator]]:
    """The devices by kind."""
    kinds: dict[Kind, list[Accelerator]] = {}
    for accelerator in found.accelerators:
        kinds.setdefault(accelerator.kind, []).append(accelerator)
    return kinds


@pytest.mark.shows('inventory', hardware=('hgx-gpu', 'fpga', 'bluefield'), on='emulator')
def test_a_look_finds_every_device_with_its_firmware_and_slots(emulated_machine: Callable[..., Any]) -> None:
    """Two GPUs, one FPGA with two slots, and the DPU by its own BMC; nothing else, and nothing unread."""
    machine = emulated_machine('acc-server')
    found = look(machine)
    kinds = by_kind(found)
    assert {Kind.GPU: 2, Kind.FPGA: 1} == {kind: len(devices) for kind, devices in kinds.items()}
    assert ((), '/redfish/v1/Systems/System_0') == (found.gaps, found.facts.system.uri if found.facts.system else None)
    gpu, fpga = kinds[Kind.GPU][0], kinds[Kind.FPGA][0]
    assert {'HGX_FW_GPU_0', 'HGX_FW_ERoT_GPU_0'} == {c.id for c in gpu.firmware}
    assert all(c.version and c.version == c.version.strip() and c.certain for c in gpu.firmware)
    assert [('Slot0', 'FPGA1_Slot0'), ('Slot1', 'FPGA1_Slot1')] == [
        (s.slot_id, s.item.id if s.item else None) for s in fpga.slots
    ]
    assert ['FPGA1_FW'] == [c.id for c in fpga.firmware]
    (card,) = look(machine, 'dpu').accelerators
    assert (Kind.DPU, 'BlueField-3') == (card.kind, card.model)
    assert {'DPU_NIC', 'DPU_BSP', 'BMC_Firmware', 'Bluefield_FW_ERoT'} <= {c.id for c in card.firmware}


def test_a_look_costs_few_requests_few_connections_and_no_write(emulated_machine: Callable[..., Any]) -> None:
    """$expand, keep-alive, nothing twice; the only writes are logging in and out."""
    machine = emulated_machine('gpu-server')
    look(machine)
    counters = machine.counters()['host']
    assert 26 >= counters['total']
    assert 4 >= counters['connections']
    assert 0 == counters['repeated']
    assert [] == machine.log()
    assert ['POST', 'DELETE'] == [entry['method'] for entry in machine.log(sessions=True)]


@pytest.mark.parametrize('how', ['expand-broken', 'no expand'])
def test_without_a_working_expand_the_same_is_found(emulated_machine: Callable[..., Any], how: str) -> None:
    """Members without Id and Name are read singly; a BMC that does not know the query is read without it."""
    from baremetal_acc.emulator.hw.parameters import Options

    one = emulated_machine('acc-server')
    other = emulated_machine('acc-server', options={'*': Options(expand=how != 'no expand')})
    if how == 'expand-broken':
        other.fault('expand-broken')
    assert look(one).accelerators == look(other).accelerators
    assert other.counters()['host']['total'] > one.counters()['host']['total']


def test_wrong_password_and_untrusted_certificate_and_no_answer_are_told_apart(emulated_machine: Callable[..., Any]) -> None:
    """Each is one clear error, and none writes anything."""
    machine = emulated_machine('gpu-server')
    with pytest.raises(BmcNotAuthorised, match='login refused'):
        connect(machine, password='wrong')
    with pytest.raises(BmcUntrusted, match='verify_ca'):
        connect(machine, verify_ca=True)
    with connect(machine, verify_ca=False) as connection:
        assert connection.look(now()).accelerators
    where = machine.bmcs['host'].address
    machine.stop()
    with pytest.raises(BmcUnreachable, match='refused') as caught:
        for_address(BmcAddress(name=BmcName('host'), address=where)).connect(BmcAddress(name=BmcName('host'), address=where))
    assert where in str(caught.value)


def test_a_pushed_image_changes_the_version_after_the_reset_that_it_needs(emulated_machine: Callable[..., Any]) -> None:
    """The task succeeds; what runs is still the old version until the host was reset."""
    machine = emulated_machine('gpu-server', flash_seconds=0.2)
    image = build_image(model='h100', component='gpu', version='96.00.99.00.01', size_bytes=2_000_000)
    target = Ref(bmc=BmcName('host'), uri=GPU_ITEM)
    with connect(machine) as connection:
        before = connection.component(target).version
        task = connection.push(target, upload(image))
        assert task is not None
        assert task.ref in {t.ref for t in connection.active_tasks()}
        ended = until_ended(connection, task)
        assert (TaskState.SUCCEEDED, before) == (ended.state, connection.component(target).version)
        system = Ref(bmc=BmcName('host'), uri='/redfish/v1/Systems/System_0')
        then = connection.last_reset(system)
        time.sleep(1.1)  # LastResetTime has whole seconds: two resets within one look like one
        connection.reset(system, ResetKind.SYSTEM_RESET)
        deadline = time.monotonic() + 10
        while connection.component(target).version == before and time.monotonic() < deadline:
            time.sleep(0.05)
        assert '96.00.99.00.01' == connection.component(target).version
        assert then != connection.last_reset(system)
    pushes = [e for e in machine.log() if 'multipart' in e['path'].lower() or 'push' in e['path'].lower()]
    assert 1 == len(pushes)


def test_a_function_is_programmed_into_the_slot_that_is_its_target(emulated_machine: Callable[..., Any]) -> None:
    """The slot's item is the Target; afterwards the slot holds the function."""
    machine = emulated_machine('fpga-server', flash_seconds=0.1)
    image = build_image(
        kind='function', model='d5005', component='slot', version='1.4.0', function='gzip', function_type='Compression'
    )
    with connect(machine) as connection:
        (fpga,) = connection.look(now()).accelerators
        assert fpga.slots[0].item is not None
        task = connection.push(fpga.slots[0].item.ref, upload(image))
        assert task is not None
        assert TaskState.SUCCEEDED == until_ended(connection, task).state, connection.task(task.ref)
    (fpga,) = look(machine).accelerators
    assert fpga.slots[0].function is not None
    assert ('1.4.0', None) == (fpga.slots[0].function.version, fpga.slots[1].function)
    assert '1.4.0' == (fpga.slots[0].item.version if fpga.slots[0].item else None)


def test_an_image_for_something_else_fails_in_its_task_with_the_reason(emulated_machine: Callable[..., Any]) -> None:
    """And the version stays."""
    machine = emulated_machine('gpu-server', flash_seconds=0.1)
    target = Ref(bmc=BmcName('host'), uri=GPU_ITEM)
    with connect(machine) as connection:
        before = connection.component(target).version
        task = connection.push(target, upload(build_image(model='other', component='gpu', version='9')))
        assert task is not None
        ended = until_ended(connection, task)
        assert (TaskState.FAILED, before) == (ended.state, connection.component(target).version)
        assert ended.message


def test_a_task_that_vanishes_is_gone(emulated_machine: Callable[..., Any]) -> None:
    """And gone is no success."""
    machine = emulated_machine('gpu-server', flash_seconds=0.2)
    machine.fault('task-vanishes')
    with connect(machine) as connection:
        image = build_image(model='h100', component='gpu', version='96.00.99.00.01')
        task = connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(image))
        assert task is not None
        assert TaskState.GONE == until_ended(connection, task).state


def test_a_busy_bmc_has_taken_nothing(emulated_machine: Callable[..., Any]) -> None:
    """503: one POST, and nothing changed."""
    machine = emulated_machine('gpu-server')
    machine.fault('update-503')
    with connect(machine) as connection, pytest.raises(BmcBusy):
        connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(build_image(model='h100', component='gpu', version='9')))


def test_a_bmc_that_can_only_pull_says_so(emulated_machine: Callable[..., Any]) -> None:
    """And one without an UpdateService says that."""
    from baremetal_acc.emulator.hw.parameters import Options

    for options, text in ((Options(push=False), 'can only pull'), (Options(update_service=False), 'no UpdateService')):
        machine = emulated_machine('gpu-server', options={'*': options})
        with connect(machine) as connection, pytest.raises(BmcUnsupported, match=text):
            connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(b'x'))
        assert [] == machine.log()


def _engage_all(machine: Any, name: str, verb: str = 'engage') -> None:
    """Engage or release every lock of a BMC's devices, over a session of its own."""
    found = list(readings(machine, name))
    with connect(machine, name) as connection:
        for mechanism, reading in found:
            getattr(mechanism, verb)(connection.writer(), reading)


@pytest.mark.shows(mechanisms=('fpga_programmable_from_host', 'nvidia_inband_update_policy', 'write_protected'))
def test_every_lock_of_the_host_engages_and_is_enforced_and_releases(emulated_machine: Callable[..., Any]) -> None:
    """For a GPU and an FPGA slot: the tenant's write succeeds when open, is refused when closed, and succeeds again."""
    machine = emulated_machine('acc-server', flash_seconds=0.1)
    firmware = build_image(model='h100', component='gpu', version='66.6')
    function = build_image(
        kind='function', model='d5005', component='slot', version='6.6', function='evil', function_type='Compression'
    )
    gpu, fpga = 'GPU_0', 'FPGA1'

    def tenant() -> tuple[bool, bool]:
        return machine.tenant_write(gpu, firmware)['written'], machine.tenant_program(fpga, 0, function)['written']

    assert {LockState.UNLOCKED} == {r.state for _, r in readings(machine)}
    assert (True, True) == tenant()
    _engage_all(machine, 'host')
    assert {LockState.LOCKED_REPORTED} == {r.state for _, r in readings(machine)}
    assert (False, False) == tenant()
    _engage_all(machine, 'host', 'release')
    assert {LockState.UNLOCKED} == {r.state for _, r in readings(machine)}
    assert (True, True) == tenant()


@pytest.mark.shows(mechanisms=('bluefield_host_privilege',))
def test_a_dpu_is_closed_only_after_its_power_cycle(emulated_machine: Callable[..., Any]) -> None:
    """Pending until then; the tenant's write over PCIe and over rshim is refused afterwards."""
    machine = emulated_machine('acc-server', reset_seconds=0.1)
    image = build_image(model='bluefield3', component='nic', version='66.6')

    def state() -> LockState:
        return next(r.state for m, r in readings(machine, 'dpu') if m.name == 'bluefield_host_privilege')

    def written(path: str) -> bool:
        return bool(machine.tenant_write('DPU', image, path=path)['written'])

    assert (LockState.UNLOCKED, True, True) == (state(), written('pcie'), written('rshim'))
    mechanism, reading = next((m, r) for m, r in readings(machine, 'dpu') if m.name == 'bluefield_host_privilege')
    with connect(machine, 'dpu') as connection:
        mechanism.engage(connection.writer(), reading)
    assert (LockState.PENDING_RESET, True) == (state(), written('pcie'))
    assert reading.reset is not None
    with connect(machine, 'dpu') as connection:
        connection.reset(reading.reset, reading.needs)
        deadline = time.monotonic() + 10
        while state() is not LockState.LOCKED_REPORTED and time.monotonic() < deadline:
            time.sleep(0.05)
        assert PowerState.ON == connection.power(reading.reset)
    assert (LockState.LOCKED_REPORTED, False, False) == (state(), written('pcie'), written('rshim'))


def test_a_lock_that_the_bmc_ignores_reads_unlocked(emulated_machine: Callable[..., Any]) -> None:
    """200, and nothing happened: seen by reading, over another session."""
    machine = emulated_machine('fpga-server')
    machine.fault('lock-ignored')
    _engage_all(machine, 'host')
    assert {LockState.UNLOCKED} == {r.state for _, r in readings(machine)}


def test_write_protected_refuses_our_own_push_too(emulated_machine: Callable[..., Any]) -> None:
    """It blocks the operator's way: an update releases it first."""
    machine = emulated_machine('gpu-server', flash_seconds=0.1)
    _engage_all(machine, 'host')
    target = Ref(bmc=BmcName('host'), uri=GPU_ITEM)
    with connect(machine) as connection:
        before = connection.component(target).version
        task = connection.push(target, upload(build_image(model='h100', component='gpu', version='9.9')))
        assert task is not None
        assert TaskState.FAILED == until_ended(connection, task).state
        assert before == connection.component(target).version


def test_sessions_are_given_back(emulated_machine: Callable[..., Any]) -> None:
    """Also when the work ended with an error."""
    machine = emulated_machine('gpu-server')
    with pytest.raises(RuntimeError), connect(machine):
        raise RuntimeError
    look(machine)
    methods = [e['method'] for e in machine.log(sessions=True)]
    assert (2, 2) == (methods.count('POST'), methods.count('DELETE'))


def test_a_look_survives_a_bmc_that_breaks_connections_now_and_then(emulated_machine: Callable[..., Any]) -> None:
    """Reads are repeated; nothing is missing."""
    machine = emulated_machine('gpu-server')
    whole = [replace(a, system=None) for a in look(machine).accelerators]
    machine.fault('refuse', uri='/redfish/v1/Chassis*', count=2)
    again = look(machine)
    assert (whole, ()) == ([replace(a, system=None) for a in again.accelerators], again.gaps)


def test_an_upload_that_is_cut_is_sent_once_and_nobody_claims_to_know(emulated_machine: Callable[..., Any]) -> None:
    """The connection breaks in the middle: one POST, the old version."""
    machine = emulated_machine('gpu-server', flash_seconds=0.1)
    machine.fault('upload-cut')
    target = Ref(bmc=BmcName('host'), uri=GPU_ITEM)
    with connect(machine) as connection:
        before = connection.component(target).version
        with pytest.raises(BmcUnreachable, match='whether the request arrived is unknown'):
            connection.push(target, upload(build_image(model='h100', component='gpu', version='9.9', size_bytes=3_000_000)))
        assert before == connection.component(target).version
    assert 1 >= len([e for e in machine.log() if e['method'] == 'POST'])


def test_a_bmc_that_restarts_in_an_update_is_unreachable_and_then_has_no_task(emulated_machine: Callable[..., Any]) -> None:
    """Sessions and tasks are lost: the new login is made by the read, and the task is gone, not done."""
    machine = emulated_machine('gpu-server', flash_seconds=0.3, bmc_reset_seconds=0.3)
    machine.fault('bmc-restart')
    with connect(machine) as connection:
        image = build_image(model='h100', component='gpu', version='96.00.99.00.01')
        task = connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(image))
        assert task is not None
        deadline, state = time.monotonic() + 15, task.state
        while state is TaskState.ACTIVE:
            assert time.monotonic() < deadline
            time.sleep(0.05)
            try:
                state = connection.task(task.ref).state
            except BmcUnreachable:
                continue
        assert TaskState.GONE == state


def test_a_truncated_answer_is_a_gap(emulated_machine: Callable[..., Any]) -> None:
    """One root of trust cannot be read: its lock is unknown, the rest is there."""
    machine = emulated_machine('gpu-server', options={'*': _no_expand()})
    machine.fault('truncated-json', uri='/redfish/v1/Chassis/HGX_ERoT_GPU_1')
    found = look(machine)
    item = '/redfish/v1/UpdateService/FirmwareInventory/HGX_FW_ERoT_GPU_1'
    assert ['/redfish/v1/Chassis/HGX_ERoT_GPU_1', item] == [gap.ref.uri for gap in found.gaps]
    states = {r.ref.uri: r.state for m, r in readings(machine) if m.name == 'nvidia_inband_update_policy'}
    assert LockState.UNKNOWN == states['/redfish/v1/Chassis/HGX_ERoT_GPU_1']
    assert LockState.UNLOCKED == states['/redfish/v1/Chassis/HGX_ERoT_GPU_0']


def _no_expand() -> Any:
    from baremetal_acc.emulator.hw.parameters import Options

    return Options(expand=False)


def test_nothing_secret_is_logged_by_anyone(emulated_machine: Callable[..., Any], caplog: pytest.LogCaptureFixture) -> None:
    """At debug level, with the lines of every library: neither password nor token nor the bytes of an image."""
    machine = emulated_machine('gpu-server', flash_seconds=0.1)
    with caplog.at_level(logging.DEBUG), connect(machine) as connection:
        connection.look(now())
        connection.push(Ref(bmc=BmcName('host'), uri=GPU_ITEM), upload(b'SECRET-IMAGE' * 100))
        token = connection._connector._headers['X-Auth-Token']
    assert 'POST /redfish/v1/SessionService/Sessions' in caplog.text
    for secret in (machine.bmcs['host'].password, token, 'SECRET-IMAGE'):
        assert secret not in caplog.text
