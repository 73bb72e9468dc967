# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc unlock``: release the locks of devices; ``verify`` is not met until they are engaged again."""

from typing import ClassVar

from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.write_command import PlanningCommand


class Unlock(PlanningCommand):
    """Release the locks of devices. Writes to BMCs only with --execute.

    Without --execute the plan is printed (dry run). Releases every lock of the host's path to the card (host-device), and on
    other paths the locks that the baseline demands; the output names the locks that stay engaged. If a tenant has the machine,
    its host is powered off first and stays off. The release is recorded: verify is not met until lock or apply has engaged the
    locks again. Exit code 0: released, or nothing to release; 3: a dry run found locks to release; 4: refused; 6: a write was
    begun and failed: inspect the device.
    """

    VERB: ClassVar[Verb] = Verb.UNLOCK
