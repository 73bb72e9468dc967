# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A real Nova in one process: its compute manager, Ironic driver, resource tracker, report client and scheduler.

All code of Nova is Nova's own, and so are its databases (SQLite). Not here are its message queue and its API, nor Neutron,
Glance and Cinder: an instance has no network and no volume. One request in a line of JSON, one answer in a line::

    {"do": "cycle"}
    {"done": null, "failed": null, "logged": [["ERROR", "nova.compute.manager", "..."]], "sent": ["GET /traits?name=... 200"]}

A process, since Nova and Ironic register options of the same names in one place for all of a process.
"""

import json
import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = 'true'

CONF = """\
[DEFAULT]
host = compute
my_ip = 127.0.0.1
state_path = {state}
compute_driver = ironic.IronicDriver
transport_url = fake:/
[api_database]
connection = sqlite:///{state}/nova_api.sqlite
[compute]
provider_config_location = {state}/providers
resource_provider_association_refresh = {refresh}
[database]
connection = sqlite:///{state}/nova.sqlite
[ironic]
auth_type = none
endpoint_override = {ironic}
api_max_retries = 300
api_retry_interval = 1
[oslo_concurrency]
lock_path = {state}/lock
[placement]
auth_type = admin_token
endpoint = {placement}
endpoint_override = {placement}
token = admin
"""

CELL = '5d6f9b58-5d1c-4a57-9c2e-3a7d7a0c5c11'


class Log(logging.Handler):
    """Keeps warnings and errors."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.kept: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info:
            text += '\n' + logging.Formatter().formatException(record.exc_info)
        self.kept.append((record.levelname, record.name, text))

    def taken(self) -> list[tuple[str, str, str]]:
        """What was kept since the last time."""
        found, self.kept = self.kept, []
        return found


class Compute:
    """A nova-compute that was started, and the scheduler's part of a request."""

    def __init__(self, told: dict[str, Any]) -> None:
        state = Path(told['state'])
        path = state / 'nova.conf'
        path.write_text(
            CONF.format(
                ironic=told['ironic'] or 'http://127.0.0.1:9', **{k: told[k] for k in ('state', 'placement', 'refresh')}
            )
        )
        from nova import config, context, objects
        from nova.compute import manager
        from nova.db.api import api as api_database
        from nova.db.api import models as api_models
        from nova.db.main import api as database
        from nova.db.main import models

        config.parse_args(['nova-compute', '--config-file', str(path)])
        objects.register_all()
        models.BASE.metadata.create_all(database.get_engine())
        api_models.BASE.metadata.create_all(api_database.get_engine())
        self.context = context.RequestContext(user_id='user', project_id='project', is_admin=True)
        self.manager = manager.ComputeManager()
        self.client = self.manager.reportclient
        self.sent: list[str] = []
        self._listen()
        self._service = objects.Service(
            context=self.context, host='compute', binary='nova-compute', topic='compute', report_count=1
        )
        self._service.create()
        cell = {'name': 'cell', 'database_connection': f'sqlite:///{state}/nova.sqlite', 'transport_url': 'fake:/'}
        objects.CellMapping(context=self.context, uuid=CELL, **cell).create()
        self._building: dict[str, tuple[threading.Thread, list[str]]] = {}
        if told['ironic'] is not None:
            self.manager.init_host(self._service)
        self.manager.rt.set_service_ref(self._service)

    def _listen(self) -> None:
        """Write down what Nova sends to placement."""
        session = self.client._client.session
        request = session.request

        def listening(url: str, method: str, *arguments: Any, **more: Any) -> Any:
            answer = request(url, method, *arguments, **more)
            path = '/' + str(answer.url).split('://', 1)[1].partition('/')[2]
            self.sent.append(f'{method} {path} {answer.status_code}')
            return answer

        session.request = listening

    def cycle(self) -> None:
        """What nova-compute does every minute: look at all nodes of Ironic, and tell placement."""
        self.manager.update_available_resource(self.context)

    def report(self, nodes: dict[str, dict[str, Any]], *, startup: bool = False) -> None:
        """The same for nodes that no Ironic has, but that are as it would tell them."""
        for uuid, node in nodes.items():
            self.manager.driver.node_cache[uuid] = SimpleNamespace(id=uuid, **node)
            self.manager.rt.update_available_resource(self.context, uuid, startup=startup)

    def ask(self, extra_specs: dict[str, str], *, limit: int = 100) -> dict[str, Any]:
        """How the scheduler asks placement for a flavor, and what it is answered. ``refused``: the flavor cannot be made."""
        from nova import exception

        try:
            wanted = self._request(self._spec(extra_specs), limit)
        except exception.ValidationError as exc:
            return {'refused': str(exc), 'query': None, 'candidates': []}
        found, _, _ = self.client.get_allocation_candidates(self.context, wanted)
        claims = [{uuid: one['resources'] for uuid, one in each['allocations'].items()} for each in found or ()]
        return {'refused': None, 'query': unquote(wanted.to_querystring()), 'candidates': claims}

    def handed(self, extra_specs: dict[str, str]) -> list[str]:
        """The traits that Nova's Ironic driver writes into an instance's node, which Ironic compares with its own."""
        from nova.virt.ironic import patcher

        flavor, instance = self._flavor(extra_specs), SimpleNamespace(display_name='x', get=lambda name: None)
        instance.flavor = flavor
        some = SimpleNamespace(fixed_ips=list, floating_ips=list)
        owner = SimpleNamespace(projectid='', projectname='', userid='', username='')
        metadata = SimpleNamespace(owner=owner, flavor=flavor, network_info=some)
        image = SimpleNamespace(id='image', properties={})
        made = patcher.create(SimpleNamespace(properties={})).get_deploy_patch(instance, image, flavor, metadata)
        return next((one['value'] for one in made if one['path'] == '/instance_info/traits'), [])

    def build(self, node: str, extra_specs: dict[str, str], *, deploy: bool) -> dict[str, Any]:
        """Schedule an instance to a node, claim it there, hand it to Ironic. Comes back before it is deployed.

        :param deploy: hand it to Ironic.
        """
        from nova import objects
        from nova.network import model
        from nova.scheduler import utils

        spec = self._spec(extra_specs)
        candidates, _, version = self.client.get_allocation_candidates(self.context, self._request(spec, 1000))
        chosen = next((c for c in candidates or () if node in c['allocations']), None)
        if chosen is None:
            return {'instance': None, 'allocations': None}
        instance = objects.Instance(
            context=self.context,
            user_id='user',
            project_id='project',
            display_name='tenant',
            flavor=spec.flavor,
            old_flavor=None,
            new_flavor=None,
            image_ref='',
            system_metadata={'owner_user_name': 'user', 'owner_project_name': 'project'},
            vm_state='building',
            task_state='scheduling',
            numa_topology=None,
            pci_requests=objects.InstancePCIRequests(requests=[]),
            resources=None,
        )
        instance.create()
        assert utils.claim_resources(self.context, self.client, spec, instance.uuid, chosen, version)
        told = {uuid: one['resources'] for uuid, one in chosen['allocations'].items()}
        driver = self.manager.driver
        allocations = self.client.get_allocations_for_consumer(self.context, instance.uuid)
        self.manager.rt.instance_claim(self.context, instance, node, allocations)
        if not deploy:
            return {'instance': instance.uuid, 'allocations': told}
        failed: list[str] = []

        def spawn() -> None:
            try:
                driver.prepare_for_spawn(instance)
                driver.spawn(self.context, instance, spec.image, [], None, allocations, network_info=model.NetworkInfo())
                instance.vm_state, instance.task_state = 'active', None
                instance.save()
            except Exception as exc:  # noqa: BLE001 - whatever it is, the test is told
                failed.append(f'{type(exc).__name__}: {exc}')

        thread = threading.Thread(target=spawn, daemon=True)
        self._building[instance.uuid] = (thread, failed)
        thread.start()
        return {'instance': instance.uuid, 'allocations': told}

    def built(self, instance: str) -> list[str]:
        """Wait for an instance to be active. What went wrong."""
        thread, failed = self._building.pop(instance)
        thread.join(120)
        return ['still building'] if thread.is_alive() else failed

    def delete(self, instance: str, *, undeploy: bool) -> None:
        """Delete an instance as its user does: its claims are freed when its machine is in cleaning.

        :param undeploy: ask Ironic for that first.
        """
        from nova import objects
        from nova.network import model

        found = objects.Instance.get_by_uuid(self.context, instance, expected_attrs=['flavor', 'system_metadata', 'resources'])
        if undeploy:
            self.manager.driver.destroy(self.context, found, model.NetworkInfo())
        found.vm_state, found.task_state = 'deleted', None
        found.save()
        found.destroy()
        self.manager._complete_deletion(self.context, found)

    def later(self) -> None:
        """Five minutes have passed: Nova reads again what it remembers of providers."""
        self.client._association_refresh_time = {}

    def _flavor(self, extra_specs: dict[str, str]) -> Any:
        from nova import objects
        from nova.api.validation.extra_specs import validators

        for name, value in extra_specs.items():
            validators.validate(name, value)
        return objects.Flavor(
            context=self.context,
            id=1,
            flavorid='1',
            name='bm',
            memory_mb=1024,
            vcpus=2,
            root_gb=10,
            ephemeral_gb=0,
            swap=0,
            rxtx_factor=1.0,
            vcpu_weight=None,
            disabled=False,
            is_public=True,
            description=None,
            extra_specs=dict(extra_specs),
        )

    def _spec(self, extra_specs: dict[str, str]) -> Any:
        """What the API and the conductor make of a request for one instance."""
        from nova import objects

        image = objects.ImageMeta(id='c3a3a9d0-6f0c-4d4c-9c3f-6b6f2d0c2c11', properties=objects.ImageMetaProps())
        return objects.RequestSpec(
            context=self.context,
            project_id='project',
            user_id='user',
            flavor=self._flavor(extra_specs),
            image=image,
            num_instances=1,
            availability_zone=None,
            requested_resources=[],
            request_level_params=objects.RequestLevelParams(),
            pci_requests=objects.InstancePCIRequests(requests=[]),
            is_bfv=False,
            requested_destination=None,
            security_groups=objects.SecurityGroupList(objects=[]),
        )

    def _request(self, spec: Any, limit: int) -> Any:
        """What the scheduler makes of it."""
        from nova.scheduler import request_filter, utils

        request_filter.process_reqspec(self.context, spec)
        wanted = utils.resources_from_request_spec(self.context, spec, None)
        wanted._limit = limit
        return wanted


def main() -> None:
    """Serve until standard input ends."""
    log = Log()
    # Nova's own libraries may print; answers have a way of their own.
    answers = os.fdopen(os.dup(1), 'w', encoding='utf-8')
    os.dup2(2, 1)
    logging.getLogger().addHandler(log)
    told = json.loads(sys.stdin.readline())
    compute = Compute(told)
    verbs: dict[str, Callable[..., Any]] = {
        name: getattr(compute, name) for name in ('ask', 'build', 'built', 'cycle', 'delete', 'handed', 'later', 'report')
    }
    answers.write(json.dumps({'ready': True}) + '\n')
    answers.flush()
    log.taken()
    for line in sys.stdin:
        request = json.loads(line)
        compute.sent.clear()
        failed = done = None
        try:
            done = verbs[request.pop('do')](**request)
        except Exception as exc:
            logging.getLogger(__name__).exception('it failed')
            failed = f'{type(exc).__name__}: {exc}'
        answers.write(json.dumps({'done': done, 'failed': failed, 'logged': log.taken(), 'sent': list(compute.sent)}) + '\n')
        answers.flush()
    os._exit(0)  # Nova's threads would be waited for


if __name__ == '__main__':
    main()
