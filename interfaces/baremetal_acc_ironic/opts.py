# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The oslo.config options that the Ironic plugin adds to those of the core.

The command line loads this module by its entry point, to know the names of options that are not the core's. Ironic may not be
installed there, so it is imported only where it is needed.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from oslo_config import cfg

from baremetal_acc.config import options as core

REDFISH_ACC, IPMI_ACC = 'redfish-acc', 'ipmi-acc'

HARDWARE_TYPES = (REDFISH_ACC, IPMI_ACC)
"""Names of the hardware types, and of their interfaces."""

PLACEMENT = 'placement'

_CA = 'Verification of BMCs: path of a CA bundle, true (CA certificates of the system; the default) or false (none), for '

OPTIONS = {
    REDFISH_ACC: [
        cfg.StrOpt(
            'verify_ca',
            help=(
                f"{_CA}nodes of this hardware type whose driver_info['redfish_verify_ca'] (acc_bmcs: 'verify_ca') is not set "
                'or is true. With false anyone on the management network can pose as a BMC.'
            ),
        ),
    ],
    IPMI_ACC: [
        cfg.StrOpt(
            'verify_ca',
            help=(
                f'{_CA}further BMCs (acc_bmcs) of nodes of this hardware type that speak Redfish, whose verify_ca is not set '
                'or is true. With false anyone on the management network can pose as such a BMC.'
            ),
        ),
    ],
}
"""By hardware type. Ironic's Redfish code reads the group of that name (ironic/drivers/utils.py, get_verify_ca, 39.0.0);
without the group every call to a BMC fails with "no such option redfish-acc in group [DEFAULT]"."""


def register(conf: cfg.ConfigOpts) -> None:
    """Register all options; doing it twice does no harm."""
    from ironic.conf import auth

    core.register(conf)
    conf.register_opts(of_our_group(), group=core.GROUP)
    for name, options in OPTIONS.items():
        conf.register_opts(options, group=name)
    auth.register_auth_opts(conf, PLACEMENT, service_type=PLACEMENT)


def check(conf: cfg.ConfigOpts) -> None:
    """Check that no option of ours is misspelt or lacks a value.

    :raises DocumentError: one does; names the file and what is wrong.
    """
    core.check(conf, [*core.OPTIONS, *of_our_group()])


def of_our_group() -> list[cfg.Opt]:
    """Return the options that this plugin adds to the core's group."""
    return [*TURNS, *TRUST, *TENANTS, *WATCH, *HAND_OVER, *SHELF, *KNOWN]


TURNS = [
    cfg.FloatOpt(
        'worker_share',
        default=0.5,
        min=0.01,
        max=0.9,
        help=(
            "Share of Ironic's workers ([conductor] workers_pool_size) that may run turns of jobs on accelerators at a time, "
            'uploads of images included. When the share is in use, jobs continue in the next round, in the order in which they '
            'have waited. Increase it where jobs wait for workers; Ironic then has fewer for its own work.'
        ),
    ),
    cfg.FloatOpt(
        'turn_timeout',
        default=300.0,
        min=1,
        help=(
            'Seconds after which a turn of a job ends and releases its worker and the node, even if there is more to do: the '
            'job resumes with its next turn. An upload over Redfish that has begun is not interrupted; an upload over IPMI '
            'resumes with the next turn. A BMC that does not answer delays a turn by one bmc_timeout.'
        ),
    ),
]
"""Options on how turns of jobs share Ironic's workers."""

TRUST = [
    cfg.BoolOpt(
        'trust_ramdisk',
        default=True,
        help=(
            "Whether the host may stay on in cleaning while locks are open and firmware is written, if Ironic's ramdisk "
            'answers from it. Ironic takes whatever first contacts it with a MAC address of the node for its ramdisk, which '
            'may be code that a tenant has left in the boot order. If false, the host is powered off in this case, too: safer '
            'where tenants are root on nodes, but steps that need the ramdisk have to run before those of this package.'
        ),
    ),
    cfg.BoolOpt(
        'power_off_tenant_host',
        deprecated_name='lock_out_host',
        default=True,
        help=(
            'Whether the host of a node that comes back from a tenant is powered off before cleaning reads anything of the '
            "node, unless Ironic's own ramdisk runs there. If false, the tenant's code may still run, and change what was "
            'read, until something has to be written. Set false only for BMCs that show no cards while the host is off.'
        ),
    ),
]
"""Options on which code on the host is trusted."""

TENANTS = [
    cfg.ListOpt(
        'tenant_deploy_interfaces',
        default=[],
        help=(
            "Names of the deploy interfaces that may be written to instance_info['deploy_interface'] without system scope. "
            'Ironic uses that key in place of the field of the node, so any other value is refused (403), for nodes of every '
            'hardware type, and so are the keys of all other interfaces. If such a key is stored all the same, no flow begins '
            'for a node of our hardware types, and the key is removed. By default no deploy interface may be written; name one '
            'only if every node that tenants deploy may be deployed with it. Set it for the API and the conductors.'
        ),
    ),
]
"""Options on what tenants may choose."""

KNOWN = [
    cfg.ListOpt(
        'accepted_misconfigurations',
        deprecated_name='known_shortcomings',
        default=[],
        help=(
            'Settings of Ironic that disable protections of this package, and that you know and accept: middleware ([api] '
            'middleware does not name baremetal-acc-policy), disallow_clean_steps, disallow_deploy_steps, '
            'disallow_service_steps (these options of [api] name steps of this package), no_api_guard (the API of Ironic 32 '
            'takes no middleware). A conductor with one of them that is not listed here does not start.'
        ),
    ),
]
"""Options on missing parts of Ironic's configuration that the administrator has accepted."""

WATCH = [
    cfg.FloatOpt(
        'watch_interval',
        default=300.0,
        min=0,
        help=(
            'Seconds between two rounds of the watch over a deployed or unused node. Each node has its own moment in the '
            'interval. 0 disables the watch: a lock that a tenant has opened is then found only when the node comes back, and '
            'a host that is on while cards are open to it only when the node is cleaned.'
        ),
    ),
    cfg.FloatOpt(
        'watch_look_interval',
        default=3600.0,
        min=1,
        help=(
            'Seconds after which a round is a full inspection, even if nothing seems to have changed. Other rounds read only '
            'the resources on which locks, versions and identities rest. A card that was added is found by a full inspection '
            'only.'
        ),
    ),
    cfg.FloatOpt(
        'watch_timeout',
        default=60.0,
        min=1,
        help=(
            'Maximum time (in seconds) for a round to read again, from one BMC, the resources on which the last full '
            'inspection rests. A full inspection has observe_timeout.'
        ),
    ),
    cfg.IntOpt(
        'watch_patience',
        default=3,
        min=1,
        help=(
            'Number of successive rounds in which something cannot be read before that is an alarm. What cannot be read never '
            'counts as verified, not even before the alarm.'
        ),
    ),
    cfg.BoolOpt(
        'power_off_untended_host',
        default=True,
        help=(
            'Whether the watch powers off a host that is on while its cards are not proven closed to it, if the node is unused '
            '(available, manageable, enroll, clean failed and others), has neither an instance nor a lessee, and no operator '
            'has it in maintenance. If false, the watch only reports the host, and the next cleaning writes the cards again.'
        ),
    ),
    cfg.FloatOpt(
        'watch_share',
        default=0.25,
        min=0.01,
        max=0.9,
        help=(
            "Share of Ironic's workers ([conductor] workers_pool_size) that may run rounds of the watch at a time. They count "
            'in worker_share, too: set watch_share lower than that, so that jobs find workers while rounds run.'
        ),
    ),
]
"""Options of the watch over deployed and unused nodes."""

HAND_OVER = [
    cfg.BoolOpt(
        'certificate_config_drive',
        default=False,
        help=(
            'Whether the hand-over certificate is added to the config drive of the instance, in the file vendor_data2.json, '
            'where the tenant finds it. A config drive that is not an ISO 9660 image with Rock Ridge names, or that is stored '
            "in an object store, stays as it is, and the node's history says so. A node without config drive gets none."
        ),
    ),
]
"""Options on what a tenant gets with a node."""

SHELF = [
    cfg.FloatOpt(
        'availability_interval',
        deprecated_name='fitness_interval',
        default=30.0,
        min=0,
        help=(
            'Seconds between two rounds that update placement for nodes on which no step works. The accelerators of a node are '
            'withdrawn once it cannot be deployed (maintenance, failed, manageable, retired, claimed, adopted, deleted). Once '
            'it can be deployed again, they are inspected, and those that are verified are published. With 0 only steps update '
            'placement, and accelerators of a node in maintenance stay available.'
        ),
    ),
    cfg.FloatOpt(
        'deny_list_interval',
        default=10.0,
        min=0,
        help=(
            'Seconds between two rounds that apply the deny list of the catalogue to placement. A round examines whether the '
            'file of the catalogue has changed. If it has, the stored inventories of all nodes of the conductor are compared '
            'with its [[deny]] entries, and the accelerators that run what is denied are withdrawn from placement, in use or '
            'not. No BMC is asked. With 0 a deny entry takes effect only when a node is verified or published the next time.'
        ),
    ),
]
"""Options on publishing nodes that no step works on."""

IRONICS_OWN: list[tuple[str, list[Any]]] = [
    (
        'DEFAULT',
        [
            cfg.ListOpt(
                f'enabled_{name}',
                sample_default=','.join((*HARDWARE_TYPES, *others)),
                help=f"Ironic's own option. Add {REDFISH_ACC}, {IPMI_ACC} or both to its value.",
            )
            for name, others in (
                ('hardware_types', ('redfish', 'ipmi')),
                ('firmware_interfaces', ('redfish',)),
                ('inspect_interfaces', ('redfish', 'no-inspect')),
                ('power_interfaces', ('redfish', 'ipmitool')),
            )
        ],
    ),
    (
        'api',
        [
            cfg.ListOpt(
                'middleware',
                sample_default='baremetal-acc-policy',
                help=(
                    "Ironic's own option. Add baremetal-acc-policy to its value in every API process. Otherwise no policy rule "
                    'of this package is in force, and any user who may set the provision state of a node may release locks and '
                    'write firmware.'
                ),
            )
        ],
    ),
]
"""Options of Ironic's own, for the sample file only, where operators look for what to set."""


def list_opts() -> list[tuple[str, Iterable[Any]]]:
    """List the options for oslo-config-generator: what Ironic needs besides the namespace ``baremetal_acc``."""
    return [
        *IRONICS_OWN,
        (core.GROUP, of_our_group()),
        *OPTIONS.items(),
        (PLACEMENT, _of_placement()),
    ]


def _of_placement() -> Iterator[cfg.Opt]:
    """Yield Ironic's authentication options for placement; only this needs Ironic to be installed."""
    from ironic.conf import auth

    yield from auth.add_auth_opts([], service_type=PLACEMENT)
