# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Single requests to a hostile BMC: writes, tasks and power. A write goes out once, whatever comes back."""

import io
import json
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from baremetal_acc.bmc.driver import BmcAddress, Upload
from baremetal_acc.bmc.redfish.concurrency import RememberedBmc
from baremetal_acc.bmc.redfish.connection import RedfishConnection
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import AccError
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import PowerState, TaskReading, TaskState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import HOST, Ref
from tests.hostile.bmc import Answer, Honest, HostileBmc, Request, Sent, Tree
from tests.hostile.look import TIMEOUT, WATCH, listening, secrets_in
from tests.hostile.mutate import PASSWORD, USER, Hostile
from tests.hostile.oracle import Served, has_version, says

ROOT = '/redfish/v1'
ITEM = f'{ROOT}/UpdateService/FirmwareInventory/A'
SYSTEM = f'{ROOT}/Systems/1'
TASK = f'{ROOT}/TaskService/Tasks/7'
IMAGE = b'firmware' * 50


def machine() -> Tree:
    """A machine with everything that is written to."""

    def resource(uri: str, **body: Any) -> dict[str, Any]:
        return {'@odata.id': uri, 'Id': uri.rsplit('/', 1)[-1], 'Name': 'x', **body}

    def link(uri: str) -> dict[str, str]:
        return {'@odata.id': uri}

    found = [
        resource(
            ROOT, RedfishVersion='1.15.0', Systems=link(f'{ROOT}/Systems'), Chassis=link(f'{ROOT}/Chassis'),
            UpdateService=link(f'{ROOT}/UpdateService'), Tasks=link(f'{ROOT}/TaskService'),
        ),
        resource(
            f'{ROOT}/UpdateService', MultipartHttpPushUri=f'{ROOT}/UpdateService/push', MaxImageSizeBytes=10_000_000,
            FirmwareInventory=link(f'{ROOT}/UpdateService/FirmwareInventory'), ServiceEnabled=True,
        ),
        resource(ITEM, Version='1.0', Updateable=True, WriteProtected=False),
        resource(
            SYSTEM, PowerState='On', LastResetTime='2026-01-01T00:00:00Z',
            Actions={'#ComputerSystem.Reset': {
                'target': f'{SYSTEM}/Actions/ComputerSystem.Reset',
                'ResetType@Redfish.AllowableValues': ['On', 'ForceOff', 'PowerCycle'],
            }},
        ),
        resource(f'{ROOT}/TaskService', Tasks=link(f'{ROOT}/TaskService/Tasks')),
        {'@odata.id': f'{ROOT}/TaskService/Tasks', 'Name': 'Tasks', 'Members': [link(TASK)]},
        resource(TASK, TaskState='Running', TaskStatus='OK', PercentComplete=40, Messages=[{'Message': 'writing'}]),
    ]  # fmt: skip
    return {body['@odata.id']: body for body in found}


@dataclass(slots=True, kw_only=True)
class Operated(Hostile):
    """Answers writes, too."""

    def document(self, request: Request) -> tuple[int, Any, dict[str, str]]:
        """PATCH is done, an action too, an image starts a task."""
        if request.method == 'PATCH':
            return 200, self.tree.get(request.path, {}), {}
        if request.method == 'POST' and request.path.endswith('/push'):
            return 202, self.tree[TASK], {'Location': '/redfish/v1/TaskService/TaskMonitors/7'}
        if request.method == 'POST' and '/Actions/' in request.path:
            return 204, None, {}
        return Honest.document(self, request)

    def answer(self, request: Request) -> Answer:
        """As any hostile answer; logins are told from other writes."""
        answer = Hostile.answer(self, request)
        answer.sent.login = b'"Password"' in request.body
        return answer


def operations() -> dict[str, Callable[[RedfishConnection], object]]:
    """Everything that a job does with one BMC, but looking."""
    item, system, task = Ref(bmc=HOST, uri=ITEM), Ref(bmc=HOST, uri=SYSTEM), Ref(bmc=HOST, uri=TASK)
    monitor = Ref(bmc=HOST, uri=f'{ROOT}/TaskService/TaskMonitors/7')
    upload = Upload(file='a.bin', size_bytes=len(IMAGE), open=lambda: _open())

    def protect(connection: RedfishConnection) -> None:
        writer = connection.writer()
        writer.patch(writer.fresh(ITEM), {'WriteProtected': True})

    return {
        'component': lambda c: c.component(item),
        'task': lambda c: c.task(task),
        'monitor': lambda c: c.task(monitor),
        'active': lambda c: c.active_tasks(),
        'power': lambda c: c.power(system),
        'host': lambda c: c.host(system),
        'last_reset': lambda c: c.last_reset(system),
        'off': lambda c: c.set_power(system, PowerState.OFF),
        'reset': lambda c: c.reset(system, ResetKind.POWER_CYCLE),
        'protect': protect,
        'push': lambda c: c.push(item, upload),
    }


@contextmanager
def _open():  # type: ignore[no-untyped-def]
    yield io.BytesIO(IMAGE)


def operate(bmc: HostileBmc, seed: int, number: int) -> tuple[Operated, list[str]]:
    """Do everything once, and say what was wrong."""
    script = Operated(
        tree=machine(), seed=seed, number=number, stranger=bmc.stranger, rate=(0.2, 0.6, 0.9)[number % 3],
        wire=(0.2, 0.5, 0.8)[number // 3 % 3], entry=0.6, sessions=number % 5 != 0,
    )  # fmt: skip
    address = BmcAddress(name=HOST, address=bmc.http, username=USER, password=PASSWORD, timeout=TIMEOUT)
    driver = RedfishDriver(patience=ReadRetry(attempts=2, patience=1.0, sleep=lambda seconds: None), remembered=RememberedBmc())
    found: list[str] = []
    before = bmc.strangers
    WATCH.ports, WATCH.seen, WATCH.active = set(bmc.ports[:2]), [], True
    bmc.play(script)
    with listening() as heard:
        try:
            with driver.connect(address) as connection:
                for name, operation in operations().items():
                    found += _one(script, name, lambda operation=operation: operation(connection))
        except AccError as exc:
            found += secrets_in([('the error of connecting', str(exc))], script.tokens)
        except Exception:  # noqa: BLE001 - that there is none is what is tested
            found.append(f'connecting ended in what is no error of ours:\n{traceback.format_exc(limit=-6)}')
        finally:
            WATCH.active = False
            bmc.play(None)
            bmc.hang_up()
    found += [f'talked to others: {text}' for text in WATCH.seen]
    if bmc.strangers != before:
        found.append('somebody connected to the port of a stranger')
    found += secrets_in([('the log', line) for _, line in heard.lines], script.tokens)
    found += [f'the harness: {text}' for text in bmc.faults]
    bmc.faults.clear()
    return script, found


def _sent_again(log: Iterable[Sent]) -> Iterator[tuple[str, str]]:
    """Writes that were sent twice without a new login between, for the session had ended, or more than twice.

    One that was refused for its condition is sent with another one.
    """
    logins, seen = 0, dict[tuple[str, str, str | None], list[int]]()
    for one in log:
        logins += one.login
        if one.method in ('GET', 'DELETE') or one.login:
            continue
        before = seen.setdefault((one.method, one.target, one.condition), [])
        if len(before) > 1 or (before and before[-1] == logins):
            yield one.method, one.target
        before.append(logins)


def _one(script: Operated, name: str, operation: Callable[[], object]) -> list[str]:
    first = len(script.log)
    found: list[str] = []
    result: object = None
    try:
        result = operation()
    except AccError as exc:
        found += secrets_in([(f'the error of {name}', str(exc))], script.tokens)
        if not str(exc).isprintable():
            found.append(f'the error of {name} has control characters: {str(exc)!r}')
    except Exception:  # noqa: BLE001 - that there is none is what is tested
        found.append(f'{name} ended in what is no error of ours:\n{traceback.format_exc(limit=-6)}')
    log = script.log[first:]
    found += [f'{name} sent {method} {target} again' for method, target in _sent_again(log)]
    writes = {(s.method, s.target) for s in log if s.method not in ('GET', 'DELETE') and not s.login}
    if len(writes) > 1:
        found.append(f'{name} sent {len(writes)} writes')
    served = Served({HOST: (script.log, {})})
    if isinstance(result, TaskReading) and result.state is TaskState.SUCCEEDED and not result.opaque:
        bodies = [json.loads(b) for s in script.log for b in s.bodies if _is_json(b)]
        if not any(isinstance(b, dict) and b.get('TaskState') == 'Completed' for b in bodies):
            found.append(f'{name} succeeded, and nobody said Completed: {result}')
    if isinstance(result, Component) and result.version is not None and not has_version(result.ref, result.version, served):
        found.append(f'{name}: version {result.version!r} was not sent')
    powered = name == 'power' and result in (PowerState.ON, PowerState.OFF)
    if powered and not any(says(document, str(result), 'PowerState') for document in served.texts()):
        found.append(f'power is {result}, and nobody said so')
    return found


def _is_json(body: bytes) -> bool:
    try:
        json.loads(body)
    except (ValueError, RecursionError):
        return False
    return True
