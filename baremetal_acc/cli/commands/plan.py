# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``baremetal-acc plan``: print what ``apply`` would flash, program and lock, by which rules, and what it would refuse."""

import argparse
from typing import ClassVar

from baremetal_acc.cli.commands.apply import add_lifecycle_arguments, with_lifecycle
from baremetal_acc.cli.plan_request import PlanRequest
from baremetal_acc.cli.write_command import PlanningCommand


class PlanCommand(PlanningCommand):
    """Print what apply would do until targets meet the baseline, and what it would refuse. Writes nothing to a BMC.

    Exit code 0: nothing to do, the baseline is met; 3: something to do, or a demand is not met; 4: the plan contains refusals,
    and apply would do nothing.
    """

    WRITES: ClassVar[bool] = False

    def add_own_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the options of ``apply`` that change the plan."""
        add_lifecycle_arguments(parser)

    def request(self, arguments: argparse.Namespace) -> PlanRequest:
        """The request that ``apply`` would get."""
        return with_lifecycle(super().request(arguments), arguments)
