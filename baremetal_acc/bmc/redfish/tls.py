# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""TLS contexts for BMCs: verify the certificate by the system's CAs, a CA file or directory, or not at all (``verify_ca``)."""

import functools
import os
import ssl
import threading
from pathlib import Path

from baremetal_acc.bmc.driver import BmcAddress, Setting
from baremetal_acc.errors import BmcUntrusted


def context(address: BmcAddress) -> ssl.SSLContext:
    """The TLS context for a BMC; BMCs with the same ``verify_ca`` share one.

    :raises BmcUntrusted: verify_ca cannot be used.
    """
    if isinstance(address.verify_ca, bool):
        with _TRUSTING:
            return _trusting(address.verify_ca, 0)
    try:
        with _TRUSTING:
            return _trusting(address.verify_ca, os.stat(address.verify_ca).st_mtime_ns)
    except (OSError, ssl.SSLError) as exc:
        raise BmcUntrusted(
            bmc=address.label,
            what=f'the CA certificates in {address.verify_ca} cannot be used: {exc.strerror or exc}',
            hint=f'set {address.set_by[Setting.VERIFY_CA]} to a PEM file of CA certificates',
        ) from exc


_TRUSTING = threading.Lock()
"""Reading the system's CAs takes 50 ms: the lock keeps threads that begin at the same time from each doing it."""


@functools.lru_cache(maxsize=64)
def _trusting(verify_ca: bool | str, changed: int) -> ssl.SSLContext:
    """The context for one value of ``verify_ca``.

    :param changed: modification time of the file, so that a changed file is read again.
    """
    if verify_ca is True:
        return ssl.create_default_context()
    if verify_ca is False:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        return context
    if Path(verify_ca).is_dir():
        return ssl.create_default_context(capath=verify_ca)
    return ssl.create_default_context(cafile=verify_ca)
