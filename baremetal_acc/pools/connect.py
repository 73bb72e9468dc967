# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Connect to Ironic's API with openstacksdk, as the group ``[ironic]`` of the configuration says."""

import threading
from collections.abc import Callable
from typing import Any

from keystoneauth1 import exceptions, loading
from openstack import connection
from openstack import exceptions as sdk
from oslo_config import cfg

from baremetal_acc.config.options import IRONIC_GROUP as GROUP
from baremetal_acc.config.settings import ServiceSettings
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.placement.slow_answers import SlowAnswers
from baremetal_acc.pools.ironic import IronicApi

SERVICE = 'baremetal'


class _AtFirstUse:
    """An adapter that connects at its first request: the SDK asks for API versions when a service is first named."""

    def __init__(self, cloud: connection.Connection) -> None:
        self._cloud = cloud
        self._lock = threading.Lock()

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Send one request."""
        with self._lock:
            service = self._cloud.baremetal
        return service.request(url, method, **kwargs)


def connect(conf: cfg.ConfigOpts, *, say: Callable[[str], None] | None = None) -> IronicApi:
    """Return a client of Ironic's API. No request is sent yet.

    :param say: is called with a sentence when an answer takes long; None: no such report.
    :raises UsageError: the configuration does not say how to reach Ironic. ``DocumentError``: an option in it is wrong.
    """
    if not ServiceSettings.from_conf(conf, GROUP, service_type=SERVICE).is_set_up:
        raise UsageError(
            argument=f'[{GROUP}] auth_type',
            what='access to Ironic is not configured',
            hint='set auth_type and the options that it needs in [ironic] of the file that --config-file names; for a '
            'standalone Ironic, set auth_type = none or http_basic, and endpoint_override',
        )
    path = ', '.join(conf.default_config_files)
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
        slow = None if say is None else SlowAnswers(say)
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth, session=slow)
        return IronicApi(_AtFirstUse(connection.Connection(session=session, oslo_conf=conf, service_types=[SERVICE])))
    except (exceptions.ClientException, sdk.SDKException, cfg.Error) as exc:
        raise DocumentError(path=path, what=f'[{GROUP}]: {" ".join(str(exc).split())[:500]}') from exc
