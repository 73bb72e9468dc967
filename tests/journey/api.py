# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A client of Ironic's and placement's HTTP APIs for the journeys, with nothing of the product's own code."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import requests

POLL_SECONDS = 0.2
SECONDS = 120.0

Json = dict[str, Any]


class Http:
    """One service."""

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        self.base = base
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(headers)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> requests.Response:
        """Any answer.

        :param headers: of this request only.
        """
        return self._session.request(method, f'{self.base}{path}', json=body, headers=headers, timeout=60)

    def take(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer that must be no error."""
        answer = self.ask(method, path, body)
        assert answer.status_code < 400, f'{method} {path}: {answer.status_code} {answer.text[:2000]}'
        return answer.json() if answer.content else None


@dataclass(slots=True)
class Services:
    """Real Ironic and real placement.

    :ivar folder: where baseline, catalogue and images lie.
    :ivar logs: by service.
    :ivar pids: leaders of the services' process groups.
    """

    ironic: Http
    placement: Http
    logs: Mapping[str, str]
    pids: Mapping[str, int]
    folder: Any = None

    @classmethod
    def of(cls, line: Json, folder: Any) -> 'Services':
        """From the line that ``python -m baremetal_acc.demo.services`` prints."""
        return cls(
            ironic=Http(line['ironic'], {'X-OpenStack-Ironic-API-Version': 'latest'}),
            placement=Http(line['placement'], {'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.39'}),
            logs=line['logs'],
            pids=line['pids'],
            folder=folder,
        )


@dataclass(slots=True)
class Node:
    """One node of Ironic, and the machine that it is.

    :ivar seen: provision states in the order in which they were seen.
    """

    services: Services
    uuid: str
    name: str
    machine: Any
    seen: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """Of the node in Ironic's API."""
        return f'/v1/nodes/{self.uuid}'

    def show(self) -> Json:
        """The node as Ironic shows it."""
        found: Json = self.services.ironic.take('GET', self.path)
        return found

    def patch(self, **values: object) -> None:
        """Set fields: ``redfish_password=...`` is a key of driver_info, ``properties__x`` is a key of properties."""
        changes = []
        for key, value in values.items():
            place, _, inner = key.rpartition('__')
            changes.append({'op': 'add', 'path': f'/{place}/{inner}' if place else f'/{inner}', 'value': value})
        self._patiently('PATCH', self.path, changes)

    def _patiently(self, method: str, path: str, body: object) -> None:
        for _ in range(150):
            answer = self.services.ironic.ask(method, path, body)
            if answer.status_code not in (409, 503):
                break
            time.sleep(POLL_SECONDS)
        assert answer.status_code < 400, f'{method} {path}: {answer.status_code} {answer.text[:2000]}'

    def provision(self, target: str, **more: object) -> None:
        """Ask for a change of the provision state."""
        self._patiently('PUT', f'{self.path}/states/provision', {'target': target, **more})

    def power(self, target: str) -> requests.Response:
        """Ask for power; any answer."""
        for _ in range(50):
            answer = self.services.ironic.ask('PUT', f'{self.path}/states/power', {'target': target})
            if answer.status_code != 409 or 'locked' not in answer.text:
                break
            time.sleep(POLL_SECONDS)
        return answer

    def settle(self, *, seconds: float = SECONDS, meanwhile: Callable[[Json], None] | None = None) -> Json:
        """The node once it is in a state in which it stays, and nobody holds it."""
        fields = 'provision_state,target_provision_state,last_error,reservation,power_state,maintenance,maintenance_reason'
        end = time.monotonic() + seconds
        while True:
            found: Json = self.services.ironic.take('GET', f'{self.path}?fields={fields}')
            state = found['provision_state']
            if not self.seen or self.seen[-1] != state:
                self.seen.append(state)
            moves = state.endswith('ing') or state in (
                'clean wait',
                'wait call-back',
                'service wait',
                'inspect wait',
                'deleted',
            )
            if not moves and found['reservation'] is None:
                return found
            assert time.monotonic() < end, f'still {state} after {seconds} s: {found}'
            if meanwhile is not None:
                meanwhile(found)
            time.sleep(POLL_SECONDS)

    def until(self, state: str, *, seconds: float = SECONDS) -> None:
        """Wait for a state in which it does not stay."""
        end = time.monotonic() + seconds
        while True:
            now = self.services.ironic.take('GET', f'{self.path}?fields=provision_state,last_error')
            if now['provision_state'] == state:
                return
            assert time.monotonic() < end, f'{state} not seen: {now}'
            time.sleep(POLL_SECONDS / 2)

    def to(self, target: str, expected: str, **more: object) -> Json:
        """Change the state and see that it comes to the expected one."""
        self.provision(target, **more)
        found = self.settle()
        assert expected == found['provision_state'], found['last_error']
        return found

    def clean(self, step: str, **arguments: object) -> Json:
        """Manual cleaning by one step of ours; the node once it has settled."""
        self.provision('clean', clean_steps=[{'interface': 'firmware', 'step': step, 'args': arguments}])
        return self.settle()

    def serve(self, step: str, **arguments: object) -> None:
        """Service by one step of ours; not waited for."""
        self.provision('service', service_steps=[{'interface': 'firmware', 'step': step, 'args': arguments}])

    def deploy(self, *, seconds: float = SECONDS, **more: object) -> Json:
        """Deploy; the node once it has settled."""
        self.provision('active', **more)
        return self.settle(seconds=seconds)

    def recover(self) -> None:
        """From clean failed to manageable, as an operator does it."""
        self.services.ironic.ask('DELETE', f'{self.path}/maintenance')
        self.to('manage', 'manageable')

    def history(self) -> list[str]:
        """What our steps have left in the node's history, oldest first."""
        rows = self.services.ironic.take('GET', f'{self.path}/history?detail=True')['history']
        return [row['event'] for row in rows if row['event_type'] == 'accelerator']

    def accelerators(self) -> list[Json]:
        """What Ironic's inspection store has."""
        data = self.services.ironic.take('GET', f'{self.path}/inventory')['plugin_data']
        found: list[Json] = data['baremetal_acc']['inventory']['accelerators']
        return found

    def firmware(self) -> dict[str, str]:
        """Ironic's firmware list: component to version."""
        rows = self.services.ironic.take('GET', f'{self.path}/firmware')['firmware']
        return {row['component']: row['current_version'] for row in rows}

    def offers(self) -> list[str]:
        """The classes that our providers offer below the node's root, sorted; once for each provider."""
        placement = self.services.placement
        found = []
        for provider in placement.take('GET', f'/resource_providers?in_tree={self.uuid}')['resource_providers']:
            if provider['uuid'] != self.uuid:
                found += placement.take('GET', f'/resource_providers/{provider["uuid"]}/inventories')['inventories']
        return sorted(found)

    def until_offers(self, *classes: str, seconds: float = SECONDS) -> None:
        """Wait until the node is available and offers these, and nothing more."""
        end = time.monotonic() + seconds
        while (found := (self.show()['provision_state'], self.offers())) != ('available', sorted(classes)):
            assert time.monotonic() < end, f'{classes} not seen: {found}'
            time.sleep(POLL_SECONDS)

    def may_be_claimed(self, resource_class: str) -> bool:
        """Somebody who asks for nothing but a class, and not for the machine, would be given one of this node's."""
        query = f'resources_A={resource_class}:1&in_tree_A={self.uuid}'
        return bool(self.services.placement.take('GET', f'/allocation_candidates?{query}')['allocation_requests'])

    # -- the machine's truth ------------------------------------------------------------------------------------------

    def versions(self) -> dict[str, str | None]:
        """What every component really runs."""
        components = self.machine.truth()['components']
        return {key: c['active']['version'] if c['active'] else None for key, c in components.items()}

    def open_ways(self) -> list[str]:
        """Ways from the host to a card that really are open."""
        return [f'{w["device"]} {w["component"]} {w["path"]}' for w in self.machine.truth()['ways'] if w['open']]

    def writes(self) -> list[Json]:
        """Requests that reached a BMC and write, without logging in and out, the tenant's door, and Ironic's own power-on."""
        return [e for e in self.machine.log() if e['bmc'] != 'door']

    def uploads(self) -> list[Json]:
        """Images that were sent to a BMC."""
        return [e for e in self.writes() if isinstance(e['body'], dict) and 'Targets' in e['body']]
