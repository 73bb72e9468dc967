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
        help=(
            'Path of the baseline: the TOML file with the rules that must hold for accelerators (firmware versions, functions, '
            'write paths to block). Unless baseline_signature requires that it is signed, only the operator should be able to '
            'write it.'
        ),
    ),
    cfg.StrOpt(
        'catalogue',
        default='/etc/baremetal_acc/catalogue.toml',
        help=(
            'Path of the catalogue: the TOML file that lists the images, with their digests and the devices that they fit. See '
            'trust_roots for its signature.'
        ),
    ),
    cfg.ListOpt(
        'image_folders',
        default=[],
        help=(
            'Folders in which images may be, in addition to the folder of the catalogue. An image in any other folder is '
            'refused; symbolic links are resolved before this check.'
        ),
    ),
    cfg.StrOpt(
        'image_server_host',
        help=(
            'Host name or IP address at which BMCs reach this machine to fetch images (SimpleUpdate). It is needed for BMCs '
            'that accept no image in a request. Such a BMC is served the image that was checked, at a secret path and only '
            'until it has fetched it. If unset, updates through such a BMC are refused. On each conductor, set its own address.'
        ),
    ),
    cfg.StrOpt(
        'image_server_listen',
        default='',
        help=(
            'Local address on which the image server listens. Empty: all addresses of this machine. Set it to keep the server '
            'off networks that BMCs are not in.'
        ),
    ),
    cfg.StrOpt(
        'image_server_ports',
        default='0',
        regex=r'^[0-9]{1,5}(-[0-9]{1,5})?\Z',
        help=(
            'Port, or first and last port with a dash between them, on which images are served. Each update that runs needs a '
            'port of its own. 0: any free port. Set a range where a firewall is between the BMCs and this machine.'
        ),
    ),
    cfg.StrOpt(
        'image_server_certificate',
        help=(
            'PEM file with the TLS certificate for serving images over HTTPS. If unset, images are served over HTTP, and '
            'anyone who can listen on the network sees the secret path.'
        ),
    ),
    cfg.StrOpt(
        'image_server_key',
        help='PEM file with the private key of image_server_certificate. If unset, that file contains the key, too.',
    ),
    cfg.ListOpt(
        'trust_roots',
        default=[],
        help=(
            'PEM files with Ed25519 public keys and CA certificates that may sign the catalogue, the baseline and images, or '
            'folders of such files (*.pem, *.crt, *.pub). A certificate that such a CA has issued must be for code signing. If '
            'empty, no signature of the catalogue is checked, and anyone who can write the catalogue decides what is flashed. '
            'A file or folder that anyone but root and the user of the process may write is refused.'
        ),
    ),
    cfg.IntOpt(
        'signature_threshold',
        default=1,
        min=1,
        max=16,
        help=(
            'How many different keys of trust_roots must have signed the catalogue, and the baseline if it is signed. A CA '
            'counts as one key, however many signers it has certified. A number above that of the different keys is an error. '
            'One signature of an image is always enough, as the catalogue has its digest.'
        ),
    ),
    cfg.ListOpt(
        'image_trust_roots',
        default=[],
        help=(
            'Keys and CA certificates, as in trust_roots, that may sign images but not the catalogue. If empty, trust_roots '
            'sign both; if set, trust_roots sign the catalogue alone. Use it for the keys of vendors, which must not sign a '
            'catalogue.'
        ),
    ),
    cfg.StrOpt(
        'catalogue_signature',
        choices=['required', 'optional'],
        help=(
            'Whether the catalogue must be signed, in a file next to it with the suffix .sig. If unset, a signature is '
            'required when trust_roots is set. With optional, a catalogue without a .sig file is used as it is. A signed '
            'catalogue needs a serial, and a time at which it expires.'
        ),
    ),
    cfg.StrOpt(
        'baseline_signature',
        default='optional',
        choices=['required', 'optional'],
        help=(
            'Whether the baseline must be signed by keys of trust_roots, in a file next to it with the suffix .sig. With '
            'optional, a baseline without a .sig file is used as it is; if trust_roots is set, a .sig file is checked. A '
            'signed baseline needs a serial, and a time at which it expires, as a signed catalogue does.'
        ),
    ),
    cfg.StrOpt(
        'image_signature',
        default='optional',
        choices=['required', 'optional'],
        help=(
            'Whether each image needs a signature of its own, in addition to the signature of the catalogue, which covers all '
            'digests. With optional, the signature that an image names in the catalogue is checked all the same.'
        ),
    ),
    cfg.StrOpt(
        'catalogue_serial_file',
        sample_default='/var/lib/ironic/baremetal-acc-serials.sqlite',
        help=(
            'SQLite database that stores the highest serial of each catalogue and of each baseline that has one, so that an '
            'older one is refused. It is created when it is needed. Its suffix is always .sqlite, whatever suffix is set here; '
            'a JSON file that an earlier release stored at the path is converted once. Conductors need it where one of them is '
            'signed, each a database of its own. If unset, the command line stores the serials in its state folder.'
        ),
    ),
    cfg.ListOpt(
        'image_hosts',
        default=[],
        help=(
            'Web servers from which images may be fetched. HOST or HOST:PORT is contacted over TLS, http://HOST or '
            'http://HOST:PORT without: only the digest protects such an image. If empty, no image is fetched. Redirects are '
            'followed only to these servers.'
        ),
    ),
    cfg.StrOpt(
        'image_ca',
        help=(
            'PEM file with the CA certificates by which the servers of image_hosts are verified. If unset, the CA certificates '
            'of the system are used.'
        ),
    ),
    cfg.FloatOpt(
        'image_timeout',
        default=600.0,
        min=1,
        help='Maximum time (in seconds) for fetching one image from a web server. Increase it for large images and slow links.',
    ),
    cfg.IntOpt(
        'image_max_size',
        default=8 * 1024**3,
        min=1,
        help=(
            'Maximum size of an image, in bytes. While an image is sent, a private copy of it is in $TMPDIR (default: /tmp), '
            'which needs room for it.'
        ),
    ),
    cfg.ListOpt(
        'spdm_trust_roots',
        default=[],
        help=(
            'PEM files with the root CA certificates of device makers, or folders of such files, by which measurements that '
            'devices sign (SPDM) are verified. If empty, no measurement proves anything: a device whose BMC offers signed '
            'measurements does not meet the baseline, unless a rule says measure = "off". A file or folder that anyone but '
            'root and the user of the process may write is refused.'
        ),
    ),
    cfg.StrOpt(
        'devices',
        default='/etc/baremetal_acc/devices.d',
        help=(
            'Folder of TOML files that add PCI ids and model names to the table of known accelerators. Their rows take '
            'precedence over those of the package. Add a card here that the inventory does not list as an accelerator.'
        ),
    ),
    cfg.StrOpt(
        'default_exposure',
        default='tenant',
        choices=['tenant', 'service', 'none'],
        help=(
            "Whose code runs on a node that does not set it itself (driver_info['acc_exposure'], or exposure in bmcs.yaml): "
            "that of a tenant, of the operator's own services, or nobody's. On a tenant's node every path from the host to "
            'every accelerator must be blocked, unless a rule of the baseline says otherwise. With another value, a path must '
            'be blocked only where a rule says so: set one only if no node without a value of its own goes to tenants.'
        ),
    ),
    cfg.StrOpt(
        'certificate_key',
        sample_default='/etc/baremetal_acc/certificate.pem',
        help=(
            'PEM file with the Ed25519 private key that signs hand-over certificates. Create it with openssl genpkey '
            '-algorithm ed25519; only its owner may have access to it (mode 0600). If unset, no node is handed over to a '
            'tenant.'
        ),
    ),
    cfg.ListOpt(
        'certificate_trust',
        default=[],
        help=(
            'PEM files with the Ed25519 public keys whose hand-over certificates are accepted, in addition to that of '
            'certificate_key. List the keys of other conductors, and those that were in use before; remove a key that was '
            'stolen. A file that anyone but root and the user of the process may write is refused.'
        ),
    ),
    cfg.StrOpt(
        'certificate_folder',
        sample_default='/var/lib/ironic/certificates',
        help=(
            'Folder in which hand-over certificates are stored, in one file for each deployment. In any case the certificate '
            'is stored with its node until the next one is issued (above 16 KiB, only its digest). Set the folder to keep '
            'certificates for longer, and for such large ones.'
        ),
    ),
    cfg.BoolOpt(
        'publish',
        default=True,
        help=(
            'Whether accelerators are published to placement, which is reached by the options of the group [placement]. Set '
            'false where there is no placement. What was published before is then not withdrawn any more.'
        ),
    ),
    cfg.FloatOpt(
        'poll_interval',
        default=5.0,
        min=0.1,
        help=(
            'Seconds between two polls of a job that waits for a BMC. Conductors also begin the turns of jobs at this interval.'
        ),
    ),
    cfg.FloatOpt(
        'settle_timeout',
        default=120.0,
        min=0,
        help=(
            'Maximum time (in seconds) for a device to report the version that was written, once its update is known to have '
            'ended. Increase it for devices that are slow to report a new version.'
        ),
    ),
    cfg.FloatOpt(
        'stall_timeout',
        default=2700.0,
        min=1,
        help=(
            'Seconds after which a job stops waiting for an update that reports no progress, or of which nothing shows whether '
            'it has ended. The device is then read: if it does not report the written version, nothing more is sent to it '
            'until the update is known to have ended. The slowest known write takes 40 minutes.'
        ),
    ),
    cfg.FloatOpt(
        'custody_blind_limit',
        default=10.0,
        min=0,
        max=60,
        help=(
            'Maximum time (in seconds) between two readings of the power of a host that both find it off, for the host to '
            'count as off in between while a card is open. Set it to less than the fastest machine needs from power-on until '
            'it runs code of its own: with a longer time a host that was started in between could go unnoticed. The limit does '
            'not apply where the BMC is known to record the time of the last reset of the host.'
        ),
    ),
    cfg.FloatOpt(
        'reset_timeout',
        default=900.0,
        min=1,
        help=(
            'Maximum time (in seconds) for the reset of a System. Other requests of a job that can be repeated without harm '
            'are mostly retried for as long.'
        ),
    ),
    cfg.FloatOpt(
        'person_timeout',
        default=28800.0,
        min=1,
        help=(
            'Seconds that a job waits for an operator to pull the power cord of a machine, where an image of the catalogue '
            'takes effect only by that (apply.reset = "ac-power-cycle"). This time does not count in job_timeout.'
        ),
    ),
    cfg.FloatOpt(
        'claims_timeout',
        default=300.0,
        min=0,
        help=(
            'Seconds that a job waits for an instance to release what it has claimed in placement, before withdrawing that '
            'fails. Nova releases the claims of an instance shortly after cleaning has begun. A claim on devices without their '
            'machine is not waited for.'
        ),
    ),
    cfg.FloatOpt(
        'job_timeout',
        default=7200.0,
        min=1,
        help=(
            'Seconds after which a job fails, whatever it waits for. Locks are engaged even then. Increase it if an upload '
            'takes longer, such as that of a large image over IPMI.'
        ),
    ),
    cfg.FloatOpt(
        'bmc_timeout',
        default=45.0,
        min=1,
        help='Seconds to wait for one response of a BMC. Some BMCs take more than 20 seconds for some resources.',
    ),
    cfg.FloatOpt(
        'observe_timeout',
        deprecated_name='bmc_budget',
        default=300.0,
        min=1,
        help='Maximum time (in seconds) for one inspection of a BMC as a whole.',
    ),
    cfg.IntOpt(
        'bmc_concurrency',
        default=4,
        min=1,
        max=32,
        help=(
            'Maximum number of requests to one BMC at a time. Fewer are sent while the BMC is overloaded, and when the command '
            'line reads many targets. With 1 the power of the host is not read while an image is sent, so that a chain of '
            'custody can break (custody_blind_limit).'
        ),
    ),
    cfg.BoolOpt(
        'bmc_basic_auth',
        default=False,
        help=(
            'Whether HTTP Basic authentication may be used where a BMC has no free Redfish session (SessionLimitExceeded, '
            'RAC0218) and accepts it. The password is then sent over the network with each request, instead of once for each '
            'session. With a BMC that has no sessions at all, Basic authentication is used in any case.'
        ),
    ),
    cfg.StrOpt(
        'pools',
        default='/etc/baremetal_acc/pools.toml',
        help='Path of the pool file: how many regions with each function baremetal-acc pool keeps free.',
    ),
    cfg.StrOpt(
        'state_dir',
        help=(
            'Folder in which baremetal-acc pool stores moves in progress and demands. Only its user may have access to it. If '
            'unset, it is the folder in which the command line stores its jobs: $XDG_STATE_HOME/baremetal-acc, or '
            '~/.local/state/baremetal-acc.'
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
            'Maximum number of targets that the command line inspects at a time for an inventory. A target that has waited for '
            'its BMC for some seconds no longer counts, so that up to four times as many can be in progress. The more targets, '
            'the fewer requests are sent to one BMC at a time (bmc_concurrency).'
        ),
    ),
    cfg.IntOpt(
        'fleet_processes',
        default=1,
        min=1,
        max=64,
        help=(
            'Number of processes that share the targets of an inventory on the command line. Each process uses one CPU. At '
            'most one process is started for 16 targets.'
        ),
    ),
]

DEMAND_OPTIONS = [
    cfg.StrOpt(
        'folder',
        sample_default='~/.local/state/baremetal-acc/demands',
        help=(
            'Folder in which demands are stored. Only the user of pool watch may have access to it. If unset, it is the folder '
            'demands in [baremetal_acc] state_dir, or in the state folder of the command line.'
        ),
    ),
    cfg.StrOpt(
        'nova_transport_url',
        secret=True,
        help=(
            'URL of the message bus to which Nova sends its notifications, such as rabbit://USER:PASSWORD@HOST:5672/VHOST. If '
            'set, pool watch records each boot that found no host as a demand for the functions that its flavor asks for. Only '
            'the owner of the file that contains the URL should have access to it (mode 0600). The options of '
            '[oslo_messaging_rabbit] apply.'
        ),
    ),
    cfg.ListOpt(
        'nova_topics',
        default=['versioned_notifications', 'notifications'],
        help=(
            "Topics of Nova's notifications: [notifications] versioned_notifications_topics and [oslo_messaging_notifications] "
            'topics of nova.conf. One of the two is enough.'
        ),
    ),
    cfg.StrOpt(
        'nova_exchange', default='nova', help="Exchange of Nova's notifications: [DEFAULT] control_exchange of nova.conf."
    ),
    cfg.StrOpt(
        'nova_pool',
        default='baremetal-acc',
        regex='^[A-Za-z0-9_.-]{1,64}$',
        help=(
            'Name of the pool of listeners that share the notifications among them. Listeners of other pools, such as those of '
            'ceilometer, get copies of their own.'
        ),
    ),
    cfg.IntOpt(
        'project_limit',
        default=16,
        min=1,
        help=(
            'Maximum number of demands of one project for one function at a time. A client that boots again after each failure '
            'submits a new demand each time; the limit keeps the fleet from being changed for it alone.'
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
