# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Look up the passwords of BMCs: in the list, in the environment, in files, or by asking for them."""

import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from baremetal_acc import input_file
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.cli.bmcs import OPEN_TO_OTHERS
from baremetal_acc.cli.target_entry import BmcEntry, Secret, TargetEntry, TargetSource
from baremetal_acc.errors import DocumentError, UsageError

MAX_PASSWORD_SIZE = 4096
"""The most bytes of a password file. Real passwords are shorter; a log file named by mistake is longer."""


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
        with input_file.opened(path) as stream:
            mode = os.fstat(stream.fileno()).st_mode
            data = stream.read(MAX_PASSWORD_SIZE + 1)
        password = data.decode('utf-8').rstrip('\r\n')
    except OSError as exc:
        raise DocumentError(
            path=str(path), what=f'the password cannot be read: {exc.strerror}', hint='name a file that you may read'
        ) from exc
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='the password is not UTF-8', hint='save the file as UTF-8') from None
    if mode & OPEN_TO_OTHERS:
        what = f'holds a password, and other users may read the file (mode {stat.S_IMODE(mode):04o})'
        raise DocumentError(path=str(path), what=what, hint=f'chmod 600 {path}')
    if not password or len(data) > MAX_PASSWORD_SIZE or '\n' in password:
        raise DocumentError(path=str(path), what=f'one line with a password of at most {MAX_PASSWORD_SIZE} bytes expected')
    return password


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
                raise UsageError(argument=where, what=f'environment variable {name} for the password is not set', hint='set it')
            try:
                environ[name].encode()
            except UnicodeEncodeError:
                raise UsageError(argument=where, what=f'the password in {name} is not UTF-8', hint='set it again') from None
            return environ[name]
        case Secret(source=TargetSource.FILE, text=str(path)):
            return password_of(Path(path))
        case _:
            if prompt is None:
                hint = (
                    'give password, password_env or password_file in bmcs.yaml (with --address: BAREMETAL_ACC_PASSWORD or '
                    '--password-file), or run the command at a terminal'
                )
                raise UsageError(argument=where, what=f'the password of {bmc.username} is missing', hint=hint)
            return prompt(f'Password of {bmc.username} at {where} ({bmc.address}): ')
