# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which attach drivers are installed, and in which order are they asked?"""

import functools
from dataclasses import dataclass
from typing import cast

import stevedore

from baremetal_acc.attach.api import AttachDriver

GROUP = 'baremetal_acc.attach'

OURS = 'baremetal_acc.attach.'
"""Begins the modules of the drivers that we ship. They are asked last, so that another package can take over what is theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What is installed.

    :ivar drivers: in the order in which they are asked.
    :ivar broken: name of an entry point, and why it cannot be used. It stands in nobody's way until nobody else can help.
    """

    drivers: tuple[AttachDriver, ...]
    broken: tuple[tuple[str, str], ...] = ()


@functools.cache
def drivers() -> Found:
    """All of them: those of other packages by name, then ours by name."""
    broken: list[tuple[str, str]] = []

    def cannot(manager: object, entry: object, exc: BaseException) -> None:
        broken.append((str(getattr(entry, 'name', entry)), f'it cannot be loaded: {type(exc).__name__}: {exc}'))

    found: stevedore.ExtensionManager[AttachDriver] = stevedore.ExtensionManager(
        GROUP, invoke_on_load=True, on_load_failure_callback=cannot
    )
    # Whoever calls a driver as we call one of ours, or as somebody else does, is not asked: nobody could tell them apart.
    taken = {e.name for e in found if e.entry_point.value.startswith(OURS)}
    good = []
    for extension in sorted(found, key=lambda e: (e.entry_point.value.startswith(OURS), e.name, e.entry_point.value)):
        ours = extension.entry_point.value.startswith(OURS)
        driver = cast('AttachDriver', extension.obj)
        why = _unusable(driver, extension.name)
        if not ours and extension.name in taken:
            why = f'{extension.entry_point.value} is called like another driver'
        if why is None:
            good.append(driver)
            taken.add(extension.name)
        else:
            broken.append((extension.name, why))
    return Found(drivers=tuple(good), broken=tuple(sorted(broken)))


def _unusable(driver: object, name: str) -> str | None:
    """Why something that was found is no driver of that name."""
    missing = [
        method
        for method in ('can_handle', 'get_devices', 'prepare', 'post_plug', 'unprepare')
        if not callable(getattr(driver, method, None))
    ]
    if missing:
        return f'it has no {", ".join(missing)}'
    called = getattr(driver, 'name', None)
    return None if called == name else f'it calls itself {called!r}'
