# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether a tenant may have a plan executed: at most the programming of functions, where a rule allows it.

If a rule lists the functions that its cards' slots can be given for a tenant (``takes``), only these are allowed.

Firmware belongs to the operator, and so does every lock. A lock of a card that the plan programs may be released, because the
same job engages it again; the release of any other card's lock is refused. So is the release of a lock of a whole machine:
while it is open, every device of the machine is open, whichever device a plan names.
"""

from collections.abc import Iterator
from typing import assert_never

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import (
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Scope
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import demands


def objections(made: Plan, inventory: Inventory, baseline: Baseline, node: NodeFacts) -> tuple[str, ...]:
    """Return why a tenant may not have this plan executed; empty if it may.

    A plan that writes nothing is permitted: engaging locks opens no path.
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
                yield f'{_label(there, action.accelerator)}: only the operator may write its firmware'
            case SetCardSetting():
                yield f'{_label(there, action.accelerator)}: only the operator may change its settings'
            case Release() if action.scope is Scope.BMC:
                yield (
                    f'BMC {action.ref.bmc}: {action.mechanism} has to be released, but only the operator may release '
                    'locks of a whole machine'
                )
            case Release() if action.accelerator not in programmed:
                yield f'{_label(there, action.accelerator)}: only the operator may release its locks'
            case RestoreSetting():
                yield f'BMC {action.ref.bmc}: only the operator may restore its settings'
            case Program():
                yield from _program(action, there, baseline, node)
            case Release() | Withdraw() | CheckImage() | Engage() | Reset() | Publish():
                pass
            case _:
                assert_never(action)


def _program(action: Program, there: dict[AcceleratorId, Accelerator], baseline: Baseline, node: NodeFacts) -> Iterator[str]:
    card = there.get(action.accelerator)
    if card is None:
        yield f'{action.accelerator}: it is unknown which rule applies to it'
        return
    wanted = demands(baseline, card, node)
    if not wanted.tenants_program:
        yield f'{card.label}: tenants may not program it (tenants_program, rule {wanted.tenants_program_rule})'
    elif wanted.undecided:
        yield f'{card.label}: it is unknown whether these rules apply to it: {", ".join(u.rule for u in wanted.undecided)}'
    elif wanted.takes is not None and action.function not in wanted.takes:
        yield f'{card.label}: tenants may not program {action.function} into it (takes, rule {wanted.takes_rule})'


def _label(there: dict[AcceleratorId, Accelerator], device: AcceleratorId) -> str:
    card = there.get(device)
    return str(device) if card is None else card.label
