# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Images that are pushed by HttpPushUri over real HTTP go where they are meant to, and the settings of the BMC are restored."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import requests

from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.bmc.redfish import http_push
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.emulator.tray_package import tray_package
from baremetal_acc.errors import BmcBusy, BmcError, BmcRefused
from baremetal_acc.model.inventory import Sending, TaskState, UploadWay
from baremetal_acc.model.ref import BmcName, Ref

from .test_client import GPU_ITEM, connect, look, until_ended, upload

SERVICE = '/redfish/v1/UpdateService'
ITEMS = f'{SERVICE}/FirmwareInventory'
HGX = f'{ITEMS}/HGX_0'
PUSH = f'{SERVICE}/update'
OLD, NEW = '97.00.82.00.18', '97.00.82.00.20'
GPU = Ref(bmc=BmcName('host'), uri=GPU_ITEM)
TRAY = Ref(bmc=BmcName('host'), uri=f'{ITEMS}/HGX_FW_GPU_0')
PLAIN = Options(push=False, plain_push=True, plain_lock=True)
SETTINGS = ('HttpPushUriTargets', 'HttpPushUriOptions', 'HttpPushUriTargetsBusy', 'HttpPushUriOptionsBusy')


@pytest.fixture
def server(emulated_machine: Callable[..., Any]) -> Callable[..., Any]:
    """A GPU server whose BMC takes images by HttpPushUri."""
    return lambda **more: emulated_machine('gpu-server', options={'*': PLAIN}, flash_seconds=0.2, **more)


@pytest.fixture
def tray(emulated_machine: Callable[..., Any]) -> Callable[..., Any]:
    """A tray whose BMC takes packages by HttpPushUri."""
    return lambda **more: emulated_machine(
        'hgx-tray', **({'options': {'*': PLAIN}, 'gpus': 2, 'flash_seconds': 0.2, 'reset_seconds': 0.05} | more)
    )


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_push, 'BEAT', 0.05)
    monkeypatch.setattr(http_push, 'SETTLES', 1.0)


class Other:
    """A client that is not ours."""

    def __init__(self, machine: Any) -> None:
        bmc = machine.bmcs['host']
        self.where = bmc.address + SERVICE
        self.how: dict[str, Any] = {'auth': (bmc.username, bmc.password), 'verify': bmc.verify_ca, 'timeout': 10}

    def settings(self) -> dict[str, Any]:
        """The settings for pushed images, as anybody sees them."""
        with requests.Session() as session:
            session.trust_env = False
            shown = session.get(self.where, **self.how).json()
        return {name: shown[name] for name in SETTINGS if name in shown}

    def patch(self, **body: Any) -> None:
        """Change some of them."""
        with requests.Session() as session:
            session.trust_env = False
            assert 204 == session.patch(self.where, json=body, **self.how).status_code


def gpu_image(version: str = '96.00.99.00.01') -> Upload:
    """Firmware of a GPU."""
    return upload(build_image(model='h100', component='gpu', version=version, size_bytes=300_000))


def pushed(machine: Any, target: Ref, what: Upload) -> Any:
    """How the task of an upload ended."""
    with connect(machine) as connection:
        return until_ended(connection, connection.push(target, what))


def writes(machine: Any) -> list[tuple[str, Any]]:
    """What was written to the update service, in order: the settings that were set, and uploads."""
    mine = [e for e in machine.log() if e['path'].startswith(SERVICE) and e['method'] in ('PATCH', 'POST')]
    return [(e['method'], e['body'] if e['method'] == 'PATCH' else e['received_bytes']) for e in mine]


def test_an_image_goes_to_the_component_that_was_set_and_the_settings_are_as_before(server: Callable[..., Any]) -> None:
    """Reserved, set, sent, restored: in that order, each once; the other GPU gets nothing."""
    machine = server()
    other = Other(machine)
    other.patch(HttpPushUriTargets=['/redfish/v1/else'], HttpPushUriOptions={'HttpPushUriApplyTime': {'ApplyTime': 'OnReset'}})
    before = other.settings()
    assert Sending(way=UploadWay.HTTP_PUSH, apply_time='Immediate') == _sending(machine)
    machine.reset_log()
    assert TaskState.SUCCEEDED is pushed(machine, GPU, gpu_image()).state
    assert before == other.settings()
    staged = {key: one['staged'] for key, one in machine.truth()['components'].items() if one['staged']}
    assert {'host/HGX_FW_GPU_0': '96.00.99.00.01'} == {key: one['version'] for key, one in staged.items()}
    busy = {'HttpPushUriTargetsBusy': True, 'HttpPushUriOptionsBusy': True}
    restored = {
        'HttpPushUriTargets': ['/redfish/v1/else'],
        'HttpPushUriOptions': {'HttpPushUriApplyTime': {'ApplyTime': 'OnReset'}},
    }
    assert [
        ('PATCH', busy),
        (
            'PATCH',
            {'HttpPushUriTargets': [GPU_ITEM], 'HttpPushUriOptions': {'HttpPushUriApplyTime': {'ApplyTime': 'Immediate'}}},
        ),
        ('POST', gpu_image().size_bytes),
        ('PATCH', restored | dict.fromkeys(busy, False)),
    ] == writes(machine)


def _sending(machine: Any, **more: Any) -> Sending | None:
    facts = look(machine, **more).facts.update
    assert facts is not None
    return facts.sending


@pytest.mark.parametrize('forced', [True, False])
def test_an_upload_is_forced_exactly_where_it_is_to_be(tray: Callable[..., Any], forced: bool) -> None:
    """What somebody else has left there forces nothing of ours, and is theirs again afterwards."""
    machine = tray()
    other = Other(machine)
    other.patch(HttpPushUriOptions={'ForceUpdate': not forced})
    package = replace(upload(tray_package('hgx-tray', {'HGX_FW_GPU_*': OLD})), targets=(HGX,), forced=forced)
    assert TaskState.SUCCEEDED is pushed(machine, TRAY, package).state
    assert (2 if forced else 0) == len(machine.history('written'))
    assert forced is not other.settings()['HttpPushUriOptions']['ForceUpdate']


@pytest.mark.parametrize('more', [{'targets': ()}, {'untargeted': True}])
def test_an_upload_for_no_target_is_not_sent_to_those_that_somebody_else_has_left(
    tray: Callable[..., Any], more: dict[str, Any]
) -> None:
    """The list is emptied for it: it is for the BMC and the UEFI of the server."""
    machine = tray()
    other = Other(machine)
    other.patch(HttpPushUriTargets=[HGX])
    package = replace(upload(tray_package('hgx-tray', {'FW_BMC_0': '1.05', 'HGX_FW_GPU_*': NEW})), **more)
    assert TaskState.SUCCEEDED is pushed(machine, TRAY, package).state
    assert ['host/FW_BMC_0'] == [one['component'] for one in machine.history('written')]
    assert [HGX] == other.settings()['HttpPushUriTargets']


@pytest.mark.parametrize('flag', ['HttpPushUriTargetsBusy', 'HttpPushUriOptionsBusy'])
def test_what_another_client_has_reserved_is_left_alone(server: Callable[..., Any], flag: str) -> None:
    """Nothing is changed and nothing sent; the reason says what to do."""
    machine = server()
    other = Other(machine)
    other.patch(**{flag: True}, HttpPushUriOptions={'HttpPushUriApplyTime': {'ApplyTime': 'OnReset'}})
    before = other.settings()
    machine.reset_log()
    with connect(machine) as connection, pytest.raises(BmcBusy, match=f'{flag} is true'):
        connection.push(GPU, gpu_image())
    assert (before, []) == (other.settings(), writes(machine))


@pytest.mark.parametrize(
    ('fault', 'error'),
    [
        ({'name': 'upload-cut'}, BmcError),
        ({'name': 'refuse', 'uri': PUSH, 'after': True}, BmcError),
        ({'name': 'http-status', 'uri': PUSH, 'status': 500}, BmcRefused),
        ({'name': 'update-503'}, BmcBusy),
        ({'name': 'target-refused'}, BmcRefused),
    ],
)
def test_the_settings_are_restored_whatever_became_of_the_upload(
    server: Callable[..., Any], fault: dict[str, Any], error: type[BmcError]
) -> None:
    """Cut, not answered, refused, busy."""
    machine = server(tls=False)
    other = Other(machine)
    before = other.settings()
    machine.fault(**fault)
    with connect(machine) as connection, pytest.raises(error):
        connection.push(GPU, gpu_image())
    machine.clear_faults()
    assert before == other.settings()


def test_a_bmc_that_takes_settings_and_does_not_keep_them_gets_no_image(server: Callable[..., Any]) -> None:
    """It would go to everything that it fits: what was set is read back before a byte is sent."""
    machine = server()
    machine.fault('patch-later', seconds=3600.0, said=False)
    with connect(machine) as connection, pytest.raises(BmcRefused, match='no image was sent'):
        connection.push(GPU, gpu_image())
    assert [] == [what for what, _ in writes(machine) if what == 'POST']


@pytest.mark.parametrize('habit', ['patch-later', 'patch-shown-later', 'needs-if-match', 'weak-etags', 'trailing-slash'])
def test_bmcs_whose_settings_are_set_in_other_ways_are_pushed_to(
    server: Callable[..., Any], habit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that carry a change out later are waited for."""
    monkeypatch.setattr(http_push, 'SETTLES', 10.0)
    monkeypatch.setattr(http_push, 'BEAT', 0.3)
    machine = server(habits=(habit,))
    other = Other(machine)
    before = other.settings()
    assert TaskState.SUCCEEDED is pushed(machine, GPU, gpu_image()).state
    assert before == _later(other, before)


def _later(other: Other, wanted: dict[str, Any]) -> dict[str, Any]:
    """The settings, which may be changed later than the answer says."""
    until = time.monotonic() + 10
    while (found := other.settings()) != wanted and time.monotonic() < until:
        time.sleep(0.2)
    return found


def test_a_push_whose_targets_can_be_named_comes_before_a_fetch(server: Callable[..., Any]) -> None:
    """And a multipart push before both."""
    here = ImageServer(host='127.0.0.1', listen='127.0.0.1')
    machine = server()
    found = _sending(machine, images=here)
    assert UploadWay.HTTP_PUSH is (found.way if found else None)
    assert TaskState.SUCCEEDED is pushed(machine, GPU, gpu_image()).state
    assert [] == machine.truth()['fetches']


def test_an_image_that_changed_meanwhile_is_not_taken_for_whole(server: Callable[..., Any]) -> None:
    """Its last bytes never come; the settings are restored."""
    machine = server(tls=False)
    other = Other(machine)
    before = other.settings()
    whole = gpu_image()
    with connect(machine) as connection, pytest.raises(Exception, match='more bytes than when it was checked'):
        connection.push(GPU, replace(whole, size_bytes=whole.size_bytes - 1))
    assert (before, []) == (other.settings(), machine.history('upload'))
