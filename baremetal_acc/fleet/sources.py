# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Demands come from Nova's message bus, where the group [baremetal_acc_demand] names it, and from a folder in any case."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oslo_config import cfg

from baremetal_acc.config.settings import DemandSettings
from baremetal_acc.fleet.demand import Desk
from baremetal_acc.fleet.spool import Spool


def spool(conf: cfg.ConfigOpts, state: Path) -> Spool:
    """Where demands are kept.

    :param state: what is remembered lies there, unless the configuration names a folder for demands.
    :raises DocumentError: an option is wrong.
    """
    settings = DemandSettings.from_conf(conf)
    root = state / 'demands' if settings.folder is None else settings.folder.expanduser()
    return Spool(root=root, most_of_an_asker=settings.project_limit)


@contextmanager
def listening(conf: cfg.ConfigOpts, desk: Desk) -> Iterator[str | None]:
    """Take what Nova tells, as long as this lasts.

    :returns: what is listened to, for people; None: nothing.
    :raises UsageError: an option is wrong, or a library is missing.
    """
    settings = DemandSettings.from_conf(conf)
    if settings.nova_transport_url is None:
        yield None
        return
    # Its options are wrong or they are not; no library is asked for before it is needed.
    from baremetal_acc.fleet import nova

    if desk.catalogue is not None:
        desk.functions = desk.catalogue()
    bus = nova.Bus(
        url=settings.nova_transport_url,
        topics=settings.nova_topics,
        exchange=settings.nova_exchange,
        pool=settings.nova_pool,
    )
    listener = nova.Listener(conf, bus, desk)
    listener.start()
    try:
        yield f"Nova's notifications ({', '.join(bus.topics)})"
    finally:
        listener.stop()
