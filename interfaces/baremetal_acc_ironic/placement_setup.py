# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: check that placement is new enough, and create the resource classes and traits that flavors may name.

A conductor does both when it starts, when catalogue or baseline have changed, and once an hour: anybody may delete a class or a
trait that is not used. It does so in a worker: a placement that does not answer keeps no conductor from starting, and is asked
again later.
"""

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception
from oslo_log import log

from baremetal_acc import bootstrap
from baremetal_acc.errors import AccError, PlacementRefused
from baremetal_acc.scheduling.custom_traits import vocabulary
from baremetal_acc_ironic import placement, settings

LOG = log.getLogger(__name__)

ANEW = 3600.0
"""Seconds after which placement is asked again although nothing has changed."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds until the retry of a request that failed; doubled after each further failure, up to the second value."""


@dataclass(slots=True)
class Known:
    """What one conductor has sent to placement.

    :ivar files: state of the baseline and catalogue files then.
    :ivar due: when it is time again, by the monotonic clock.
    :ivar failures: consecutive failures; ``why``: reason of the last one.
    :ivar busy: held while a worker asks placement.
    """

    files: tuple[object, ...] | None = None
    due: float = 0.0
    failures: int = 0
    why: str | None = None
    busy: threading.Lock = field(default_factory=threading.Lock)


_CONDUCTORS: 'WeakKeyDictionary[Any, Known]' = WeakKeyDictionary()


def keep(manager: Any) -> None:
    """Create the names in placement if it is time, in a worker of the conductor."""
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
    """Check placement and create the names; runs in the worker."""
    try:
        placement.check()
        settings.check_names()
        documents = bootstrap.documents(settings.core())
        names = vocabulary(documents.baseline, documents.catalogue)
        made = placement.declare(names.classes, names.traits)
    except AccError as exc:
        known.due = time.monotonic() + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(known.failures, 10))
        known.failures += 1
        if str(exc) != known.why and isinstance(exc, PlacementRefused):
            LOG.error('Accelerators cannot be published, and placement may refuse flavors that name them: %s', exc)
        elif str(exc) != known.why:
            LOG.warning('Placement may refuse flavors for functions that no node has yet: %s', exc)
        known.why = str(exc)
    else:
        if made:
            LOG.info('Created in placement: %s', ', '.join(made))
        elif known.failures:
            LOG.info('Placement has all resource classes and traits that flavors may name')
        known.files, known.due, known.failures, known.why = files, time.monotonic() + ANEW, 0, None
    finally:
        known.busy.release()


def _files() -> tuple[object, ...]:
    """Return the state of the baseline and catalogue files."""
    known = settings.core()
    return state_of_files(known.baseline, known.catalogue)


def state_of_files(*paths: Path) -> tuple[object, ...]:
    """Return the state of files, as far as ``stat`` shows it."""
    found: list[object] = []
    for path in paths:
        try:
            seen = path.stat()
            found.append((path, seen.st_mtime_ns, seen.st_size, seen.st_ino))
        except OSError:
            found.append((path, None))
    return tuple(found)
