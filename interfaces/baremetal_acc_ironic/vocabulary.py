# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When does a conductor ask whether placement is new enough, and make known to it what flavors may name?

When it starts; the names also when catalogue or baseline have changed, and once an hour: anybody may delete a class or a trait
that nobody uses. It does so in a worker: a placement that is away keeps no conductor from starting, and is asked again later.
"""

import threading
import time
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception
from oslo_log import log

from baremetal_acc import assemble
from baremetal_acc.decide.vocabulary import vocabulary
from baremetal_acc.errors import AccError, PlacementRefused
from baremetal_acc_ironic import placement, settings

LOG = log.getLogger(__name__)

ANEW = 3600.0
"""Seconds after which placement is asked again though nothing has changed."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after a try that failed; twice as many after each further one."""


@dataclass(slots=True)
class Known:
    """What one conductor has told placement.

    :ivar files: how baseline and catalogue were then.
    :ivar due: when it is time again, by the clock that only goes up.
    :ivar failures: tries in a row that failed; ``why`` the last one did.
    """

    files: tuple[object, ...] | None = None
    due: float = 0.0
    failures: int = 0
    why: str | None = None
    busy: threading.Lock = field(default_factory=threading.Lock)


_CONDUCTORS: 'WeakKeyDictionary[Any, Known]' = WeakKeyDictionary()


def keep(manager: Any) -> None:
    """See that placement knows all names, if it is time; in a worker of the conductor."""
    if not placement.is_wanted():
        return
    known = _CONDUCTORS.setdefault(manager, Known())
    files, now = _files(), time.monotonic()
    waits = now < known.due
    if waits and (known.failures or files == known.files):
        return
    if not known.busy.acquire(blocking=False):
        return
    try:
        manager._spawn_worker(_tell, known, files, _allow_reserved_pool=False)
    except exception.NoFreeConductorWorker:
        known.busy.release()
    except BaseException:
        known.busy.release()
        raise


def _tell(known: Known, files: tuple[object, ...]) -> None:
    """In the worker."""
    try:
        placement.check()
        settings.check_names()
        documents = assemble.documents(settings.core())
        names = vocabulary(documents.baseline, documents.catalogue)
        made = placement.declare(names.classes, names.traits)
    except AccError as exc:
        known.due = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(known.failures, 10))
        known.failures += 1
        if str(exc) != known.why and isinstance(exc, PlacementRefused):
            LOG.error('Nothing can be published, nor any flavor be told of by placement: %s', exc)
        elif str(exc) != known.why:
            LOG.warning('A flavor for a function that no node offers yet may be refused by placement: %s', exc)
        known.why = str(exc)
    else:
        if made:
            LOG.info('Made known to placement: %s', ', '.join(made))
        elif known.failures:
            LOG.info('Placement knows all that flavors may name')
        known.files, known.due, known.failures, known.why = files, time.monotonic() + ANEW, 0, None
    finally:
        known.busy.release()


def _files() -> tuple[object, ...]:
    """How baseline and catalogue are now, as far as a look at their folder says it."""
    found: list[object] = []
    known = settings.core()
    for path in (known.baseline, known.catalogue):
        try:
            seen = path.stat()
            found.append((path, seen.st_mtime_ns, seen.st_size, seen.st_ino))
        except OSError:
            found.append((path, None))
    return tuple(found)
