# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What else Nova lets a tenant, or its administrator, ask of a server: none of it opens a card or hands a machine over."""

from pathlib import Path

from tests.journey.conftest import Enrol
from tests.nova_end_to_end.clients import Site
from tests.nova_end_to_end.image_and_network import IMAGE
from tests.nova_end_to_end.test_boot import GZIP, available, functions, handed_over, power, refused


def test_probe_rebuild(site: Site, enrol: Enrol, documents: Path) -> None:
    node = available(site, enrol, 'fpga-server', 'functions')
    server = site.boot(site.flavor('functions', ACC=GZIP))
    server.settle('ACTIVE')
    for version in ('latest', '2.92'):
        answer = server.act('rebuild', {'imageRef': IMAGE}, version=version)
        print(version, answer.status_code, answer.text[:300])
        import time
        for _ in range(40):
            s = server.show()
            n = node.show()
            print(s['status'], s['OS-EXT-STS:task_state'], n['provision_state'], n['last_error'], s.get('fault', {}).get('message'))
            if s['OS-EXT-STS:task_state'] is None:
                break
            time.sleep(1)
    for who, name, body in (
        (site.tenant, 'rescue', {}), (site.tenant, 'suspend', None), (site.tenant, 'pause', None), (site.tenant, 'shelve', None),
        (site.tenant, 'createImage', {'name': 'x'}), (site.tenant, 'os-getConsoleOutput', {}),
        (site.operator, 'migrate', None), (site.operator, 'evacuate', {}), (site.operator, 'os-resetState', {'state': 'active'}),
        (site.operator, 'os-resetState', {'state': 'error'}), (site.tenant, 'resize', {'flavorRef': site.flavor('functions')}),
        (site.tenant, 'trigger_crash_dump', None), (site.operator, 'injectNetworkInfo', None), (site.operator, 'resetNetwork', None),
    ):
        answer = server.act(name, body, who=who)
        time.sleep(3)
        s, n = server.show(), node.show()
        print(name, answer.status_code, answer.text[:200], s['status'], s['OS-EXT-STS:task_state'], n['provision_state'], n['last_error'], power(node), node.open_ways(), s.get('fault', {}).get('message'))
    assert 0
