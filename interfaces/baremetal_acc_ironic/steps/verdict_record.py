# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store the inventory and the verdict of a step in Ironic's inspection data."""

from dataclasses import dataclass, replace
from typing import Any

from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.execution import Tools, custody_feed
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.verdict import Verdict, VerdictEnd
from baremetal_acc.planning.verify import judged
from baremetal_acc_ironic.authorization import exposure, resource_class, traits
from baremetal_acc_ironic.reporting import drift, record, verdict_document
from baremetal_acc_ironic.state import handover, provision_state, quarantine
from baremetal_acc_ironic.state.node_state import NodeState, StoredVerdict
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import custody_reading, wall_clock

LOG = log.getLogger(__name__)


def reasons(task: Any, state: NodeState, tools: Tools) -> list[str]:
    """Return why no verification of the node passes, whatever its cards show."""
    found = []
    if state.opened is not None:
        found.append(f'locks were opened at {state.opened.since:%Y-%m-%d %H:%M:%S} UTC ({state.opened.why})')
    found += quarantine.reasons(state)
    found += handover.unwritten(state)
    found += resource_class.contested(task.node, target_of(task).node, tools.baseline)
    found += (*exposure.contested(task.node, state), *traits.contested(task.node, state, tools.baseline))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class StepVerdict:
    """The verdict of a step, and what it rests on.

    :ivar proof: our lock records, as they count in the flow.
    :ivar by: the step, or the inspection.
    :ivar flow: None outside of Ironic's flows.
    :ivar whole: why the node as a whole is not met; None: as :func:`reasons` says when it is stored.
    """

    inventory: Inventory
    verdict: Verdict
    proof: tuple[Engagement, ...]
    by: str
    flow: Flow | None
    whole: tuple[str, ...] | None = None


def keep(task: Any, state: NodeState, tools: Tools, made: StepVerdict) -> NodeState:
    """Store the inventory and the verdict of a step.

    :returns: the node state that knows of them, not yet stored.
    """
    target = target_of(task)
    flow = Flow.DEPLOY if made.flow is Flow.DEPLOY else None
    seen = judged(made.inventory, made.proof, lifecycle=state.lifecycle, flow=flow)
    state = replace(state, digest=record.digest(made.inventory))
    if tools.papers is None:
        # There is no baseline: nothing says what is demanded of the cards.
        record.store(task, seen)
        return replace(state, verdict=None)
    document = verdict_document.document(
        seen,
        made.verdict,
        state.custody,
        target,
        tools,
        lifecycle=state.lifecycle,
        flow=made.flow,
        by=made.by,
        reasons=reasons(task, state, tools) if made.whole is None else made.whole,
    )
    sealed = record.store(task, seen, document)
    if sealed is None:
        raise AssertionError('a verdict was stored, so there is a digest')
    return replace(
        state,
        verdict=StoredVerdict(
            digest=sealed,
            lifecycle=state.lifecycle,
            at=wall_clock.now(),
            exposed=state.exposed,
            opened=state.opened is not None,
        ),
    )


def kept(task: Any, state: NodeState, tools: Tools, made: StepVerdict) -> NodeState:
    """Do the same as :func:`keep`; a failure is logged only, and ends the verdict that was stored before."""
    try:
        return keep(task, state, tools, made)
    except Exception:
        # A failure to store what was read does not fail what was done to the cards.
        LOG.exception('Node %s: the verdict on its accelerators could not be stored', task.node.uuid)
        return ended(state, VerdictEnd.CHANGED)


def reread(task: Any, state: NodeState, tools: Tools, inventory: Inventory) -> NodeState:
    """Store an inventory that Ironic has asked for outside of our steps.

    The verdict of the last step stays if the read has found the same cards and locks; it may be of a deploy, which demands
    more. Otherwise, or where another inspection has replaced it, the inventory is compared with the rules again, without signed
    measurements.
    """
    proof = custody_reading.evidence(state, Flow.SERVICE)
    before = record.kept(task, state)
    known = state.verdict
    if before is not None and known is not None and record.digest(inventory) == state.digest:
        seen = judged(inventory, proof, lifecycle=state.lifecycle)
        sealed = record.store(task, seen, before[record.VERDICT_KEY], known)
        return replace(state, verdict=None if sealed is None else replace(known, digest=sealed))
    flow = provision_state.FLOWS.get(task.node.provision_state)
    return compared(task, state, tools, inventory, proof, by=drift.CACHE, flow=flow)


def compared(
    task: Any,
    state: NodeState,
    tools: Tools,
    inventory: Inventory,
    proof: tuple[Engagement, ...],
    *,
    by: str,
    flow: Flow | None,
) -> NodeState:
    """Compare an inventory with the rules, without signed measurements, and store both, as :func:`keep` does."""
    target = target_of(task)
    verdict = execution.compare(inventory, target, tools, proof, lifecycle=state.lifecycle, measured=False)
    verdict = custody_feed.judged(verdict, state.custody, inventory, target, tools, inventory.at)
    made = StepVerdict(inventory=inventory, verdict=verdict, proof=proof, by=by, flow=flow)
    return keep(task, state, tools, made)


def ended(state: NodeState, why: VerdictEnd) -> NodeState:
    """Return the node state with a stored verdict that does not describe the node any more; storing it marks the verdict."""
    known = state.verdict
    if known is None or known.ended is not None:
        return state
    return replace(state, verdict=replace(known, ended=why, ended_at=wall_clock.now()))
