# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command line of the emulator, for ``python -m baremetal_acc.emulator`` and the verb ``emulate``.

Passwords are never arguments: they are read from a file, or generated and written to a file that only its owner can read.
"""

import argparse
import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from baremetal_acc import standard_streams
from baremetal_acc.emulator.access import CurrentUser
from baremetal_acc.emulator.habit import HABITS as REDFISH_HABITS
from baremetal_acc.emulator.http_frontend import Knobs
from baremetal_acc.emulator.hw import PRODUCTS, build
from baremetal_acc.emulator.hw.parameters import BadParameter, Parameters
from baremetal_acc.emulator.ipmi.cipher_suites import SUITES
from baremetal_acc.emulator.ipmi.hpm_ability import HABITS
from baremetal_acc.emulator.ipmi.inventory_habits import HABITS as INVENTORY_HABITS
from baremetal_acc.emulator.ipmi.lan import LanLine
from baremetal_acc.emulator.ipmi.site import LONGEST_PASSWORD, IpmiOptions
from baremetal_acc.emulator.recording import BadRecording, Recording
from baremetal_acc.emulator.redfish.view import Options
from baremetal_acc.emulator.server import LOOPBACK, Emulator, Serving
from baremetal_acc.emulator.store import BadState
from baremetal_acc.emulator.tls import write_private

_LAST_PORT = 65535

_LONGEST = 7 * 24 * 3600

_MOST = 1000

_HABITS = ('forgets', 'applies-in-part', 'takes-no-qualifier', 'ignores-qualifier', 'wants-makers-qualifier')
"""Values of ``--firewall-habit``."""

_FOR_IPMI = (
    'ipmi_suites',
    'ipmi_idle_seconds',
    'ipmi_loss',
    'ipmi_delay',
    'no_hpm',
    'no_long_blocks',
    'no_manual_rollback',
    'automatic_rollback',
    'no_firewall',
    'firewall_habit',
    'hpm_habit',
    'inventory_habit',
)

_NOT_SERVED = 1
"""The exit code of an emulator that could not serve."""

_NO_RECORDING = 'name a product instead of --recording'
_A_FILE = 'name a file in a folder in which you may write'
_AN_ADDRESS = 'give an address of this machine'
_TO_SERVE = 'check --listen, --port and --state, and what this process may open'
"""What to do about an argument."""

N = TypeVar('N', int, float)


class BadUsers(Exception):
    """The file with the accounts is not valid."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the emulator to a parser."""
    parser.add_argument('product', nargs='?', default='acc-server', metavar='PRODUCT', help=f'one of {", ".join(PRODUCTS)}')
    parser.add_argument('--recording', type=Path, metavar='DIR', help='serve this recorded tree instead of a product')
    parser.add_argument('--listen', default=LOOPBACK, metavar='ADDRESS', help='address to listen on (default: %(default)s)')
    parser.add_argument(
        '--port', type=_port, default=0, help='port of the first BMC; the next BMCs use the next ports; 0: free ports'
    )
    parser.add_argument('--http', action='store_true', help='serve HTTP instead of HTTPS')
    parser.add_argument('--state', type=Path, metavar='DIR', help='folder that keeps the state of the machine')
    parser.add_argument(
        '--flash-seconds', type=_seconds, default=2.0, metavar='S', help='seconds that the write of an image takes (default: 2)'
    )
    parser.add_argument(
        '--reset-seconds', type=_seconds, default=0.2, metavar='S', help='seconds that a reset takes (default: 0.2)'
    )
    parser.add_argument('--gpus', type=_count, help='number of GPUs, if the product has GPUs')
    parser.add_argument(
        '--feature', action='append', default=[], metavar='NAME', help='optional feature of the product; can be repeated'
    )
    parser.add_argument(
        '--habit',
        action='append',
        default=[],
        metavar='NAME',
        help=f'permanent behaviour of the BMCs; can be repeated: {", ".join(REDFISH_HABITS)}',
    )
    parser.add_argument(
        '--write-spdm-root',
        type=Path,
        metavar='FILE',
        help='write the root certificate of devices that sign (--feature spdm), in PEM',
    )
    parser.add_argument(
        '--parallel-updates', type=_count, default=4, metavar='N', help='updates that a BMC runs at a time (default: 4)'
    )
    parser.add_argument(
        '--users', type=Path, metavar='FILE', help='accounts in JSON: {"BMC or *": [{"username", "password", "role"}]}'
    )
    parser.add_argument(
        '--ready-file', type=Path, metavar='FILE', help='write addresses and accounts in JSON, passwords included'
    )
    parser.add_argument(
        '--bmcs-file',
        type=Path,
        metavar='FILE',
        help='write a list of targets (bmcs.yaml) with this machine for the other commands, passwords included',
    )
    parser.add_argument('--delay', type=_seconds, default=0.0, metavar='S', help='seconds that each answer takes')
    parser.add_argument('--slots', type=_count, help='requests that a BMC handles at a time (default: no limit)')
    parser.add_argument(
        '--expand-member-delay', type=_seconds, default=0.0, metavar='S', help='further seconds for each expanded member'
    )
    parser.add_argument('--no-expand', action='store_true', help='BMCs without $expand')
    parser.add_argument('--no-push', action='store_true', help='BMCs without MultipartHttpPushUri: they only pull images')
    parser.add_argument('--no-pull', action='store_true', help='BMCs without SimpleUpdate: images can only be pushed')
    parser.add_argument(
        '--http-push', action='store_true', help='BMCs with HttpPushUri, its targets, its options and their Busy flags'
    )
    parser.add_argument('--no-update-service', action='store_true', help='BMCs without UpdateService')
    parser.add_argument('--no-auth', action='store_true', help='BMCs that require no login')
    parser.add_argument(
        '--ipmi', action='store_true', help='also serve IPMI; with --port, on the UDP ports of the same numbers'
    )
    suites = ','.join(str(number) for number in SUITES)
    parser.add_argument(
        '--ipmi-suites', type=_suites, metavar='N[,N]', help=f'IPMI cipher suites of the BMCs (default: {suites})'
    )
    parser.add_argument(
        '--ipmi-idle-seconds', type=_seconds, metavar='S', help='seconds until an idle IPMI session ends (default: 60)'
    )
    parser.add_argument(
        '--ipmi-loss', type=_share, metavar='SHARE', help='share of the IPMI datagrams that are lost in each direction, 0 to 1'
    )
    parser.add_argument('--ipmi-delay', type=_seconds, metavar='S', help='seconds by which each IPMI answer is delayed')
    parser.add_argument('--no-hpm', action='store_true', help='no firmware update over IPMI (HPM.1)')
    parser.add_argument('--no-long-blocks', action='store_true', help='no HPM.2: upload blocks have at most 200 bytes')
    parser.add_argument('--no-manual-rollback', action='store_true', help='controllers without manual rollback')
    parser.add_argument(
        '--automatic-rollback', action='store_true', help='controllers roll back automatically when a self-test fails'
    )
    parser.add_argument(
        '--hpm-habit',
        action='append',
        default=[],
        choices=HABITS,
        help='deviation of the updatable IPMI controllers from HPM.1; can be repeated',
    )
    parser.add_argument(
        '--inventory-habit',
        action='append',
        default=[],
        choices=INVENTORY_HABITS,
        help='further content or behaviour of the FRUs and sensor data records; can be repeated',
    )
    parser.add_argument('--no-firewall', action='store_true', help='no firmware firewall: nothing can be locked over IPMI')
    parser.add_argument(
        '--firewall-habit',
        action='append',
        default=[],
        choices=_HABITS,
        help='deviation of the firmware firewall from IPMI; can be repeated',
    )


def _suites(text: str) -> tuple[int, ...]:
    """Parse cipher suites separated by commas."""
    named = {str(number): number for number in SUITES}
    try:
        return tuple(named[one] for one in text.split(','))
    except KeyError:
        raise argparse.ArgumentTypeError(
            f'{text} is not a list of cipher suites: give some of {", ".join(named)}, separated by commas'
        ) from None


def _share(text: str) -> float:
    """Parse a share from 0 to 1."""
    return _within(text, float, 0, 1, 'a share from 0 to 1')


def _seconds(text: str) -> float:
    """Parse a number of seconds, 0 or more."""
    return _within(text, float, 0, _LONGEST, f'a number of seconds from 0 to {_LONGEST}')


def _count(text: str) -> int:
    """Parse a number of 1 or more."""
    return _within(text, int, 1, _MOST, f'a whole number from 1 to {_MOST}')


def _port(text: str) -> int:
    """Parse a port number, or 0 for a free port."""
    return _within(text, int, 0, _LAST_PORT, f'a port from 0 to {_LAST_PORT}; each further BMC uses the next port')


def _within(text: str, kind: type[N], least: int, most: int, what: str) -> N:
    try:
        value = kind(text)
    except ValueError:
        pass
    else:
        if least <= value <= most:
            return value
    raise argparse.ArgumentTypeError(f'{text} is not {what}')


def run(arguments: argparse.Namespace) -> int:
    """Serve until SIGTERM or SIGINT. Exit codes: 0 stopped, 1 could not serve, 2 wrong arguments."""
    try:
        emulator = _emulator(arguments)
    except (BadParameter, BadRecording, BadUsers) as exc:
        return _failed(str(exc), 2)
    try:
        return asyncio.run(_serve(emulator, arguments))
    except BadParameter as exc:
        return _failed(str(exc), 2)
    except BadState as exc:
        return _failed(f'cannot serve: {exc}', _NOT_SERVED)
    except UnicodeError:  # of the IDNA encoding of --listen
        return _failed(f'--listen: {arguments.listen}: is neither an address nor a host name ({_AN_ADDRESS})', 2)
    except OSError as exc:
        return _failed(f'cannot serve: {exc} ({_TO_SERVE})', _NOT_SERVED)


def _failed(what: str, code: int) -> int:
    """Write an error as one line, and return the exit code."""
    line = ''.join(one if one.isprintable() else repr(one)[1:-1] for one in what)
    try:
        sys.stderr.write(f'emulate: {line}\n')
    except OSError:
        standard_streams.discard(sys.stderr)
    if code == _NOT_SERVED:
        standard_streams.discard(sys.stdout)  # what it could not show, if the standard output was what failed
    return code


def _emulator(arguments: argparse.Namespace) -> Emulator:
    serving = Serving(
        listen=arguments.listen,
        port=arguments.port,
        tls=not arguments.http,
        knobs=Knobs(delay=arguments.delay, slots=arguments.slots, expand_member_delay=arguments.expand_member_delay),
        state=arguments.state,
        no_auth=arguments.no_auth,
        ipmi=_ipmi(arguments),
    )
    users = _users(arguments)
    if arguments.ipmi:
        _check_for_ipmi(arguments, users)
    if arguments.recording is not None:
        if arguments.habit:
            raise BadParameter('--habit: a recorded tree has no habits', hint=_NO_RECORDING)
        chosen = users.get('recording') or users.get('*') or ()
        return Emulator(
            serving,
            recording=Recording(arguments.recording),
            users=chosen,
            needs_login=not arguments.no_auth and bool(chosen),
            expand=not arguments.no_expand,
        )
    parameters = Parameters(
        gpus=arguments.gpus,
        features=frozenset(arguments.feature),
        habits=tuple(arguments.habit),
        users=users,
        options={
            '*': Options(
                update_service=not arguments.no_update_service,
                push=not arguments.no_push,
                pull=not arguments.no_pull,
                plain_push=arguments.http_push,
                plain_lock=arguments.http_push,
                expand=not arguments.no_expand,
            )
        },
        flash_seconds=arguments.flash_seconds,
        reset_seconds=arguments.reset_seconds,
        parallel_updates=arguments.parallel_updates,
    )
    product = build(arguments.product, parameters)
    if arguments.write_spdm_root is not None:
        if product.authority is None:
            raise BadParameter('--write-spdm-root: no device signs measurements', hint='add --feature spdm')
        _write('--write-spdm-root', arguments.write_spdm_root, product.authority.root())
    return Emulator(serving, product=product)


def _ipmi(arguments: argparse.Namespace) -> IpmiOptions | None:
    """The IPMI options of the BMCs; None without ``--ipmi``.

    :raises BadParameter: an IPMI option without ``--ipmi``, or habits of a firewall or of HPM.1 that is switched off.
    """
    if not arguments.ipmi:
        for name in _FOR_IPMI:
            value = getattr(arguments, name)
            if value or isinstance(value, float):
                raise BadParameter(f'--{name.replace("_", "-")}: the BMCs have no IPMI', hint='add --ipmi')
        return None
    if arguments.no_firewall and arguments.firewall_habit:
        raise BadParameter('--firewall-habit: the BMCs have no firmware firewall', hint='omit --no-firewall')
    if arguments.no_hpm and arguments.hpm_habit:
        raise BadParameter('--hpm-habit: the BMCs have no HPM.1', hint='omit --no-hpm')
    usual = IpmiOptions()
    return replace(
        usual,
        suites=arguments.ipmi_suites or usual.suites,
        hpm=not arguments.no_hpm,
        firewall=not arguments.no_firewall,
        firewall_survives_reset='forgets' not in arguments.firewall_habit,
        firewall_applies_in_part='applies-in-part' in arguments.firewall_habit,
        firewall_needs_qualifier='takes-no-qualifier' not in arguments.firewall_habit,
        firewall_reads_qualifier='ignores-qualifier' not in arguments.firewall_habit,
        firewall_makers_qualifier=b'\x01' if 'wants-makers-qualifier' in arguments.firewall_habit else b'',
        inventory_habits=tuple(arguments.inventory_habit),
        inbound_bytes=None if arguments.no_long_blocks else usual.inbound_bytes,
        ability=replace(
            usual.ability,
            manual_rollback=not arguments.no_manual_rollback,
            automatic_rollback=arguments.automatic_rollback,
            **{name: value for habit in arguments.hpm_habit for name, value in HABITS[habit].items()},
        ),
        idle_seconds=usual.idle_seconds if arguments.ipmi_idle_seconds is None else arguments.ipmi_idle_seconds,
        line=LanLine(loss=arguments.ipmi_loss or 0.0, delay_seconds=arguments.ipmi_delay or 0.0),
    )


def _check_for_ipmi(arguments: argparse.Namespace, users: Mapping[str, tuple[CurrentUser, ...]]) -> None:
    """Check that the recording and the accounts work with IPMI.

    :raises BadParameter: a recorded tree has no IPMI.
    :raises BadUsers: a password is longer than IPMI allows.
    """
    if arguments.recording is not None:
        raise BadParameter('--ipmi: a recorded tree has no IPMI', hint=_NO_RECORDING)
    for bmc, accounts in users.items():
        for user in accounts:
            if len(user.password.encode()) > LONGEST_PASSWORD:
                raise BadUsers(
                    f'--ipmi: the password of {user.name} ({bmc}) has more than {LONGEST_PASSWORD} bytes (choose a shorter one)'
                )


def _users(arguments: argparse.Namespace) -> Mapping[str, tuple[CurrentUser, ...]]:
    """The accounts from ``--users``, else those kept in the state directory, else none (the product then generates them)."""
    path = arguments.users
    if path is None and arguments.state is not None:
        remembered = _users_file(arguments)
        path = remembered if remembered.exists() else None
    if path is None:
        return {}
    try:
        document: Any = json.loads(path.read_text())
        return {
            str(bmc): tuple(
                CurrentUser(
                    name=str(one['username']), password=str(one['password']), role=str(one.get('role', 'Administrator'))
                )
                for one in accounts
            )
            for bmc, accounts in document.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        what = f'{path}: the accounts cannot be read: {type(exc).__name__}'
        raise BadUsers(f'{what} (write {{"BMC or *": [{{"username": ..., "password": ...}}]}} as JSON)') from exc


async def _serve(emulator: Emulator, arguments: argparse.Namespace) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await emulator.start()
    made: Path | None = None
    try:
        ready = emulator.ready() | {'pid': os.getpid()}
        document = json.dumps(ready, indent=2).encode()
        if arguments.state is not None and arguments.users is None:
            _remember(_users_file(arguments), emulator)
        if arguments.ready_file is not None:
            credentials = arguments.ready_file
        else:
            descriptor, name = tempfile.mkstemp(prefix='emulated-bmc-', suffix='.json')
            os.close(descriptor)
            credentials = made = Path(name)
        if arguments.bmcs_file is not None:
            _write('--bmcs-file', arguments.bmcs_file, yaml.safe_dump(_targets(ready), sort_keys=False).encode())
        _write('--ready-file', credentials, document)
        for bmc, one in emulator.bmcs.items():
            ca = f'CA {one.verify_ca}' if isinstance(one.verify_ca, str) else 'plain HTTP'
            sys.stdout.write(f'{bmc}: {one.address}  {ca}  user {one.username}, password in {credentials}\n')
            if one.ipmi_port is not None:
                host = f'TCP port {one.system_interface_port} of {LOOPBACK}'
                sys.stdout.write(f'{bmc}: IPMI on UDP port {one.ipmi_port}, system interface for QEMU on {host}\n')
        sys.stdout.write(f'door: {emulator.door}  control: {emulator.control}\n')
        sys.stdout.flush()
        await stop.wait()
    finally:
        await emulator.stop()
        if made is not None:
            made.unlink(missing_ok=True)
    return 0


def _write(option: str, path: Path, data: bytes) -> None:
    """Write the file of an option.

    :raises BadParameter: it cannot be written.
    """
    if path.is_dir():
        raise BadParameter(f'{option}: {path}: is a directory, not a file', hint=_A_FILE)
    if path.exists() and not path.is_file():
        raise BadParameter(f'{option}: {path}: is not a regular file', hint=_A_FILE)
    try:
        write_private(path, data)
    except OSError as exc:
        raise BadParameter(f'{option}: {path}: cannot be written: {exc.strerror}', hint=_A_FILE) from exc


def _targets(ready: Mapping[str, Any]) -> dict[str, Any]:
    """The document of ``--bmcs-file``: one target with the name of the product, and its BMCs over Redfish."""
    keys = ('address', 'username', 'password', 'verify_ca', 'system')
    bmcs = {name: {key: bmc[key] for key in keys if bmc[key] is not None} for name, bmc in ready['bmcs'].items()}
    return {'format': 1, 'targets': {ready['product']: {'bmcs': bmcs}}}


def _users_file(arguments: argparse.Namespace) -> Path:
    name = 'recording' if arguments.recording is not None else arguments.product
    folder: Path = arguments.state
    return folder / f'users-{name}.json'


def _remember(path: Path, emulator: Emulator) -> None:
    """Store the accounts with the state, so that clients can log in after a restart of the emulator."""
    document = {
        name: [{'username': one.username, 'password': one.password, 'role': 'Administrator'}]
        for name, one in emulator.bmcs.items()
    }
    write_private(path, json.dumps(document).encode())


def main() -> int:
    """Run ``python -m baremetal_acc.emulator``."""
    parser = argparse.ArgumentParser(
        prog='python -m baremetal_acc.emulator',
        description='Serve a stateful emulated Redfish BMC with accelerators, for tests.',
    )
    add_arguments(parser)
    return run(parser.parse_args())
