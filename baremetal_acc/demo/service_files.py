# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The files of the demo services: configuration, chosen ports and the key that signs certificates."""

import base64
import json
import os
import random
import secrets
import socket
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

PORTS = range(20000, 32000)
"""Below Linux's ephemeral ports (32768-60999): no outgoing connection takes one before the service listens on it."""

PLACEMENT_CONF = """\
[DEFAULT]
log_options = false
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{state}/placement.sqlite
sqlite_synchronous = false
sync_on_startup = true
"""

_IRONIC_CONF = """\
[DEFAULT]
auth_strategy = noauth
rpc_transport = none
host = conductor
my_ip = 127.0.0.1
state_path = {state}
tempdir = {state}/tmp
log_file = {state}/ironic.log
enabled_hardware_types = redfish-acc,redfish
enabled_bios_interfaces = no-bios,redfish
enabled_boot_interfaces = fake,redfish-virtual-media
enabled_console_interfaces = no-console
enabled_deploy_interfaces = {no_deploy},direct
enabled_firmware_interfaces = redfish-acc,redfish
enabled_inspect_interfaces = redfish-acc,redfish,no-inspect
enabled_management_interfaces = redfish,noop
enabled_network_interfaces = noop
enabled_power_interfaces = redfish-acc,redfish
enabled_raid_interfaces = no-raid,agent
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor,redfish
default_network_interface = noop
[api]
host_ip = 127.0.0.1
port = {port}
{guard}
[baremetal_acc]
certificate_key = {state}/certificate.pem
certificate_folder = {state}/certificates
{accepted}
[conductor]
# With fewer than 28 the worker dies and is forked again, without end (ironic/conductor/base_manager.py).
workers_pool_size = 40
heartbeat_interval = 2
check_provision_state_interval = 3
sync_power_state_interval = 30
[database]
connection = sqlite:///{state}/ironic.sqlite
[dhcp]
dhcp_provider = none
[deploy]
http_root = {state}/http
[oslo_concurrency]
lock_path = {state}/lock
[sensor_data]
send_sensor_data = false
"""

IRONIC_PLACEMENT_CONF = """\
[placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
"""


_ED25519 = bytes.fromhex('302e020100300506032b657004220420')
"""OneAsymmetricKey of version 0 with algorithm 1.3.101.112, up to the key itself. Source: RFC 8410, section 10.3."""


def ironic_conf(*, state: Path, port: int) -> str:
    """Return Ironic's configuration file, for what the installed Ironic can do."""
    takes_middleware = api_takes_middleware()
    return _IRONIC_CONF.format(
        state=state,
        port=port,
        no_deploy=no_deploy_interface(),
        guard='middleware = baremetal-acc-policy' if takes_middleware else '',
        accepted='' if takes_middleware else 'accepted_misconfigurations = no_api_guard',
    )


def no_deploy_interface() -> str:
    """The deploy interface that images nothing: ``noop``, or ``fake`` where the installed Ironic has none, as Ironic 32."""
    installed = entry_points(group='ironic.hardware.interfaces.deploy').names
    return 'noop' if 'noop' in installed else 'fake'


def api_takes_middleware() -> bool:
    """Whether the installed Ironic has an option ``[api] middleware``, which Ironic 32 has not.

    Its source is read: an import of Ironic would set up its libraries in this process.
    """
    found = find_spec('ironic')
    roots = (found.submodule_search_locations or ()) if found else ()
    return any("'middleware'" in (Path(root) / 'conf' / 'api.py').read_text(encoding='utf-8') for root in roots)


def choose_ports(remembered: Path, names: Sequence[str]) -> dict[str, int]:
    """A port for each name: that of an earlier run in the same state directory if it is free, else a random one."""
    earlier = json.loads(remembered.read_text()) if remembered.exists() else {}
    ports: dict[str, int] = {}
    for name in names:
        candidates = [earlier[name]] if name in earlier else []
        candidates += random.sample(PORTS, 100)
        ports[name] = next(port for port in candidates if port not in ports.values() and _is_free(port))
    write_private(remembered, json.dumps(ports))
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # else our own last connections hold it for a minute
        try:
            probe.bind(('127.0.0.1', port))
        except OSError:
            return False
    return True


def open_private(path: str, flags: int) -> int:
    """An opener of files that only their owner can read."""
    return os.open(path, flags, 0o600)


def write_certificate_key(state: Path) -> Path:
    """Write a private key for signing hand-over certificates; the key of an earlier start stays.

    An Ed25519 key in PEM is 32 random bytes after 16 constant ones (RFC 8410, section 7). It is made without ``openssl``, which
    an operator would use, so that ``openssl`` need not be installed.
    """
    path = state / 'certificate.pem'
    if not path.exists():
        lines = base64.b64encode(_ED25519 + secrets.token_bytes(32)).decode()
        write_private(path, f'-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n')
    return path


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    with open(path, 'w', opener=open_private) as file:
        file.write(text)
