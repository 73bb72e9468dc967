# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which resources bear witness to locks, versions and identities, and what did they say?"""

from dataclasses import dataclass

from baremetal_acc.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Witness:
    """One resource on which something rests that was proven.

    :ivar said: a digest of what it said (:mod:`baremetal_acc.bmc.lasting`).
    :ivar lock: a lock was read from it.
    """

    ref: Ref
    said: str
    lock: bool = False
