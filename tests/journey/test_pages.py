# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The commands of the pages on Ironic do what the pages say, with real Ironic that reads the file for ``ironic.conf.d``."""

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from ironicclient import shell

from baremetal_acc.demo.service_files import ironic_conf
from baremetal_acc_ironic import ironic_conf_command
from tests.operator_folder import write_operator_folder
from tests.page_runs import run_on
from tests.pages import block_with
from tests.terminal import Terminal

pytestmark = pytest.mark.journey

ALL = os.environ.get('BAREMETAL_ACC_DOCS') == 'all'
"""Whether what takes longer runs, too (make soak-docs)."""

THEIRS = """\
[DEFAULT]
enabled_hardware_types = redfish
enabled_firmware_interfaces = no-firmware,redfish
enabled_inspect_interfaces = agent,no-inspect,redfish
enabled_power_interfaces = redfish
enabled_boot_interfaces = redfish-virtual-media
enabled_deploy_interfaces = direct
[api]
middleware =
[conductor]
sync_power_state_interval = 300
"""
"""An operator's Ironic that does not know our hardware types."""

DROP_IN = '/etc/ironic/ironic.conf.d/50-baremetal-acc.conf'


class Client:
    """``baremetal``, in this process: a process for each command would spend two seconds on imports.

    :param address: of Ironic's API.
    """

    def __init__(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv('OS_AUTH_TYPE', 'none')
        monkeypatch.setenv('OS_ENDPOINT', address)
        for name in ('HTTP_PROXY', 'http_proxy'):
            monkeypatch.delenv(name, raising=False)

    def say(self, words: str, code: int = 0) -> str:
        """What a command prints; what follows a pipe runs as a process."""
        words, _, filters = words.partition(' | ')
        program, *arguments = shlex.split(words.replace('\\\n', ' '), comments=True)
        assert 'baremetal' == program
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            found = shell.main(arguments)
        if found != code:
            why = '' if words.startswith('baremetal node show') else self.say('baremetal node show NODE --fields last_error')
            pytest.fail(f'{words}: exit code {found}\n{out.getvalue()}\n{err.getvalue()}\n{why}')
        if not filters:
            return out.getvalue()
        return subprocess.run(shlex.split(filters), input=out.getvalue(), capture_output=True, text=True, check=True).stdout

    def show(self, node: str) -> dict[str, Any]:
        """A node."""
        found: dict[str, Any] = json.loads(self.say(f'baremetal node show -f json {node}'))
        return found


@contextlib.contextmanager
def running_services(state: Path, *files: Path) -> Iterator[dict[str, Any]]:
    """Ironic and placement, with further files of Ironic's configuration; the last one wins."""
    command = [sys.executable, '-m', 'baremetal_acc.demo.services', '--state', str(state), '--placement', '--ironic']
    command += [f'--ironic-conf-extra={path}' for path in files]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate(timeout=120)[1])
        yield json.loads(line)
    finally:
        process.communicate(timeout=120)


def replaced(text: str, words: Mapping[str, str]) -> str:
    """A text with other words, each of which has to be in it."""
    for old, new in words.items():
        assert old in text, f'{old!r} is not in {text!r}'
        text = text.replace(old, new)
    return text


def written_drop_in(words: str, folder: Path, before: list[Path]) -> Path:
    """The file that a command of the pages writes for an Ironic that is started with some files."""
    path = folder / 'ironic.conf.d' / Path(DROP_IN).name
    path.parent.mkdir(exist_ok=True)
    program, *arguments = shlex.split(words.replace(DROP_IN, str(path)))
    assert ('baremetal-acc-ironic-conf', True) == (program, str(path) in arguments)
    sources = [f'--config-file={name}' for name in before]
    assert 0 == ironic_conf_command.main([*sources, f'--config-dir={path.parent}', *arguments])
    return path


def create_root_provider(placement: str, uuid: str) -> None:
    """What nova-compute does soon after a node is enrolled."""
    with requests.Session() as nova:
        nova.trust_env = False
        body = {'uuid': uuid, 'name': uuid}
        assert nova.post(f'{placement}/resource_providers', json=body, headers={'X-Auth-Token': 'admin'}, timeout=60).ok


def soon(words: str) -> str:
    """The words with a date that is always ahead, but less than a year."""
    return re.sub(r'20\d\d-\d\d-\d\d', str((datetime.now(UTC) + timedelta(days=30)).date()), words)


def test_the_commands_of_the_pages_on_ironic(tmp_path: Path, emulated_machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A newcomer's Ironic gets the file of the page, and a node of our type, which is inspected, cleaned and published."""
    write_conf, drivers, create, add_dpu, manage, inspect, provide, show = run_on('README')
    both, ipmi, runbook, its_trait, trait, service, waive, manage_again, allow, power = run_on('ironic')
    assert [] == run_on('install'), 'its commands are those of the README'
    [attached] = run_on('attach')
    has_ipmitool = shutil.which('ipmitool') is not None
    machine = emulated_machine('acc-server', flash_seconds=0.2, reset_seconds=0.1)
    host, dpu = machine.bmcs['host'], machine.bmcs['dpu']

    operator = write_operator_folder(tmp_path)
    theirs = tmp_path / 'theirs.conf'
    theirs.write_text(THEIRS)
    present = tmp_path / 'present.conf'
    present.write_text(ironic_conf(state=tmp_path / 'state', port=6385))
    drop_in = written_drop_in(both.words, tmp_path, [present, theirs])
    assert 'ipmi-acc' in drop_in.read_text()
    drop_in = written_drop_in(write_conf.words, tmp_path, [present, theirs])
    assert 'ipmi-acc' not in drop_in.read_text()
    if has_ipmitool:  # both types, and nodes that Ironic does not image
        drop_in = written_drop_in(f'{both.words} --without-ramdisk', tmp_path, [present, theirs])

    ca = tmp_path / 'bmc-ca.pem'
    ca.write_text(''.join(Path(bmc.verify_ca).read_text() for bmc in (host, dpu)))
    options, placement, _ = block_with('README', 'ini', '[redfish-acc]').partition('[placement]')
    assert placement
    ours = tmp_path / 'ours.conf'
    names = {'/etc/ironic/bmc-ca.pem': str(ca), '/etc/baremetal_acc/certificate.pem': str(tmp_path / 'certificate.pem')}
    names |= {f'/etc/baremetal_acc/{name}': str(operator / name) for name in ('baseline.toml', 'catalogue.toml')}
    ours.write_text(replaced(options, names))
    quick = operator / 'baremetal_acc.conf'  # waiting times that suit emulated cards

    with running_services(tmp_path / 'state', theirs, quick, ours, drop_in) as where:
        client = Client(where['ironic'], monkeypatch)
        listed = client.say(drivers.words).split()
        assert {'redfish', 'redfish-acc'} <= {*listed}
        login = {'USER': host.username, 'PASSWORD': host.password, '/redfish/v1/Systems/1': host.system}
        client.say(replaced(create.words, {'https://192.0.2.10': host.address, **login}))
        login = {'USER': dpu.username, 'PASSWORD': dpu.password}
        client.say(replaced(add_dpu.words, {'https://192.0.2.11': dpu.address, **login}))
        client.say(manage.words)
        create_root_provider(where['placement'], client.show('NODE')['uuid'])
        client.say(inspect.words)
        client.say(provide.words)
        shown = client.say(show.words)
        assert 'available' in shown
        truth = machine.truth()
        assert 'gzip' == truth['components']['host/FPGA1_Slot0']['active']['function']
        assert truth['locks']['HGX_ERoT_GPU_0/InbandUpdatePolicyEnabled']['closed']
        assert {'CUSTOM_ACC_GPU', 'CUSTOM_ACC_FN_GZIP'} <= {*client.show('NODE')['traits']}

        if has_ipmitool:
            client.say(replaced(ipmi.words, {'--name NODE': '--name over-ipmi'}))
            assert 'ipmi-acc' == client.show('over-ipmi')['firmware_interface']
        for command in (runbook, its_trait, trait):
            client.say(command.words)
        if ALL:
            client.say('baremetal node deploy --wait 300 NODE')
            client.say(attached.words)
            serial = next(c['serial'] for c in accelerators(client) if c['kind'] == 'GPU')
            client.say(replaced(service.words, {'1652914505909': serial, 'node service': 'node service --wait 300'}))
            client.say('baremetal node undeploy --wait 300 NODE')
            client.say(manage_again.words)
            client.say(soon(allow.words))
            client.say(power.words)
            client.say(soon(replaced(waive.words, {'node clean': 'node clean --wait 300'})))


def accelerators(client: Client) -> list[dict[str, Any]]:
    """Those in the inventory of the node."""
    found = json.loads(client.say('baremetal node inventory save NODE'))
    cards: list[dict[str, Any]] = found['plugin_data']['baremetal_acc']['inventory']['accelerators']
    return cards


def quickstart(tmp_path: Path) -> None:
    """The demo, then Ironic by hand: create, inspect, clean, deploy, verify and undeploy the node, each with exit code 0."""
    demo, serve, path, where, *words = (command.words for command in run_on('quickstart'))
    folders = {'/tmp/acc-services': str(tmp_path / 'services'), '/tmp/acc/': f'{tmp_path}/acc/'}
    terminal = Terminal(tmp_path)
    assert "make demo DEMO_ARGS='--state /tmp/acc'" == demo
    terminal.must(f'baremetal-acc demo --state {tmp_path / "acc"}', seconds=600)
    serve = replaced(serve, {**folders, '.venv/bin/python': 'python'})
    assert path.startswith('export PATH=')
    printed = tmp_path / 'running.out'
    with terminal.running(serve, lambda: printed.exists() and printed.read_text().endswith('\n'), seconds=200):
        addresses = json.loads(printed.read_text())
        script = replaced(where, {'http://127.0.0.1:21001': addresses['ironic']})
        changed = {'/tmp/acc-services': str(tmp_path / 'services'), 'http://127.0.0.1:21002': addresses['placement']}
        for command in words:
            for old, new in changed.items():
                command = command.replace(old, new)
            terminal.must(f'{script}\n{command}', seconds=600)
            if command.startswith('UUID='):
                script += f'\n{command}'


if ALL:  # a test that is skipped fails the run of CI

    def test_the_commands_of_the_quickstart(tmp_path: Path) -> None:
        """It runs the demo, and takes two minutes."""
        quickstart(tmp_path)
