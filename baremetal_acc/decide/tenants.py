# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What may the tenant of a machine have done to its cards? At most a function programmed, and only where a rule says so.

Where a rule says which functions its cards' slots can be given for a tenant (``takes``), it is one of those.

Firmware belongs to the operator, and so does every lock (DESIGN, rule 7). A lock that is opened for the very slot that is
programmed is closed by the same job; one that is opened for anything else is a release. So is one of a whole machine: while it
is open, so is every device of the machine, whichever of them a plan names.
"""

from collections.abc import Iterator
from typing import assert_never

from baremetal_acc.decide.baseline import Baseline, NodeFacts, demands
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import CheckImage, Engage, Flash, Plan, Program, Publish, Release, Reset, Withdraw
from baremetal_acc.model.lock import Scope
from baremetal_acc.model.ref import AcceleratorId


def objections(made: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts) -> tuple[str, ...]:
    """Why a tenant may not have this plan done; empty if it may.

    A tenant that asks for nothing that is to be written is let through: engaging locks closes doors.
    """
    there = {a.id: a for a in inventory.accelerators}
    programmed = {a.accelerator for a in made.actions if isinstance(a, Program)}
    return tuple(dict.fromkeys(_objections(made, there, programmed, baseline, node)))


def _objections(
    made: Plan,
    there: dict[AcceleratorId, Accelerator],
    programmed: set[AcceleratorId],
    baseline: Baseline,
    node: NodeFacts,
) -> Iterator[str]:
    for action in made.actions:
        match action:
            case Flash():
                yield f"{_label(there, action.accelerator)}: its firmware is the operator's"
            case Release() if action.scope is Scope.BMC:
                yield f"BMC {action.ref.bmc}: {action.mechanism} has to be opened, and locks of a machine are the operator's"
            case Release() if action.accelerator not in programmed:
                yield f"{_label(there, action.accelerator)}: its locks are the operator's"
            case Program():
                yield from _program(action, there, baseline, node)
            case Release() | Withdraw() | CheckImage() | Engage() | Reset() | Publish():
                pass
            case _:
                assert_never(action)


def _program(action: Program, there: dict[AcceleratorId, Accelerator], baseline: Baseline, node: NodeFacts) -> Iterator[str]:
    card = there.get(action.accelerator)
    if card is None:
        yield f'{action.accelerator}: nobody can tell which rule is for it'
        return
    wanted = demands(baseline, card, node)
    if not wanted.tenants_program:
        yield f'{card.label}: tenants may not program it (tenants_program, rule {wanted.tenants_program_rule})'
    elif wanted.undecided:
        yield f'{card.label}: rules that may be for it cannot be decided: {", ".join(u.rule for u in wanted.undecided)}'
    elif wanted.takes is not None and action.function not in wanted.takes:
        yield f'{card.label}: tenants may not have {action.function} put into it (takes, rule {wanted.takes_rule})'


def _label(there: dict[AcceleratorId, Accelerator], device: AcceleratorId) -> str:
    card = there.get(device)
    return str(device) if card is None else card.label
