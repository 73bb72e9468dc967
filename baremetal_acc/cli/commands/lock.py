# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc lock``: engage the locks that block the write paths of the baseline, and read them back."""

from typing import ClassVar

from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.write_command import PlanningCommand


class Lock(PlanningCommand):
    """Engage every lock that the baseline demands, and prove it by reading it back. Writes to BMCs only with --execute.

    Without --execute the plan is printed (dry run). Firmware and functions are not written, even where they differ from the
    baseline. The exit codes are those of apply.
    """

    VERB: ClassVar[Verb] = Verb.LOCK
