# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Typed settings from oslo.config: the only module of this plugin that reads Ironic's ``CONF``.

The options are read again at each call, which takes 0.1 ms for the core's and 0.03 ms for the others: Ironic may load its files
again (SIGHUP), and tests replace options while they run. oslo.config does not report such a change, so nothing could be cached
safely. Importing this module registers the options.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

from ironic.conf import CONF
from oslo_config import cfg

from baremetal_acc.config import options
from baremetal_acc.config.settings import Settings
from baremetal_acc_ironic import compat, opts

opts.register(CONF)

RESTRICTED_FLOWS = ('clean', 'deploy', 'service')
"""Flows of which Ironic's API can be configured to leave steps out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuestSettings:
    """The options that this plugin adds to the group ``[baremetal_acc]``. :mod:`baremetal_acc_ironic.opts` explains each one.

    :ivar watch_interval: zero: no watch. ``availability_interval`` and ``deny_list_interval`` likewise.
    :ivar watch_patience: in rounds.
    """

    worker_share: float
    turn_timeout: timedelta
    trust_ramdisk: bool
    power_off_tenant_host: bool
    tenant_deploy_interfaces: frozenset[str]
    accepted_misconfigurations: frozenset[str]
    watch_interval: timedelta
    watch_look_interval: timedelta
    watch_timeout: timedelta
    watch_patience: int
    power_off_untended_host: bool
    watch_share: float
    availability_interval: timedelta
    certificate_config_drive: bool
    deny_list_interval: timedelta

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read all of them. The options are registered, and :func:`check` has passed."""
        group = conf[options.GROUP]
        return cls(
            worker_share=group.worker_share,
            turn_timeout=timedelta(seconds=group.turn_timeout),
            trust_ramdisk=group.trust_ramdisk,
            power_off_tenant_host=group.power_off_tenant_host,
            tenant_deploy_interfaces=frozenset(group.tenant_deploy_interfaces),
            accepted_misconfigurations=frozenset(group.accepted_misconfigurations),
            watch_interval=timedelta(seconds=group.watch_interval),
            watch_look_interval=timedelta(seconds=group.watch_look_interval),
            watch_timeout=timedelta(seconds=group.watch_timeout),
            watch_patience=group.watch_patience,
            power_off_untended_host=group.power_off_untended_host,
            watch_share=group.watch_share,
            availability_interval=timedelta(seconds=group.availability_interval),
            certificate_config_drive=group.certificate_config_drive,
            deny_list_interval=timedelta(seconds=group.deny_list_interval),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IronicSettings:
    """Ironic's own options that this plugin uses.

    :ivar disallowed_steps: by flow of :data:`RESTRICTED_FLOWS`, such as ``firmware.verify_accelerators``.
    :ivar middleware: of the API; None if this Ironic's API takes none.
    :ivar pinned: a rolling upgrade runs: other services may be of an older release.
    :ivar elevated_project: name of the project whose services count as members of the system; None: no project.
    :ivar inventory_backend: where inspection data is stored; ``none``: nowhere.
    """

    host: str
    auth_strategy: str
    debug_tracebacks_in_api: bool
    middleware: frozenset[str] | None
    pinned: bool
    elevated_project: str | None
    firmware_interfaces: frozenset[str]
    disallowed_steps: Mapping[str, frozenset[str]]
    workers_pool_size: int
    fast_track: bool
    inventory_backend: str
    placement_timeout: int | None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Read all of them."""
        return cls(
            host=conf.host,
            auth_strategy=conf.auth_strategy,
            debug_tracebacks_in_api=conf.debug_tracebacks_in_api,
            middleware=compat.names(conf.api, 'middleware'),
            pinned=conf.pin_release_version is not None,
            elevated_project=conf.rbac_service_project_name if conf.rbac_service_role_elevated_access else None,
            firmware_interfaces=frozenset(conf.enabled_firmware_interfaces or ()),
            disallowed_steps={
                flow: compat.names(conf.api, f'disallow_{flow}_steps') or frozenset() for flow in RESTRICTED_FLOWS
            },
            workers_pool_size=conf.conductor.workers_pool_size,
            fast_track=conf.deploy.fast_track,
            inventory_backend=conf.inventory.data_backend,
            placement_timeout=conf[opts.PLACEMENT].timeout,
        )


def core() -> Settings:
    """Read the core's options of the group ``[baremetal_acc]``."""
    return Settings.from_conf(CONF)


def guest() -> GuestSettings:
    """Read this plugin's options of the same group."""
    return GuestSettings.from_conf(CONF)


def ironic() -> IronicSettings:
    """Read Ironic's own options."""
    return IronicSettings.from_conf(CONF)


def check() -> None:
    """Check that no option of ours is misspelt or lacks a value.

    :raises DocumentError: one does; names the file and what is wrong.
    """
    opts.check(CONF)


def check_names() -> None:
    """Check that no option of ours is misspelt in a file, which may have changed since the process began.

    :raises DocumentError: one is.
    """
    options.check_names(CONF)


def check_values() -> None:
    """Check that every option that this plugin adds has a value.

    :raises DocumentError: as :func:`check`.
    """
    options.check_values(CONF, options.GROUP, opts.of_our_group())


def ironic_conf() -> cfg.ConfigOpts:
    """Return ``CONF`` itself, for libraries that read their own options from it."""
    conf: cfg.ConfigOpts = CONF
    return conf
