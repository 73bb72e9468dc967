# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Base of the tests of what is published to placement: a real placement service next to a real conductor."""

import uuid
from typing import Any

import pytest
import requests
from ironic.conf import CONF
from keystoneauth1 import loading

from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.scheduling.provider_names import card_uuid, slot_uuid
from baremetal_acc_ironic import placement as told_by
from baremetal_acc_ironic.state import node_store
from tests.ironic.case import IronicCase

ROOT_CLASS = 'CUSTOM_GOLD'


class PlacementCase(IronicCase):
    """A node, its root provider as nova-compute makes it, and a placement that counts the requests."""

    @pytest.fixture(autouse=True)
    def _placement(self, placement: str) -> None:
        self._url = placement

    def setUp(self) -> None:
        super().setUp()
        self.config(publish=True, group='baremetal_acc')
        CONF.register_opts(loading.get_auth_plugin_conf_options('admin_token'), group='placement')
        self.config(auth_type='admin_token', endpoint=self._url, token='admin', endpoint_override=self._url, group='placement')
        told_by._publisher.cache_clear()
        self.addCleanup(told_by._publisher.cache_clear)
        self.session = requests.Session()
        self.addCleanup(self.session.close)
        self.session.trust_env = False
        self.session.headers.update({'X-Auth-Token': 'admin', 'OpenStack-API-Version': 'placement 1.36'})
        self.make_root()

    def make_node(self, **values: Any) -> Any:
        """With a UUID of its own: all tests of a module have one placement."""
        return super().make_node(**({'uuid': str(uuid.uuid4())} | values))

    # ------------------------------------------------------------------------------------------------------- placement

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """The JSON of an answer that must be no error."""
        answer = self.session.request(method, f'{self._url}{path}', json=body, timeout=60)
        assert answer.status_code < 400, f'{method} {path}: {answer.status_code} {answer.text[:1000]}'
        return answer.json() if answer.content else None

    def make_root(self) -> None:
        """As nova-compute makes it."""
        self.ask('PUT', f'/resource_classes/{ROOT_CLASS}')
        self.ask('POST', '/resource_providers', {'uuid': self.node.uuid, 'name': self.node.uuid})
        unit = {'total': 1}
        body = {'resource_provider_generation': 0, 'inventories': {ROOT_CLASS: unit}}
        self.ask('PUT', f'/resource_providers/{self.node.uuid}/inventories', body)

    def providers(self) -> list[str]:
        """UUIDs of what is below the root."""
        found = self.session.get(f'{self._url}/resource_providers?in_tree={self.node.uuid}', timeout=60).json()
        return sorted(p['uuid'] for p in found['resource_providers'] if p['uuid'] != self.node.uuid)

    def offers(self) -> list[str]:
        """The classes of which something can be claimed, once for each provider; those wholly reserved in brackets."""
        found = []
        for uuid_ in self.providers():
            inventories = self.ask('GET', f'/resource_providers/{uuid_}/inventories')['inventories']
            found += [f'({name})' if i['reserved'] >= i['total'] else name for name, i in inventories.items()]
        return sorted(found)

    def claim(self, *providers_and_classes: tuple[str, str]) -> str:
        """Somebody claims these; their name."""
        consumer = str(uuid.uuid4())
        self.ask(
            'PUT',
            f'/allocations/{consumer}',
            {
                'allocations': {p: {'resources': {c: 1}} for p, c in providers_and_classes},
                'project_id': 'p',
                'user_id': 'u',
                'consumer_generation': None,
            },
        )
        return consumer

    def free(self, consumer: str) -> None:
        """What Nova does when an instance is gone."""
        self.ask('DELETE', f'/allocations/{consumer}')

    # ------------------------------------------------------------------------------------------------------------ names

    def card(self, label: str) -> AcceleratorId:
        """Identity of a card whose label ends so."""
        return AcceleratorId(self.gpu(int(label))) if label.isdigit() else self._card(label)

    def _card(self, label: str) -> AcceleratorId:
        look = node_store.last_look(self.node, self.node_state)
        assert look is not None
        return next(a.id for a in look.accelerators if a.label.endswith(label))

    def card_provider(self, label: str) -> str:
        """UUID of the provider of a card."""
        return card_uuid(self.node.uuid, self.card(label))

    def slot_provider(self, label: str, slot: str) -> str:
        """UUID of the provider of a slot."""
        return slot_uuid(self.node.uuid, self.card(label), slot)
