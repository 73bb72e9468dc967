# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image is sent as the plan says, by the same inspection and without one request more."""

import contextlib
import io
import json
from typing import Any

import pytest

from baremetal_acc.bmc.driver import ImageServer, Upload
from baremetal_acc.errors import BmcError, BmcUnsupported
from baremetal_acc.model.inventory import Sending, UploadWay
from baremetal_acc.model.ref import HOST, Ref

SERVICE = '/redfish/v1/UpdateService'
PUSH = f'{SERVICE}/update-multipart'
PULL = f'{SERVICE}/Actions/UpdateService.SimpleUpdate'
SUPPORT = '@Redfish.OperationApplyTimeSupport'
TARGET = Ref(bmc=HOST, uri=f'{SERVICE}/FirmwareInventory/HGX_FW_GPU_0')
HERE = ImageServer(host='127.0.0.1', listen='127.0.0.1')
ON_RESET = {'SupportedValues': ['OnReset', 'AtMaintenanceWindowStart']}
WINDOW = {'SupportedValues': ['AtMaintenanceWindowStart']}


def pulls(**more: Any) -> dict[str, Any]:
    return {'Actions': {'#UpdateService.SimpleUpdate': {'target': PULL, **more}}}


PUSHED = Sending(way=UploadWay.MULTIPART_PUSH, apply_time='Immediate')

WAYS = (
    ({'MultipartHttpPushUri': PUSH}, PUSHED),
    ({'MultipartHttpPushUri': PUSH, **pulls()}, PUSHED),
    (
        {'MultipartHttpPushUri': PUSH, f'MultipartHttpPushUri{SUPPORT}': ON_RESET},
        Sending(way=UploadWay.MULTIPART_PUSH, apply_time='OnReset'),
    ),
    (pulls(), Sending(way=UploadWay.PULL, apply_time=None)),
    (pulls(**{SUPPORT: ON_RESET}), Sending(way=UploadWay.PULL, apply_time='OnReset')),
    (pulls(**{SUPPORT: {}}), Sending(way=UploadWay.PULL, apply_time='Immediate')),
)


def offers(bmc: Any, service: dict[str, Any]) -> None:
    bmc.tree['/redfish/v1']['UpdateService'] = {'@odata.id': SERVICE}
    bmc.put(SERVICE, **{'ServiceEnabled': True, **service})


def upload() -> Upload:
    return Upload(file='gpu.bin', size_bytes=4, open=lambda: io.BytesIO(b'data'))


@pytest.mark.parametrize(('service', 'told'), WAYS)
def test_what_is_told_is_what_is_sent(bmc: Any, service: dict[str, Any], told: Sending) -> None:
    """The way and the time of the look are those of the request that follows."""
    offers(bmc, service)
    assert told == bmc.look(images=HERE).facts.update.sending

    got: list[dict[str, Any]] = []

    def answer(request: Any, context: Any) -> str:
        if request.path.endswith('multipart'):
            text = request.body
            got.append(json.loads(text[text.index(b'{"Targets"') :].split(b'\r\n')[0]))
        else:
            got.append(request.json())
        context.status_code = 400
        return '{}'

    bmc.replies['POST', PUSH] = bmc.replies['POST', PULL] = answer
    with bmc.connect(images=HERE) as connection, contextlib.suppress(BmcError):
        connection.push(TARGET, upload())
    assert [told.way is UploadWay.PULL] == ['ImageURI' in body for body in got]
    assert [told.apply_time] == [body.get('@Redfish.OperationApplyTime') for body in got]


@pytest.mark.parametrize(
    ('service', 'obstacle'),
    [
        ({'MultipartHttpPushUri': PUSH, f'MultipartHttpPushUri{SUPPORT}': WINDOW}, 'only at AtMaintenanceWindowStart'),
        (pulls(**{SUPPORT: WINDOW}), 'only at AtMaintenanceWindowStart'),
        (
            pulls(**{'TransferProtocol@Redfish.AllowableValues': ['SCP', 'HTTPS']}),
            'over SCP, HTTPS, but they are served over HTTP',
        ),
    ],
)
def test_what_would_be_refused_is_told(bmc: Any, service: dict[str, Any], obstacle: str) -> None:
    """With the reason that the sending would give."""
    offers(bmc, service)
    told = bmc.look(images=HERE).facts.update.sending
    assert told is not None
    assert obstacle in (told.obstacle or '')
    with bmc.connect(images=HERE) as connection, pytest.raises(BmcUnsupported, match=obstacle):
        connection.push(TARGET, upload())
    assert 0 == bmc.count('POST')


@pytest.mark.parametrize(
    ('service', 'images'),
    [
        ({}, HERE),
        (pulls(), None),
        ({'MultipartHttpPushUri': PUSH, 'ServiceEnabled': False}, HERE),
        ({'MultipartHttpPushUri': {'odd': 1}}, HERE),
        ({'Actions': ['odd']}, HERE),
    ],
)
def test_nothing_is_told_of_a_bmc_that_is_sent_nothing(bmc: Any, service: dict[str, Any], images: Any) -> None:
    """It takes none, nobody serves it, it is switched off, or what it says is no UpdateService."""
    offers(bmc, service)
    assert bmc.look(images=images).facts.update.sending is None


def test_nothing_is_told_of_a_bmc_without_update_service(bmc: Any) -> None:
    """The root has no link, and nothing was read where it might be."""
    assert bmc.look(images=HERE).facts.update is None
