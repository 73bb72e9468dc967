# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Set up the sources of demands: the spool folder, and Nova's message bus where ``[baremetal_acc_demand]`` names it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from oslo_config import cfg

from baremetal_acc.config.settings import DemandSettings
from baremetal_acc.pools.demand import DemandService
from baremetal_acc.pools.spool import Spool


def spool(conf: cfg.ConfigOpts, state: Path) -> Spool:
    """Return the spool that stores demands.

    :param state: folder of stored state, where demands are kept unless the configuration names another folder.
    :raises DocumentError: an option is wrong.
    """
    settings = DemandSettings.from_conf(conf)
    root = state / 'demands' if settings.folder is None else settings.folder.expanduser()
    return Spool(root=root, most_of_an_asker=settings.project_limit)


@contextmanager
def listening(conf: cfg.ConfigOpts, desk: DemandService) -> Iterator[str | None]:
    """Receive Nova's notifications within the block.

    :returns: a name of the source, for people; None where there is none.
    :raises UsageError: an option is wrong, or a library is missing.
    """
    settings = DemandSettings.from_conf(conf)
    if settings.nova_transport_url is None:
        yield None
        return
    # Imported here: without a transport URL it is not needed.
    from baremetal_acc.pools import nova

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
