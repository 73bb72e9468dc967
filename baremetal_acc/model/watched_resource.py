# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Resources of a BMC that lock, version and identity readings rest on, each with a digest of its content."""

from dataclasses import dataclass
from typing import ClassVar

from baremetal_acc.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedResource:
    """A resource whose content proved a lock, a version or an identity.

    :ivar said: digest of the content of the resource (:mod:`baremetal_acc.bmc.resource_digest`).
    :ivar lock: a lock was read from it.
    """

    STORED_NAME: ClassVar = 'Witness'

    ref: Ref
    said: str
    lock: bool = False
