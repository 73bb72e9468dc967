# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""By what is the certificate of a BMC verified?"""

import functools
import os
import ssl
import threading
from pathlib import Path

from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.errors import BmcUntrusted


def context(address: BmcAddress) -> ssl.SSLContext:
    """The TLS context for a BMC; BMCs that are trusted by the same file share one.

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
            what=f'verify_ca {address.verify_ca} cannot be used: {exc.strerror or exc}',
            hint='name a PEM file of CAs',
        ) from exc


_TRUSTING = threading.Lock()
"""Reading the system's trust roots takes 50 ms: not in every thread that begins at the same time."""


@functools.lru_cache(maxsize=64)
def _trusting(verify_ca: bool | str, changed: int) -> ssl.SSLContext:
    """The context for one way of trusting.

    :param changed: when the file was written: a new one is read anew.
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
