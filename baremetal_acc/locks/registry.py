# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load the lock mechanisms that are installed from their entry points."""

import functools
from typing import cast

import stevedore

from baremetal_acc.errors import AccError
from baremetal_acc.locks.mechanism import Mechanism

GROUP = 'baremetal_acc.locks'


@functools.cache
def mechanisms() -> tuple[Mechanism, ...]:
    """Return all lock mechanisms, sorted by name.

    :raises AccError: a plugin is broken: a lock that is not read would look like a lock that is not there.
    """

    def broken(manager: object, entry: object, exc: BaseException) -> None:
        name = getattr(entry, 'name', entry)
        raise AccError(
            f'plugin {name} ({GROUP}) cannot be loaded: {type(exc).__name__}: {exc}',
            hint='repair or uninstall the package that brings it',
        ) from exc

    found: stevedore.ExtensionManager[Mechanism] = stevedore.ExtensionManager(
        GROUP, invoke_on_load=True, on_load_failure_callback=broken
    )
    return tuple(cast('Mechanism', found[name].obj) for name in sorted(found.names()))
