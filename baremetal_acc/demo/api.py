# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""HTTP clients of Ironic, placement and the emulated machine for the demo."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

SECONDS = 60
"""Timeout of a request in seconds: Ironic's API and its conductor share one busy process."""

POLL_SECONDS = 0.4

Json = dict[str, Any]


class ServiceRefused(Exception):
    """A service answered with an HTTP error.

    :ivar status: the HTTP status.
    :ivar said: the message: of Ironic its ``faultstring``, else the body of the answer.
    """

    def __init__(self, method: str, url: str, status: int, text: str) -> None:
        self.status = status
        self.said = _fault_of(text)
        super().__init__(f'{method} {url}: {status} {text[:600]}')


def _fault_of(text: str) -> str:
    """The message of an error of Ironic, which is JSON within JSON; any other text unchanged."""
    try:
        return str(json.loads(json.loads(text)['error_message'])['faultstring'])
    except (ValueError, KeyError, TypeError):
        return text


class StateNotReached(Exception):
    """A node did not reach the expected provision state: it failed, or the time was over.

    :ivar node: the node as it was read last.
    """

    def __init__(self, wanted: str, node: Mapping[str, Any]) -> None:
        self.node = node
        super().__init__(
            f'node: expected provision state {wanted}, found {node["provision_state"]}; last_error: {node["last_error"]}'
        )


class Http:
    """An HTTP client of one service.

    :param base: URL of the service.
    :param headers: headers that are sent with every request.
    """

    def __init__(self, base: str, headers: Mapping[str, str] | None = None) -> None:
        self.base = base
        self._session = requests.Session()
        self._session.trust_env = False  # loopback: neither a proxy nor a .netrc applies
        self._session.headers.update(headers or {})

    def ask(self, method: str, path: str, body: object = None, *, data: bytes | None = None, ok: Sequence[int] = ()) -> Any:
        """Send a request, and return the JSON of the answer, None when the answer is empty.

        :param ok: statuses from 400 on that are not errors.
        :raises ServiceRefused: the answer is an error.
        """
        url = f'{self.base}{path}'
        answer = self._session.request(method, url, json=body, data=data, timeout=SECONDS)
        if answer.status_code >= 400 and answer.status_code not in ok:
            raise ServiceRefused(method, url, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def get(self, path: str) -> Any:
        """Send a GET request, and return the JSON of the answer."""
        return self.ask('GET', path)


class DemoIronic(Http):
    """A client of Ironic's API.

    :param project: send the headers of an admin of this project, as keystonemiddleware would set them; None: no such headers.
        This Ironic has no Keystone (``auth_strategy = noauth``), and trusts the headers.
    """

    WAITED = 'provision_state,last_error,reservation,power_state,maintenance'

    def __init__(self, base: str, *, project: str | None = None) -> None:
        who = {'X-User-Id': f'{project}-admin', 'X-Project-Id': project, 'X-Roles': 'admin'} if project is not None else {}
        super().__init__(base, {'X-OpenStack-Ironic-API-Version': 'latest', **who})

    def of(self, project: str) -> 'DemoIronic':
        """A client of the same API for an admin of a project."""
        return DemoIronic(self.base, project=project)

    def put(self, path: str, body: object, *, tries: int = 40) -> None:
        """Send a PUT request, and repeat it while the node is reserved or Ironic is busy (409, 503).

        :raises ServiceRefused: the answer is another error, or still the same after all tries.
        """
        for remaining in reversed(range(tries)):
            try:
                self.ask('PUT', path, body)
            except ServiceRefused as exc:
                if exc.status not in (409, 503) or not remaining:
                    raise
                time.sleep(POLL_SECONDS)
            else:
                return

    def provision(self, node: str, target: str, **more: Any) -> None:
        """Request a change of the provision state."""
        self.put(f'/v1/nodes/{node}/states/provision', {'target': target, **more})

    def wait(
        self,
        node: str,
        wanted: str,
        *,
        seconds: float = 120,
        meanwhile: Callable[[], None] = lambda: None,
        settled: bool = True,
    ) -> Json:
        """Poll until the node is in a provision state and not reserved.

        :param meanwhile: called between two polls.
        :param settled: a failed state, such as ``clean failed``, ends the wait.
        :raises StateNotReached: the node is in a failed state, or the time is over.
        """
        end = time.monotonic() + seconds
        while True:
            found: Json = self.get(f'/v1/nodes/{node}?fields={self.WAITED}')
            state = found['provision_state']
            if found['reservation'] is None:
                if state == wanted:
                    return found
                if settled and (state.endswith(' failed') or state == 'error'):
                    raise StateNotReached(wanted, found)
            if time.monotonic() > end:
                raise StateNotReached(wanted, found)
            meanwhile()
            time.sleep(POLL_SECONDS)


class Placement(Http):
    """A client of placement's API."""

    def __init__(self, base: str) -> None:
        super().__init__(base, {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.39'})

    def create_root(self, node: str, resource_class: str) -> None:
        """Create a node's root provider as nova-compute does: uuid and name are the node's UUID, with one unit of its class."""
        self.ask('PUT', f'/resource_classes/{resource_class}')
        self.ask('POST', '/resource_providers', {'uuid': node, 'name': node})
        unit = {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1, 'allocation_ratio': 1.0}
        inventories = {'resource_provider_generation': 0, 'inventories': {resource_class: unit}}
        self.ask('PUT', f'/resource_providers/{node}/inventories', inventories)

    def tree(self, node: str) -> list[Json]:
        """The providers of a node, parents before children, with ``depth``, ``inventories`` and ``traits``."""
        found = {p['uuid']: p for p in self.get(f'/resource_providers?in_tree={node}')['resource_providers']}
        for uuid, provider in found.items():
            provider['inventories'] = self.get(f'/resource_providers/{uuid}/inventories')['inventories']
            provider['traits'] = sorted(self.get(f'/resource_providers/{uuid}/traits')['traits'])
        ordered: list[Json] = []

        def add(uuid: str, depth: int) -> None:
            ordered.append(found[uuid] | {'depth': depth})
            children = [p for p in found.values() if p['parent_provider_uuid'] == uuid]
            for child in sorted(children, key=lambda p: (list(p['traits']), list(p['inventories']), p['name'])):
                add(child['uuid'], depth + 1)

        add(node, 0)
        return ordered

    def candidates(self, query: str) -> Json:
        """The answer to GET /allocation_candidates."""
        answer: Json = self.get(f'/allocation_candidates?{query}')
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoBmc:
    """Address and credentials of one emulated BMC."""

    address: str
    username: str
    password: str
    verify_ca: str
    system: str


class DemoMachine:
    """A client of the emulated machine: the addresses of its BMCs, its host agent API (``door``), and its control API.

    :param ready: the file with the addresses that the emulator wrote.
    """

    def __init__(self, ready: Path) -> None:
        document = json.loads(ready.read_text())
        self.bmcs = {name: DemoBmc(**fields) for name, fields in document['bmcs'].items()}
        self._door = Http(document['door'])
        self._control = Http(document['control'])

    def truth(self) -> Json:
        """The true state of the machine, whatever its BMCs report."""
        found: Json = self._control.get('/truth')
        return found

    def log(self) -> list[Json]:
        """Every writing request that reached a BMC or the host agent API, in order."""
        entries: list[Json] = self._control.get('/log')['entries']
        return entries

    def fault(self, name: str, **rule: Any) -> None:
        """Add a fault rule."""
        self._control.ask('POST', '/faults', {'name': name, **rule})

    def faults(self) -> list[Json]:
        """The active fault rules, with how often each has applied."""
        rules: list[Json] = self._control.get('/faults')['faults']
        return rules

    def clear_faults(self) -> None:
        """Remove all fault rules."""
        self._control.ask('DELETE', '/faults')

    def press(self, reset_type: str) -> None:
        """Press the host's power button."""
        self._control.ask('POST', '/power', {'system': 'host', 'reset_type': reset_type})

    def devices(self) -> Json:
        """The cards that root sees on the host."""
        found: Json = self._door.get('/devices')['devices']
        return found

    def write_firmware(self, device: str, image: bytes, *, path: str) -> Json:
        """Let root on the host write firmware to a device in band."""
        return self._in_band(f'/firmware?device={device}&path={path}', image)

    def program(self, device: str, slot: int, image: bytes) -> Json:
        """Let root on the host program a slot in band."""
        return self._in_band(f'/program?device={device}&slot={slot}', image)

    def _in_band(self, path: str, image: bytes) -> Json:
        answer: Json = self._door.ask('POST', path, data=image, ok=(403,))
        return answer
