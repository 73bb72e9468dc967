# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which lock mechanisms are installed?"""

import functools
from typing import cast

import stevedore

from baremetal_acc.errors import AccError
from baremetal_acc.locks.api import Mechanism

GROUP = 'baremetal_acc.locks'


@functools.cache
def mechanisms() -> tuple[Mechanism, ...]:
    """All of them, sorted by name.

    :raises AccError: a plugin is broken: a lock that nobody reads would look like a lock that is not there.
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
