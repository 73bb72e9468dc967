# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Names of resources and devices: a BMC with a URI, or a stable device identity."""

from dataclasses import dataclass
from typing import NewType

AcceleratorId = NewType('AcceleratorId', str)
"""Stable identity of a device: ``uuid:...``, ``serial:...`` or ``uri:BMC:...``."""

BmcName = NewType('BmcName', str)
"""The name of a BMC of a target: ``host`` for the host's own, else the name that the operator gave it."""

HOST = BmcName('host')


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ref:
    """A resource of a BMC: the name of the BMC, and the URI of the resource there."""

    bmc: BmcName
    uri: str

    def __str__(self) -> str:
        return f'{self.bmc}:{self.uri}'
