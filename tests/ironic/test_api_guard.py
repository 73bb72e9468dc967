# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic's real API lets nobody but the system write an interface into instance_info, and starts no host that the gate bars."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ironic import objects
from ironic.api import controllers
from ironic.api.controllers import root
from ironic.common import states
from ironic.conductor import rpcapi
from pecan import rest
from pecan.util import iscontroller

from baremetal_acc_ironic.authorization import api_guard, api_routes, interface_overrides, requester
from baremetal_acc_ironic.authorization.api_routes import CHECKED, HARMLESS, READS, RouteCheck
from baremetal_acc_ironic.host_power import host_start
from baremetal_acc_ironic.state import node_store
from tests.ironic import releases
from tests.ironic.api import LESSEE, OWNER, with_api
from tests.ironic.roles_case import STRANGER, RolesCase
from tests.ironic.test_api import (
    LESSEE_ADMIN,
    LESSEE_MEMBER,
    OWNER_ADMIN,
    OWNER_MEMBER,
    SYSTEM_ADMIN,
    SYSTEM_MEMBER,
    ApiCase,
    who,
)

LESSEE_MANAGER = who('manager,member,reader', project=LESSEE)
OWNER_MANAGER = who('manager,member,reader', project=OWNER)
OWNER_SERVICE = who('service', project=OWNER)
STRANGER_ADMIN = who('admin,manager,member,reader', project=STRANGER)

NOT_SYSTEM = {
    'lessee member': LESSEE_MEMBER,
    'lessee manager': LESSEE_MANAGER,
    'lessee admin': LESSEE_ADMIN,
    'owner member': OWNER_MEMBER,
    'owner manager': OWNER_MANAGER,
    'owner admin': OWNER_ADMIN,
    'owner service': OWNER_SERVICE,
    'admin of another project': STRANGER_ADMIN,
}

OVERRIDE = {'firmware_interface': 'no-firmware'}
ADD = [{'op': 'add', 'path': '/instance_info/firmware_interface', 'value': 'no-firmware'}]
NODE = '/v1/nodes/{uuid}'
JSON = 'application/json'


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One way to write the key.

    :ivar written: Ironic itself takes it, so a system administrator's is in the database; else nobody's is.
    """

    method: str = 'PATCH'
    path: str = NODE
    body: bytes | list[Any] | dict[str, Any] = b''
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    written: bool = True

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def version(text: str) -> tuple[tuple[str, str], ...]:
    """The header of a microversion."""
    return (('X-OpenStack-Ironic-API-Version', text),)


def text_of(document: object) -> str:
    """JSON."""
    return json.dumps(document)


PATCHES = {
    'by UUID': Form(body=ADD),
    'by name': Form(path='/v1/nodes/node-1', body=ADD),
    'with a slash at the end': Form(path=f'{NODE}/', body=ADD),
    'without the version in the path': Form(path='/nodes/{uuid}', body=ADD),
    'with the suffix .json': Form(path=f'{NODE}.json', body=ADD, headers=version('1.90')),
    'with the suffix .json, by name': Form(path='/v1/nodes/node-1.json', body=ADD, headers=version('1.31')),
    'with a percent-encoded path': Form(path='/v1/n%6Fdes/%6Eode-1', body=ADD),
    'with the oldest microversion': Form(body=ADD, headers=version('1.1')),
    'with a microversion before instance names': Form(body=ADD, headers=version('1.31')),
    'all of instance_info added': Form(body=[{'op': 'add', 'path': '/instance_info', 'value': OVERRIDE}]),
    'all of instance_info replaced': Form(body=[{'op': 'replace', 'path': '/instance_info', 'value': OVERRIDE | {'a': 1}}]),
    'behind another operation': Form(body=[{'op': 'add', 'path': '/extra/a', 'value': 1}, *ADD]),
    'added and then replaced': Form(body=[*ADD, {'op': 'replace', **{k: v for k, v in ADD[0].items() if k != 'op'}}]),
    'with escapes of JSON': Form(body=text_of(ADD).replace('firmware_', '\\u0066irmware\\u005f').encode()),
    'with a key twice': Form(body=text_of(ADD).replace('"path"', '"path": "/extra/a", "path"').encode()),
    'with a key of the value twice': Form(
        body=b'[{"op": "add", "path": "/instance_info",'
        b' "value": {"firmware_interface": "x", "firmware_interface": "no-firmware"}}]'
    ),
    'as plain text': Form(body=ADD, content_type='text/plain'),
    'without a content type': Form(body=ADD, content_type=''),
    'in UTF-16': Form(body=text_of(ADD).encode('utf-16'), content_type=f'{JSON}; charset=utf-16'),
    'in UTF-7': Form(body=text_of(ADD).replace('f', '+AGY-').encode(), content_type=f'{JSON}; charset=utf-7'),
    'in EBCDIC': Form(body=text_of(ADD).encode('cp500'), content_type=f'{JSON}; charset=cp500'),
    'with a byte order mark that the charset names': Form(
        body=text_of(ADD).encode('utf-8-sig'), content_type=f'{JSON}; charset=utf-8-sig'
    ),
    'an empty value': Form(body=[{'op': 'add', 'path': '/instance_info/firmware_interface', 'value': None}]),
    # What Ironic refuses itself. The guard need not be what refuses it, but nothing may come of it.
    'with a byte order mark': Form(body=text_of(ADD).encode('utf-8-sig'), written=False),
    'with the method in a parameter': Form(method='POST', path=f'{NODE}?_method=patch', body=ADD, written=False),
    'with the method in a parameter of GET': Form(method='GET', path=f'{NODE}?_method=patch', body=ADD, written=False),
    'as a form': Form(body=ADD, content_type='application/x-www-form-urlencoded', written=False),
    'in a charset that is none': Form(body=ADD, content_type='text/plain; charset=x-none', written=False),
    'compressed': Form(body=gzip.compress(text_of(ADD).encode()), headers=(('Content-Encoding', 'gzip'),), written=False),
    'below a chassis': Form(path='/v1/chassis/{uuid}/nodes/{uuid}', body=ADD, written=False),
    'to all nodes': Form(path='/v1/nodes?node={uuid}', body=ADD, written=False),
    'copied': Form(body=[{'op': 'copy', 'from': '/extra/x', 'path': '/instance_info/firmware_interface'}], written=False),
    'moved as a whole': Form(body=[{'op': 'move', 'from': '/extra/o', 'path': '/instance_info'}], written=False),
    'over the whole node': Form(body=[{'op': 'replace', 'path': '', 'value': {'instance_info': OVERRIDE}}], written=False),
    'with an escaped pointer': Form(
        body=[{'op': 'add', 'path': '/instance_info~1firmware_interface', 'value': 'no-firmware'}], written=False
    ),
    'as text of a dictionary': Form(
        body=[{'op': 'add', 'path': '/instance_info', 'value': "{'firmware_interface': 'no-firmware'}"}], written=False
    ),
    'in an argument of the method': Form(body={'patch': ADD}, written=False),
    'nested too deeply to be read': Form(body=b'[' * 100_000, content_type='text/plain', written=False),
    'cut off': Form(body=text_of(ADD).encode()[:-1], written=False),
    'not as a patch': Form(body={'instance_info': OVERRIDE}, written=False),
    'by PUT': Form(method='PUT', body=ADD, written=False),
    'with a provision request': Form(
        method='PUT',
        path=f'{NODE}/states/provision',
        body={'target': 'rebuild', 'instance_info': OVERRIDE, 'configdrive': {'instance_info': OVERRIDE}},
        written=False,
    ),
}
CREATED = {'driver': 'redfish-acc', 'name': 'node-2', 'instance_info': {'deploy_interface': 'direct'}}
"""Of a node that Ironic can load: no other firmware or power interface than ours is supported."""
POSTS = {
    'a new node': Form(method='POST', path='/v1/nodes', body=CREATED),
    'a new node, with a slash at the end': Form(method='POST', path='/v1/nodes/', body=CREATED),
    'a new node, with the method in a parameter': Form(method='GET', path='/nodes?_method=post', body=CREATED, written=False),
    'a new node in UTF-16': Form(
        method='POST', path='/v1/nodes', body=text_of(CREATED).encode('utf-16'), content_type=f'{JSON}; charset=utf-16'
    ),
    'a new node in an argument': Form(method='POST', path='/v1/nodes', body={'node': CREATED}, written=False),
}


class GuardCase(ApiCase):
    """Requests as bytes, and what is in the database afterwards."""

    @pytest.fixture(autouse=True)
    def _patching(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self._monkeypatch = monkeypatch
        self._policy = tmp_path / 'policy.d'
        self._policy.mkdir()

    def send(self, form: Form, headers: dict[str, str]) -> Any:
        """The answer, as bytes on the wire bring it about."""
        path = form.path.format(uuid=self.node.uuid)
        wanted = headers | dict(form.headers) | {'Content-Type': form.content_type, 'Content-Length': str(len(form.data))}
        return self.app.request(path, method=form.method, body=form.data, headers=wanted, expect_errors=True)

    def overrides(self) -> list[dict[str, Any]]:
        """Of every node in the database, those that it believes."""
        infos = (node.instance_info for node in objects.Node.list(self.context))
        return [found for info in infos if (found := {k: v for k, v in info.items() if k in interface_overrides.KEYS})]

    def forget(self) -> None:
        """Back to one node without an override."""
        for node in objects.Node.list(self.context):
            if node.uuid == self.node.uuid:
                node.instance_info, node.extra = {}, {'x': 'no-firmware', 'o': dict(OVERRIDE)}
                node.save()
            else:
                node.destroy()

    def setUp(self) -> None:
        super().setUp()
        self.forget()


class TestInstanceInfo(GuardCase):
    """Every way to write an interface, by everybody."""

    def test_nobody_of_a_project_writes_an_interface(self) -> None:
        """Whatever form it has, whoever asks, whether Ironic or the guard is asked first."""
        for name, form in (PATCHES | POSTS).items():
            for asker, headers in NOT_SYSTEM.items():
                answer = self.send(form, headers)
                assert 400 <= answer.status_int, (name, asker, answer.text)
                assert [] == self.overrides(), (name, asker)
                assert not form.written or 403 == answer.status_int, (name, asker, answer.text)

    def test_the_system_writes_it_in_each_form_that_ironic_takes(self) -> None:
        """So the refusals above are of requests that would have done it, and the operator is not hindered."""
        for asker, headers, forms in (
            ('admin', SYSTEM_ADMIN, PATCHES | POSTS),
            ('member', SYSTEM_MEMBER, PATCHES),  # who may not create nodes
        ):
            taken = set()
            for name, form in forms.items():
                answer = self.send(form, headers)
                written = bool(self.overrides())
                assert written == (answer.status_int in (200, 201)), (asker, name, answer.text)
                taken |= {name} if written else set()
                self.forget()
            assert {name for name, form in forms.items() if form.written} == taken, asker

    def test_each_interface_of_ironic_is_refused(self) -> None:
        """By Ironic's own list, which is that of the node's fields."""
        fields = {name for name in objects.Node.fields if name.endswith('_interface')}
        assert fields == interface_overrides.KEYS
        for key in sorted(fields):
            answer = self.send(Form(body=[{'op': 'add', 'path': f'/instance_info/{key}', 'value': 'fake'}]), LESSEE_MANAGER)
            assert 403 == answer.status_int, key
            assert [] == self.overrides()

    def test_the_answer_says_what_to_do(self) -> None:
        """In the form of Ironic's own errors, with its version headers."""
        answer = self.send(PATCHES['by name'], LESSEE_MANAGER)
        fault = json.loads(answer.json['error_message'])
        assert {'faultcode', 'faultstring', 'debuginfo'} == fault.keys()
        assert 'Client' == fault['faultcode']
        for part in ('node-1', 'instance_info/firmware_interface', 'system scope', 'because', 'Leave it out'):
            assert part in fault['faultstring'], part
        theirs = self.app.get('/v1/nodes/nobodys', headers=LESSEE_MANAGER, expect_errors=True)
        assert theirs.headers['X-OpenStack-Ironic-API-Version'] == answer.headers['X-OpenStack-Ironic-API-Version']
        assert theirs.content_type == answer.content_type

    def test_an_interface_may_be_taken_out(self) -> None:
        """By everybody who may write instance_info at all."""
        for path in ('/instance_info/firmware_interface', '/instance_info'):
            self.send(PATCHES['by UUID'], SYSTEM_ADMIN)
            assert [OVERRIDE] == self.overrides()
            answer = self.send(Form(body=[{'op': 'remove', 'path': path}]), LESSEE_MANAGER)
            assert 200 == answer.status_int, answer.text
            assert [] == self.overrides()

    def test_a_deploy_interface_that_is_named_may_be_chosen(self) -> None:
        """And no other one, and no other interface of that name."""
        self.config(group='baremetal_acc', tenant_deploy_interfaces=['direct'])
        for key, value, expected in (
            ('deploy_interface', 'direct', 200),
            ('deploy_interface', 'noop', 403),
            ('power_interface', 'direct', 403),
        ):
            answer = self.send(Form(body=[{'op': 'add', 'path': f'/instance_info/{key}', 'value': value}]), LESSEE_MANAGER)
            assert expected == answer.status_int, (key, value, answer.text)
        assert [{'deploy_interface': 'direct'}] == self.overrides()

    def test_without_keystone_nobody_is_asked(self) -> None:
        """With noauth Ironic has no policy, and everybody is the operator."""
        self.config(auth_strategy='noauth')
        self.app = with_api(self)
        assert 200 == self.send(PATCHES['by UUID'], LESSEE_MANAGER).status_int
        assert [OVERRIDE] == self.overrides()

    def test_fields_of_the_node_are_left_to_ironics_policy(self) -> None:
        """It refuses them to the lessee, and to members of the owner."""
        for key in sorted({*interface_overrides.KEYS, 'driver'}):
            patch = Form(body=[{'op': 'replace', 'path': f'/{key}', 'value': 'fake'}])
            before = getattr(self.node, key)
            for asker in ('lessee member', 'lessee manager', 'lessee admin', 'owner member'):
                answer = self.send(patch, NOT_SYSTEM[asker])
                assert 403 == answer.status_int, (key, asker, answer.text)
            self.node.refresh()
            assert before == getattr(self.node, key)


class TestHonest(GuardCase):
    """What has to keep working, for whom it worked before."""

    @pytest.fixture(autouse=True)
    def _nova(self, nova_patches: dict[str, Any]) -> None:
        self._nova_patches = nova_patches

    def test_other_keys_are_written(self) -> None:
        """An image, traits, capabilities, a boot option, and all of instance_info without an interface."""
        patch = [
            {'op': 'add', 'path': '/instance_info/image_source', 'value': 'http://192.0.2.1/image'},
            {'op': 'add', 'path': '/instance_info/traits', 'value': ['CUSTOM_X']},
            {'op': 'add', 'path': '/instance_info/capabilities', 'value': '{"boot_option": "local"}'},
            {'op': 'add', 'path': '/instance_info/configdrive', 'value': 'http://192.0.2.1/drive'},
            {'op': 'add', 'path': '/instance_info/interface', 'value': 'eth0'},
        ]
        for asker in ('lessee manager', 'lessee admin', 'owner member', 'owner admin', 'owner service'):
            self.forget()
            answer = self.send(Form(body=patch), NOT_SYSTEM[asker])
            assert 200 == answer.status_int, (asker, answer.text)
            self.node.refresh()
            assert {one['path'].rpartition('/')[2]: one['value'] for one in patch} == self.node.instance_info
            whole = [{'op': 'replace', 'path': '/instance_info', 'value': {'image_source': 'x'}}]
            assert 200 == self.send(Form(body=whole), NOT_SYSTEM[asker]).status_int
            self.node.refresh()
            assert {'image_source': 'x'} == self.node.instance_info

    def test_other_fields_are_written(self) -> None:
        """A lessee's member writes extra, also a key that would be an interface elsewhere."""
        patch = [{'op': 'add', 'path': '/extra/firmware_interface', 'value': 'no-firmware'}]
        assert 200 == self.send(Form(body=patch), LESSEE_MEMBER).status_int
        self.node.refresh()
        assert 'no-firmware' == self.node.extra['firmware_interface']

    def test_a_new_node_of_a_project(self) -> None:
        """Its administrator enrols one, and names an image."""
        body = {'driver': 'redfish-acc', 'name': 'node-2', 'instance_info': {'image_source': 'x'}}
        answer = self.send(Form(method='POST', path='/v1/nodes', body=body), OWNER_ADMIN)
        assert 201 == answer.status_int, answer.text
        assert {'image_source': 'x'} == objects.Node.get_by_name(self.context, 'node-2').instance_info

    def test_nova_writes_what_it_writes(self) -> None:
        """Before a deploy and after it, by its user in a project of services, and by a token of the system."""
        self.config(rbac_service_role_elevated_access=True, rbac_service_project_name='service')
        nova = who('service', project='d' * 32) | {'X-Project-Name': 'service'}
        assert len(self._nova_patches['deploy']) > 15
        for headers in (nova, who('service'), SYSTEM_ADMIN):
            self.forget()
            answer = self.send(Form(body=self._nova_patches['deploy']), headers)
            assert 200 == answer.status_int, answer.text
            self.node.refresh()
            written = {one['path'].rpartition('/')[2]: one['value'] for one in self._nova_patches['deploy']}
            assert written == self.node.instance_info
            answer = self.send(Form(body=self._nova_patches['undeploy']), headers)
            assert 200 == answer.status_int, answer.text
            self.node.refresh()
            assert {} == self.node.instance_info

    def test_nova_writes_no_interface_either(self) -> None:
        """A service's elevated access is not system scope, and Nova needs none of these keys."""
        self.config(rbac_service_role_elevated_access=True, rbac_service_project_name='service')
        nova = who('service', project='d' * 32) | {'X-Project-Name': 'service'}
        assert 403 == self.send(PATCHES['by UUID'], nova).status_int
        assert [] == self.overrides()


NOVA = """
import json
from types import SimpleNamespace as N
from nova.virt.ironic import patcher
from openstack.baremetal.v1 import node
flavor = N(root_gb=1, vcpus=2, memory_mb=3, ephemeral_gb=4, name='f')
specs = {'capabilities:boot_option': 'local', 'trait:CUSTOM_X': 'required'}
fields = {'swap': 5, 'extra_specs': specs}
class Instance(N):
    def get(self, key): return getattr(self, key)
instance = Instance(flavor=flavor, display_name='d', host='h')
image = N(id='i', properties={'traits_required': ['CUSTOM_Y']})
meta = N(owner=N(projectid='p', projectname='n', userid='u', username='m'), flavor=flavor,
         network_info=N(fixed_ips=lambda: [], floating_ips=lambda: []))
deploy = patcher.create(N(properties={'local_gb': 6})).get_deploy_patch(instance, image, fields, meta, preserve_ephemeral=False)
info = {one['path'].rpartition('/')[2]: one['value'] for one in deploy}
gone = node.Node.existing(id='x', instance_id=None, instance_info=info)
gone.instance_info = {}
print('PATCHES' + json.dumps({'deploy': deploy, 'undeploy': gone._prepare_request(patch=True).body}))
"""


@pytest.fixture(scope='module')
def nova_patches() -> dict[str, Any]:
    """What Nova's own code sends, in a process of its own: its options and Ironic's are of the same names."""
    made = subprocess.run([sys.executable, '-c', NOVA], check=True, capture_output=True, text=True)
    return dict(json.loads(made.stdout.partition('PATCHES')[2]))


class TestStarts(GuardCase):
    """A host that must not start is refused in the answer, and not only afterwards."""

    def setUp(self) -> None:
        super().setUp()
        self.asked: list[tuple[str, str, requester.Requester | None]] = []
        self.answer: str | None = 'the locks are not proven'
        self._monkeypatch.setattr(host_start, 'refusal', self._refusal)
        # The conductor would refuse what the API lets through.
        node_store.store(self.node, replace(node_store.load(self.node), proven=datetime.now(UTC)))
        self.service.change_node_power_state(self.context, self.node.uuid, states.POWER_OFF)
        assert 'Off' == self.host()

    def _refusal(self, node: Any, wanted: str, asker: requester.Requester | None) -> str | None:
        self.asked.append((node.uuid, wanted, asker))
        return self.answer

    def host(self) -> str:
        """The machine's truth: whether its host runs."""
        return str(self.machine.truth()['systems']['host']['power'])

    def forms(self, target: str) -> list[Form]:
        """Ways to say what is wanted."""
        power = f'{NODE}/states/power'
        return [
            Form(method='PUT', path=power, body={'target': target}),
            Form(method='PUT', path='/nodes/node-1/states/power/', body={'target': target}),
            Form(method='PUT', path=f'{power}?target={target.replace(" ", "%20")}'),
            Form(method='PUT', path=f'{power}/{target.replace(" ", "%20")}'),
            Form(method='PUT', path=power, body=f'target={target}'.encode(), content_type='application/x-www-form-urlencoded'),
            Form(method='POST', path=f'{power}?_method=put', body={'target': target}),
            Form(method='PUT', path=power, body={'target': target, 'timeout': 60}),
        ]

    def test_every_start_is_asked_of_the_gate(self) -> None:
        """However it is said: 409, with its words, and the host stays off."""
        for target in (states.POWER_ON, states.REBOOT, states.SOFT_REBOOT):
            for form in self.forms(target):
                self.asked.clear()
                answer = self.send(form, LESSEE_MEMBER)
                assert 409 == answer.status_int, (form, answer.text)
                assert self.answer == json.loads(answer.json['error_message'])['faultstring']
                assert [(self.node.uuid, target)] == [one[:2] for one in self.asked]
                assert 'Off' == self.host()
        asker = self.asked[-1][2]
        assert asker is not None
        assert (LESSEE, 'someone', None) == (asker.project, asker.user_name, asker.system_scope)

    def test_a_start_that_the_gate_allows_is_one(self) -> None:
        """In each of these forms that Ironic takes."""
        self.answer = None
        taken = 0
        for form in self.forms(states.POWER_ON):
            self.asked.clear()
            answer = self.send(form, LESSEE_MEMBER)
            assert 1 == len(self.asked), form
            taken += answer.status_int == 202
            assert ('On' if answer.status_int == 202 else 'Off') == self.host(), (form, answer.status_int, answer.text)
            self.service.change_node_power_state(self.context, self.node.uuid, states.POWER_OFF)
        assert taken >= 5

    def test_an_operator_is_asked_about_too(self) -> None:
        """What an operator may is for the gate to say."""
        assert 409 == self.send(self.forms(states.POWER_ON)[0], SYSTEM_ADMIN).status_int
        asker = self.asked[-1][2]
        assert asker is not None
        assert 'all' == asker.system_scope

    def test_the_host_may_always_be_stopped(self) -> None:
        """Nobody is asked."""
        self.service.change_node_power_state(self.context, self.node.uuid, states.POWER_ON)
        assert 202 == self.send(self.forms(states.POWER_OFF)[0], LESSEE_MEMBER).status_int
        assert [] == self.asked
        assert 'Off' == self.host()

    def test_who_may_not_switch_the_host_hears_nothing_of_it(self) -> None:
        """Ironic's own answer, and the gate is not asked."""
        start = self.forms(states.POWER_ON)[0]
        for headers, status in ((STRANGER_ADMIN, 404), (who('reader', project=LESSEE), 403), (who('reader'), 403)):
            answer = self.send(start, headers)
            assert status == answer.status_int, answer.text
            assert str(self.answer) not in answer.text
        nobodys = Form(method='PUT', path='/v1/nodes/nobodys/states/power', body={'target': states.POWER_ON})
        assert 404 == self.send(nobodys, LESSEE_MEMBER).status_int
        assert [] == self.asked

    def test_what_is_no_power_state_is_ironics_to_refuse(self) -> None:
        """400, as ever."""
        for target in ('explode', None, ['power on'], 7):
            answer = self.send(Form(method='PUT', path=f'{NODE}/states/power', body={'target': target}), LESSEE_MEMBER)
            assert 400 == answer.status_int, (target, answer.text)
        assert [] == self.asked

    def test_nodes_of_other_types_are_not_ours(self) -> None:
        """Ironic answers as it would without us: there is no conductor for that type here."""
        self.node.driver = 'redfish'
        self.node.save()
        answer = self.send(self.forms(states.POWER_ON)[0], LESSEE_MEMBER)
        assert answer.status_int not in (202, 409), answer.text
        assert [] == self.asked


MEDIA = {'device_type': 'cdrom', 'image_url': 'http://192.0.2.66/x.iso'}
ATTACH = Form(method='POST', path=f'{NODE}/vmedia', body=MEDIA)
DETACH = Form(method='DELETE', path=f'{NODE}/vmedia')
PASSTHRU = [
    Form(method=verb, path=f'{NODE}/vendor_passthru?method=send_raw', body={'raw_bytes': '0x06 0x02'})
    for verb in ('POST', 'PUT', 'PATCH', 'DELETE')
] + [Form(method='POST', path='/v1/nodes/node-1/vendor_passthru/send_raw', body={'raw_bytes': '0x06 0x02'})]
CALLS = ('attach_virtual_media', 'detach_virtual_media', 'vendor_passthru')


class TestRules(GuardCase):
    """Virtual media and vendor passthru are the system's, on nodes of our types, whatever Ironic's own rules are changed to."""

    def setUp(self) -> None:
        super().setUp()
        self.called: list[str] = []
        for name in CALLS:
            self._monkeypatch.setattr(rpcapi.ConductorAPI, name, self._call(name))
        # A policy file that leaves passthru to whoever may see the node, as Ironic's comment on that rule proposes.
        (self._policy / 'passthru.yaml').write_text('"baremetal:node:vendor_passthru": "role:reader"\n')
        self.config(group='oslo_policy', policy_dirs=[str(self._policy)])
        self.app = with_api(self)

    def _call(self, name: str) -> Any:
        def call(*_: Any, **__: Any) -> dict[str, Any]:
            self.called.append(name)
            return {'return': None, 'async': True, 'attach': False}

        return call

    def test_no_project_attaches_media_or_calls_the_vendor_interface(self) -> None:
        """403 with the name of our rule; who does not see the node hears that there is none."""
        for rule, form in (
            ('baremetal_acc:node:attach_virtual_media', ATTACH),
            ('baremetal_acc:node:detach_virtual_media', DETACH),
            *(('baremetal_acc:node:vendor_passthru', form) for form in PASSTHRU),
        ):
            for asker, headers in NOT_SYSTEM.items():
                answer = self.send(form, headers)
                hidden = asker == 'admin of another project'
                assert (404 if hidden else 403) == answer.status_int, (rule, asker, answer.text)
                # Ironic's own rules for media do not name services of the owner.
                assert hidden or 'service' in asker or rule in answer.text, (rule, asker, answer.text)
        assert [] == self.called

    def test_the_system_does(self) -> None:
        """Media its members, vendor methods its administrators."""
        for form, headers, status in (
            (ATTACH, SYSTEM_ADMIN, 204),
            (ATTACH, SYSTEM_MEMBER, 204),
            (DETACH, SYSTEM_MEMBER, 204),
            (PASSTHRU[0], SYSTEM_ADMIN, 202),
        ):
            self.called.clear()
            answer = self.send(form, headers)
            assert status == answer.status_int, answer.text
            assert 1 == len(self.called)
        self.called.clear()
        assert 403 == self.send(PASSTHRU[0], SYSTEM_MEMBER).status_int
        assert [] == self.called

    def test_a_policy_file_changes_the_rules(self) -> None:
        """As Ironic's own."""
        (self._policy / 'media.yaml').write_text(
            '"baremetal_acc:node:attach_virtual_media": "role:manager and project_id:%(node.owner)s"\n'
        )
        self.app = with_api(self)
        assert 204 == self.send(ATTACH, OWNER_MANAGER).status_int
        assert 403 == self.send(ATTACH, LESSEE_MANAGER).status_int
        assert ['attach_virtual_media'] == self.called

    def test_nodes_of_other_types_are_ironics(self) -> None:
        """Its own rules hold there, and no more."""
        self._monkeypatch.setattr(rpcapi.ConductorAPI, 'get_topic_for', lambda *_: 'topic')
        self.node.driver = 'redfish'
        self.node.save()
        assert 204 == self.send(ATTACH, LESSEE_MEMBER).status_int
        assert 202 == self.send(PASSTHRU[0], LESSEE_MEMBER).status_int
        assert ['attach_virtual_media', 'vendor_passthru'] == self.called


class TestRoutes(GuardCase):
    """The list of routes is Ironic's, all of it is classified, and each route that is checked has to be."""

    def setUp(self) -> None:
        super().setUp()
        self.called: list[str] = []
        self.undeployed_now = False
        for name in CALLS:
            self._monkeypatch.setattr(rpcapi.ConductorAPI, name, lambda *_, _name=name, **__: self._record(_name))
        self._monkeypatch.setattr(host_start, 'refusal', lambda *_: 'no')
        node_store.store(self.node, replace(node_store.load(self.node), proven=datetime.now(UTC)))
        (self._policy / 'passthru.yaml').write_text('"baremetal:node:vendor_passthru": "role:reader"\n')
        self.config(group='oslo_policy', policy_dirs=[str(self._policy)])
        self.service.change_node_power_state(self.context, self.node.uuid, states.POWER_OFF)

    def _record(self, name: str) -> dict[str, Any]:
        self.called.append(name)
        return {'return': None, 'async': True, 'attach': False}

    def came_through(self) -> bool:
        """Something that the guard is against has happened: in the database, on the machine, or at the conductor's door."""
        on = 'On' == self.machine.truth()['systems']['host']['power']
        self.node.refresh()
        adopted = self.undeployed_now and states.MANAGEABLE != self.node.provision_state
        return on or adopted or bool(self.overrides()) or bool(self.called)

    def undeployed(self) -> None:
        """Without cleaning, and manageable: the conductor has not forgotten yet what was proven."""
        self.node.provision_state, self.undeployed_now = states.MANAGEABLE, True
        self.node.save()

    def test_each_route_is_needed(self) -> None:
        """Taken out of the list, an attack by that route comes through, and by that route only."""
        attacks = {
            'v1.node.NodesController.patch': (PATCHES['by UUID'], LESSEE_ADMIN),
            'v1.node.NodesController.post': (POSTS['a new node'], OWNER_ADMIN),
            'v1.node.NodeStatesController.power': (
                Form(method='PUT', path=f'{NODE}/states/power', body={'target': 'power on'}),
                LESSEE_MEMBER,
            ),
            'v1.node.NodeStatesController.provision': (
                Form(method='PUT', path=f'{NODE}/states/provision', body={'target': 'adopt'}),
                LESSEE_ADMIN,
            ),
            'v1.node.NodeVmediaController.post': (ATTACH, LESSEE_MEMBER),
            'v1.node.NodeVmediaController.delete': (DETACH, LESSEE_MEMBER),
            'v1.node.NodeVendorPassthruController._default': (PASSTHRU[0], LESSEE_MEMBER),
        }
        complete = api_routes.find_routes()
        assert attacks.keys() == {name for name, check in complete.items() if check is not RouteCheck.NOTHING}
        for name, (form, headers) in attacks.items():
            for taken_out in attacks:
                self._monkeypatch.setattr(
                    api_routes, 'find_routes', lambda gone=taken_out: complete | {gone: RouteCheck.NOTHING}
                )
                self.app = with_api(self)
                if name == 'v1.node.NodeStatesController.provision':
                    self.undeployed()
                self.send(form, headers)
                assert (name == taken_out) == self.came_through(), (name, taken_out)
                self.reset()

    def reset(self) -> None:
        """As before an attack."""
        self.forget()
        self.called.clear()
        self.node.refresh()
        self.node.provision_state, self.undeployed_now = states.ACTIVE, False
        self.node.save()
        self.service.change_node_power_state(self.context, self.node.uuid, states.POWER_OFF)


def walked(controller: Any, seen: set[type]) -> Iterator[str]:
    """Routes by a walk over Ironic's tree of controllers, from its root: attributes, and maps of controllers below."""
    kind = controller if isinstance(controller, type) else type(controller)
    if kind in seen or not kind.__module__.startswith(controllers.__name__):
        return
    seen.add(kind)
    for name in dir(kind):
        value = getattr(kind, name)
        if iscontroller(value):
            yield f'{kind.__module__}.{kind.__qualname__}.{name}'.removeprefix(f'{controllers.__name__}.')
        elif isinstance(value, rest.RestController):
            yield from walked(value, seen)
    for below in getattr(kind, '_subcontroller_map', {}).values():
        yield from walked(below, seen)


class TestTable:
    """The tables of api_routes.py against Ironic's controllers."""

    def test_every_route_of_the_tree_is_known(self) -> None:
        """Whatever a walk from the root of Ironic's application finds."""
        seen: set[type] = set()
        found = {*walked(root.RootController, seen), *walked(root.V1, seen)}
        assert len(found) > 100
        internal = {name for name in found if name.endswith(('._lookup', '._route'))}
        assert found - internal <= api_routes.find_routes().keys()

    def test_every_route_that_writes_is_classified(self) -> None:
        """A new release of Ironic with a new one fails here, until somebody has looked at it."""
        routes = api_routes.find_routes()
        assert () == api_routes.unclassified(routes)
        assert set() == CHECKED.keys() & HARMLESS.keys()
        assert (CHECKED.keys() | HARMLESS.keys()) - routes.keys() <= releases.LATER_ROUTES
        assert all(reason for reason in HARMLESS.values())

    def test_what_reads_has_no_body(self) -> None:
        """No method that counts as reading takes one, by Ironic's own decorator."""
        taking = {name for name, bodies in bodies_of_routes().items() if bodies}
        assert 'v1.node.NodesController.patch' in taking
        assert not {name for name in taking if name.rpartition('.')[2] in READS}

    def test_a_route_that_nobody_knows_is_checked_like_one_that_takes_a_node(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And is named in the log at the start of the API."""
        monkeypatch.setattr(api_routes, 'HARMLESS', {k: v for k, v in HARMLESS.items() if k != 'v1.port.PortsController.post'})
        routes = api_routes.find_routes()
        assert RouteCheck.NODE_DOCUMENT is routes['v1.port.PortsController.post']
        assert ('v1.port.PortsController.post',) == api_routes.unclassified(routes)

    def test_an_api_without_pecan_does_not_start(self) -> None:
        """Nothing to guard means that nothing is guarded."""
        with pytest.raises(RuntimeError, match='no pecan application was found'):
            api_guard.install(SimpleNamespace(app=lambda *_: None))


def bodies_of_routes() -> dict[str, bool]:
    """Of each route: whether a decorator of Ironic's decodes a body for it."""

    def layers(function: Any) -> Iterator[Any]:
        while function is not None:
            yield function
            function = getattr(function, '__wrapped__', None)

    found = {}
    for name in api_routes.find_routes():
        module, kind, attribute = name.rsplit('.', 2)
        controller = getattr(sys.modules[f'{controllers.__name__}.{module}'], kind)
        codes = {layer.__code__.co_name for layer in layers(getattr(controller, attribute)) if hasattr(layer, '__code__')}
        found[name] = 'inner_body' in codes
    return found


class TestForged(RolesCase):
    """The real keystonemiddleware: what a client says of itself beside its token is not believed."""

    def test_headers_give_nobody_system_scope(self) -> None:
        """On the path of the node, by a token of the lessee."""
        forged = {
            'OpenStack-System-Scope': 'all',
            'X-Roles': 'admin,member',
            'X-User-Id': 'f' * 32,
            'X-Identity-Status': 'Confirmed',
        }
        headers = self.token(f'{LESSEE}:manager')
        for more in ({}, forged):
            answer = self.app.patch_json(f'/v1/nodes/{self.node.uuid}', ADD, headers=headers | more, expect_errors=True)
            assert 403 == answer.status_int
            self.node.refresh()
            assert {} == self.node.instance_info
        answer = self.app.patch_json(f'/v1/nodes/{self.node.uuid}', ADD, headers=VERSION_ONLY | forged, expect_errors=True)
        assert 401 == answer.status_int
        system = self.token('system:member')
        assert 200 == self.app.patch_json(f'/v1/nodes/{self.node.uuid}', ADD, headers=system).status_int
        self.node.refresh()
        assert OVERRIDE == self.node.instance_info


VERSION_ONLY = {'X-OpenStack-Ironic-API-Version': 'latest'}
