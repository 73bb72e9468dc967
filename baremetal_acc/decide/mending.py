# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Say which unmet findings the actions of a plan mend, and which are left to somebody else.

An account of a BMC that nobody expects, a card that has vanished, a lock that is not shown any more: no action of ours helps,
and nothing is gained by engaging once more what is proven.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from baremetal_acc.model.job import (
    Action,
    CheckImage,
    Engage,
    Finding,
    Flash,
    Plan,
    Program,
    Publish,
    Release,
    Reset,
    Withdraw,
)
from baremetal_acc.model.lock import Scope
from baremetal_acc.model.note import Note, NotMended
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import PRESENT, QUARANTINE, RELOCK, SubjectKind, firmware, function, rule

_OF_A_WHOLE_CARD = frozenset({
    SubjectKind.MEASUREMENTS, SubjectKind.MEASUREMENT, SubjectKind.QUARANTINE, SubjectKind.CUSTODY,
})  # fmt: skip
"""What a write of firmware is for, whichever component it writes."""


def mendable(findings: Iterable[Finding], made: Plan) -> tuple[Finding, ...]:
    """The findings that an action of a plan is for, be the plan refused or not."""
    return tuple(f for f in findings if any(_mends(action, f) for action in made.actions))


def left(findings: Iterable[Finding], made: Plan) -> Iterator[Note]:
    """What a reader of a plan has to learn beside it: what it does not mend. What a refusal tells of is told by that."""
    findings = tuple(findings)
    ours = mendable(findings, made)
    for finding in findings:
        if finding not in ours and not any(_tells_of(r, finding) for r in made.refusals):
            content = NotMended(subject=finding.subject, fact=finding.fact, rule=finding.rule)
            yield Note(label=finding.label, content=content)


def _mends(action: Action, finding: Finding) -> bool:
    about = finding.subject
    match action:
        case Flash():
            mine = action.accelerator == finding.accelerator
            # A card whose chain is to begin is written whole. Functions alone begin none where rules name firmware, too.
            return mine and (about.kind in _OF_A_WHOLE_CARD or about == firmware(action.component))
        case Program():
            mine = action.accelerator == finding.accelerator
            return mine and about in (QUARANTINE, function(action.slot))
        case Engage():
            mine = action.accelerator == finding.accelerator
            if about.kind is SubjectKind.LOCK_PATH:
                return about.name in action.blocks and (mine or action.scope is Scope.BMC)
            return about == RELOCK and mine
        case Withdraw() | CheckImage() | Release() | Reset() | Publish():
            return False
    assert_never(action)


def _tells_of(refusal: Refusal, finding: Finding) -> bool:
    if refusal.accelerator is not None and refusal.accelerator != finding.accelerator:
        return False
    if finding.subject == PRESENT:
        # A count of the rule, a card or a resource that is named alike, or that there is no card at all.
        same = type(refusal.reason) is type(finding.fact) and refusal.subject.name in ('', finding.label)
        return same or refusal.subject == rule(finding.rule)
    return refusal.subject == finding.subject
