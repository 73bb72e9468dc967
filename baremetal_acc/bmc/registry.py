# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Find the driver for a BMC by the scheme of its address, and load it by stevedore."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import stevedore

from baremetal_acc.bmc import device_ids
from baremetal_acc.bmc.device_ids import Devices
from baremetal_acc.bmc.driver import BmcAddress, Connection, Driver
from baremetal_acc.errors import AccError, UsageError

GROUP = 'baremetal_acc.bmc'

PROTOCOLS = {'https': 'redfish', 'http': 'redfish', 'ipmi': 'ipmi'}
"""Scheme of an address to the name of the driver's entry point."""


def known_devices(folder: Path) -> Devices:
    """The device table with the operator's files before the shipped rows.

    :param folder: its ``*.toml`` are read in the order of their names; it need not exist.
    :raises DocumentError: a file is wrong.
    """
    return device_ids.load(sorted(folder.glob('*.toml')) if folder.is_dir() else ())


def connecting(folder: Path) -> Callable[[BmcAddress], Connection]:
    """A function that connects to a BMC, using the operator's device files of that folder. The files are read now, once.

    :raises DocumentError: a file of the folder is wrong.
    """
    known = known_devices(folder)

    @functools.cache
    def of(protocol: str) -> Driver:
        return driver(protocol, known)

    return lambda address: of(_protocol(address)).connect(address)


def for_address(address: BmcAddress, known: Devices | None = None) -> Driver:
    """The driver for an address.

    :param known: the device table; the shipped one when None.
    :raises UsageError: no driver supports its scheme.
    :raises AccError: the plugin of the driver is broken.
    """
    return driver(_protocol(address), known)


def _protocol(address: BmcAddress) -> str:
    """The name of the driver for an address.

    :raises UsageError: no driver supports its scheme.
    """
    protocol = PROTOCOLS.get(urlsplit(address.address).scheme)
    if protocol is None:
        raise UsageError(
            argument=f'address of BMC {address.name}',
            what=f'{address.address!r} has no scheme that a driver supports',
            hint=f'write it as https://HOST[:PORT]; schemes: {", ".join(sorted(PROTOCOLS))}',
        )
    return protocol


def driver(protocol: str, known: Devices | None = None) -> Driver:
    """The driver of that name. Its class is called with the keyword ``devices``.

    :raises UsageError: it is not installed.
    :raises AccError: the plugin is broken.
    """

    def broken(manager: object, entry: object, exc: BaseException) -> None:
        raise AccError(
            f'plugin {protocol} ({GROUP}) cannot be loaded: {type(exc).__name__}: {exc}',
            hint='repair or uninstall the package that provides it',
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
