# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Fixtures that access the emulator as any client would: HTTPS with requests, verified by the CA that it hands out."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from baremetal_acc.emulator.image import build_image

SECONDS = 20


class Client:
    """A client of one BMC; ``base`` is its address."""

    def __init__(self, bmc: Any, user: str | None = None, password: str | None = None) -> None:
        self.base = bmc.address
        self.http = requests.Session()
        # The environment may name a CA bundle, and requests would take that one instead of ours.
        self.http.trust_env = False
        self.http.verify = bmc.verify_ca
        self.http.auth = (user or bmc.username, password or bmc.password)

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        return self.http.request(method, self.base + path, timeout=SECONDS, **more)

    def get(self, path: str, **more: Any) -> Any:
        answer = self.call('GET', path, **more)
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        return answer.json()

    def patch(self, path: str, document: Any, **more: Any) -> requests.Response:
        return self.call('PATCH', path, json=document, **more)

    def post(self, path: str, document: Any, **more: Any) -> requests.Response:
        return self.call('POST', path, json=document, **more)

    def push(self, target: str | None, image: bytes, parameters: Any = None, **more: Any) -> requests.Response:
        given = {'Targets': [target], '@Redfish.OperationApplyTime': 'Immediate'} if parameters is None else parameters
        files = {
            'UpdateParameters': (None, json.dumps(given), 'application/json'),
            'UpdateFile': ('image.bin', image, 'application/octet-stream'),
        }
        uri = self.get('/redfish/v1/UpdateService')['MultipartHttpPushUri']
        return self.call('POST', uri, files=files, **more)

    def finished(self, answer: requests.Response) -> Any:
        assert answer.status_code == 202, answer.text
        return until(lambda: self._ended(answer.json()['@odata.id']))

    def _ended(self, uri: str) -> Any:
        task = self.get(uri)
        return task if task['TaskState'] in ('Completed', 'Exception') else None

    def reset(self, system: str, reset_type: str) -> None:
        answer = self.post(f'{system}/Actions/ComputerSystem.Reset', {'ResetType': reset_type})
        assert answer.status_code == 204, answer.text
        wanted = 'Off' if reset_type in ('ForceOff', 'GracefulShutdown') else 'On'

        def is_there() -> bool:
            shown = self.get(system)
            return shown['PowerState'] == wanted and (wanted == 'Off' or shown['BootProgress']['LastState'] == 'OSRunning')

        until(is_there)


def until(condition: Callable[[], Any], seconds: float = SECONDS) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.02)
    raise AssertionError('it did not happen in time')


@pytest.fixture
def fast(emulated_machine: Any) -> Iterator[Callable[..., Any]]:
    """Machines that flash and restart in an instant."""
    return lambda product, **more: emulated_machine(product, **({'flash_seconds': 0.1, 'reset_seconds': 0.05} | more))


@pytest.fixture
def client() -> type[Client]:
    """The client class: importlib mode lets tests import no helper module."""
    return Client


@pytest.fixture
def wait() -> Callable[..., Any]:
    """Wait until something is so."""
    return until


@pytest.fixture
def gpu_image() -> Callable[..., bytes]:
    """Firmware for the GPU, unless told otherwise."""
    return lambda version='2.0.0', model='h100', component='gpu', **more: build_image(
        model=model, component=component, version=version, **more
    )


@pytest.fixture
def function_image() -> Callable[..., bytes]:
    """A function for a slot of the FPGA."""
    return lambda version='1.0', function='aes': build_image(
        kind='function', model='d5005', component='slot', version=version, function=function, function_type='Encryption'
    )
