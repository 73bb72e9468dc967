# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc lock``: engage the locks that block the write paths of the baseline, and read them back."""

from typing import ClassVar

from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.write_command import PlanningCommand


class Lock(PlanningCommand):
    """Engage every lock that the baseline asks for, and prove it. A dry run unless --execute is given.

    Firmware and functions stay as they are, also where they differ from the baseline.
    """

    VERB: ClassVar[Verb] = Verb.LOCK
