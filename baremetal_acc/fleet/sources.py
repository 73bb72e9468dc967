# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Demands come from Nova's message bus, where the group [baremetal_acc_demand] names it, and from a folder in any case."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oslo_config import cfg

from baremetal_acc.conf import DEMAND_GROUP, DEMAND_OPTIONS, check_values, register_demand
from baremetal_acc.fleet.demand import Desk
from baremetal_acc.fleet.spool import Spool


def spool(conf: cfg.ConfigOpts, state: Path) -> Spool:
    """Where demands are kept.

    :param state: what is remembered lies there, unless the configuration names a folder for demands.
    :raises DocumentError: an option is wrong.
    """
    group = _group(conf)
    root = state / 'demands' if group.folder is None else Path(group.folder).expanduser()
    return Spool(root=root, most_of_an_asker=group.project_limit)


@contextmanager
def listening(conf: cfg.ConfigOpts, desk: Desk) -> Iterator[str | None]:
    """Take what Nova tells, as long as this lasts.

    :returns: what is listened to, for people; None: nothing.
    :raises UsageError: an option is wrong, or a library is missing.
    """
    group = _group(conf)
    if group.nova_transport_url is None:
        yield None
        return
    # Its options are wrong or they are not; no library is asked for before it is needed.
    from baremetal_acc.fleet import nova

    if desk.catalogue is not None:
        desk.functions = desk.catalogue()
    bus = nova.Bus(
        url=group.nova_transport_url,
        topics=tuple(group.nova_topics),
        exchange=group.nova_exchange,
        pool=group.nova_pool,
    )
    listener = nova.Listener(conf, bus, desk)
    listener.start()
    try:
        yield f"Nova's notifications ({', '.join(bus.topics)})"
    finally:
        listener.stop()


def _group(conf: cfg.ConfigOpts) -> Any:
    """The options. All are read now, so that a wrong value is told now.

    :raises DocumentError: one is.
    """
    register_demand(conf)
    check_values(conf, DEMAND_GROUP, DEMAND_OPTIONS)
    return conf[DEMAND_GROUP]
