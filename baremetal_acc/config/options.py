# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Define the options of the groups ``[baremetal_acc]`` and ``[baremetal_acc_demand]``, and check what a file sets.

Their values are read in :mod:`baremetal_acc.config.settings`. A plugin declares its own options, in an entry point
``oslo.config.opts`` whose name begins with ``baremetal_acc.``.
"""

import difflib
import functools
import math
import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from importlib import metadata
from pathlib import Path

from oslo_config import cfg

from baremetal_acc.errors import AccError, DocumentError

GROUP = 'baremetal_acc'

DEMAND_GROUP = 'baremetal_acc_demand'

API_TIMEOUT_SECONDS = 60
"""Seconds that the command line waits for an answer of placement, Ironic or Keystone, if the option ``timeout`` is not set.

Without it keystoneauth waits for ever: where connections outlive the server behind them, no answer ever comes.
"""

IRONIC_GROUP = 'ironic'

PLUGINS = 'oslo.config.opts'
"""The entry point group in which plugins declare their options, as every package does that uses oslo.config."""

OPTIONS = [
    cfg.StrOpt(
        'baseline',
        default='/etc/baremetal_acc/baseline.toml',
        help='File of the rules that must hold for accelerators: firmware versions, functions, write paths to block.',
    ),
    cfg.StrOpt(
        'catalogue',
        default='/etc/baremetal_acc/catalogue.toml',
        help='File that lists the images, with their digests and the devices that they fit.',
    ),
    cfg.ListOpt(
        'image_folders',
        default=[],
        help='Folders that images may lie in, besides the folder of the catalogue.',
    ),
    cfg.StrOpt(
        'image_server_host',
        help=(
            'Address of this machine as BMCs reach it. With it a BMC that takes no image in a request, and can fetch one '
            '(SimpleUpdate), is served the image that was checked, at a secret path and only until it has it. Without it '
            'such a BMC is refused.'
        ),
    ),
    cfg.StrOpt('image_server_listen', default='', help='Address that images are served at; empty for all of this machine.'),
    cfg.StrOpt(
        'image_server_ports',
        default='0',
        regex=r'^[0-9]{1,5}(-[0-9]{1,5})?\Z',
        help='Port, or first and last port with a dash between, that images are served at; 0 for any that is free.',
    ),
    cfg.StrOpt('image_server_certificate', help='PEM file of the certificate for serving images by HTTPS; without it by HTTP.'),
    cfg.StrOpt('image_server_key', help='PEM file of its key; without it the key is in the same file.'),
    cfg.ListOpt(
        'trust_roots',
        default=[],
        help=(
            'Files of Ed25519 public keys and of CA certificates in PEM, or folders of such files (*.pem, *.crt, *.pub): who '
            'may sign the catalogue, and images. A certificate of such a CA has to be one for code signing. Nobody but root '
            'and the user of the process may write there.'
        ),
    ),
    cfg.ListOpt(
        'image_trust_roots',
        default=[],
        help=(
            'Like trust_roots, of those who may sign images, and not the catalogue. Where it is empty, the trust_roots sign '
            'both; where it is not, they sign the catalogue alone.'
        ),
    ),
    cfg.StrOpt(
        'catalogue_signature',
        choices=['required', 'optional'],
        help=(
            'Whether the catalogue has to be signed, in a file beside it whose name ends with .sig. Required as soon as there '
            'are trust roots, unless this says otherwise. A signed catalogue needs a serial, and a time at which it expires.'
        ),
    ),
    cfg.StrOpt(
        'image_signature',
        default='optional',
        choices=['required', 'optional'],
        help=(
            'Whether each image needs a signature of its own, besides that of the catalogue, which covers all digests. An '
            'image that names a signature is checked in any case.'
        ),
    ),
    cfg.StrOpt(
        'catalogue_serial_file',
        sample_default='/var/lib/ironic/baremetal-acc-serials.sqlite',
        help=(
            'SQLite database that the highest serial of each catalogue is kept in, so that an older one is refused. It is made '
            'when it is needed; its name ends in .sqlite, whatever suffix is given here. A JSON file that an earlier release '
            'kept there is taken over once. A conductor needs one of its own where the catalogue is signed; the command line '
            'keeps it in its state folder.'
        ),
    ),
    cfg.ListOpt(
        'image_hosts',
        default=[],
        help=(
            'Servers that images may be fetched from: HOST or HOST:PORT by TLS, http://HOST or http://HOST:PORT without. None '
            'by default. Redirects lead to these servers only.'
        ),
    ),
    cfg.StrOpt(
        'image_ca',
        help="File of CA certificates that the servers of images verify with, in place of the system's.",
    ),
    cfg.FloatOpt('image_timeout', default=600.0, min=1, help='Seconds that fetching one image may take as a whole.'),
    cfg.IntOpt(
        'image_max_size',
        default=8 * 1024**3,
        min=1,
        help='Bytes that an image may have. A private copy of each is made in $TMPDIR (/tmp) while it is sent.',
    ),
    cfg.ListOpt(
        'spdm_trust_roots',
        default=[],
        help=(
            'Files of CA certificates in PEM, or folders of such files (*.pem, *.crt): the roots of the makers of devices, for '
            'measurements that devices sign (SPDM). Without one no measurement proves anything, and a device whose BMC offers '
            'to let it sign is not as it has to be, unless a rule of the baseline says measure = "off". Nobody but root and '
            'the user of the process may write there.'
        ),
    ),
    cfg.StrOpt(
        'devices',
        default='/etc/baremetal_acc/devices.d',
        help='Folder of TOML files that add PCI ids to the list of known accelerators.',
    ),
    cfg.StrOpt(
        'default_exposure',
        default='tenant',
        choices=['tenant', 'service', 'none'],
        help=(
            "Whose code runs on a node that does not say so itself (driver_info['acc_exposure']). On a tenant's node every "
            'host path to every accelerator must be blocked, unless a rule of the baseline says otherwise.'
        ),
    ),
    cfg.StrOpt(
        'certificate_key',
        sample_default='/etc/baremetal_acc/certificate.pem',
        help=(
            'File of the Ed25519 key in PEM that hand-over certificates are signed with, for its owner alone (mode 0600): '
            'openssl genpkey -algorithm ed25519. Without it no node is handed over to a tenant.'
        ),
    ),
    cfg.ListOpt(
        'certificate_trust',
        default=[],
        help=(
            'Files of the Ed25519 public keys in PEM whose certificates are believed, besides the one of certificate_key: '
            'those of other conductors, and of keys that were in use before. Nobody but root and the user of the process may '
            'write there.'
        ),
    ),
    cfg.StrOpt(
        'certificate_folder',
        sample_default='/var/lib/ironic/certificates',
        help=(
            'Folder that certificates are kept in, a file for each deployment. They are kept with the node in any case, until '
            'the next one is issued.'
        ),
    ),
    cfg.BoolOpt(
        'publish',
        default=True,
        help='Publish accelerators to placement. The [placement] group says how to reach it.',
    ),
    cfg.FloatOpt('poll_interval', default=5.0, min=0.1, help='Seconds between two looks at a job that waits for a BMC.'),
    cfg.FloatOpt(
        'settle_timeout',
        default=120.0,
        min=0,
        help='Seconds that a device may take to show the version that was written, once its update is known to have ended.',
    ),
    cfg.FloatOpt(
        'stall_timeout',
        default=2700.0,
        min=1,
        help=(
            'Seconds that an update may claim to run without any progress, or that nothing tells whether it has ended. Then '
            'the device is looked at, and decides; where it does not show the version nothing more is sent to it. The slowest '
            'write that is known takes 40 minutes.'
        ),
    ),
    cfg.FloatOpt(
        'custody_blind_limit',
        default=10.0,
        min=0,
        max=60,
        help=(
            'Seconds that two readings of the power of a host may be apart, if both find it off, so that it counts as off '
            'between them though a card stood open. It has to be less than the fastest machine needs from power on to code of '
            'its own; BMCs that keep the time of the last reset of the host are believed over any time.'
        ),
    ),
    cfg.FloatOpt('reset_timeout', default=900.0, min=1, help='Seconds that a System may take to be reset.'),
    cfg.FloatOpt(
        'person_timeout',
        default=28800.0,
        min=1,
        help=(
            'Seconds that a job waits for somebody who has to pull the power cord of a machine, where an image of the '
            'catalogue comes in force by that (apply.reset = "ac-power-cycle"). They do not count as time of the job.'
        ),
    ),
    cfg.FloatOpt(
        'claims_timeout',
        default=300.0,
        min=0,
        help=(
            'Seconds that an instance may take to let go of what it has claimed in placement, before a job that has to '
            'withdraw it has failed. Nova frees the claims of an instance a little after cleaning has begun. What is claimed '
            'without the machine is not waited for.'
        ),
    ),
    cfg.FloatOpt(
        'job_timeout',
        default=7200.0,
        min=1,
        help='Seconds after which a job has failed, whatever it waits for. Locks are engaged even then.',
    ),
    cfg.FloatOpt(
        'bmc_timeout',
        default=45.0,
        min=1,
        help='Seconds to wait for one answer of a BMC. Real ones take more than 20 for some resources.',
    ),
    cfg.FloatOpt(
        'observe_timeout',
        deprecated_name='bmc_budget',
        default=300.0,
        min=1,
        help='Seconds that reading one BMC may take as a whole.',
    ),
    cfg.IntOpt(
        'bmc_concurrency', default=4, min=1, max=32, help='Requests to one BMC at a time, at most: fewer while it pushes back.'
    ),
    cfg.BoolOpt(
        'bmc_basic_auth',
        default=False,
        help=(
            'Use HTTP Basic authentication where a BMC has no Redfish session free (SessionLimitExceeded, RAC0218) and takes '
            'it. The password goes over the network with each request then, and not once for each session. A BMC that has no '
            'sessions at all is given Basic authentication in any case.'
        ),
    ),
    cfg.StrOpt(
        'pools',
        default='/etc/baremetal_acc/pools.toml',
        help='File that says how many regions with each function are to be free (baremetal-acc pool).',
    ),
    cfg.StrOpt(
        'state_dir',
        help=(
            'Folder that baremetal-acc pool keeps moves under way and demands in, for its user alone. Without it they lie '
            'where the command line keeps its jobs: $XDG_STATE_HOME/baremetal-acc, or ~/.local/state/baremetal-acc.'
        ),
        sample_default='/var/lib/baremetal-acc',
    ),
    cfg.IntOpt(
        'max_parallel_targets',
        deprecated_name='fleet_at_once',
        default=1024,
        min=1,
        max=4096,
        help=(
            'Targets that the command line takes an inventory of at a time. One that waits for its BMC for more than some '
            'seconds no longer counts, up to four times as many. The more targets, the fewer requests to one BMC at a time.'
        ),
    ),
    cfg.IntOpt(
        'fleet_processes',
        default=1,
        min=1,
        max=64,
        help=(
            'Processes that share the targets of an inventory on the command line: each keeps one CPU busy. No more are '
            'started than one for 16 targets.'
        ),
    ),
]

DEMAND_OPTIONS = [
    cfg.StrOpt(
        'folder',
        sample_default='~/.local/state/baremetal-acc/demands',
        help=(
            'Folder that demands are kept in, for the user of pool watch alone. Without it they lie in the state folder of the '
            'command line.'
        ),
    ),
    cfg.StrOpt(
        'nova_transport_url',
        secret=True,
        help=(
            'Message bus that Nova sends its notifications to, such as rabbit://USER:PASSWORD@HOST:5672/VHOST. With it pool '
            'watch takes each boot that found no host as a demand for the functions that its flavor asks for. Keep the file '
            'that holds it to its owner (mode 0600). Options of [oslo_messaging_rabbit] hold for it.'
        ),
    ),
    cfg.ListOpt(
        'nova_topics',
        default=['versioned_notifications', 'notifications'],
        help=(
            "Topics that Nova's notifications come with: [notifications] versioned_notifications_topics and "
            '[oslo_messaging_notifications] topics of nova.conf. One of both is enough.'
        ),
    ),
    cfg.StrOpt('nova_exchange', default='nova', help='[DEFAULT] control_exchange of nova.conf.'),
    cfg.StrOpt(
        'nova_pool',
        default='baremetal-acc',
        regex='^[A-Za-z0-9_.-]{1,64}$',
        help=(
            'Name of the listeners that share the notifications among them. Those of other names, such as those of ceilometer, '
            'get copies of their own.'
        ),
    ),
    cfg.IntOpt(
        'project_limit',
        default=16,
        min=1,
        help=(
            'Demands of one project for one function at a time. Whoever boots again each time that it fails tells a new one '
            'each time.'
        ),
    ),
]
"""Options of what ``pool watch`` listens to, and of where ``pool demand`` keeps the demands."""


def register(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[baremetal_acc]``."""
    conf.register_opts(OPTIONS, group=GROUP)


def register_demand(conf: cfg.ConfigOpts) -> None:
    """Register the options of ``[baremetal_acc_demand]``, which only the command line has."""
    conf.register_opts(DEMAND_OPTIONS, group=DEMAND_GROUP)


def check(conf: cfg.ConfigOpts, options: Iterable[cfg.Opt] = OPTIONS) -> None:
    """Refuse an option of our group that is misspelt or has no valid value.

    :param options: those of our group that are registered.
    :raises DocumentError: as :func:`check_names` and :func:`check_values`.
    """
    check_names(conf)
    check_values(conf, GROUP, options)


def check_values(conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]) -> None:
    """Read the value of each option now: oslo.config reports a wrong one only when it is used.

    :raises DocumentError: an option has no value of its type, or a number that is not finite.
    """
    for option in options:
        flaw = _value_flaw(conf, group, option)
        if flaw is not None:
            path = next((str(p) for p in reversed(_files(conf)) if _sets(p, group, option)), '')
            raise DocumentError(path=path, what=f'[{group}] {option.dest}: {flaw}', hint=option.help)


_MOST_SECONDS = timedelta.max.total_seconds()
"""Limit of float options: all of them are seconds."""


def _value_flaw(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> str | None:
    try:
        value = conf[group][option.dest]
    except (cfg.Error, ValueError) as exc:
        return str(exc).rpartition(' is not valid: ')[2]
    if value is None and option.default is not None:
        return 'is empty'
    if not isinstance(value, float):
        return None
    if not math.isfinite(value):
        return f'{value} is not finite'
    return f'{value:g} is too large' if value > _MOST_SECONDS else None


def _sets(path: Path, group: str, option: cfg.Opt) -> bool:
    names = _names(group, [option])
    return any(section == group and not names.isdisjoint(keys) for section, keys in _sections(str(path), *_state(path)))


def check_names(conf: cfg.ConfigOpts) -> None:
    """Refuse a misspelt option: oslo.config ignores it, even one that would have kept an image from being used.

    :raises DocumentError: a file has an unknown option in our group, one of our options in another place, or our group
        misspelt.
    """
    for path in _files(conf):
        for section, keys in _sections(str(path), *_state(path)):
            for key, what, hint in _misplaced(conf, section, keys):
                raise DocumentError(path=str(path), what=f'[{section}]{key and f" {key}"}: {what}', hint=hint)


def _misplaced(conf: cfg.ConfigOpts, section: str, keys: tuple[str, ...]) -> Iterator[tuple[str, str, str | None]]:
    """List what is misspelt: the key (empty: the section), what is wrong with it, and what was probably meant."""
    if section == 'DEFAULT':
        lost = (key for key in keys if key not in conf and _is_ours(key))
        yield from ((key, 'is not read there', f'put it into the group [{GROUP}]') for key in lost)
    elif section.lower() == GROUP:
        for key in keys:
            if not _is_ours(key):
                yield key, 'no such option', _alike(key, _names(GROUP, OPTIONS) | plugin_names())
    elif section.lower() == DEMAND_GROUP:
        ours = _names(DEMAND_GROUP, DEMAND_OPTIONS)
        yield from ((key, 'no such option', _alike(key, ours)) for key in keys if key not in ours)
    elif (alike := difflib.get_close_matches(section.lower(), [GROUP, DEMAND_GROUP], n=1, cutoff=0.85)) and section not in conf:
        yield '', 'no such group', f'did you mean [{alike[0]}]?'


def _names(group: str, options: Iterable[cfg.Opt]) -> frozenset[str]:
    """Return the names by which a file may set these options of a group, deprecated names included."""
    options = tuple(options)
    old = {old.name for option in options for old in option.deprecated_opts if old.name and old.group in (None, group)}
    return frozenset({option.dest for option in options} | old)


def _is_ours(key: str) -> bool:
    """Whether our group has such an option. Plugins are loaded only for a name that is none of the core's."""
    return key in _names(GROUP, OPTIONS) or key in plugin_names()


def _alike(key: str, names: frozenset[str]) -> str | None:
    near = difflib.get_close_matches(key, sorted(names), n=1)
    return f'did you mean {near[0]}?' if near else None


@functools.cache
def plugin_names() -> frozenset[str]:
    """Return the names of options of our group that plugins declare: one file may serve Ironic's plugin and the command line.

    :raises AccError: a plugin cannot be loaded.
    """
    found: frozenset[str] = frozenset()
    for point in metadata.entry_points(group=PLUGINS):
        if not point.name.startswith(f'{GROUP}.'):
            continue
        try:
            declared = [options for group, options in point.load()() if getattr(group, 'name', group) == GROUP]
        except Exception as exc:
            raise AccError(
                f'plugin {point.name} ({PLUGINS}) cannot be loaded: {type(exc).__name__}: {exc}',
                hint='repair or uninstall the package that brings it',
            ) from exc
        found = found.union(*(_names(GROUP, options) for options in declared))
    return found


def _files(conf: cfg.ConfigOpts) -> list[Path]:
    folders = (Path(folder) for folder in conf.config_dir or ())
    return [*map(Path, conf.config_file or ()), *(path for folder in folders for path in sorted(folder.glob('*.conf')))]


def _state(path: Path) -> tuple[int, int]:
    """Return what changes when a file does; oslo.config has reported a file that cannot be read before."""
    try:
        found = os.stat(path)
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


@functools.lru_cache(maxsize=32)
def _sections(path: str, _changed: int, _size: int) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the sections of a file with their keys; cached, as jobs ask at every turn."""
    found: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, found).parse()
    except (OSError, ValueError, cfg.Error):
        return ()
    return tuple((section, tuple(keys)) for section, keys in found.items())


def list_opts() -> list[tuple[str | cfg.OptGroup, list[cfg.Opt]]]:
    """Return the options for oslo-config-generator."""
    ironic = cfg.OptGroup(IRONIC_GROUP, help="How baremetal-acc pool reaches Ironic's API. Conductors do not read it.")
    return [(GROUP, OPTIONS), (DEMAND_GROUP, DEMAND_OPTIONS), (ironic, _reaching('baremetal'))]


def _reaching(service_type: str) -> list[cfg.Opt]:
    """Return the options that keystoneauth registers when it is used, for the sample file.

    Of the options of the kinds of ``auth_type`` those of password alone are included.
    """
    from keystoneauth1 import loading  # only needed for the sample file

    adapter = loading.get_adapter_conf_options(include_deprecated=False)
    cfg.set_defaults(adapter, service_type=service_type)
    password = loading.get_auth_plugin_conf_options(loading.get_plugin_loader('password'))
    session = loading.get_session_conf_options()
    cfg.set_defaults(session, timeout=API_TIMEOUT_SECONDS)
    found = (*loading.get_auth_common_conf_options(), *session, *adapter, *password)
    return sorted({option.name: option for option in found}.values(), key=lambda option: option.name)
