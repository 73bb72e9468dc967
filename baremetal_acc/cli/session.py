# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build what a command works with, its configuration, targets and tools, from its arguments and the environment."""

import argparse
import functools
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from urllib.parse import urlsplit

from oslo_config import cfg

from baremetal_acc import bootstrap, input_file
from baremetal_acc.bmc.address import check_address, example, speaks_ipmi
from baremetal_acc.bmc.driver import Setting
from baremetal_acc.bmc.ipmi.endpoint import SUITES
from baremetal_acc.cli import bmc_passwords, bmcs, target_fields
from baremetal_acc.cli.output import text
from baremetal_acc.cli.state import TargetStore, folder
from baremetal_acc.cli.target_entry import BmcEntry, Secret, TargetEntry, TargetSource
from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings
from baremetal_acc.errors import AccError, DocumentError, UsageError
from baremetal_acc.execution import Target, Tools
from baremetal_acc.model.ref import HOST
from baremetal_acc.policy.baseline_rules import Baseline, Exposure

CONFIG_FILE = Path('/etc/baremetal_acc/baremetal_acc.conf')

MAX_SIZE = 4 * 1024 * 1024
"""Most bytes of a configuration file."""

PASSWORD_VARIABLE = 'BAREMETAL_ACC_PASSWORD'  # noqa: S105 - the name of a variable


def add_arguments(parser: argparse.ArgumentParser, *, writes: bool, documents: bool = True) -> None:
    """Add the options that select targets, configuration, baseline and catalogue.

    :param writes: the command writes to BMCs, so that several targets need names or ``--all``.
    :param documents: the command needs the baseline and the catalogue.
    """
    which = parser.add_argument_group('targets')
    which.add_argument('names', nargs='*', metavar='TARGET', help='name of a target, as with --target')
    which.add_argument('--target', action='append', default=[], metavar='NAME', help='name of a target; can be repeated')
    if writes:
        which.add_argument('--all', action='store_true', help='all targets in the list')
    which.add_argument(
        '--bmcs',
        metavar='FILE',
        help=f'list of targets and their BMCs; - for standard input (default: ${bmcs.VARIABLE}, ./bmcs.yaml, ...)',
    )
    one = parser.add_argument_group('one BMC without a list')
    one.add_argument(
        '--address',
        metavar='URL',
        help='https://HOST[:PORT] (Redfish) or ipmi://HOST[:PORT] (IPMI); a BMC with an IPMI key K_G has to be in the list',
    )
    one.add_argument('--username', metavar='NAME', help='user name on the BMC')
    one.add_argument(
        '--password-file',
        metavar='FILE',
        help=f'file that holds the password (default: ${PASSWORD_VARIABLE}, else a prompt); a password is never an argument',
    )
    trust = one.add_mutually_exclusive_group()
    trust.add_argument('--verify-ca', metavar='FILE', help='CA bundle that verifies the certificate of the BMC')
    trust.add_argument('--insecure', action='store_true', help='do not verify the certificate of the BMC')
    one.add_argument('--system', metavar='SYSTEM', help='URI or Id of the ComputerSystem, if the BMC has several')
    one.add_argument(
        '--cipher-suite',
        type=int,
        choices=tuple(SUITES),
        help='IPMI cipher suite: 17, or 3 (SHA-1) if the BMC supports nothing better (default: 17)',
    )
    one.add_argument(
        '--exposure',
        choices=[e.value for e in Exposure],
        help="whose code runs on the host: a tenant's, the operator's (service), or nobody's (none); default: as configured",
    )
    rules = parser.add_argument_group('configuration')
    rules.add_argument('--config-file', metavar='FILE', help=f'configuration file (default: {CONFIG_FILE} if it exists)')
    if documents:
        rules.add_argument('--baseline', metavar='FILE', help='baseline file; overrides the configuration')
        rules.add_argument('--catalogue', metavar='FILE', help='catalogue file; overrides the configuration')


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The configuration file and the options that override it.

    :ivar conf: for libraries with their own option groups, such as keystoneauth; our own options are in ``settings``.
    """

    conf: cfg.ConfigOpts
    settings: Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one command works with: configuration, stored state, and targets.

    :ivar conf: as in :class:`Configuration`.
    :ivar prompt: asks a person for a password; None where there is no terminal.
    :ivar password_of: reads a password file, each file only once: the targets of a fleet often share one.
    """

    conf: cfg.ConfigOpts
    settings: Settings
    store: TargetStore
    environ: Mapping[str, str]
    prompt: Callable[[str], str] | None
    entries: tuple[TargetEntry, ...]
    password_of: Callable[[Path], str] = bmc_passwords.read_password

    def target(self, entry: TargetEntry, concurrency: int | None = None) -> Target:
        """A target with its passwords.

        :param concurrency: concurrent requests to one BMC; None: as the configuration says.
        :raises UsageError: a password is missing. ``DocumentError``: a password file or a ``verify_ca`` is wrong.
        """
        settings = self.settings if concurrency is None else replace(self.settings, bmc_concurrency=concurrency)
        facts = entry.facts(settings.default_exposure)
        bmcs.check_trust(entry)
        found = bmc_passwords.resolve(entry, self.environ, self.prompt, self.password_of)
        return Target(name=entry.name, node=facts, bmcs=tuple(bootstrap.tuned(address, settings) for address in found))

    def attempt(self, entry: TargetEntry, concurrency: int | None = None) -> Target | AccError:
        """The target, or its error as a value. Passwords are asked for one by one, before targets are read concurrently."""
        try:
            return self.target(entry, concurrency)
        except AccError as exc:
            return exc

    def tools(self, *, documents: bool = True, images: bool = True) -> Tools:
        """The tools that reading, planning and executing need, with baseline and catalogue.

        :param documents: read baseline and catalogue; else nothing is demanded and there are no images.
        :param images: read the catalogue; a command that only locks works without it.
        :raises DocumentError: a document is missing or wrong. ``CatalogueRefused``: the catalogue is not trusted.
        """
        if documents:
            read = self._documents(images=images)
            for remark in read.remarks:
                text.note(remark)
        else:
            read = bootstrap.Documents(baseline=Baseline(rules=()), catalogue=(), folders=())
        return bootstrap.tools(self.settings, read)

    def _documents(self, *, images: bool) -> bootstrap.Documents:
        self.store.check()  # the serials of catalogues are stored in the same folder
        return bootstrap.documents(self.settings, images=images, arguments=True)

    @property
    def job_timeout(self) -> timedelta:
        """The time after which a job fails, whatever it waits for."""
        return self.settings.job_timeout


def begin(arguments: argparse.Namespace, *, writes: bool, environ: Mapping[str, str] | None = None) -> Session:
    """The session that the options of :func:`add_arguments` describe.

    :raises UsageError: an argument is wrong. ``DocumentError``: a file is wrong.
    """
    environ = os.environ if environ is None else environ
    found = configuration(arguments, environ)
    return Session(
        conf=found.conf,
        settings=found.settings,
        store=TargetStore(root=folder(environ)),
        environ=environ,
        prompt=text.ask if sys.stdin.isatty() and arguments.bmcs != bmcs.STDIN else None,
        entries=(_single(arguments, environ),) if arguments.address else _listed(arguments, environ, writes=writes),
        password_of=functools.cache(bmc_passwords.read_password),
    )


def configuration(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Configuration:
    """Read the configuration file, and apply the options that override it.

    :raises DocumentError: the file is missing or wrong.
    """
    conf = cfg.ConfigOpts()
    options.register(conf)
    named = arguments.config_file
    path = CONFIG_FILE if named is None else Path(named)
    files = [str(path)] if named is not None or path.is_file() else []
    try:
        for file in files:
            _check_size(file)
        conf(args=[], project='baremetal_acc', default_config_files=files, default_config_dirs=[])
    except cfg.ConfigFilesNotFoundError:
        raise DocumentError(path=str(path), what='does not exist', hint='--config-file names it') from None
    except cfg.ConfigFilesPermissionDeniedError:
        raise DocumentError(
            path=str(path), what='permission denied', hint='run the command as a user that may read it'
        ) from None
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint='--config-file names it') from None
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8', hint='save it as UTF-8') from None
    except cfg.Error as exc:
        hint = 'the file has groups such as [baremetal_acc] and lines such as option = value'
        raise DocumentError(path=str(path), what=' '.join(str(exc).split()), hint=hint) from None
    options.check(conf)
    settings = Settings.from_conf(conf, serial_file=folder(environ) / 'serials.sqlite')
    baseline, catalogue = (getattr(arguments, name, None) for name in ('baseline', 'catalogue'))
    return Configuration(conf=conf, settings=settings.with_arguments(baseline=baseline, catalogue=catalogue))


def _check_size(path: str) -> None:
    """Refuse a configuration file that oslo.config would wait for, or read without an end.

    :raises DocumentError: it is a pipe or a device, or too long.
    :raises OSError: its status cannot be read.
    """
    if not os.path.exists(path) or os.path.isdir(path):
        return  # oslo.config says so
    if not input_file.is_regular(path):
        raise DocumentError(path=path, what='is not a regular file', hint='--config-file names it')
    if os.path.getsize(path) > MAX_SIZE:
        raise DocumentError(path=path, what=f'longer than {MAX_SIZE} bytes', hint='--config-file names it')


def _listed(arguments: argparse.Namespace, environ: Mapping[str, str], *, writes: bool) -> tuple[TargetEntry, ...]:
    for name in ('username', 'password_file', 'verify_ca', 'system', 'cipher_suite', 'exposure'):
        if getattr(arguments, name):
            hint = f'set {name} of the {"target" if name == "exposure" else "BMC"} in bmcs.yaml'
            raise UsageError(argument=_option(name), what='applies only with --address', hint=hint)
    if arguments.insecure:
        raise UsageError(argument='--insecure', what='applies only with --address', hint='set verify_ca: false in bmcs.yaml')
    names = (*arguments.names, *arguments.target)
    if names and writes and arguments.all:
        raise UsageError(argument='--all', what='cannot be combined with names of targets', hint='leave one of them out')
    if arguments.bmcs == bmcs.STDIN:
        path, listed = Path(bmcs.STDIN_LABEL), bmcs.read(sys.stdin.buffer, bmcs.STDIN_LABEL)
    else:
        path = bmcs.find(arguments.bmcs, environ)
        listed = bmcs.load(path)
    found = bmcs.choose(listed, names)
    if writes and not names and not arguments.all and len(found) > 1:
        what = f'{path} lists {len(found)} targets, and none is selected'
        raise UsageError(argument='--target', what=what, hint='name targets, or use --all')
    return found


_ADDRESSES = 'https://HOST[:PORT] for Redfish, ipmi://HOST[:PORT] for IPMI'

_OF_REDFISH = {
    'insecure': 'IPMI has no certificates: leave it out',
    'verify_ca': 'IPMI has no certificates: leave it out',
    'system': 'a BMC that is used over IPMI has one host: leave it out',
}
_SET_BY = {
    Setting.VERIFY_CA: '--verify-ca',
    Setting.CIPHER_SUITE: '--cipher-suite',
    Setting.KEY: f'{Setting.KEY} of a BMC in bmcs.yaml',
}
_OF_IPMI = {'cipher_suite': 'Redfish has no cipher suites: leave it out'}
"""Options for one protocol, with the reason why the other protocol has none of them."""


def _option(name: str) -> str:
    return f'--{name.replace("_", "-")}'


def _single(arguments: argparse.Namespace, environ: Mapping[str, str]) -> TargetEntry:
    """The target of ``--address``: one BMC, named after its address."""
    names = (*arguments.names, *arguments.target)
    if arguments.bmcs or len(names) > 1 or getattr(arguments, 'all', False):
        raise UsageError(
            argument='--address',
            what='is one target: it cannot be combined with --bmcs, --all or further targets',
            hint='leave --address or the others out',
        )
    wrong = check_address(arguments.address)
    if wrong is not None:
        beside = example(arguments.address)
        raise UsageError(argument='--address', what=wrong, hint=_ADDRESSES if beside in wrong else f'for example {beside}')
    by_ipmi = speaks_ipmi(arguments.address)
    for key, why in (_OF_REDFISH if by_ipmi else _OF_IPMI).items():
        if getattr(arguments, key):
            raise UsageError(
                argument=_option(key),
                what=f'does not apply to a BMC that is used over {"IPMI" if by_ipmi else "Redfish"}',
                hint=why,
            )
    parts = urlsplit(arguments.address)
    name = names[0] if names else '-'.join(filter(None, (parts.hostname, parts.port and str(parts.port)))).replace(':', '.')
    if not target_fields.NAME.fullmatch(name):
        raise UsageError(argument='--target', what=f'{name!r} is not a valid name', hint=target_fields.NAME_EXPECTED)
    if arguments.password_file:
        secret = Secret(source=TargetSource.FILE, text=str(Path(arguments.password_file).absolute()))
    elif environ.get(PASSWORD_VARIABLE):
        secret = Secret(source=TargetSource.ENVIRONMENT, text=PASSWORD_VARIABLE)
    else:
        secret = Secret(source=TargetSource.PROMPT)
    if arguments.insecure:
        text.warn('--insecure: the certificate is not verified, so the password is sent to whatever answers at that address')
    verify: bool | str = False if arguments.insecure else arguments.verify_ca or True
    host = BmcEntry(
        name=HOST,
        address=arguments.address.rstrip('/'),
        username=arguments.username,
        secret=secret,
        verify_ca=verify,
        system=arguments.system,
        cipher_suite=arguments.cipher_suite or 17,
        set_by=_SET_BY,
    )
    exposure = Exposure(arguments.exposure) if arguments.exposure else None
    return TargetEntry(name=name, bmcs=(host,), exposure=exposure)
