# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How a resource or a device is named: BMC and URI, or a stable identity."""

from dataclasses import dataclass
from typing import NewType

AcceleratorId = NewType('AcceleratorId', str)
"""Stable identity of a device: ``uuid:...``, ``serial:...`` or ``uri:BMC:...``."""

BmcName = NewType('BmcName', str)
"""How a target calls one of its BMCs: ``host`` for the host's own, else the name the operator gave it."""

HOST = BmcName('host')


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Ref:
    """One resource: the BMC that has it, and its URI there."""

    bmc: BmcName
    uri: str

    def __str__(self) -> str:
        return f'{self.bmc}:{self.uri}'
