# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load the attach drivers from their entry points, and put them in the order in which they are asked."""

import functools
from dataclasses import dataclass
from typing import cast

import stevedore

from baremetal_acc.attach.api import AttachDriver

GROUP = 'baremetal_acc.attach'

OURS = 'baremetal_acc.attach.'
"""Prefix of the modules of our own drivers. They are asked last, so that another package can take over their claims."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundDriver:
    """The attach drivers that are installed.

    :ivar drivers: in the order in which they are asked.
    :ivar broken: names of entry points, and why they cannot be used. That is no error until no other driver can help.
    """

    drivers: tuple[AttachDriver, ...]
    broken: tuple[tuple[str, str], ...] = ()


@functools.cache
def drivers() -> FoundDriver:
    """Return all of them: those of other packages by name, then ours by name."""
    broken: list[tuple[str, str]] = []

    def cannot(manager: object, entry: object, exc: BaseException) -> None:
        broken.append((str(getattr(entry, 'name', entry)), f'it cannot be loaded: {type(exc).__name__}: {exc}'))

    found: stevedore.ExtensionManager[AttachDriver] = stevedore.ExtensionManager(
        GROUP, invoke_on_load=True, on_load_failure_callback=cannot
    )
    # A driver with the name of one of ours, or of another package's, is not asked: they could not be told apart.
    taken = {e.name for e in found if e.entry_point.value.startswith(OURS)}
    good = []
    for extension in sorted(found, key=lambda e: (e.entry_point.value.startswith(OURS), e.name, e.entry_point.value)):
        ours = extension.entry_point.value.startswith(OURS)
        driver = cast('AttachDriver', extension.obj)
        why = _unusable(driver, extension.name)
        if not ours and extension.name in taken:
            why = f'{extension.entry_point.value} has the name of another driver'
        if why is None:
            good.append(driver)
            taken.add(extension.name)
        else:
            broken.append((extension.name, why))
    return FoundDriver(drivers=tuple(good), broken=tuple(sorted(broken)))


def _unusable(driver: object, name: str) -> str | None:
    """Return why an object that was found is no driver of that name; None when it is one."""
    missing = [
        method
        for method in ('can_handle', 'get_devices', 'prepare', 'post_plug', 'unprepare')
        if not callable(getattr(driver, method, None))
    ]
    if missing:
        return f'methods are missing: {", ".join(missing)}'
    called = getattr(driver, 'name', None)
    return None if called == name else f'its name is {called!r}, which is not that of its entry point'
