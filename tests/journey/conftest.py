# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Real Ironic and real placement as processes, and emulated machines, for the journeys; nothing is mocked.

One Ironic serves all journeys: rules of the baseline ask for a node's resource class, so each journey has its own demands.
"""

import contextlib
import hashlib
import io
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.emulator import image
from baremetal_acc.emulator.image import build_image
from baremetal_acc.emulator.ipmi.upgrade_image import UploadAction, build_upgrade_image
from baremetal_acc.emulator.tray_package import tray_package
from tests.journey.api import Node, Services

GPU_OLD, GPU_NEW = '96.00.30.00.01', '96.00.74.00.01'
FPGA_OLD, FPGA_NEW = '2.0.0', '2.1.0'
DPU_OLD, DPU_NEW = '32.39.2048', '32.43.1014'
TRAY_OLD, TRAY_NEW = '97.00.82.00.18', '97.00.82.00.20'
HPM_OLD, HPM_NEW = '2.0.0', '2.1.4'
SHOWN_OLD, SHOWN_NEW = '2.00', '2.01.04000000'
"""As HPM.1 tells these two."""

TENANT = '6.6.6'

BASELINE = f"""\
format = 1

# whole-life: everything
[[rule]]
name = "life of GPUs"
match = {{ resource_class = "life", kind = "GPU" }}
count = 2
firmware = {{ "*_FW_GPU_*" = "{GPU_NEW}" }}

[[rule]]
name = "life of FPGAs"
match = {{ resource_class = "life", kind = "FPGA" }}
firmware = {{ "FPGA1_FW" = "{FPGA_NEW}" }}

[[rule]]
name = "life of DPUs"
match = {{ resource_class = "life", kind = "DPU" }}
firmware = {{ "DPU_NIC" = "{DPU_NEW}" }}

# functions in both slots
[[rule]]
name = "functions"
match = {{ resource_class = "life", kind = "FPGA" }}
functions = {{ "Slot0" = "gzip", "Slot1" = "aes" }}

[[rule]]
name = "functions only"
match = {{ resource_class = "functions", kind = "FPGA" }}
functions = {{ "Slot0" = "gzip", "Slot1" = "aes" }}

# slots that are claimed whatever they hold
[[rule]]
name = "regions"
match = {{ resource_class = "regions", kind = "FPGA" }}
offer = "region"
tenants_program = true

# one component of GPUs
[[rule]]
name = "flash"
match = {{ resource_class = "flash", kind = "GPU" }}
firmware = {{ "*_FW_GPU_*" = "{GPU_NEW}" }}
custody = "reported"

[[rule]]
name = "flash what is damaged"
match = {{ resource_class = "damaged", kind = "GPU" }}
firmware = {{ "*_FW_GPU_*" = "97.damaged" }}

# a whole tray by one package
[[rule]]
name = "tray"
match = {{ resource_class = "tray", kind = "GPU" }}
firmware = {{ "HGX_FW_GPU_*" = "{TRAY_NEW}" }}

# spoken to by IPMI alone
[[rule]]
name = "over IPMI"
match = {{ resource_class = "ipmi" }}
firmware = {{ "FPGA1_FW" = "{SHOWN_NEW}" }}
block = ["host-bmc-ipmi"]

# all others ("locks"): nothing but closed
[[rule]]
name = "closed to tenants"
block = ["host-device"]
"""

CONF = """\
[baremetal_acc]
baseline = {folder}/baseline.toml
catalogue = {folder}/catalogue.toml
poll_interval = 0.3
settle_timeout = 1.5
stall_timeout = 10
reset_timeout = 30
job_timeout = 90
bmc_timeout = 10
[redfish]
# Ironic's own looks at a BMC that does not answer: five times four seconds each, a dozen times.
connection_attempts = 1
[conductor]
enable_health_monitoring = false
sync_power_state_interval = 300
automated_cleaning_step_source = hybrid
automated_cleaning_runbook_by_resource_class = direct:CUSTOM_OUT_OF_BAND_CLEANING
"""

IPMI_CONF = """\
devices = {folder}/devices.d
[DEFAULT]
enabled_hardware_types = redfish-acc,ipmi-acc,redfish
enabled_firmware_interfaces = redfish-acc,ipmi-acc,redfish
enabled_inspect_interfaces = redfish-acc,ipmi-acc,redfish,no-inspect
enabled_management_interfaces = redfish,ipmitool,noop
enabled_power_interfaces = redfish-acc,ipmi-acc,redfish
[ipmi]
# Between two runs of ipmitool for one BMC.
min_command_interval = 1
"""
"""Where ipmitool is on this machine: without it no conductor of this type starts."""

DEVICES = 'format = 1\n[[device]]\nkind = "FPGA"\nnames = ["FPGA PAC *"]\nvendor = "Intel"\n'

_numbers = itertools.count(1)


def build(folder: Path, name: str, **header: str) -> Path:
    """An image, made by the emulator's own tool."""
    path = folder / f'{name}.img'
    options = [word for key, value in header.items() for word in (f'--{key.replace("_", "-")}', value)]
    with contextlib.redirect_stdout(io.StringIO()):
        assert 0 == image.main(['build', '--out', str(path), *options])
    return path


def entry(path: Path, **keys: str) -> str:
    """An ``[[image]]``."""
    data = path.read_bytes()
    digest = keys.pop('digest', hashlib.sha256(data).hexdigest())
    fits = keys.pop('fits')
    reset = keys.pop('reset', 'none')
    lines = ''.join(f'{key} = "{value}"\n' for key, value in keys.items())
    return (
        f'[[image]]\nname = "{path.stem}"\nfits = [{{ {fits} }}]\nsecurity_version = 1\nsource = "{path.name}"\n'
        f'size = {len(data)}\ndigest = "sha256:{digest}"\napply = {{ reset = "{reset}" }}\n{lines}\n'
    )


@pytest.fixture(scope='session')
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with baseline, catalogue and images, as an operator writes them; ``tenant-*.img`` are a tenant's own."""
    folder = tmp_path_factory.mktemp('operator')
    gpu = {'fits': 'pci = "0x10de:0x2330"', 'component': '*_FW_GPU_*', 'kind': 'firmware', 'reset': 'system-reset'}
    fpga = {'fits': 'pci = "0x8086:0x0b2b"', 'component': 'FPGA1_FW', 'kind': 'firmware', 'reset': 'system-reset'}
    dpu = {'fits': 'part_number = "900-9D3B6-00CV-AA0"', 'component': 'DPU_NIC', 'kind': 'firmware', 'reset': 'system-reset'}
    slot = {'fits': 'pci = "0x8086:0x0b2b"', 'component': 'Slot*', 'kind': 'function'}
    cards = {'gpu': ('h100', 'gpu', gpu), 'fpga': ('d5005', 'fpga', fpga), 'dpu': ('bluefield3', 'nic', dpu)}
    versions = {'gpu': (GPU_OLD, GPU_NEW), 'fpga': (FPGA_OLD, FPGA_NEW), 'dpu': (DPU_OLD, DPU_NEW)}
    text = ['format = 1\n\n']
    for card, (model, component, keys) in cards.items():
        old, new = versions[card]
        path = build(folder, f'{card}-old', model=model, component=component, version=old)
        text.append(entry(path, version=old, restore='none', **keys))
        path = build(folder, f'{card}-new', model=model, component=component, version=new, size='300KiB')
        text.append(entry(path, version=new, restore=f'{card}-old', **keys))
        build(folder, f'tenant-{card}', model=model, component=component, version=TENANT)
    for function in ('gzip', 'aes', 'zstd', 'ipsec'):
        path = build(folder, function, kind='function', model='d5005', component='slot', version='1.0', function=function)
        text.append(entry(path, version='1.0', function=function, **slot))
    build(folder, 'tenant-slot', kind='function', model='d5005', component='slot', version=TENANT, function='miner')
    path = build(folder, 'damaged', model='h100', component='gpu', version='97.damaged')
    text.append(entry(path, version='97.damaged', restore='gpu-old', digest='0' * 64, **gpu))
    text += (_bundle(folder, name, version) for name, version in (('old', TRAY_OLD), ('new', TRAY_NEW)))
    text += (_upgrade(folder, version, other) for version, other in ((HPM_OLD, HPM_NEW), (HPM_NEW, HPM_OLD)))
    (folder / 'catalogue.toml').write_text(''.join(text))
    (folder / 'baseline.toml').write_text(BASELINE)
    (folder / 'devices.d').mkdir()
    (folder / 'devices.d' / '10-ours.toml').write_text(DEVICES)
    conf = CONF.replace('[redfish]\n', f'{IPMI_CONF}[redfish]\n') if shutil.which('ipmitool') else CONF
    (folder / 'ironic.conf').write_text(conf.format(folder=folder))
    return folder


def _bundle(folder: Path, name: str, version: str) -> str:
    """A package for a tray, and its ``[[bundle]]``."""
    path = folder / f'tray-{name}.fwpkg'
    path.write_bytes(data := tray_package('hgx-tray', {'HGX_FW_GPU_*': version}, version=name))
    digest = hashlib.sha256(data).hexdigest()
    restore = 'tray-old' if name == 'new' else 'none'
    return (
        f'[[bundle]]\nname = "{path.stem}"\nsource = "{path.name}"\nsize = {len(data)}\ndigest = "sha256:{digest}"\n'
        'targets = ["/redfish/v1/UpdateService/FirmwareInventory/HGX_0"]\ncomponent_targets = true\n'
        f'restore = "{restore}"\nsecurity_version = 1\nfits = [{{ pci = "0x10de:0x2901" }}]\n'
        'apply = { reset = "power-cycle" }\n'
        f'[[bundle.component]]\nname = "gpu"\ncomponent = "HGX_FW_GPU_*"\nidentifier = 0x0020\nversion = "{version}"\n\n'
    )


def _upgrade(folder: Path, version: str, other: str) -> str:
    """An upgrade image of HPM.1 for the FPGA card, and its ``[[image]]``."""
    path = folder / f'hpm-{version}.img'
    data = build_image(model='d5005', component='fpga', version=version, size_bytes=2000)
    uploaded = UploadAction(component=0, version=version, data=data, description='FPGA')
    path.write_bytes(build_upgrade_image([uploaded], device_id=0x31, manufacturer=0, product=0))
    shown = {HPM_OLD: SHOWN_OLD, HPM_NEW: SHOWN_NEW}[version]
    fits = 'part_number = "BD-ACD-D5005"'
    return entry(
        path, kind='firmware', component='FPGA1_FW', version=shown, restore=f'hpm-{other}', fits=fits, reset='power-cycle'
    )


@contextlib.contextmanager
def run_services(
    state: Path, documents: Path, *variables: str, with_placement: bool = True
) -> Iterator[tuple[Services, subprocess.Popen[str]]]:
    """Ironic and placement; they end with the block.

    :param variables: ``NAME=VALUE`` of their environment.
    :param with_placement: else the documents' ironic.conf says where placement is, or will be.
    """
    command = [sys.executable, '-m', 'baremetal_acc.demo.services', '--state', str(state), '--ironic']
    command += ['--placement'] if with_placement else []
    command += ['--ironic-conf-extra', str(documents / 'ironic.conf')]
    command += [word for variable in variables for word in ('--env', variable)]
    # They end with their standard input: a test run that is killed leaves nothing behind.
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        if not line:
            pytest.fail(process.communicate(timeout=120)[1])
        yield Services.of(json.loads(line), documents), process
    finally:
        process.communicate(timeout=120)


class Shared:
    """The Ironic and the placement of most journeys. Idle they take a tenth of a processor, so they end with the last one."""

    def __init__(self) -> None:
        self._ends = contextlib.ExitStack()
        self._running: Services | None = None

    def running(self, state: Path, documents: Path) -> Services:
        """They are started when they do not run."""
        if self._running is None:
            self._running, _ = self._ends.enter_context(run_services(state / 'services', documents))
        return self._running

    def end(self) -> None:
        self._running = None
        self._ends.close()


SHARED = Shared()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """After a test of this folder that is followed by one of another."""
    if nextitem is not None and Path(__file__).parent not in nextitem.path.parents:
        SHARED.end()


@pytest.fixture(scope='session')
def shared_services() -> Iterator[Shared]:
    """They end with the run at the latest."""
    yield SHARED
    SHARED.end()


@pytest.fixture
def services(shared_services: Shared, tmp_path_factory: pytest.TempPathFactory, documents: Path) -> Services:
    """A running Ironic and a running placement, with what other journeys have left in them."""
    return shared_services.running(tmp_path_factory.mktemp('state'), documents)


Enrol = Callable[..., Node]


def enrol_node(services: Services, machine: Any, resource_class: str, *, root: bool = True, **fields: Any) -> Node:
    """A node of a machine, and its root provider as nova-compute makes it.

    :param root: make it; else a real nova-compute will.
    """
    host = machine.bmcs['host'] if 'host' in machine.bmcs else next(iter(machine.bmcs.values()))
    further = {
        name: {'address': b.address, 'username': b.username, 'password': b.password, 'verify_ca': b.verify_ca}
        for name, b in machine.bmcs.items()
        if b is not host
    }
    own = {
        'redfish_address': host.address,
        'redfish_username': host.username,
        'redfish_password': host.password,
        'redfish_verify_ca': host.verify_ca,
        'redfish_system_id': host.system,
        'acc_parallel_updates': 4,
    }
    if fields.get('driver') == 'ipmi-acc':
        own = {
            'ipmi_address': '127.0.0.1',
            'ipmi_port': host.ipmi_port,
            'ipmi_username': host.username,
            'ipmi_password': host.password,
            'ipmi_cipher_suite': 17,
        }
    info = {
        **own,
        **({'acc_bmcs': further} if further else {}),
        **fields.pop('driver_info', {}),
    }
    name = f'{resource_class}-{next(_numbers)}'
    body = {
        'name': name,
        'driver': 'redfish-acc',
        'resource_class': resource_class,
        'deploy_interface': 'noop',
        'boot_interface': 'fake',
        'network_interface': 'noop',
        # Each of its looks costs 0.4 s of a processor (ironic 39.0.0, drivers/modules/redfish/utils.py, SessionCache: PBKDF2).
        'management_interface': 'noop',
        'bios_interface': 'no-bios',
        'driver_info': info,
    }
    made = services.ironic.take('POST', '/v1/nodes', body | fields)
    node = Node(services=services, uuid=made['uuid'], name=name, machine=machine)
    if not root:
        return node
    unit = {'total': 1, 'reserved': 0, 'min_unit': 1, 'max_unit': 1, 'step_size': 1, 'allocation_ratio': 1.0}
    services.placement.take('PUT', '/resource_classes/CUSTOM_BAREMETAL')
    services.placement.take('POST', '/resource_providers', {'uuid': node.uuid, 'name': node.uuid})
    inventories = {'resource_provider_generation': 0, 'inventories': {'CUSTOM_BAREMETAL': unit}}
    services.placement.take('PUT', f'/resource_providers/{node.uuid}/inventories', inventories)
    return node


@pytest.fixture
def enrol(services: Services, emulated_machine: Any) -> Iterator[Enrol]:
    """Enrol a node of a new machine, and bring it to manageable. Its machine is quick, and gone after the test."""
    nodes: list[Node] = []

    def make(product: str, resource_class: str, *, manage: bool = True, machine: Any = None, **fields: Any) -> Node:
        parameters = {'flash_seconds': 0.5, 'reset_seconds': 0.1} | fields.pop('parameters', {})
        machine = machine or emulated_machine(product, **parameters)
        node = enrol_node(services, machine, resource_class, **fields)
        nodes.append(node)
        if manage:
            node.to('manage', 'manageable')
            machine.reset_log()
        return node

    yield make
    for node in nodes:
        # Nobody shall look at a machine that is gone: the conductor would wait for it.
        services.ironic.ask('PUT', f'{node.path}/maintenance', {'reason': 'the journey is over'})
        services.ironic.ask('DELETE', node.path)
