# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Split unmet findings into those that an action of the plan remedies, and those that it leaves.

No action of ours remedies, for example, an unexpected BMC account, a card that has vanished, or a lock that is not reported any
more; and engaging a lock again that is already proven gains nothing.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from baremetal_acc.model.action import (
    Action,
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
from baremetal_acc.model.lock import Scope
from baremetal_acc.model.note import Note, NotMended
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.refusal import Refusal
from baremetal_acc.model.subject import (
    PRESENT,
    QUARANTINE,
    RELOCK,
    SubjectKind,
    bmc_setting,
    card_setting,
    firmware,
    function,
    rule,
)
from baremetal_acc.model.verdict import Finding

_OF_A_WHOLE_CARD = frozenset({
    SubjectKind.MEASUREMENTS, SubjectKind.MEASUREMENT, SubjectKind.QUARANTINE, SubjectKind.CUSTODY,
})  # fmt: skip
"""Findings about a whole card: a firmware write remedies them, whichever component it writes."""


def mendable(findings: Iterable[Finding], made: Plan) -> tuple[Finding, ...]:
    """Return the findings that an action of a plan remedies, whether or not the plan is refused."""
    return tuple(f for f in findings if any(_mends(action, f) for action in made.actions))


def left(findings: Iterable[Finding], made: Plan) -> Iterator[Note]:
    """Yield notes on the findings that a plan does not remedy. A finding that a refusal reports already is omitted."""
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
            # All firmware of a card is written to begin a custody chain; functions alone begin none if rules name firmware.
            return mine and (about.kind in _OF_A_WHOLE_CARD or about == firmware(action.component))
        case Program():
            mine = action.accelerator == finding.accelerator
            return mine and about in (QUARANTINE, function(action.slot))
        case Engage():
            mine = action.accelerator == finding.accelerator
            if about.kind is SubjectKind.LOCK_PATH:
                return about.name in action.blocks and (mine or action.scope is Scope.BMC)
            return about == RELOCK and mine
        case RestoreSetting():
            return about == bmc_setting(action.ref.bmc, action.setting)
        case SetCardSetting():
            return action.accelerator == finding.accelerator and about == card_setting(action.setting)
        case Withdraw() | CheckImage() | Release() | Reset() | Publish():
            return False
    assert_never(action)


def _tells_of(refusal: Refusal, finding: Finding) -> bool:
    if refusal.accelerator is not None and refusal.accelerator != finding.accelerator:
        return False
    if finding.subject == PRESENT:
        # The count of a rule, a card or a resource of the same name, or the absence of any card.
        same = type(refusal.reason) is type(finding.fact) and refusal.subject.name in ('', finding.label)
        return same or refusal.subject == rule(finding.rule)
    return refusal.subject == finding.subject
