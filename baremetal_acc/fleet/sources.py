# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who may tell demands? What the group [baremetal_acc_demand] names: Nova's message bus, HTTP, and a folder in any case."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oslo_config import cfg

from baremetal_acc.conf import DEMAND_GROUP, DEMAND_OPTIONS, register_demand
from baremetal_acc.errors import DocumentError, UsageError
from baremetal_acc.fleet.demand import Desk
from baremetal_acc.fleet.spool import Spool

if TYPE_CHECKING:
    from baremetal_acc.fleet.hook import Hook


def spool(conf: cfg.ConfigOpts, state: Path) -> Spool:
    """Where demands are kept.

    :param state: what is remembered lies there, unless the configuration names a folder for demands.
    :raises DocumentError: an option is wrong.
    """
    group = _group(conf)
    root = state / 'demands' if group.folder is None else Path(group.folder).expanduser()
    return Spool(root=root, most_of_an_asker=group.project_limit)


@contextmanager
def listening(conf: cfg.ConfigOpts, desk: Desk) -> Iterator[tuple[str, ...]]:
    """Take what is told, as long as this lasts.

    :returns: what is listened to, for people.
    :raises UsageError: an option is wrong, or a library is missing. ``StateError``: the token cannot be read.
    """
    group = _group(conf)
    heard = []
    if (group.http_listen or group.nova_transport_url) and desk.catalogue is not None:
        desk.functions = desk.catalogue()
    with ExitStack() as stack:
        if group.http_listen is not None:
            hook = _hook(group, desk)
            hook.start()
            stack.callback(hook.stop)
            heard.append(f'demands by HTTP at {hook.url}/v1/demands')
        if group.nova_transport_url is not None:
            # Its options are wrong or they are not; no library is asked for before it is needed.
            from baremetal_acc.fleet import nova

            bus = nova.Bus(
                url=group.nova_transport_url,
                topics=tuple(group.nova_topics),
                exchange=group.nova_exchange,
                pool=group.nova_pool,
            )
            listener = nova.Listener(conf, bus, desk)
            listener.start()
            stack.callback(listener.stop)
            heard.append(f"Nova's notifications ({', '.join(bus.topics)})")
        yield tuple(heard)


def _group(conf: cfg.ConfigOpts) -> Any:
    """The options. All are read now, so that a wrong value is told now.

    :raises DocumentError: one is.
    """
    register_demand(conf)
    for option in DEMAND_OPTIONS:
        try:
            conf[DEMAND_GROUP][option.name]
        except (cfg.Error, ValueError) as exc:
            what = f'[{DEMAND_GROUP}] {option.name}: {str(exc).rpartition(" is not valid: ")[2]}'
            raise DocumentError(path=', '.join(conf.default_config_files), what=what, hint=option.help) from None
    return conf[DEMAND_GROUP]


def _hook(group: Mapping[str, str | None], desk: Desk) -> 'Hook':
    try:
        from baremetal_acc.fleet import hook
    except ImportError:
        raise UsageError(
            argument=f'[{DEMAND_GROUP}] http_listen', what='aiohttp is not installed', hint='pip install baremetal-acc[demand]'
        ) from None
    listen = hook.Listen(
        address=group['http_listen'] or '',
        token_file=group['http_token_file'],
        certificate=group['http_certificate'],
        key=group['http_key'],
    )
    return hook.Hook(listen, desk)
