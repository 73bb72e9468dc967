# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc unlock``: release the locks of devices; ``verify`` is not met until they are engaged again."""

from typing import ClassVar

from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.write_command import PlanningCommand


class Unlock(PlanningCommand):
    """Release the locks of devices. A dry run unless --execute is given.

    It opens all that closes the card's own way to the host, and of the other ways what the baseline wants closed; what stays
    closed is told. Where a tenant has the machine its host is powered off first and stays off. The unlock leaves a mark: verify
    is not met until lock or apply has engaged the locks again.
    """

    VERB: ClassVar[Verb] = Verb.UNLOCK
