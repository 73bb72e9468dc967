# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Where sushy's resource classes, over our connection, give what our Redfish driver gives, and where not.

Each use is played on a machine without habits and on one with each habit of the emulator, once by sushy's class and once by our
driver. ``doc/source/reference/habits.rst`` lists with which habits they differ; that is asserted here. ``make test`` plays
each use with the habits that its row names, and with every eighth of the others; ``make soak-zoo`` plays all
(``BAREMETAL_ACC_ZOO``).

The classes that pass every habit are not used either. What they lose, the last tests show.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sushy
from sushy.resources.system.system import System
from sushy.taskmonitor import TaskMonitor

from baremetal_acc.bmc.redfish import system, task
from baremetal_acc.bmc.redfish.parse import ResourceView, power_state
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.emulator.habit import HABITS
from baremetal_acc.model.inventory import PowerState, TaskState
from tests.faults.rig import MACHINE
from tests.zoo.sushy_uses import USES, clock_of, connected, given, ref

NONE = 'none'
"""A machine without habits."""

WAYS = (NONE, *HABITS)
EVERY = 1 if os.environ.get('BAREMETAL_ACC_ZOO') else 8


def rows(tree: Path) -> Mapping[str, frozenset[str]]:
    """With which habits each use differs, by the page: all of them and none at all is "always"."""
    page = (tree / 'doc' / 'source' / 'reference' / 'habits.rst').read_text()
    table = page.partition('.. list-table:: sushy')[2].partition('\n\n')[2].partition('\n\n')[0]
    found = {}
    for name, where in re.findall(r'\* - ``([^`]+)``\n\s+- (.*?)\n\s+- ', table, re.DOTALL):
        habits = frozenset(re.findall('``([a-z-]+)``', where))
        assert habits <= set(HABITS)
        assert re.fullmatch(r'(never|always(, but for ``.*)?|``.*``)', where, re.DOTALL), where
        found[name] = frozenset(WAYS) - habits if where.startswith('always') else habits
    return found


def test_the_page_lists_every_use(tree: Path) -> None:
    """In the order of the table here."""
    assert list(USES) == list(rows(tree))


@pytest.mark.parametrize('use', USES)
def test_sushys_resource_gives_what_our_driver_gives_but_where_the_page_says(
    use: str, tree: Path, emulated_machine: Callable[..., Any]
) -> None:
    """What the caller is given, and what becomes of the machine."""
    expected = rows(tree)[use]
    named = expected if len(expected) < len(WAYS) / 2 else frozenset(WAYS) - expected
    others = [habit for habit in WAYS if habit not in named | {NONE}]
    played = {NONE, *named, *others[list(USES).index(use) % EVERY :: EVERY]}
    found = {}
    for habit in (one for one in WAYS if one in played):
        settings = MACHINE | USES[use].options | ({} if habit == NONE else {'habits': (habit,)})
        sides = []
        for side in (USES[use].sushy, USES[use].ours):
            machine = emulated_machine('gpu-server', **settings)
            with connected(machine) as bench, clock_of(bench):
                sides.append(given(lambda side=side, bench=bench: side(bench)))  # type: ignore[misc]
            machine.stop()
        found[habit] = sides
    # Of our own driver nothing breaks.
    assert {} == {habit: ours for habit, (_, ours) in found.items() if 'breaks' in str(ours)}
    differ = {habit: sides for habit, sides in found.items() if sides[0] != sides[1]}
    assert {one for one in expected if one in played} == set(differ), differ


# ---- what those lose that pass every habit

HOST = '/redfish/v1/Systems/1'
TASK = '/redfish/v1/TaskService/Tasks/1'
RESET = f'{HOST}/Actions/ComputerSystem.Reset'
SETTINGS = f'{HOST}/Settings'
WHOLE: dict[str, Any] = {
    '@odata.id': HOST,
    'Id': '1',
    'PowerState': 'On',
    'Actions': {'#ComputerSystem.Reset': {'target': RESET, 'ResetType@Redfish.AllowableValues': ['ForceOff']}},
}
FAILED = {'error': {'@Message.ExtendedInfo': [{'MessageId': 'Base.1.18.InternalError', 'MessageSeverity': 'Critical'}]}}


class Kept:
    """A BMC of a few documents, as sushy's resources and our driver ask it.

    :ivar asked: what was read.
    """

    label = 'bmc'

    def __init__(self, documents: Mapping[str, object], posted: object = None, status: int = 200) -> None:
        self.asked: list[str] = []
        self._documents = documents
        self._posted = posted
        self._status = status

    def get(self, path: str, **_: object) -> object:
        self.asked.append(path)
        return self._reply(self._documents[path], path)

    def post(self, path: str, **_: object) -> object:
        return self._reply(self._posted, path)

    def send(self, _method: str, path: str, **_: object) -> RedfishAnswer:
        return RedfishAnswer(status=self._status, headers={}, content=json.dumps(self._posted).encode(), url=path)

    def read(self, path: str, **_: object) -> RedfishAnswer:
        self.asked.append(path)
        return RedfishAnswer(status=self._status, headers={}, content=json.dumps(self._documents[path]).encode(), url=path)

    def path(self, uri: str) -> str:
        return uri

    def redact(self, text: str) -> str:
        return text

    def _reply(self, body: object, path: str) -> object:
        content = json.dumps(body).encode()
        return SimpleNamespace(status_code=self._status, headers={}, content=content, url=path, json=lambda: body)


@pytest.mark.parametrize(
    'odd',
    [
        {'Id': None},
        {'Boot': 'Pxe'},
        {'BootProgress': {'LastStateTime': 'soon'}},
        {'@Redfish.MaintenanceWindow': {}},
        {'Actions': {'#ComputerSystem.Reset': {}}},
        {'Links': []},
        {'Status': 'OK'},
    ],
    ids=lambda odd: str(next(iter(odd))),
)
def test_one_odd_property_hides_from_sushy_whether_the_host_is_on(odd: dict[str, Any]) -> None:
    """All that a class knows is read when it is made. Our driver reads what it was asked for."""
    document = {name: value for name, value in {**WHOLE, **odd}.items() if value is not None}
    assert PowerState.ON is power_state(ResourceView(ref(HOST), document, []))
    with pytest.raises((sushy.exceptions.SushyError, TypeError, AttributeError)):
        assert System(Kept({HOST: document}), HOST).power_state


def test_the_odd_property_is_what_hides_it() -> None:
    """Without one sushy tells the same."""
    assert sushy.PowerState.ON is System(Kept({HOST: WHOLE}), HOST).power_state


def test_a_reset_that_was_answered_as_a_success_and_has_failed_is_one_for_sushy() -> None:
    """DSP0266, responses: its body says what has become of it. The caller of sushy is given nothing."""
    bmc: Any = Kept({HOST: WHOLE}, posted=FAILED)
    assert System(bmc, HOST).reset_system(sushy.ResetType.FORCE_OFF) is None
    against = system.set_power(bmc, ref(HOST), PowerState.OFF)
    assert against is not None
    assert against.fails


def test_a_system_with_a_settings_resource_costs_sushy_one_request_more() -> None:
    """Each time that its power state is read: it looks there for boot settings."""
    documents = {HOST: WHOLE | {'Boot': {}, '@Redfish.Settings': {'SettingsObject': {'@odata.id': SETTINGS}}}, SETTINGS: WHOLE}
    theirs: Any = Kept(documents)
    ours: Any = Kept(documents)
    assert sushy.PowerState.ON is System(theirs, HOST).power_state
    assert PowerState.ON is power_state(system.read(ours, ref(HOST)))
    assert [HOST, SETTINGS] == theirs.asked
    assert [HOST] == ours.asked


def test_a_task_monitor_of_sushy_does_not_tell_how_a_task_has_ended() -> None:
    """It forgets the task once the answer is no 202, and is no longer processing, whatever came of it."""
    ended = {'@odata.id': TASK, 'Id': '1', 'Name': 'Task', 'TaskState': 'Exception', 'TaskStatus': 'Critical'}
    bmc: Any = Kept({TASK: ended})
    monitor = TaskMonitor(bmc, TASK)
    assert (False, None) == (monitor.is_processing, monitor.task)
    assert TaskState.FAILED is task.read(bmc, ref(TASK)).state
