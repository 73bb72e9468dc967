# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read ``bmcs.yaml``: the operator's targets, the addresses of their BMCs, and where their passwords come from.

The same list may come as lines of JSON, one target per line, from a file or standard input, as an inventory system prints it.
"""

import functools
import json
import os
import re
import ssl
import stat
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from baremetal_acc.bmc.address import IPMI_FIXED, PORT_EXPECTED, check_address, ipmi_address, ipmi_key, speaks_ipmi
from baremetal_acc.bmc.driver import BmcAddress, Setting, by_name
from baremetal_acc.cli.address_match import written
from baremetal_acc.cli.yaml_reader import Map, read_json, read_yaml
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.model.document import did_you_mean
from baremetal_acc.model.ref import HOST, BmcName
from baremetal_acc.model.uri import may_be_one_system
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts

FORMAT = 1

MAX_SIZE = 4 * 1024 * 1024
"""Bytes. A thousand targets take about 300 KiB."""

STDIN = '-'
"""The file name that means standard input."""

STDIN_LABEL = 'standard input'

MAX_PASSWORD_SIZE = 4096
"""The most bytes of a password file. Real passwords are shorter; a log file named by mistake is longer."""

VARIABLE = 'BAREMETAL_ACC_BMCS'
"""Environment variable that names the file."""

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO

NAME = re.compile(r'[A-Za-z0-9][A-Za-z0-9._-]{0,99}')


class TargetSource(StrEnum):
    """Where a password comes from."""

    LITERAL = 'password'
    ENVIRONMENT = 'password_env'
    FILE = 'password_file'
    PROMPT = 'prompt'


@dataclass(frozen=True, slots=True, kw_only=True)
class Secret:
    """A password, or where it is found. It is looked up only when a BMC is contacted.

    :ivar text: the password, the variable's name or the file's path.
    """

    source: TargetSource
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BmcEntry:
    """One BMC as the operator wrote it.

    :ivar verify_ca: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`; a path is absolute.
    :ivar cipher_suite: with ``key``, for IPMI: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`.
    :ivar trusted_at: path and line of the document that sets ``verify_ca`` to a path; None where an option sets it.
    :ivar set_by: as in :class:`~baremetal_acc.bmc.driver.BmcAddress`.
    :ivar secret_at: line of the first password or key that is written literally.
    """

    name: BmcName
    address: str
    username: str | None = None
    secret: Secret = Secret(source=TargetSource.PROMPT)
    verify_ca: bool | str = True
    system: str | None = None
    parallel_updates: int | None = None
    cipher_suite: int = 17
    key: bytes | None = field(default=None, repr=False)
    trusted_at: tuple[str, int] | None = field(default=None, compare=False, repr=False)
    secret_at: int | None = field(default=None, compare=False, repr=False)
    set_by: Mapping[Setting, str] = field(default_factory=by_name, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetEntry:
    """One target as the operator wrote it.

    :ivar node: UUID of the Ironic node and of its root provider in placement, or None.
    :ivar exposure: None: the default of the configuration applies.
    """

    name: str
    bmcs: tuple[BmcEntry, ...]
    resource_class: str | None = None
    owner: str | None = None
    traits: frozenset[str] = frozenset()
    exposure: Exposure | None = None
    node: str | None = None

    def facts(self, default: Exposure) -> NodeFacts:
        """The facts that rules of the baseline can match.

        :param default: the exposure of a target that names none.
        """
        return NodeFacts(
            name=self.name,
            resource_class=self.resource_class,
            owner=self.owner,
            traits=self.traits,
            exposure=self.exposure or default,
        )


def places(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """The paths that are tried, in this order, when no option names the file."""
    named = environ.get(VARIABLE)
    if named:
        return (Path(named),)
    config = Path(environ.get('XDG_CONFIG_HOME') or Path(environ.get('HOME') or '/') / '.config')
    return (Path('bmcs.yaml'), config / 'baremetal-acc' / 'bmcs.yaml', Path('/etc/baremetal_acc/bmcs.yaml'))


def find(named: str | None, environ: Mapping[str, str]) -> Path:
    """The path of the file to read.

    :raises UsageError: there is no such file.
    """
    candidates = (Path(named),) if named else places(environ)
    for path in candidates:
        if path.is_file() or named or environ.get(VARIABLE):
            return path
    where = ', '.join(str(path) for path in candidates)
    raise UsageError(
        argument='--bmcs', what=f'no list of BMCs was found: {where}', hint=f'name it by --bmcs or {VARIABLE}, or use --address'
    )


def load(path: Path) -> tuple[TargetEntry, ...]:
    """The targets of a file, in its order.

    :raises DocumentError: the file is wrong, or holds a password and other users may read it.
    """
    try:
        with path.open('rb') as stream:
            return read(stream, str(path))
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}') from exc


def read(stream: BinaryIO, label: str) -> tuple[TargetEntry, ...]:
    """The targets that come from an open file or a pipe, read to its end.

    :param label: the name of the input in messages; paths are relative to its folder, else to the working directory.
    :raises DocumentError: the input is wrong, or is a file that holds a password and that other users may read.
    """
    try:
        mode = os.fstat(stream.fileno()).st_mode
        data = stream.read(MAX_SIZE + 1)
        text = data.decode('utf-8-sig')
    except UnicodeDecodeError as exc:
        line = data.count(b'\n', 0, exc.start) + 1
        raise DocumentError(path=label, line=line, what='is not UTF-8') from None
    if len(data) > MAX_SIZE:
        raise DocumentError(path=label, what=f'longer than {MAX_SIZE} bytes', hint='give fewer targets at a time')
    targets, holds_password = parse(text, label)
    # Only the two processes that a pipe connects can read it.
    if holds_password is not None and stat.S_ISREG(mode) and mode & OPEN_TO_OTHERS:
        raise DocumentError(
            path=label,
            line=holds_password,
            what=f'holds a password, and others may read the file (mode {stat.S_IMODE(mode):04o})',
            hint=f'chmod 600 {label}, or use password_env or password_file',
        )
    return targets


def parse(text: str, path: str) -> tuple[tuple[TargetEntry, ...], int | None]:
    """The targets of a text, and the line of its first literal password or key.

    :raises DocumentError: the text is wrong; the error names file and line, never a password.
    """
    if _is_lines(text):
        return _parse_lines(text, path)
    document = read_yaml(text, path)
    document.only('format', 'targets')
    number = document.integer('format', minimum=0)
    if number != FORMAT:
        raise document.error('format', f'format: {FORMAT} expected, {"nothing" if number is None else number} found')
    listed = document.table('targets')
    targets = tuple(_target(name, listed.table(name)) for name in listed.data)
    if not targets:
        raise document.error('targets', 'names no target')
    _once(targets, path, {name: listed.line_of(name) for name in listed.data})
    return targets, _first_password(targets)


def resolve(
    entry: TargetEntry,
    environ: Mapping[str, str],
    prompt: Callable[[str], str] | None,
    password_of: Callable[[Path], str] | None = None,
) -> tuple[BmcAddress, ...]:
    """The BMCs of a target with their passwords.

    :param prompt: asks a person for a password; None where there is no terminal.
    :param password_of: reads a password file; :func:`read_password` when None.
    :raises UsageError: a password is missing.
    :raises DocumentError: a password file cannot be read, or other users may read it.
    """
    return tuple(
        BmcAddress(
            name=bmc.name,
            address=bmc.address,
            username=bmc.username,
            password=None if bmc.username is None else _password(entry, bmc, environ, prompt, password_of or read_password),
            verify_ca=bmc.verify_ca,
            system=bmc.system,
            parallel_updates=bmc.parallel_updates,
            cipher_suite=bmc.cipher_suite,
            key=bmc.key,
            set_by=bmc.set_by,
        )
        for bmc in entry.bmcs
    )


def read_password(path: Path) -> str:
    """The password in a file: its content without the line end.

    :raises DocumentError: the file cannot be read, is empty or too long, or other users may read it.
    """
    try:
        with path.open('rb') as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(MAX_PASSWORD_SIZE + 1)
        password = data.decode('utf-8').rstrip('\r\n')
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'the password cannot be read: {exc.strerror}') from exc
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='the password is not UTF-8') from None
    if mode & OPEN_TO_OTHERS:
        what = f'holds a password, and others may read the file (mode {stat.S_IMODE(mode):04o})'
        raise DocumentError(path=str(path), what=what, hint=f'chmod 600 {path}')
    if not password or len(data) > MAX_PASSWORD_SIZE or '\n' in password:
        raise DocumentError(path=str(path), what=f'one line with a password of at most {MAX_PASSWORD_SIZE} bytes expected')
    return password


def check_trust(entry: TargetEntry) -> None:
    """Check that the CA certificates for the BMCs of a target can be loaded.

    :raises DocumentError: a ``verify_ca`` names no file or folder of certificates.
    """
    for bmc in entry.bmcs:
        wrong = None if isinstance(bmc.verify_ca, bool) else _no_certificates(bmc.verify_ca)
        if wrong is not None:
            path, line = bmc.trusted_at or ('--verify-ca', None)
            hint = 'it names a file of CA certificates in PEM, or a folder of them as openssl rehash makes it'
            raise DocumentError(path=path, line=line, what=f'verify_ca: {bmc.verify_ca} {wrong}', hint=hint)


def _no_certificates(path: str) -> str | None:
    """Why a file of CA certificates cannot be used, or None. A folder is not checked before it is used."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode):
            return 'is no file'
        return _not_loaded(path, found.st_mtime_ns, found.st_size)
    except OSError as exc:
        return f'cannot be read: {exc.strerror}'


@functools.lru_cache(maxsize=256)
def _not_loaded(path: str, changed: int, size: int) -> str | None:
    """Why a file of CA certificates cannot be loaded, or None. Cached, because thousands of targets share one file.

    :param changed: modification time of the file; with ``size``, part of the cache's key, so that a changed file is read again.
    """
    with open(path, 'rb'):
        pass  # for the OSError: OpenSSL does not say why it cannot read a file
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return 'holds no certificates'
    return None


# ---------------------------------------------------------------------------------------------------------- lines of JSON


def _is_lines(text: str) -> bool:
    """Whether a text is lines of JSON, one target each, and not one document, which may be a JSON object, too."""
    first = text.lstrip().partition('\n')[0]
    if not first.startswith('{'):
        return False
    try:
        return 'targets' not in json.loads(first)
    except (ValueError, RecursionError):
        return f'"{TARGET}"' in first


def _parse_lines(text: str, path: str) -> tuple[tuple[TargetEntry, ...], int | None]:
    """The targets of lines of JSON: each line has the keys of a target, and its name as ``target``.

    :raises DocumentError: a line is wrong.
    """
    found: dict[str, TargetEntry] = {}
    at: dict[str, int] = {}
    for number, line in enumerate(text.split('\n'), 1):
        if not line.strip():
            continue
        table = read_json(line, path, number)
        name = table.string(TARGET)
        if name is None:
            raise table.error(None, f'{TARGET} is missing', f'each line names its target: {{"{TARGET}": NAME, "bmcs": ...}}')
        if name in found:
            raise table.error(TARGET, f'{name!r} is there twice, first in line {at[name]}')
        del table.data[TARGET]
        table.name = f'target {name}' if NAME.fullmatch(name) else ''
        found[name] = _target(name, table)
        at[name] = number
    _once(found.values(), path, at)
    return tuple(found.values()), _first_password(found.values())


def _first_password(targets: Iterable[TargetEntry]) -> int | None:
    """The line of the first literal password or key."""
    return min((bmc.secret_at for target in targets for bmc in target.bmcs if bmc.secret_at is not None), default=None)


def _once(targets: Iterable[TargetEntry], path: str, lines: Mapping[str, int]) -> None:
    """Check that no two targets are the same machine: two jobs would write to its cards at once.

    BMCs with different user names are different: a gateway may select the BMC by the user name. No host name is resolved: a
    list is read without a network, and :meth:`~baremetal_acc.cli.state.TargetStore.alone_at` finds out later whether two are
    one.

    :param lines: the line of each target, by its name.
    :raises DocumentError: two targets have the same BMC.
    """
    seen: dict[tuple[str, str, str | None], dict[str | None, str]] = {}
    for target in targets:
        for bmc in target.bmcs:
            for place in sorted(written(bmc.address)):
                others = seen.setdefault((place, urlsplit(bmc.address).path, bmc.username), {})
                # An entry without a System means the only System of the BMC.
                same = (name for system, name in others.items() if _may_be_one(system, bmc.system))
                twice = next((name for name in same if name != target.name), None)
                if twice is not None:
                    raise DocumentError(
                        path=path,
                        line=lines[target.name],
                        what=f'target {target.name}: its BMC {bmc.name} ({bmc.address}) is one of target {twice} '
                        f'(line {lines[twice]}), too',
                        hint='give each target its own address, or where a BMC has several Systems, its own system',
                    )
                others.setdefault(bmc.system, target.name)


def _may_be_one(one: str | None, other: str | None) -> bool:
    return one is None or other is None or may_be_one_system(one, other)


# ---------------------------------------------------------------------------------------------------------------- targets

_LOGIN = ('address', 'username', *(s.value for s in TargetSource if s is not TargetSource.PROMPT))

_OF_REDFISH = ('verify_ca', 'system', 'parallel_updates')
_OF_IPMI = ('cipher_suite', 'secret_hex_kg_key')
"""Ironic's API masks keys whose names contain ``secret``. It shows its own ``ipmi_hex_kg_key`` unmasked."""

_LITERAL = (TargetSource.LITERAL, 'secret_hex_kg_key')
"""Keys whose values are literal secrets."""

_BMC = (*_LOGIN, *_OF_REDFISH, *_OF_IPMI)

_REDFISH = {key: {'system': 'redfish_system_id'}.get(key, f'redfish_{key}') for key in (*_LOGIN, *_OF_REDFISH)}
_IPMI = {key: {'secret_hex_kg_key': 'ipmi_hex_kg_key'}.get(key, f'ipmi_{key}') for key in (*_LOGIN, *_OF_IPMI, 'port')}
"""The keys of the host's BMC in an Ironic node's ``driver_info``, so that ``driver_info`` can be copied unchanged."""

_REDFISH_FIXED = (
    ('redfish_auth_type', ('auto', 'session', 'basic'), 'we log in by a session, and by Basic where a BMC has none'),
    ('redfish_tls_minimum_version', ('1.1', '1.2'), 'TLS 1.2 is taken, and nothing older'),
)
_IPMI_FIXED = tuple((key, (only,), why) for key, only, why in IPMI_FIXED)
"""Further keys of Ironic's ``driver_info``, with the values that are accepted because they change nothing here, and why."""

_IDLE = (
    *(f'ipmi_{end}_{what}' for end in ('transit', 'target') for what in ('channel', 'address')),
    'ipmi_local_address',
    'ipmi_force_boot_device',
    'ipmi_disable_boot_timeout',
    'ipmi_terminal_port',
)
"""Keys of Ironic's ``driver_info`` that are accepted and ignored: for bridging (not supported), booting and consoles."""

_IRONIC = (*_REDFISH.values(), *_IPMI.values(), *(key for key, _, _ in (*_REDFISH_FIXED, *_IPMI_FIXED)), *_IDLE)

TARGET = 'target'
"""Key of a target's name in lines of JSON."""

_ABOUT = ('resource_class', 'owner', 'traits', 'exposure', 'acc_exposure', 'node')


def _target(name: str, table: Map) -> TargetEntry:
    table.only('bmcs', *_ABOUT, *_IRONIC, 'acc_bmcs')
    if not NAME.fullmatch(name):
        raise table.error(None, f'{name!r} is no name: letters, digits, dot, dash and underline, at most 100')
    if table.has('exposure') and table.has('acc_exposure'):
        raise table.error('acc_exposure', 'exposure says that already')
    return TargetEntry(
        name=name,
        bmcs=_bmcs(table),
        resource_class=table.string('resource_class'),
        owner=table.string('owner'),
        traits=frozenset(table.strings('traits') or ()),
        exposure=table.choice('acc_exposure' if table.has('acc_exposure') else 'exposure', Exposure),
        node=_uuid(table, 'node'),
    )


def _bmcs(table: Map) -> tuple[BmcEntry, ...]:
    """The BMCs of a target: ``bmcs``, or the keys of an Ironic node's driver_info."""
    ironic = next((key for key in (*_IRONIC, 'acc_bmcs') if table.has(key)), None)
    if ironic is not None and table.has('bmcs'):
        raise table.error(ironic, 'BMCs are listed under bmcs already')
    found: list[BmcEntry] = []
    for keys, fixed in ((_REDFISH, _REDFISH_FIXED), (_IPMI, _IPMI_FIXED)):
        if any(map(table.has, keys.values())):
            if found:
                raise table.error(
                    keys['address'], 'the BMC of the host is spoken to in one way: redfish_address says it already'
                )
            found.append(_bmc(HOST, table, keys))
            for key, taken, why in fixed:
                value = table.word(key)
                if value is not None and value not in taken:
                    raise table.error(key, f'is {value!r:.60}; it must be {" or ".join(taken)}, or left out: {why}')
    listed = table.table('bmcs' if ironic is None else 'acc_bmcs')
    for name in listed.data:
        if not NAME.fullmatch(name):
            raise listed.error(name, 'is no name: letters, digits, dot, dash and underline, at most 100')
        if any(b.name == name for b in found):
            raise listed.error(name, 'is there twice: redfish_address, or ipmi_address, is the BMC of that name')
        bmc = listed.table(name)
        bmc.only(*_BMC)
        found.append(_bmc(BmcName(name), bmc, {key: key for key in _BMC}))
    if not found:
        raise table.error(None, 'names no BMC', 'list them under bmcs: {host: {address: https://..., username: ...}}')
    return tuple(found)


def _bmc(name: BmcName, table: Map, keys: Mapping[str, str]) -> BmcEntry:
    """One BMC.

    :param keys: the names of a BMC's keys in this mapping.
    """
    address = table.string(keys['address'])
    if address is None:
        raise table.error(None, f'{keys["address"]} is missing')
    if 'port' in keys:
        address = _with_port(table, keys, address)
    wrong = check_address(address)
    if wrong is not None:
        raise table.error(keys['address'], wrong)
    by_ipmi = speaks_ipmi(address)
    if ('cipher_suite' if by_ipmi else 'verify_ca') not in keys:
        raise table.error(keys['address'], f'{"ipmi" if by_ipmi else "redfish"}_address is the key for such an address')
    for key in _OF_REDFISH if by_ipmi else _OF_IPMI:
        if key in keys and table.has(keys[key]):
            raise table.error(keys[key], f'is not for a BMC that speaks {"IPMI" if by_ipmi else "Redfish"}')
    verify_ca = table.boolean_or_text(keys['verify_ca']) if 'verify_ca' in keys else None
    if isinstance(verify_ca, str):
        verify_ca = _beside(table.path, verify_ca)
    secrets = [table.line_of(keys[key]) for key in _LITERAL if key in keys and table.has(keys[key])]
    return BmcEntry(
        name=name,
        address=address.rstrip('/'),
        username=table.string(keys['username']),
        secret=_secret(table, keys),
        verify_ca=True if verify_ca is None else verify_ca,
        system=table.string(keys['system']) if 'system' in keys else None,
        parallel_updates=table.integer(keys['parallel_updates'], minimum=1) if 'parallel_updates' in keys else None,
        cipher_suite=_suite(table, keys['cipher_suite']) if by_ipmi else 17,
        key=_key(table, keys['secret_hex_kg_key']) if by_ipmi else None,
        trusted_at=(table.path, table.line_of(keys['verify_ca'])) if isinstance(verify_ca, str) else None,
        secret_at=min(secrets, default=None),
        set_by={one: f'{keys[one]} in {table.path}' for one in Setting if one in keys},
    )


def _with_port(table: Map, keys: Mapping[str, str], host: str) -> str:
    """The address of a BMC of which Ironic's ``driver_info`` has the host and the port."""
    port = _number(table, keys['port'])
    if '://' in host:
        if port is not None:
            raise table.error(keys['port'], f'{keys["address"]} is an URL, which says it already')
        return host
    if port is not None and not 0 < port < 65536:
        raise table.error(keys['port'], f'{port} is no port: {PORT_EXPECTED}')
    return ipmi_address(host, port)


def _suite(table: Map, key: str) -> int:
    suite = _number(table, key)
    if suite not in (None, 3, 17):
        raise table.error(key, f'{suite} is too weak, or not known', '17, or 3 for a BMC that has nothing better')
    return 17 if suite is None else suite


def _number(table: Map, key: str) -> int | None:
    """A number. Text is accepted too, as Ironic accepts it."""
    value = table.data.get(key)
    if isinstance(value, str) and re.fullmatch(r'\s*[0-9]{1,5}\s*', value):
        return int(value)
    return table.integer(key)


def _key(table: Map, key: str) -> bytes | None:
    """The BMC key K_G (IPMI 2.0) from hexadecimal digits, as in Ironic; a key of zeros means no key."""
    text = table.secret(key)
    if text is None:
        return None
    try:
        return ipmi_key(text)
    except ValueError as exc:
        raise table.error(key, str(exc)) from None


def _secret(table: Map, keys: Mapping[str, str]) -> Secret:
    given: list[Secret] = []
    for source in (TargetSource.LITERAL, TargetSource.ENVIRONMENT, TargetSource.FILE):
        key = keys[source]
        text = table.secret(key) if source is TargetSource.LITERAL else table.string(key)
        if text is not None and given:
            raise table.error(key, f'{keys[given[0].source]} says that already')
        if text is not None:
            given.append(Secret(source=source, text=_beside(table.path, text) if source is TargetSource.FILE else text))
    return given[0] if given else Secret(source=TargetSource.PROMPT)


def _beside(document: str, path: str) -> str:
    """The path, relative to the folder of the document. Text, as Path objects would be a quarter of the cost of a long list."""
    return os.path.join(os.path.dirname(os.path.abspath(document)), os.path.expanduser(path))


def _uuid(table: Map, key: str) -> str | None:
    text = table.string(key)
    if text is None:
        return None
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise table.error(key, f'{text!r} is no UUID') from None


def _password(
    entry: TargetEntry,
    bmc: BmcEntry,
    environ: Mapping[str, str],
    prompt: Callable[[str], str] | None,
    password_of: Callable[[Path], str],
) -> str:
    where = f'BMC {bmc.name} of {entry.name}'
    match bmc.secret:
        case Secret(source=TargetSource.LITERAL, text=str(text)):
            return text
        case Secret(source=TargetSource.ENVIRONMENT, text=str(name)):
            if not environ.get(name):
                raise UsageError(argument=where, what=f'the environment has no {name} with the password')
            try:
                environ[name].encode()
            except UnicodeEncodeError:
                raise UsageError(argument=where, what=f'the password in {name} is not UTF-8') from None
            return environ[name]
        case Secret(source=TargetSource.FILE, text=str(path)):
            return password_of(Path(path))
        case _:
            if prompt is None:
                hint = (
                    'give password, password_env or password_file in bmcs.yaml (with --address: BAREMETAL_ACC_PASSWORD or '
                    '--password-file), or run it at a terminal'
                )
                raise UsageError(argument=where, what=f'the password of {bmc.username} is missing', hint=hint)
            return prompt(f'Password of {bmc.username} at {where} ({bmc.address}): ')


def choose(targets: Iterable[TargetEntry], names: Iterable[str]) -> tuple[TargetEntry, ...]:
    """The targets of these names, in the order of the file; all targets when no name is given.

    :raises UsageError: there is no target of such a name.
    """
    known = {t.name: t for t in targets}
    wanted = dict.fromkeys(names)
    for name in wanted:
        if name not in known:
            hint = did_you_mean(name, known) or f'there are {", ".join(list(known)[:10])}'
            raise UsageError(argument='--target', what=f'no target is called {name!r}', hint=hint)
    return tuple(t for t in known.values() if not wanted or t.name in wanted)
