# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render what a verdict leaves to a person's responsibility: each line begins with a word that marks it.

``waived until``: a write path is open by a waiver. ``accepted by``: a person answers for what a card runs. ``accepted``: a rule
is content with a weaker lock state. ``relaxed``: a rule, or the node, demands less than the default for a tenant's machine.
"""

from collections.abc import Iterable, Iterator, Mapping

from baremetal_acc.model.custody import Chain, Origin
from baremetal_acc.model.finding import ChainOfCustody
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.model.waiver import Relaxation, Waived, moment
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE
from baremetal_acc.render.similar import grouped, named


def of_verdict(verdict: Verdict, labels: Mapping[AcceleratorId, str]) -> tuple[str, ...]:
    """Return a line for each waiver, acceptance and relaxation of a verdict.

    :param labels: labels of all devices of the target.
    """
    return (
        *_waived(verdict.waived),
        *_accepted(verdict.findings),
        *_accepted_states(verdict),
        *(relaxed(one, labels) for one in verdict.relaxed),
    )


def relaxed(relaxation: Relaxation, labels: Mapping[AcceleratorId, str]) -> str:
    """Return the line of a relaxation; it names the devices where it is not for all."""
    rule = '' if relaxation.rule == DEFAULT_RULE else f'rule {relaxation.rule}: '
    which = sorted(labels.get(card, str(card)) for card in relaxation.accelerators)
    cards = f' (for {named(which)})' if which and len(which) < len(labels) else ''
    return f'relaxed: {rule}{relaxation.text}{cards}'


def accepted_by(chain: Chain, label: str) -> str:
    """Return the line of a chain of custody that begins with an acceptance."""
    until = '' if chain.until is None else f' until {moment(chain.until)}'
    why = '' if chain.reason is None else f': {chain.reason}'
    return f'accepted by {", ".join(chain.by) or "an operator"}{until}: what {label} runs{why}'


def _waived(waived: Iterable[Waived]) -> Iterator[str]:
    """One line for each path and waiver, however many devices it covers."""
    for group in grouped(waived, lambda w: (w.path, w.rule, w.role, w.reason, w.expires)):
        one = group[0]
        which = named([w.label for w in group])
        yield (
            f'waived until {moment(one.expires)} by {one.role}: {one.path} of {which} is open, no mechanism blocks it '
            f'(rule {one.rule}): {one.reason}'
        )


def _accepted(findings: Iterable[Finding]) -> Iterator[str]:
    for finding in findings:
        if isinstance(finding.fact, ChainOfCustody):
            chain = finding.fact.custody.chain
            if chain is not None and chain.origin is Origin.ACCEPTED and finding.met is Met.YES:
                yield accepted_by(chain, finding.label)


def _accepted_states(verdict: Verdict) -> Iterator[str]:
    """Lock states that a rule accepts although they prove less than ``locked-verified``."""
    by_waiver = {(w.accelerator, w.path) for w in verdict.waived}
    weak = (
        f
        for f in verdict.findings
        if f.subject.kind is SubjectKind.LOCK_PATH
        and f.met is Met.YES
        and f.state not in (None, LockState.LOCKED_VERIFIED)
        and (f.accelerator, f.subject.name) not in by_waiver
    )
    for group in grouped(weak, lambda f: (f.state, f.subject, f.rule)):
        one = group[0]
        yield f'accepted: {one.subject} of {named([f.label for f in group])} is {one.state} (rule {one.rule} accepts it)'
