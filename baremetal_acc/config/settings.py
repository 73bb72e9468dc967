# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the values of the core's options into typed settings: no other module reads them from oslo.config.

A setting has the name of its option. Whoever renames an option renames its setting, and mypy names every reader of the old one.
"""

from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Self

from oslo_config import cfg

from baremetal_acc.config.options import (
    API_TIMEOUT_SECONDS,
    DEMAND_GROUP,
    DEMAND_OPTIONS,
    GROUP,
    check_values,
    register_demand,
)
from baremetal_acc.model.image import SignatureDemand
from baremetal_acc.policy.baseline_rules import Exposure


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of the group ``[baremetal_acc]``, without those of plugins.

    :mod:`baremetal_acc.config.options` says what each one means.

    :ivar image_server_ports: first and last; 0 and 0 for any.
    :ivar catalogue_signature: None: required where there are trust roots.
    :ivar image_max_size: bytes.
    :ivar from_arguments: settings that an argument of the command line has replaced.
    """

    baseline: Path
    catalogue: Path
    image_folders: tuple[Path, ...]
    image_server_host: str | None
    image_server_listen: str
    image_server_ports: tuple[int, int]
    image_server_certificate: Path | None
    image_server_key: Path | None
    trust_roots: tuple[Path, ...]
    image_trust_roots: tuple[Path, ...]
    signature_threshold: int
    catalogue_signature: SignatureDemand | None
    baseline_signature: SignatureDemand
    image_signature: SignatureDemand
    catalogue_serial_file: Path | None
    image_hosts: tuple[str, ...]
    image_ca: Path | None
    image_timeout: timedelta
    image_max_size: int
    spdm_trust_roots: tuple[Path, ...]
    devices: Path
    default_exposure: Exposure
    certificate_key: Path | None
    certificate_trust: tuple[Path, ...]
    certificate_folder: Path | None
    publish: bool
    poll_interval: timedelta
    settle_timeout: timedelta
    stall_timeout: timedelta
    custody_blind_limit: timedelta
    reset_timeout: timedelta
    person_timeout: timedelta
    claims_timeout: timedelta
    job_timeout: timedelta
    bmc_timeout: timedelta
    observe_timeout: timedelta
    bmc_concurrency: int
    bmc_basic_auth: bool
    pools: Path
    state_dir: Path | None
    max_parallel_targets: int
    fleet_processes: int
    from_arguments: frozenset[str] = frozenset()

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, *, serial_file: Path | None = None) -> Self:
        """Read all settings. The options are registered, and :func:`baremetal_acc.config.options.check` has passed.

        :param serial_file: default of ``catalogue_serial_file``.
        """
        group = conf[GROUP]
        first_port, _, last_port = group.image_server_ports.partition('-')
        return cls(
            baseline=Path(group.baseline),
            catalogue=Path(group.catalogue),
            image_folders=_paths(group.image_folders),
            image_server_host=group.image_server_host or None,
            image_server_listen=group.image_server_listen,
            image_server_ports=(int(first_port), int(last_port or first_port)),
            image_server_certificate=_named(group.image_server_certificate),
            image_server_key=_named(group.image_server_key),
            trust_roots=_paths(group.trust_roots),
            image_trust_roots=_paths(group.image_trust_roots),
            signature_threshold=group.signature_threshold,
            catalogue_signature=None if group.catalogue_signature is None else SignatureDemand(group.catalogue_signature),
            baseline_signature=SignatureDemand(group.baseline_signature),
            image_signature=SignatureDemand(group.image_signature),
            catalogue_serial_file=serial_file if group.catalogue_serial_file is None else _path(group.catalogue_serial_file),
            image_hosts=tuple(group.image_hosts),
            image_ca=_named(group.image_ca),
            image_timeout=timedelta(seconds=group.image_timeout),
            image_max_size=group.image_max_size,
            spdm_trust_roots=_paths(group.spdm_trust_roots),
            devices=Path(group.devices),
            default_exposure=Exposure(group.default_exposure),
            certificate_key=_path(group.certificate_key),
            certificate_trust=_paths(group.certificate_trust),
            certificate_folder=_path(group.certificate_folder),
            publish=group.publish,
            poll_interval=timedelta(seconds=group.poll_interval),
            settle_timeout=timedelta(seconds=group.settle_timeout),
            stall_timeout=timedelta(seconds=group.stall_timeout),
            custody_blind_limit=timedelta(seconds=group.custody_blind_limit),
            reset_timeout=timedelta(seconds=group.reset_timeout),
            person_timeout=timedelta(seconds=group.person_timeout),
            claims_timeout=timedelta(seconds=group.claims_timeout),
            job_timeout=timedelta(seconds=group.job_timeout),
            bmc_timeout=timedelta(seconds=group.bmc_timeout),
            observe_timeout=timedelta(seconds=group.observe_timeout),
            bmc_concurrency=group.bmc_concurrency,
            bmc_basic_auth=group.bmc_basic_auth,
            pools=Path(group.pools),
            state_dir=_path(group.state_dir),
            max_parallel_targets=group.max_parallel_targets,
            fleet_processes=group.fleet_processes,
        )

    def with_arguments(self, *, baseline: str | None, catalogue: str | None) -> Self:
        """Return the settings with the files that command-line arguments name; without an argument nothing changes."""
        changed = self
        if baseline:
            changed = replace(changed, baseline=Path(baseline), from_arguments=changed.from_arguments | {'baseline'})
        if catalogue:
            changed = replace(changed, catalogue=Path(catalogue), from_arguments=changed.from_arguments | {'catalogue'})
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandSettings:
    """Settings of the group ``[baremetal_acc_demand]``, which only the command line has."""

    folder: Path | None
    nova_transport_url: str | None
    nova_topics: tuple[str, ...]
    nova_exchange: str
    nova_pool: str
    project_limit: int

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> Self:
        """Register the options, and read all of them.

        :raises DocumentError: one has no value of its type.
        """
        register_demand(conf)
        check_values(conf, DEMAND_GROUP, DEMAND_OPTIONS)
        group = conf[DEMAND_GROUP]
        return cls(
            folder=_named(group.folder),
            nova_transport_url=group.nova_transport_url,
            nova_topics=tuple(group.nova_topics),
            nova_exchange=group.nova_exchange,
            nova_pool=group.nova_pool,
            project_limit=group.project_limit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings that we read ourselves of a group of keystoneauth options for a service, such as ``[placement]``.

    :ivar is_set_up: the group says how to authenticate.
    :ivar timeout_seconds: for one answer, as keystoneauth takes it; None: for ever.
    """

    is_set_up: bool
    timeout_seconds: int | None

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, group: str, service_type: str) -> Self:
        """Register the options of keystoneauth for the group, and read these.

        keystoneauth reads the others itself, with the plugin that ``auth_type`` names.
        """
        # Only commands that use a service need keystoneauth, and its import is slow.
        from keystoneauth1 import loading

        loading.register_auth_conf_options(conf, group)
        loading.register_session_conf_options(conf, group)
        loading.register_adapter_conf_options(conf, group)
        conf.set_default('service_type', service_type, group=group)
        conf.set_default('timeout', API_TIMEOUT_SECONDS, group=group)
        values = conf[group]
        return cls(is_set_up=bool(values.auth_type or values.auth_section), timeout_seconds=values.timeout)


def _path(text: str | None) -> Path | None:
    """Return a path; an empty value names none, like one that is not set."""
    return Path(text) if text else None


def _named(text: str | None) -> Path | None:
    """Return a path. An empty one fails where the file is used: ignoring it would protect less."""
    return None if text is None else Path(text)


def _paths(texts: list[str]) -> tuple[Path, ...]:
    return tuple(Path(text) for text in texts)
