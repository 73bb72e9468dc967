# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which driver speaks to a BMC? It is found by the scheme of the BMC's address."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import stevedore

from baremetal_acc.bmc import devices
from baremetal_acc.bmc.api import BmcAddress, Connection, Driver
from baremetal_acc.bmc.devices import Devices
from baremetal_acc.errors import AccError, UsageError

GROUP = 'baremetal_acc.bmc'

PROTOCOLS = {'https': 'redfish', 'http': 'redfish', 'ipmi': 'ipmi'}
"""Scheme of an address to the name of the driver's entry point."""


def known_devices(folder: Path) -> Devices:
    """The table of devices with the operator's files before the shipped rows.

    :param folder: its ``*.toml`` are read in the order of their names; it need not be there.
    :raises DocumentError: a file is wrong.
    """
    return devices.load(sorted(folder.glob('*.toml')) if folder.is_dir() else ())


def connecting(folder: Path) -> Callable[[BmcAddress], Connection]:
    """How BMCs are connected to when the operator's devices lie in that folder. They are read now, once.

    :raises DocumentError: a file of the folder is wrong.
    """
    known = known_devices(folder)

    @functools.cache
    def of(protocol: str) -> Driver:
        return driver(protocol, known)

    return lambda address: of(_protocol(address)).connect(address)


def for_address(address: BmcAddress, known: Devices | None = None) -> Driver:
    """The driver for an address.

    :param known: which devices are accelerators; the shipped table when None.
    :raises UsageError: no driver speaks its scheme.
    :raises AccError: the plugin that does is broken.
    """
    return driver(_protocol(address), known)


def _protocol(address: BmcAddress) -> str:
    """The name of the driver for an address.

    :raises UsageError: its scheme is none that a driver speaks.
    """
    protocol = PROTOCOLS.get(urlsplit(address.address).scheme)
    if protocol is None:
        raise UsageError(
            argument=f'address of BMC {address.name}',
            what=f'{address.address!r} has no scheme that a driver speaks',
            hint=f'write it as https://HOST[:PORT]; schemes: {", ".join(sorted(PROTOCOLS))}',
        )
    return protocol


def driver(protocol: str, known: Devices | None = None) -> Driver:
    """The driver of that name. Its class is called with the keyword ``devices``.

    :raises UsageError: none is installed.
    :raises AccError: the plugin is broken.
    """

    def broken(manager: object, entry: object, exc: BaseException) -> None:
        raise AccError(
            f'plugin {protocol} ({GROUP}) cannot be loaded: {type(exc).__name__}: {exc}',
            hint='repair or uninstall the package that brings it',
        ) from exc

    found: stevedore.NamedExtensionManager[Driver] = stevedore.NamedExtensionManager(
        GROUP,
        [protocol],
        invoke_on_load=True,
        invoke_kwds={'devices': known},
        on_load_failure_callback=broken,
        warn_on_missing_entrypoint=False,
    )
    if protocol not in found:
        raise UsageError(argument='protocol', what=f'no driver {protocol!r} is installed (entry points {GROUP})')
    return cast('Driver', found[protocol].obj)
