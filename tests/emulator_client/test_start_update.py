# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Updates that wait for UpdateService.StartUpdate are started once, over real HTTP, and followed to their end."""

from collections.abc import Callable
from typing import Any

import pytest

from baremetal_acc.bmc.driver import ImageServer
from baremetal_acc.bmc.redfish import start_update
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.errors import BmcBusy, BmcUnreachable
from baremetal_acc.model.image import Upload, UploadProgress
from baremetal_acc.model.inventory import TaskReading, TaskState
from baremetal_acc.model.ref import BmcName, Ref

from .test_client import connect, look, until_ended, upload

SERVICE = '/redfish/v1/UpdateService'
START = f'{SERVICE}/Actions/UpdateService.StartUpdate'
EROT = Ref(bmc=BmcName('host'), uri=f'{SERVICE}/FirmwareInventory/HGX_FW_ERoT_GPU_0')
NEW = '2.0.0'
HERE = ImageServer(host='127.0.0.1', listen='127.0.0.1')
WAYS = {
    'multipart-push': Options(),
    'http-push': Options(push=False, plain_push=True, plain_lock=True),
    'pull': Options(push=False),
}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start_update, 'BEAT', 0.05)


@pytest.fixture
def server(emulated_machine: Callable[..., Any]) -> Callable[..., Any]:
    """A GPU server with a habit, whose BMC takes images in one way."""
    return lambda habit, way='multipart-push', **more: emulated_machine(
        'gpu-server', options={'*': WAYS[way]}, habits=(habit,), **({'flash_seconds': 0.3} | more)
    )


def image() -> Upload:
    """Firmware of a root of trust."""
    return upload(build_image(model='h100', component='erot', version=NEW, size_bytes=100_000))


def starts(machine: Any) -> int:
    """How often StartUpdate has arrived."""
    return sum(entry['path'] == START for entry in machine.log())


def runs(machine: Any) -> str:
    """The version that the root of trust runs."""
    return str(machine.truth()['components']['host/HGX_FW_ERoT_GPU_0']['active']['version'])


@pytest.mark.parametrize(
    ('habit', 'way', 'asked'),
    [
        ('update-waits-for-start', 'multipart-push', 'OnStartUpdateRequest'),
        ('update-waits-for-start', 'http-push', 'OnStartUpdateRequest'),
        ('update-waits-for-start', 'pull', 'OnStartUpdateRequest'),
        ('update-starts-anew', 'multipart-push', 'OnStartUpdateRequest'),
        ('update-waits-unasked', 'multipart-push', 'Immediate'),
    ],
)
def test_an_update_is_started_once_and_ends(server: Callable[..., Any], habit: str, way: str, asked: str) -> None:
    """Nothing is written before; one such update at a time where all are started together."""
    machine = server(habit, way)
    facts = look(machine, images=HERE, parallel_updates=2).facts.update
    assert facts is not None
    assert facts.sending is not None
    assert (way, asked, asked == 'OnStartUpdateRequest') == (facts.sending.way, facts.sending.apply_time, facts.parallel == 1)
    with connect(machine, images=HERE) as connection:
        progress = connection.push(EROT, image())
        assert isinstance(progress, UploadProgress)
        assert (0, False) == (starts(machine), progress.whole)
        task = connection.go_on(EROT, image(), progress)
        assert not task.awaits_restart, 'what was started waits for no restart'
        assert TaskState.SUCCEEDED is until_ended(connection, task).state
    assert (1, NEW) == (starts(machine), runs(machine))


def test_an_answer_that_is_lost_is_followed_by_a_look_and_not_by_another_start(server: Callable[..., Any]) -> None:
    """The next turn, of which nobody knows whether the one before arrived, sends nothing, and finds the task."""
    machine = server('update-waits-for-start', tls=False)
    with connect(machine) as connection:
        progress = connection.push(EROT, image())
        machine.fault('refuse', uri=START, after=True)
        with pytest.raises(BmcUnreachable) as caught:
            connection.go_on(EROT, image(), progress)
        assert caught.value.sent
        machine.clear_faults()
        task = connection.go_on(EROT, image(), UploadProgress(task=progress.task))
        assert TaskState.SUCCEEDED is until_ended(connection, task).state
    assert (1, NEW) == (starts(machine), runs(machine))


def test_a_busy_bmc_has_started_nothing_and_is_asked_again(server: Callable[..., Any]) -> None:
    """503 is a refusal of the request, and the turn is the same one."""
    machine = server('update-waits-for-start')
    with connect(machine) as connection:
        progress = connection.push(EROT, image())
        machine.fault('http-status', uri=START, status=503, retry_after=1)
        with pytest.raises(BmcBusy):
            connection.go_on(EROT, image(), progress)
        machine.clear_faults()
        assert TaskState.SUCCEEDED is until_ended(connection, connection.go_on(EROT, image(), progress)).state


def test_nothing_is_started_beside_what_somebody_else_lets_wait(server: Callable[..., Any]) -> None:
    """The action starts everything: an image of somebody else would be written by us."""
    machine = server('update-waits-for-start')
    other = Ref(bmc=BmcName('host'), uri=EROT.uri.replace('GPU_0', 'GPU_1'))
    with connect(machine) as connection, connect(machine) as theirs:
        progress = connection.push(EROT, image())
        waits = theirs.push(other, image())
        with pytest.raises(BmcBusy, match='would also start the update of another client'):
            connection.go_on(EROT, image(), progress)
        assert 0 == starts(machine)
        theirs.cancel(waits.task)
        found = connection.go_on(EROT, image(), progress)
        assert isinstance(found, TaskReading)
        assert TaskState.SUCCEEDED is until_ended(connection, found).state
