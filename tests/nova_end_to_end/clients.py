# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Clients of a cloud over HTTP: the operator, and a tenant who has servers of Nova. Nothing of the product's own code."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import requests

from tests.journey.api import POLL_SECONDS, Http, Json, Node, Services
from tests.nova_end_to_end.image_and_network import IMAGE

SECONDS = 180.0
ZEROES = {'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}


def log_in(keystone: str, user: str, password: str, scope: Mapping[str, Any]) -> str:
    """A token."""
    who = {'name': user, 'password': password, 'domain': {'name': 'Default'}}
    body = {'auth': {'identity': {'methods': ['password'], 'password': {'user': who}}, 'scope': scope}}
    answer = requests.post(f'{keystone}/auth/tokens', json=body, timeout=60)
    answer.raise_for_status()
    return answer.headers['X-Subject-Token']


def project(name: str) -> dict[str, Any]:
    """A scope."""
    return {'project': {'name': name, 'domain': {'name': 'Default'}}}


SYSTEM: dict[str, Any] = {'system': {'all': True}}


@dataclass(slots=True, kw_only=True)
class Site:
    """A cloud that runs.

    :ivar services: Ironic and placement, as the journeys know them. The operator asks Ironic, and Ironic's user placement.
    :ivar operator: Nova's API as its administrator uses it; ``tenant``: as a member of the project tenant does.
    :ivar where: what the program of the cloud has printed.
    :ivar servers: that were not deleted yet.
    """

    services: Services
    operator: Http
    tenant: Http
    where: Json
    servers: 'list[Server]' = field(default_factory=list, init=False)

    @classmethod
    def of(cls, line: Json, folder: Path) -> 'Site':
        """Log in."""
        passwords = line['passwords']
        tokens = {
            'ironic': log_in(line['keystone'], 'admin', passwords['admin'], SYSTEM),
            'placement': log_in(line['keystone'], 'ironic', passwords['ironic'], project('service')),
            'operator': log_in(line['keystone'], 'admin', passwords['admin'], project('admin')),
            'tenant': log_in(line['keystone'], 'tenant', passwords['tenant'], project('tenant')),
        }
        versions = {
            'ironic': {'X-OpenStack-Ironic-API-Version': 'latest'},
            'placement': {'OpenStack-API-Version': 'placement 1.39'},
            'operator': {'OpenStack-API-Version': 'compute latest'},
            'tenant': {'OpenStack-API-Version': 'compute latest'},
        }
        http = {
            name: Http(line[name if name in line else 'nova'], {'X-Auth-Token': tokens[name]} | versions[name])
            for name in tokens
        }
        services = Services(
            ironic=http['ironic'], placement=http['placement'], logs=line['logs'], pids=line['pids'], folder=folder
        )
        return cls(services=services, operator=http['operator'], tenant=http['tenant'], where=line)

    def flavor(self, resource_class: str, **groups: str) -> str:
        """Make a flavor of the machines of a class.

        :param groups: what each request group asks for: ``A='CUSTOM_ACC_FN_GZIP'``, ``A='FPGA CUSTOM_X CUSTOM_Y'`` with traits.
        :returns: its id.
        """
        specs = {f'resources:CUSTOM_{resource_class.upper()}': '1', **ZEROES}
        for group, wanted in groups.items():
            name, *traits = wanted.split()
            specs |= {f'resources_{group}:{name}': '1'} | {f'trait_{group}:{trait}': 'required' for trait in traits}
            if any(trait.startswith('CUSTOM_ACC_CAN_') for trait in traits):
                specs['trait:CUSTOM_ACC_PROGRAM'] = 'required'
        if len(groups) > 1:
            specs['group_policy'] = 'isolate'
        body = {'name': f'{resource_class}-{uuid4()}', 'vcpus': 1, 'ram': 1024, 'disk': 10}
        made = str(self.operator.take('POST', '/flavors', {'flavor': body})['flavor']['id'])
        self.operator.take('POST', f'/flavors/{made}/os-extra_specs', {'extra_specs': specs})
        return made

    def boot(self, flavor: str) -> 'Server':
        """Let the tenant boot a server. Not waited for."""
        body = {'name': 'tenant', 'imageRef': IMAGE, 'flavorRef': flavor, 'networks': 'none'}
        server = Server(site=self, id=self.tenant.take('POST', '/servers', {'server': body})['server']['id'])
        self.servers.append(server)
        return server

    def until_schedulable(self, *nodes: Node, reserved: int = 0) -> None:
        """Wait until nova-compute has told placement that the machines can be had, with which traits, or that they cannot."""
        for node in nodes:
            until(lambda node=node: self._reserved(node) == [reserved], 60, f'that {node.name} is reserved {reserved}')
            until(lambda node=node: self._traits(node) <= self._root_traits(node), 60, f'that {node.name} has its traits')

    def remove(self, node: Node) -> None:
        """Delete a node, and wait until nova-compute has deleted its providers: they would be found by the next test."""
        node.settle()
        for _ in range(50):
            self.services.ironic.ask('PUT', f'{node.path}/maintenance', {'reason': 'the journey is over'})
            if self.services.ironic.ask('DELETE', node.path).status_code < 300:
                break
            time.sleep(POLL_SECONDS)
        until(lambda: self.services.placement.ask('GET', f'/resource_providers/{node.uuid}').status_code == 404, 90, 'no root')

    def _traits(self, node: Node) -> set[str]:
        return set(self.services.ironic.take('GET', f'{node.path}/traits')['traits'])

    def _root_traits(self, node: Node) -> set[str]:
        return set(self.services.placement.take('GET', f'/resource_providers/{node.uuid}/traits')['traits'])

    def _reserved(self, node: Node) -> list[int]:
        answer = self.services.placement.ask('GET', f'/resource_providers/{node.uuid}/inventories')
        return [unit['reserved'] for unit in answer.json().get('inventories', {}).values()]


@dataclass(slots=True, kw_only=True)
class Server:
    """A server of the tenant."""

    site: Site
    id: str

    def show(self) -> Json:
        """As the operator sees it: with its host, and the fault in full."""
        found: Json = self.site.operator.take('GET', f'/servers/{self.id}')['server']
        return found

    def settle(self, status: str, *, seconds: float = SECONDS) -> Json:
        """The server once Nova has nothing to do for it. It must have this status.

        What the tenant reads is compared, not what an administrator would read.
        """
        end = time.monotonic() + seconds
        while True:
            found: Json = self.site.tenant.take('GET', f'/servers/{self.id}')['server']
            if found['OS-EXT-STS:task_state'] is None and found['status'] != 'BUILD':
                assert status == found['status'], self.show().get('fault', found)
                return found
            assert time.monotonic() < end, f'still {found["status"]}, {found["OS-EXT-STS:task_state"]} after {seconds} s'
            time.sleep(POLL_SECONDS)

    def act(
        self, action: str, body: object = None, *, version: str | None = None, who: Http | None = None
    ) -> requests.Response:
        """Ask for an action of the server; any answer."""
        asked = who or self.site.tenant
        headers = {'OpenStack-API-Version': f'compute {version}'} if version is not None else {}
        return asked.ask('POST', f'/servers/{self.id}/action', {action: body}, headers)

    def does(self, action: str, body: object = None) -> None:
        """An action that is accepted."""
        answer = self.act(action, body)
        assert answer.status_code < 300, f'{action}: {answer.status_code} {answer.text}'

    def claims(self) -> dict[str, dict[str, int]]:
        """What it holds in placement: provider to resources."""
        found = self.site.services.placement.take('GET', f'/allocations/{self.id}')['allocations']
        return {uuid: one['resources'] for uuid, one in found.items()}

    def delete(self) -> None:
        """Delete it, and wait until Nova has forgotten it."""
        self.site.tenant.take('DELETE', f'/servers/{self.id}')
        until(lambda: self.site.tenant.ask('GET', f'/servers/{self.id}').status_code == 404, SECONDS, 'that the server is gone')
        assert {} == self.claims()
        self.site.servers.remove(self)


def until(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """What the condition is once it holds."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f'{what}: not within {seconds} s'
        time.sleep(POLL_SECONDS)
    return found


def classes(claims: Iterable[Mapping[str, int]]) -> list[str]:
    """The classes of claims, sorted, one for each unit."""
    return sorted(name for one in claims for name, units in one.items() for _ in range(units))
