# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read ``bmcs.yaml``: the operator's targets, the addresses of their BMCs, and where their passwords come from.

The same list may come as lines of JSON, one target per line, from a file or standard input, as an inventory system prints it.
"""

import functools
import json
import os
import ssl
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from baremetal_acc import input_file
from baremetal_acc.cli.address_match import written
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.cli.target_fields import NAME, parse_target
from baremetal_acc.cli.yaml_reader import read_json, read_yaml
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.model.document import did_you_mean
from baremetal_acc.model.uri import may_be_one_system

FORMAT = 1

MAX_SIZE = 4 * 1024 * 1024
"""Bytes. A thousand targets take about 300 KiB."""

STDIN = '-'
"""The file name that means standard input."""

STDIN_LABEL = 'standard input'

VARIABLE = 'BAREMETAL_ACC_BMCS'
"""Environment variable that names the file."""

OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


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
        argument='--bmcs',
        what=f'no list of BMCs was found: {where}',
        hint=f'name it with --bmcs or {VARIABLE}, or use --address',
    )


def load(path: Path) -> tuple[TargetEntry, ...]:
    """The targets of a file, in its order.

    :raises DocumentError: the file is wrong, or holds a password and other users may read it.
    """
    try:
        with input_file.opened(path) as stream:
            return read(stream, str(path))
    except OSError as exc:
        hint = f'--bmcs or {VARIABLE} names it'
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc


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
        raise DocumentError(path=label, line=line, what='is not UTF-8', hint='save it as UTF-8') from None
    if len(data) > MAX_SIZE:
        raise DocumentError(path=label, what=f'longer than {MAX_SIZE} bytes', hint='split it into several lists')
    targets, holds_password = parse(text, label)
    # Only the two processes that a pipe connects can read it.
    if holds_password is not None and stat.S_ISREG(mode) and mode & OPEN_TO_OTHERS:
        raise DocumentError(
            path=label,
            line=holds_password,
            what=f'holds a password, and other users may read the file (mode {stat.S_IMODE(mode):04o})',
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
    targets = tuple(parse_target(name, listed.table(name)) for name in listed.data)
    if not targets:
        raise document.error('targets', 'names no target')
    _once(targets, path, {name: listed.line_of(name) for name in listed.data})
    return targets, _first_password(targets)


def check_trust(entry: TargetEntry) -> None:
    """Check that the CA certificates for the BMCs of a target can be loaded.

    :raises DocumentError: a ``verify_ca`` names no file or folder of certificates.
    """
    for bmc in entry.bmcs:
        wrong = None if isinstance(bmc.verify_ca, bool) else _no_certificates(bmc.verify_ca)
        if wrong is not None:
            path, line = bmc.trusted_at or ('--verify-ca', None)
            hint = 'verify_ca names a PEM file of CA certificates, or a folder of them made by openssl rehash'
            raise DocumentError(path=path, line=line, what=f'verify_ca: {bmc.verify_ca} {wrong}', hint=hint)


def _no_certificates(path: str) -> str | None:
    """Why a file of CA certificates cannot be used, or None. A folder is not checked before it is used."""
    try:
        found = os.stat(path)
        if stat.S_ISDIR(found.st_mode):
            return None
        if not stat.S_ISREG(found.st_mode):
            return 'is not a file'
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
            raise table.error(TARGET, f'{name!r} occurs twice, first in line {at[name]}')
        del table.data[TARGET]
        table.name = f'target {name}' if NAME.fullmatch(name) else ''
        found[name] = parse_target(name, table)
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
                        what=f'target {target.name}: its BMC {bmc.name} ({bmc.address}) is also a BMC of target {twice} '
                        f'(line {lines[twice]})',
                        hint='give each target its own address, or its own system if one BMC has several Systems',
                    )
                others.setdefault(bmc.system, target.name)


def _may_be_one(one: str | None, other: str | None) -> bool:
    return one is None or other is None or may_be_one_system(one, other)


TARGET = 'target'
"""Key of a target's name in lines of JSON."""

_MOST_NAMES = 10
"""The most names of targets that a hint lists."""


def choose(targets: Iterable[TargetEntry], names: Iterable[str]) -> tuple[TargetEntry, ...]:
    """The targets of these names, in the order of the file; all targets when no name is given.

    :raises UsageError: there is no target of such a name.
    """
    known = {t.name: t for t in targets}
    wanted = dict.fromkeys(names)
    for name in wanted:
        if name not in known:
            listed = ', '.join(list(known)[:_MOST_NAMES]) + (', ...' if len(known) > _MOST_NAMES else '')
            hint = did_you_mean(name, known) or f'the targets are {listed}'
            raise UsageError(argument='--target', what=f'there is no target {name!r}', hint=hint)
    return tuple(t for t in known.values() if not wanted or t.name in wanted)
