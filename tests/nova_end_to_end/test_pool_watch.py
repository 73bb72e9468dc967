# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``pool watch`` hears from Nova, over RabbitMQ, that a boot found no host, programs a region, and the next boot succeeds."""

import os
import subprocess
import sys
from pathlib import Path

from tests.journey.conftest import Enrol
from tests.nova_end_to_end.clients import Site, until
from tests.nova_end_to_end.test_boot import AES, available, functions, handed_over

CONF = """\
[baremetal_acc]
poll_interval = 0.2
settle_timeout = 5
catalogue = {catalogue}
[baremetal_acc_demand]
nova_transport_url = {bus}
[ironic]
auth_type = password
auth_url = {keystone}
username = admin
password = {admin}
user_domain_name = Default
system_scope = all
[placement]
auth_type = password
auth_url = {keystone}
username = ironic
password = {ironic}
user_domain_name = Default
project_domain_name = Default
project_name = service
"""


def test_a_boot_that_found_no_host_succeeds_later(site: Site, enrol: Enrol, documents: Path, tmp_path: Path) -> None:
    """Keystone authorises the command at Ironic and at placement. One region is programmed, for the one boot."""
    node = available(site, enrol, 'fpga-server', 'demand')
    assert [None, None] == functions(node)
    flavor = site.flavor('demand', ACC=AES)
    where, passwords = site.where, site.where['passwords']
    text = CONF.format(
        catalogue=documents / 'catalogue.toml',
        bus=where['bus'],
        keystone=where['keystone'],
        **{name: passwords[name] for name in ('admin', 'ironic')},
    )
    with open(tmp_path / 'acc.conf', 'w', opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text)
    (tmp_path / 'pools.toml').write_text('format = 1\n')
    arguments = ['pool', 'watch', '--execute', '--interval', '2', '--config-file', 'acc.conf', '--pools', 'pools.toml']
    said = tmp_path / 'said'
    with said.open('w') as stream:
        process = subprocess.Popen(
            [sys.executable, '-m', 'baremetal_acc.cli.main', *arguments],
            cwd=tmp_path,
            env={name: os.environ[name] for name in ('PATH', 'PYTHONPATH') if name in os.environ} | {'HOME': str(tmp_path)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stream,
        )
        try:
            until(lambda: 'watching the pools' in said.read_text(), 60, 'that it watches')
            first = site.boot(flavor)
            fault = first.settle('ERROR')['fault']
            assert 'No valid host was found. ' == fault['message']
            until(
                lambda: f'demand {first.id} for aes' in said.read_text() and 'schedulable after' in said.read_text(),
                90,
                'region',
            )
            assert 1 == len(node.uploads())
            second = site.boot(flavor)
            second.settle('ACTIVE')
        finally:
            process.terminate()
            process.wait(60)
    assert 0 == process.returncode, said.read_text()
    handed_over(site, second, node, documents, AES)
    assert 1 == len(node.uploads())
    for server in (first, second):
        server.delete()
