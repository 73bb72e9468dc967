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

_CA = 'Path of a CA bundle, or true or false, for '

OPTIONS = {
    REDFISH_ACC: [
        cfg.StrOpt(
            'verify_ca',
            help=(
                f"{_CA}nodes of this hardware type whose driver_info['redfish_verify_ca'] (acc_bmcs: 'verify_ca') is not set "
                'or is true.'
            ),
        ),
    ],
    IPMI_ACC: [
        cfg.StrOpt(
            'verify_ca',
            help=(
                f'{_CA}further BMCs (acc_bmcs) of nodes of this hardware type that speak Redfish, whose verify_ca is not set '
                'or is true.'
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
    return [*TURNS, *TRUST, *TENANTS, *WATCH, *SHELF, *KNOWN]


TURNS = [
    cfg.FloatOpt(
        'worker_share',
        default=0.5,
        min=0.01,
        max=0.9,
        help=(
            "The part of Ironic's workers ([conductor] workers_pool_size) that may turn jobs on accelerators at a time, "
            'uploads of images included. Where all of it is in use, jobs go on with the next round, in the order in which they '
            'have waited.'
        ),
    ),
    cfg.FloatOpt(
        'turn_timeout',
        default=300.0,
        min=1,
        help=(
            'Seconds after which a turn of a job ends and gives its worker and the node back, though there is more to do: the '
            'next turn goes on. An upload over Redfish that has begun is not cut off, and one over IPMI goes on with the next '
            'turn. A silent BMC costs a turn one bmc_timeout.'
        ),
    ),
]
"""Options on how turns of jobs share Ironic's workers."""

TRUST = [
    cfg.BoolOpt(
        'trust_ramdisk',
        default=True,
        help=(
            "Leave the host on while locks are open and firmware is written in cleaning, if Ironic's ramdisk answers from it. "
            'Ironic takes for its ramdisk whatever asks first with a MAC address of the node, which may be what a tenant has '
            'left in its boot order. With false the host is powered off then, too; steps that need the ramdisk have to come '
            'before ours.'
        ),
    ),
    cfg.BoolOpt(
        'power_off_tenant_host',
        deprecated_name='lock_out_host',
        default=True,
        help=(
            'Power off the host of a node that comes back from a tenant before anything of it is read in cleaning, unless '
            "Ironic's own ramdisk runs there. With false the tenant's code may still run, and change what was read, until "
            'something has to be written: only for BMCs that show no cards while the host is off.'
        ),
    ),
]
"""Options on which code on the host is trusted."""

TENANTS = [
    cfg.ListOpt(
        'tenant_deploy_interfaces',
        default=[],
        help=(
            "Names of deploy interfaces that may be written to instance_info['deploy_interface'] without system scope. Ironic "
            'believes that key before the field of the node, so any other value is refused (403), for nodes of every hardware '
            'type, and so are the keys of all other interfaces. While one stands all the same, no flow begins for a node of '
            'ours, and it is removed.'
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
            "What of Ironic's own configuration takes away from what this package is for, and is known and accepted: "
            'middleware ([api] middleware does not name baremetal-acc-policy), disallow_clean_steps, disallow_deploy_steps, '
            'disallow_service_steps (these options of [api] name steps of ours). A conductor with one of them that is not '
            'named here does not start.'
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
            'Seconds between two rounds of the watch over a node that somebody has or that nobody uses. Each node has its own '
            'moment in the interval. With 0 nobody watches: a lock that a tenant has opened is found when the node comes back, '
            'and a host that is on beside open cards when the node is cleaned.'
        ),
    ),
    cfg.FloatOpt(
        'watch_look_interval',
        default=3600.0,
        min=1,
        help=(
            'Seconds after which a round is a whole look, though nothing seems to have changed: other rounds read again only '
            'what locks, versions and identities rest on, and a card that came in addition shows in a whole look only.'
        ),
    ),
    cfg.FloatOpt('watch_timeout', default=60.0, min=1, help='Seconds that a round may read from one BMC.'),
    cfg.IntOpt(
        'watch_patience',
        default=3,
        min=1,
        help='Rounds in a row in which something could not be read before that is an alarm. It is never taken for good before.',
    ),
    cfg.BoolOpt(
        'power_off_untended_host',
        default=True,
        help=(
            'Power off a host that the watch finds on beside cards that are not proven closed to it, though nobody uses the '
            'node (available, manageable, enroll, clean failed and others), it has neither instance nor lessee, and no '
            'operator has it in maintenance. With false that is told, and the cards are written again by the next cleaning, '
            'no more.'
        ),
    ),
    cfg.FloatOpt(
        'watch_share',
        default=0.25,
        min=0.01,
        max=0.9,
        help=(
            "The part of Ironic's workers that may take rounds of the watch at a time; they count in worker_share, too, so "
            'that jobs find workers beside them.'
        ),
    ),
]
"""Options of the watch over deployed and unused nodes."""

SHELF = [
    cfg.FloatOpt(
        'availability_interval',
        deprecated_name='fitness_interval',
        default=30.0,
        min=0,
        help=(
            'Seconds between two rounds in which placement is told of nodes that are not fit to be deployed any more '
            '(maintenance, failed, manageable, retired, claimed, adopted, deleted), of which nothing is offered then, and of '
            'those that are fit again, of which what holds up is offered after a look. With 0 only steps tell placement '
            'anything.'
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
                help=f"Ironic's own option. Add {REDFISH_ACC}, {IPMI_ACC} or both to what it holds.",
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
                    "Ironic's own option. Add baremetal-acc-policy in every API process: without it no rule of this package "
                    'is in force, and whoever may set the provision state of a node may release locks and write firmware.'
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
