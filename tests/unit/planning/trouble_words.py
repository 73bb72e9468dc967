# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the watch finds, with its facts in words, as people and stored alarms get it: what tests compare."""

from typing import Any

from baremetal_acc.errors import AccError
from baremetal_acc.planning import untended, watch
from baremetal_acc.planning.trouble import NotHandedOver, TroubleText
from baremetal_acc.planning.watch_alarms import WatchTrouble
from baremetal_acc.render.troubles import recorded


def trouble(*, text: str, **more: Any) -> WatchTrouble:
    """One in words."""
    return WatchTrouble(fact=TroubleText(text=text), **more)


def troubles(*of: Any, **how: Any) -> tuple[WatchTrouble, ...]:
    """As :func:`watch.troubles`."""
    return recorded(watch.troubles(*of, **how))


def open_locks(*of: Any) -> tuple[WatchTrouble, ...]:
    """As :func:`watch.open_locks`."""
    return recorded(watch.open_locks(*of))


def accounts(*of: Any) -> tuple[WatchTrouble, ...]:
    """As :func:`watch.accounts`."""
    return recorded(watch.accounts(*of))


def unreadable(why: str) -> WatchTrouble:
    """As :func:`watch.unreadable`, by an error that says this."""
    (found,) = recorded([watch.unreadable(AccError(why))])
    return found


def unproven() -> WatchTrouble:
    """As :func:`watch.unproven`, of a node that was adopted."""
    (found,) = recorded([watch.unproven(NotHandedOver(state='active'))])
    return found


def untended_troubles(*of: Any, **how: Any) -> tuple[WatchTrouble, ...]:
    """As :func:`untended.troubles`."""
    return recorded(untended.troubles(*of, **how))


def unread_host(why: str, *, state: str) -> WatchTrouble:
    """As :func:`untended.unread_host`, by an error that says this."""
    (found,) = recorded([untended.unread_host(AccError(why), state=state)])
    return found
