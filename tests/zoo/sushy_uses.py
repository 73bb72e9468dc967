# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What our Redfish driver asks of a BMC, asked by sushy's resource classes, too, over the same connection.

Each use is a pair of functions: one with sushy's class, one with our driver. Both get a machine of their own, and give what
they have learnt and what the machine has become: where that is not the same, sushy's class cannot take the driver's place.
"""

import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import sushy
import sushy.auth
from sushy.resources import base
from sushy.resources.manager.manager import Manager
from sushy.resources.system.bios import Bios
from sushy.resources.system.system import System
from sushy.resources.taskservice.task import Task
from sushy.resources.taskservice.taskservice import TaskService
from sushy.resources.updateservice.softwareinventory import SoftwareInventory
from sushy.resources.updateservice.updateservice import UpdateService

from baremetal_acc import wait
from baremetal_acc.bmc.driver import BmcAddress, ImageServer
from baremetal_acc.bmc.redfish import system, task, update
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.redfish.image_server import Fetched
from baremetal_acc.bmc.redfish.login_requests import basic_authorization
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer, sushy_response
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.emulator.image import build_image
from baremetal_acc.errors import BmcBusy, BmcError, BmcRefused
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import PowerState, TaskReading, TaskState, UpdateActivity
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import BmcName, Ref
from tests.faults.rig import EROT, FLASH_SECONDS, ITEM, ITEMS, MACHINE, MODEL, NEW

HOST = BmcName('host')
HERE = ImageServer(host='127.0.0.1', listen='127.0.0.1')
UPDATE, TASKS, MANAGER = '/redfish/v1/UpdateService', '/redfish/v1/TaskService', '/redfish/v1/Managers/BMC_0'
SIMPLE_UPDATE = f'{UPDATE}/Actions/UpdateService.SimpleUpdate'
BEAT = 10.0
LONG = 3 * FLASH_SECONDS
RUNS, ENDED, GONE, REFUSED, UNNAMED = 'runs', 'ended', 'gone', 'refused', 'no task is named'

# Of the virtual clock: before an image is written, within, and after it.
LOOKS = (0.0, FLASH_SECONDS / 2, 2 * FLASH_SECONDS)

RESETS = (ResetKind.SYSTEM_RESET, ResetKind.POWER_CYCLE)


@dataclass(kw_only=True)
class Bench:
    """One machine, and our connection with its BMC.

    :ivar seconds: of the machine's clock.
    """

    machine: Any
    connection: RedfishConnection
    seconds: float = 0.0
    upload: Upload = field(init=False)

    def __post_init__(self) -> None:
        data = build_image(model=MODEL[EROT], component=EROT, version=NEW[EROT], security_version=2, size_bytes=4000)
        self.upload = Upload(file='new.img', size_bytes=len(data), open=lambda: io.BytesIO(data))

    @property
    def connector(self) -> Connector:
        """What sushy's resources get in place of their own connector."""
        return self.connection._connector

    @property
    def address(self) -> BmcAddress:
        """Where the BMC is."""
        return self.connection.address

    @property
    def system(self) -> str:
        """URI of the System."""
        return str(self.machine.bmcs[HOST].system)

    @property
    def bios(self) -> str:
        """URI of its BIOS."""
        return f'{self.system}/Bios'

    @property
    def item(self) -> Ref:
        """What an image is for: it may have its version in its URI."""
        links = [str(one['@odata.id']) for one in self.view(ITEMS).body['Members']]
        return ref(next(one for one in links if ITEM[EROT].format(0) in one))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.seconds += seconds
        self.machine.advance(seconds)

    def is_written(self) -> bool:
        """Whether the image has been written."""
        bank = self.machine.truth()['components'][f'{HOST}/{ITEM[EROT].format(0)}']['active']
        return bank['version'] == NEW[EROT]

    def view(self, uri: str) -> ResourceView:
        """A resource as our driver reads it."""
        return ResourceView.of(fresh(self.connector, HOST, uri), [])


@dataclass(frozen=True, kw_only=True)
class Use:
    """One thing that is asked of a BMC.

    :ivar options: of the machine.
    """

    sushy: Callable[[Bench], object]
    ours: Callable[[Bench], object]
    options: dict[str, Any] = field(default_factory=dict)


def ref(uri: str) -> Ref:
    """A resource of the BMC."""
    return Ref(bmc=HOST, uri=uri)


def shown(resource: Any, name: str) -> object:
    """What a class of sushy's gives of a property of the schema; None where it does not know it."""
    for attribute, known in base._collect_fields(resource):
        if known._path == [name]:
            value = getattr(resource, attribute)
            return getattr(value, 'value', value)
    return None


def given(attempt: Callable[[], object]) -> object:
    """What somebody is given: a value, or how it was refused. What is neither error of sushy's nor ours breaks its caller."""
    try:
        return attempt()
    except BmcRefused as exc:
        return GONE if exc.gone else REFUSED
    except (BmcError, sushy.exceptions.SushyError):
        return REFUSED
    except Exception as exc:  # noqa: BLE001 - what a caller does not expect is what is looked for
        return f'breaks: {type(exc).__name__}'


@contextlib.contextmanager
def connected(machine: Any) -> Iterator[Bench]:
    """Our connection with a machine. A BMC without a free session is used where Basic authentication is allowed."""
    bmc = machine.bmcs[HOST]
    address = BmcAddress(
        name=HOST,
        address=bmc.address,
        username=bmc.username,
        password=bmc.password,
        verify_ca=bmc.verify_ca,
        system=bmc.system,
        timeout=timedelta(seconds=2),
        concurrency=1,
        basic_auth=True,
        images=HERE,
    )
    steps: list[Callable[[float], None]] = []
    driver = RedfishDriver(patience=ReadRetry(sleep=lambda seconds: steps[0](seconds)), remembered=RememberedBmc())
    with driver.connect(address) as connection:
        bench = Bench(machine=machine, connection=connection)
        steps.append(bench.advance)
        yield bench


@contextlib.contextmanager
def clock_of(bench: Bench) -> Iterator[None]:
    """Whoever waits, of ours or of sushy's, lets the machine's time pass."""
    real, theirs = wait.sleep, sushy.taskmonitor.time
    wait.sleep = bench.advance
    sushy.taskmonitor.time = SimpleNamespace(sleep=bench.advance, time=lambda: bench.seconds)
    try:
        yield
    finally:
        wait.sleep, sushy.taskmonitor.time = real, theirs


# ---- Systems and Managers

_LAST_RESET = 'LastResetTime'


def _power(bench: Bench, read: Callable[[], object]) -> object:
    seen = [read()]
    bench.connection.set_power(ref(bench.system), PowerState.OFF)
    seen.append(read())
    bench.advance(2 * MACHINE['reset_seconds'])
    return [*seen, read()]


def _power_by_sushy(bench: Bench) -> object:
    return _power(bench, lambda: System(bench.connector, bench.system).power_state.value)


def _power_by_us(bench: Bench) -> object:
    return _power(bench, lambda: bench.connection.power(ref(bench.system)).value)


def _types_by_sushy(bench: Bench) -> object:
    return {one.value for one in System(bench.connector, bench.system).get_allowed_reset_system_values()}


def _types_by_us(bench: Bench) -> object:
    action = bench.view(bench.system).part('Actions', system.RESET)
    assert action is not None
    found = system.offered(action, lambda uri: fresh(bench.connector, HOST, uri))
    assert found is not None
    return set(found)


def _resets(bench: Bench, switch: Callable[[PowerState], None], reset: Callable[[ResetKind], None]) -> object:
    """Off, on, restart, power cycle: what was refused, and what the machine has done."""
    steps = [*((switch, state) for state in (PowerState.OFF, PowerState.ON)), *((reset, kind) for kind in RESETS)]
    told = []
    for step, what in steps:
        told.append(given(lambda step=step, what=what: step(what)))  # type: ignore[misc]
        bench.advance(3 * MACHINE['reset_seconds'])
        told.append(bench.machine.truth()['systems'][HOST])
    return told


def _resets_by_sushy(bench: Bench) -> object:
    def ask(words: tuple[str, ...]) -> None:
        found = System(bench.connector, bench.system)
        offered = {one.value for one in found.get_allowed_reset_system_values()}
        found.reset_system(sushy.ResetType(next((word for word in words if word in offered), words[0])))

    return _resets(bench, lambda state: ask(system.SWITCH[state]), lambda kind: ask(system.WORDS[kind]))


def _resets_by_us(bench: Bench) -> object:
    place = ref(bench.system)

    def switch(state: PowerState) -> None:
        bench.connection.set_power(place, state)

    def reset(kind: ResetKind) -> None:
        bench.connection.reset(place, kind)

    return _resets(bench, switch, reset)


def _progress_by_sushy(bench: Bench) -> object:
    return System(bench.connector, bench.system).boot_progress.last_state.value


def _progress_by_us(bench: Bench) -> object:
    return (bench.connection.host(ref(bench.system)).boot_progress or '').partition(' ')[0]


def _is_shown(bench: Bench, uri: str, name: str, read: Callable[[], object]) -> bool:
    """Whether what is read is what the BMC shows: no two machines began at the same time, and their clocks go on."""
    before, value, after = bench.view(uri).text(name), read(), bench.view(uri).text(name)
    return before is not None and after is not None and isinstance(value, str) and before <= value <= after


def _last_reset_by_sushy(bench: Bench) -> object:
    found = System(bench.connector, bench.system)
    return _is_shown(bench, bench.system, _LAST_RESET, lambda: shown(found, _LAST_RESET))


def _last_reset_by_us(bench: Bench) -> object:
    return _is_shown(bench, bench.system, _LAST_RESET, lambda: bench.connection.last_reset(ref(bench.system)))


def _manager_reset_by_sushy(bench: Bench) -> object:
    return _is_shown(bench, MANAGER, _LAST_RESET, lambda: shown(Manager(bench.connector, MANAGER), _LAST_RESET))


def _manager_reset_by_us(bench: Bench) -> object:
    return _is_shown(bench, MANAGER, _LAST_RESET, lambda: bench.connection.managers()[0].last_reset)


def _manager_clock_by_sushy(bench: Bench) -> object:
    return _is_shown(bench, MANAGER, 'DateTime', lambda: Manager(bench.connector, MANAGER).datetime)


def _manager_clock_by_us(bench: Bench) -> object:
    return _is_shown(bench, MANAGER, 'DateTime', lambda: bench.connection.managers()[0].time)


def _restarted(bench: Bench, told: object) -> object:
    bench.advance(2 * MACHINE['bmc_reset_seconds'])
    return told, len(bench.machine.history('bmc-restarted'))


def _restart_by_sushy(bench: Bench) -> object:
    manager = Manager(bench.connector, MANAGER)
    offered = {one.value for one in manager.get_allowed_reset_manager_values()}
    word = next(word for word in system.WORDS[ResetKind.BMC_RESET] if word in offered)
    return _restarted(bench, manager.reset_manager(sushy.ResetType(word)))


def _restart_by_us(bench: Bench) -> object:
    return _restarted(bench, bench.connection.reset(ref(MANAGER), ResetKind.BMC_RESET))


# ---- settings


def _written(bench: Bench, uri: str, expected: dict[str, object], told: str) -> object:
    """What was told of a write, whether it shows at once, and whether it shows after a while."""
    looks = []
    for seconds in (0.0, BEAT):
        bench.advance(seconds)
        body = bench.view(uri).body
        looks.append(all((body.get(part) or {}).get(name) == value for part, name, value in _leaves(expected)))
    return told, looks


def _leaves(body: dict[str, Any]) -> list[tuple[str, str, object]]:
    return [(part, name, value) for part, values in body.items() for name, value in values.items()]


def _patched_by_us(bench: Bench, uri: str, body: dict[str, object]) -> object:
    writer = bench.connection.writer()
    writer.patch(writer.fresh(uri), body)
    return _written(bench, uri, body, 'accepted only' if writer.accepted else 'done')


_BOOT: dict[str, object] = {'Boot': {'BootSourceOverrideTarget': 'Pxe', 'BootSourceOverrideEnabled': 'Once'}}


def _boot_by_sushy(bench: Bench) -> object:
    found = System(bench.connector, bench.system)
    found.set_system_boot_options(sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE)
    return _written(bench, bench.system, _BOOT, 'done')


def _boot_by_us(bench: Bench) -> object:
    return _patched_by_us(bench, bench.system, _BOOT)


_SRIOV: dict[str, object] = {'Attributes': {'SriovGlobalEnable': False}}


def _setting_by_sushy(bench: Bench) -> object:
    Bios(bench.connector, bench.bios).set_attribute('SriovGlobalEnable', value=False)
    return _written(bench, f'{bench.bios}/Settings', _SRIOV, 'done')


def _setting_by_us(bench: Bench) -> object:
    return _patched_by_us(bench, f'{bench.bios}/Settings', _SRIOV)


def _settings_by_sushy(bench: Bench) -> object:
    found = Bios(bench.connector, bench.bios)
    return found.attributes, found._settings.resource_uri, [one.value for one in found.supported_apply_times]


def _settings_by_us(bench: Bench) -> object:
    view = bench.view(bench.bios)
    settings = view.part('@Redfish.Settings')
    assert settings is not None
    return view.body['Attributes'], settings.link('SettingsObject'), settings.body['SupportedApplyTimes']


# ---- UpdateService and its items

_WAYS = ('HttpPushUri', 'HttpPushUriTargets')


def _ways_by_sushy(bench: Bench) -> object:
    return [shown(UpdateService(bench.connector, UPDATE), name) for name in _WAYS]


def _ways_by_us(bench: Bench) -> object:
    return [bench.view(UPDATE).body[name] for name in _WAYS]


def _multipart_by_sushy(bench: Bench) -> object:
    return shown(UpdateService(bench.connector, UPDATE), 'MultipartHttpPushUri')


def _multipart_by_us(bench: Bench) -> object:
    return bench.view(UPDATE).text(update.MULTIPART)


def _protocols_by_sushy(bench: Bench) -> object:
    return {one.value for one in UpdateService(bench.connector, UPDATE).get_allowed_transfer_protocols()}


def _protocols_by_us(bench: Bench) -> object:
    action = bench.view(UPDATE).part('Actions', update.SIMPLE_UPDATE)
    assert action is not None
    return set(action.body['TransferProtocol@Redfish.AllowableValues'])


def _times_by_sushy(bench: Bench) -> object:
    found = UpdateService(bench.connector, UPDATE)._actions.simple_update.operation_apply_time_support
    return {one.value for one in found.mapped_supported_values}


def _times_by_us(bench: Bench) -> object:
    support = bench.view(UPDATE).part('Actions', update.SIMPLE_UPDATE, '@Redfish.OperationApplyTimeSupport')
    assert support is not None
    return set(support.body['SupportedValues'])


def _item_by_sushy(bench: Bench) -> object:
    return _versions(bench, lambda uri: SoftwareInventory(bench.connector, uri).version)


def _item_by_us(bench: Bench) -> object:
    return _versions(bench, lambda uri: bench.connection.component(ref(uri)).version)


def _versions(bench: Bench, read: Callable[[str], object]) -> object:
    """Of an item before and after an update."""
    item = bench.item
    before = given(lambda: read(item.uri))
    _followed(bench, item, bench.connection.push(item, bench.upload))
    return before, given(lambda: read(item.uri))


# ---- updates and tasks


def _accepted(bench: Bench) -> RedfishAnswer:
    """The answer to a SimpleUpdate without more parameters than sushy sends, whose image the BMC has fetched."""
    with Fetched(bench.upload, HERE, HOST, host=bench.connector.host) as served:
        body = {'ImageURI': served.url, 'TransferProtocol': 'HTTP', 'Targets': [bench.item.uri]}
        answer = bench.connector.send('POST', SIMPLE_UPDATE, body=body)
        assert served.wait(5)
    _settle(bench)
    return answer


def _settle(bench: Bench) -> None:
    """Wait until the machine has begun with what it has fetched: it does so in real time."""
    until = time.monotonic() + 5
    while not any(one['what'] == 'upload' for one in bench.machine.history()) and time.monotonic() < until:
        time.sleep(0.01)


def _followed(bench: Bench, item: Ref, told: object) -> object:
    """An update to its end, as far as the driver tells of it: started where it waits for that."""
    for _ in range(int(LONG / BEAT)):
        if isinstance(told, UploadProgress):
            with contextlib.suppress(BmcBusy):
                told = bench.connection.go_on(item, bench.upload, told)
        elif isinstance(told, TaskReading):
            told = bench.connection.task(told.ref)
            told = (bench.connection.deferred(told.ref) or told) if told.awaits_start else told
            if isinstance(told, TaskReading) and told.state is not TaskState.ACTIVE:
                break
        elif bench.connection.update_activity() is not UpdateActivity.BUSY and bench.is_written():
            break
        bench.advance(BEAT)
    return told


def _update_by_sushy(bench: Bench) -> object:
    service, item = UpdateService(bench.connector, UPDATE), bench.item
    with Fetched(bench.upload, HERE, HOST, host=bench.connector.host) as served:
        told = given(lambda: service.simple_update(served.url, targets=[item.uri]))
        assert served.wait(5)
    _settle(bench)
    bench.advance(LONG)
    return told if isinstance(told, str) else 'taken', bench.is_written()


def _update_by_us(bench: Bench) -> object:
    item = bench.item
    told = given(lambda: bench.connection.push(item, bench.upload))
    _settle(bench)
    _followed(bench, item, told)
    return told if isinstance(told, str) else 'taken', bench.is_written()


def _state(reading: TaskReading) -> str:
    match reading.state:
        case TaskState.ACTIVE:
            return RUNS
        case TaskState.GONE:
            return GONE
        case _:
            return ENDED


def _looks(bench: Bench, read: Callable[[], object]) -> object:
    """What is read of an update before, in and after its write."""
    seen = []
    for seconds in LOOKS:
        bench.advance(max(0.0, seconds - bench.seconds))
        seen.append(given(read))
    return seen


def _monitor_by_sushy(bench: Bench) -> object:
    answer = _accepted(bench)
    monitor = sushy.taskmonitor.TaskMonitor.from_response(bench.connector, sushy_response(answer), SIMPLE_UPDATE)
    return _looks(bench, lambda: RUNS if monitor.check_is_processing else ENDED)


def _located_by_sushy(bench: Bench) -> object:
    location = _accepted(bench).headers.get('Location')
    if location is None:
        return UNNAMED
    # Whatever authority the BMC believes it has: our driver takes the path alone, and so does this.
    monitor = sushy.taskmonitor.TaskMonitor(bench.connector, urlsplit(location).path)
    return _looks(bench, lambda: RUNS if monitor.check_is_processing else ENDED)


def _located_by_us(bench: Bench) -> object:
    location = _accepted(bench).headers.get('Location')
    if location is None:
        return UNNAMED
    return _looks(bench, lambda: _state(bench.connection.task(ref(urlsplit(location).path))))


def _monitor_by_us(bench: Bench) -> object:
    told = task.answered(bench.connector, _accepted(bench), HOST)
    if not isinstance(told, TaskReading):
        return UNNAMED
    return _looks(bench, lambda: _state(bench.connection.task(told.ref)))


def _wait_by_sushy(bench: Bench) -> object:
    monitor = sushy.taskmonitor.TaskMonitor.from_response(bench.connector, sushy_response(_accepted(bench)), SIMPLE_UPDATE)
    try:
        monitor.wait(LONG)
    except sushy.exceptions.ConnectionError:
        return RUNS, bench.is_written()
    return ENDED, bench.is_written()


def _wait_by_us(bench: Bench) -> object:
    told = task.answered(bench.connector, _accepted(bench), HOST)
    if not isinstance(told, TaskReading):
        return UNNAMED
    while (state := _state(bench.connection.task(told.ref))) == RUNS and bench.seconds < LONG:
        bench.advance(BEAT)
    return ENDED if state == GONE else state, bench.is_written()


def _task(bench: Bench, read: Callable[[str], object]) -> object:
    told = task.answered(bench.connector, _accepted(bench), HOST)
    return _looks(bench, lambda: read(told.ref.uri)) if isinstance(told, TaskReading) else UNNAMED


def _state_by_sushy(found: Task) -> str:
    if found.task_state is None:
        return 'has no state'
    return RUNS if task.STATES[found.task_state.value] is TaskState.ACTIVE else ENDED


def _task_by_sushy(bench: Bench) -> object:
    return _task(bench, lambda uri: _state_by_sushy(Task(bench.connector, uri)))


def _task_by_us(bench: Bench) -> object:
    return _task(bench, lambda uri: _state(bench.connection.task(ref(uri))))


def _tasks_by_sushy(bench: Bench) -> object:
    _accepted(bench)

    def read() -> object:
        found = TaskService(bench.connector, TASKS).tasks.get_members()
        return sorted(one.path for one in found if _state_by_sushy(one) == RUNS)

    return _looks(bench, read)


def _tasks_by_us(bench: Bench) -> object:
    _accepted(bench)
    return _looks(bench, lambda: sorted(one.ref.uri for one in bench.connection.active_tasks()))


# ---- sessions


def _logins(bench: Bench, open_one: Callable[[], tuple[Callable[[], object], Callable[[], None]]]) -> object:
    """Two connections of one user, the first of which goes on once there is the second; and the sessions that are left."""
    bench.connection.close()

    def work() -> object:
        one, close_one = open_one()
        first = one()
        other, close_other = open_one()
        seen = [first, other(), one()]
        close_other()
        close_one()
        return seen

    told = given(work)
    basic = {'Authorization': basic_authorization(bench.address.username or '', bench.address.password or '')}
    left = bench.connector.send('GET', '/redfish/v1/SessionService/Sessions', headers=basic, anonymous=True)
    return told, len(sushy_response(left).json()['Members'])


def _login_by_sushy(bench: Bench) -> object:
    def open_one() -> tuple[Callable[[], object], Callable[[], None]]:
        here = bench.address
        connector = Connector(here)
        # It takes its token out of the Session of requests that sushy's own connector has, and ours has none.
        connector._session = SimpleNamespace(auth=None, headers={})  # type: ignore[attr-defined]
        auth = sushy.auth.SessionOrBasicAuth(here.username, here.password)
        root = sushy.Sushy(here.address, auth=auth, connector=connector)
        root._auth = None  # that it logs out when it is collected would be too late to be counted
        return lambda: System(connector, bench.system).power_state.value, auth.close

    return _logins(bench, open_one)


def _login_by_us(bench: Bench) -> object:
    driver = RedfishDriver(remembered=RememberedBmc())

    def open_one() -> tuple[Callable[[], object], Callable[[], None]]:
        connection = driver.connect(bench.address)
        return lambda: connection.power(ref(bench.system)).value, connection.close

    return _logins(bench, open_one)


def _plain(**options: bool) -> dict[str, Any]:
    return {'options': {HOST: options}}


USES: dict[str, Use] = {
    'System.power_state': Use(sushy=_power_by_sushy, ours=_power_by_us),
    'System.boot_progress': Use(sushy=_progress_by_sushy, ours=_progress_by_us),
    'System, LastResetTime': Use(sushy=_last_reset_by_sushy, ours=_last_reset_by_us),
    'System.get_allowed_reset_system_values': Use(sushy=_types_by_sushy, ours=_types_by_us),
    'System.reset_system': Use(sushy=_resets_by_sushy, ours=_resets_by_us),
    'System.set_system_boot_options': Use(sushy=_boot_by_sushy, ours=_boot_by_us),
    'Manager.datetime': Use(sushy=_manager_clock_by_sushy, ours=_manager_clock_by_us),
    'Manager, LastResetTime': Use(sushy=_manager_reset_by_sushy, ours=_manager_reset_by_us),
    'Manager.reset_manager': Use(sushy=_restart_by_sushy, ours=_restart_by_us),
    'Bios, what it shows': Use(sushy=_settings_by_sushy, ours=_settings_by_us),
    'Bios.set_attribute': Use(sushy=_setting_by_sushy, ours=_setting_by_us),
    'UpdateService.http_push_uri': Use(sushy=_ways_by_sushy, ours=_ways_by_us, options=_plain(plain_push=True)),
    'UpdateService, MultipartHttpPushUri': Use(sushy=_multipart_by_sushy, ours=_multipart_by_us),
    'UpdateService.get_allowed_transfer_protocols': Use(sushy=_protocols_by_sushy, ours=_protocols_by_us),
    'UpdateService, apply times of SimpleUpdate': Use(sushy=_times_by_sushy, ours=_times_by_us),
    'UpdateService.simple_update': Use(sushy=_update_by_sushy, ours=_update_by_us, options=_plain(push=False)),
    'SoftwareInventory.version': Use(sushy=_item_by_sushy, ours=_item_by_us),
    'TaskMonitor.is_processing': Use(sushy=_monitor_by_sushy, ours=_monitor_by_us),
    'TaskMonitor, of Location': Use(sushy=_located_by_sushy, ours=_located_by_us),
    'TaskMonitor.wait': Use(sushy=_wait_by_sushy, ours=_wait_by_us),
    'Task.task_state': Use(sushy=_task_by_sushy, ours=_task_by_us),
    'TaskService.tasks': Use(sushy=_tasks_by_sushy, ours=_tasks_by_us),
    'auth.SessionOrBasicAuth': Use(sushy=_login_by_sushy, ours=_login_by_us),
}
"""By the names that they have in doc/source/reference/habits.rst."""
