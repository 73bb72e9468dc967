# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store how a node was handed over, compare it when the node is returned, and mark cards that cannot be trusted.

The deploy's verification stores what it has proven. Our own steps on a deployed node update that. When the node has come back,
the first inventory read is compared with it before anything is restored to the baseline: the differences are reported, and
cards whose locks were open are written again, whatever version they report.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from ironic.common import metrics_utils
from oslo_log import log

from baremetal_acc.errors import AccError, BmcUnreachable
from baremetal_acc.execution import Tools
from baremetal_acc.execution.observation import sessions
from baremetal_acc.execution.power import switch
from baremetal_acc.execution.retry_policy import is_changing
from baremetal_acc.model.action import Flash
from baremetal_acc.model.interference import Interference
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Flow, Job
from baremetal_acc.model.job_item import Item
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.quarantine import Quarantine
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning import interference, quarantine_writes, watch
from baremetal_acc.planning.remembered_inventory import remembered
from baremetal_acc.planning.verify import judged
from baremetal_acc.render import troubles
from baremetal_acc.scheduling.schedulable import Place
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, Opened
from baremetal_acc_ironic.state.target import target as target_of

LOG = log.getLogger(__name__)
METRICS = metrics_utils.get_metrics_logger(__name__)

_TOLD = 20


def over(
    task: Any, state: NodeState, inventory: Inventory, evidence: tuple[Engagement, ...], flow: Flow | None = None
) -> NodeState:
    """Return the node state with the inventory as it is handed over now."""
    proven = judged(inventory, evidence, lifecycle=state.lifecycle, flow=flow)
    there = {a.id: a.label for a in inventory.accelerators}
    left = sorted(f'{there[d]} ({d})' for d in state.anew if d in there)
    if left:
        what = 'their locks were open to an earlier tenant, and the node was not cleaned since; the next cleaning writes them'
        provision_state.told(task.node, f'handed over without having been written again ({what}): {", ".join(left)}')
    packed = node_store.packed_look(task.node, remembered(None, proven))
    return replace(state, handed=packed, exposed=frozenset(), shelf=state.shelf.had(inventory))


def left(task: Any, state: NodeState) -> frozenset[Place]:
    """Return the slots of a free node that a tenant has had, and that were not programmed since."""
    theirs = state.handed_over or task.node.provision_state in provision_state.TENANT_STATES
    return frozenset() if theirs else state.shelf.used


def accepted(
    task: Any, state: NodeState, inventory: Inventory, evidence: tuple[Engagement, ...], done: Iterable[Item]
) -> NodeState:
    """Return the node state after a job of ours on a deployed node: what the job did counts as handed over.

    :param inventory: the job's final inventory read.
    :param evidence: our own lock records, of this lifecycle.
    :param done: items of the job.
    """
    handed = node_store.handed_over(task.node, state)
    proven = judged(inventory, evidence, lifecycle=state.lifecycle)
    new = watch.accepted(handed, proven, (item.action for item in done if item.state.begun))
    packed = None if new is None else node_store.packed_look(task.node, new)
    watched = None if state.watched is None else replace(state.watched, witnesses=())  # the next round reads everything
    return replace(state, handed=packed or state.handed, watched=watched)


def came_back(state: NodeState) -> bool:
    """Whether the node has come back, and was not compared yet with how it was handed over."""
    return state.handed is not None and not state.handed_over


def back(task: Any, state: NodeState, inventory: Inventory, tools: Tools, by: str, flow: Flow) -> NodeState:
    """Compare a returned node with how it was handed over, and report the difference once. The result is stored at once.

    A cleaning powers the host off first. In a deploy the host may be on, and goes on running if the deploy is refused: then the
    next step compares the node with this read.

    :param inventory: the first inventory read after the return, or after the step of a deploy that was refused.
    :param by: the step that reads.
    :returns: the node state with the cards that are to be written again; how the node was handed over is dropped from it, or
        replaced by this read in a deploy.
    """
    handed = node_store.handed_over(task.node, state)
    if state.shelf.unsorted and not state.handed_over:
        state = replace(state, shelf=state.shelf.had(inventory))
    if not came_back(state):
        return state
    found = () if handed is None else watch.troubles(handed, inventory, None, lifecycle=state.lifecycle)
    exposed = state.exposed | watch.exposed(found, opened=opened_by_us(state))
    by_rule = frozenset() if handed is None else watch.unlocked(handed)
    node = target_of(task).node
    # Also those that were handed over open before, where the node was not cleaned since.
    unsure = (by_rule | state.anew) - exposed
    anew = exposed | watch.rewritable(inventory, unsure, tools.baseline, node, tools.catalogue)
    later = node_store.packed_look(task.node, remembered(handed, inventory)) if flow is Flow.DEPLOY else None
    new = replace(state, handed=later, watched=None, exposed=exposed, anew=anew)
    # The step may be refused before it stores its state: what ended with the deployment must not outlive that.
    stored = node_store.load(task.node)
    ended = stored.came_back() if stored.handed_over else stored
    told = replace(ended, certificate=state.certificate, handed=later, exposed=exposed, anew=anew, shelf=state.shelf)
    node_store.store(task.node, told)
    if flow is Flow.DEPLOY and not stored.handed_over and not found:
        return new  # compared in an earlier step of the deploy, and unchanged since
    if found:
        LOG.error('Node %s: came back; differences from how it was handed over: %d', task.node.uuid, len(found))
        METRICS.send_counter(METRICS.get_metric_name('baremetal_acc.came_back_changed'), 1)
    texts = list(map(troubles.sentence, found))
    more = f'; and {len(texts) - _TOLD} more' if len(texts) > _TOLD else ''
    said = '; '.join(texts[:_TOLD]) + more if texts else 'none'
    provision_state.told(task.node, f'{by}: differences from how the node was handed over: {said}')
    for text in texts:
        LOG.error('Node %s: differs from how it was handed over: %s', task.node.uuid, text)
    alarm.came_back(task, found, lifecycle=state.lifecycle, now=inventory.at)
    there = {a.id: a.label for a in inventory.accelerators}
    again = sorted(f'{there[d]} ({d})' for d in anew if d in there)
    if again:
        why = 'their locks were open, or they are not as they were handed over'
        provision_state.told(task.node, f'to be written again, whatever version they report ({why}): {", ".join(again)}')
    return new


# -------------------------------------------------------------------------------------------- interference and exposed cards


def interfered(state: NodeState, job: Job) -> NodeState:
    """Return the node state with the cards that somebody else may have written during a job: stored together with the job."""
    return replace(state, exposed=state.exposed | job.suspect)


def tell_interference(task: Any, before: Iterable[Interference], job: Job) -> None:
    """Report each interference that a job has met once: in the log, the node history and a metric."""
    known = {(one.kind, one.ref) for one in before}
    for one in job.interferences:
        if (one.kind, one.ref) not in known:
            LOG.error('Node %s: %s', task.node.uuid, one)
            METRICS.send_counter(METRICS.get_metric_name('baremetal_acc.interference'), 1)
            provision_state.told(task.node, f'{one}; these cards are written again before the next hand-over')


def meanwhile(task: Any, state: NodeState, inventory: Inventory, tools: Tools, *, ramdisk: bool = False) -> NodeState:
    """Mark the cards that were open to a host that has run since their locks were opened. Stored at once.

    :param inventory: a present read.
    :param ramdisk: the operator's own ramdisk runs on the host. An operator who has allowed a start may vouch for it, too.
    :returns: the node state with these cards exposed.
    """
    left = state.opened
    if left is None:
        return state
    ran = interference.ran_meanwhile(left.held_off, left.accelerators, inventory, interference.tail(tools.patience.poll))
    told = [str(one) for one in ran]
    cards = frozenset(card for one in ran for card in one.accelerators)
    answered_for = ramdisk or (state.start_allowed is not None and state.start_allowed.vouched)
    if left.started and not left.held_off and not answered_for and not left.accelerators <= state.exposed:
        cards = left.accelerators
        told = [
            f'locks of {", ".join(sorted(cards))} are open since {left.since:%Y-%m-%d %H:%M:%S} UTC ({left.why}), and the host '
            'was started since: it is unknown what it has run'
        ]
    if not cards:
        return state
    stored = node_store.load(task.node)
    new = replace(state, exposed=state.exposed | cards, opened=replace(left, held_off=()))
    node_store.store(task.node, replace(stored, exposed=stored.exposed | new.exposed, opened=new.opened))
    for one in told:
        LOG.error('Node %s: %s', task.node.uuid, one)
        METRICS.send_counter(METRICS.get_metric_name('baremetal_acc.interference'), 1)
        provision_state.told(task.node, f'{one}; these cards are written again before the next hand-over')
    return new


def found_open(state: NodeState, flow: Flow, step: str, inventory: Inventory, verdict: Verdict, now: datetime) -> NodeState:
    """Mark that a step has found locks open which it wanted closed, unless there is a mark already.

    A host that is off counts as off from this read on. If the host is on in a cleaning or a deploy, it was on before, too, as
    with every node that we have not read yet: no mark. If it is on in a service of a deployed node, the cards were open to it:
    they are exposed, and the host is not started any more.
    """
    cards = interference.not_closed(verdict)
    off = interference.off_now(inventory, now)
    if state.opened is not None or not cards or not (off or flow is Flow.SERVICE):
        return state
    mark = Opened(since=now, why=f'{step} found them open', held_off=off, accelerators=cards, found=True)
    return replace(state, opened=mark, exposed=state.exposed if off else state.exposed | cards)


def opened_by_us(state: NodeState) -> bool:
    """Whether a step of ours has opened locks, with the host held off: then open locks expose no card."""
    return (state.opened is not None and not state.opened.found) or (state.job is not None and state.job.opened)


def not_written(state: NodeState, job: Job, inventory: Inventory, now: datetime) -> tuple[Quarantine, ...]:
    """Return a quarantine for each card that cannot be trusted after the whole path, since the job could not write it again.

    :param job: the whole path, which has ended well.
    """
    found = []
    for a in inventory.accelerators:
        if a.id in state.exposed and not quarantine_writes.written_anew(job, a.id, firmware=True, places=()):
            why = (
                f'{a.id} is quarantined: its locks were open to a tenant or to a host that ran, or it is not as it was handed '
                'over; and no rule says what it has to run, so it could not be written again (add a firmware rule and an '
                'image, and clean the node)'
            )
            found.append(Quarantine(device=a.id, since=now, why=why, firmware=True, refs=tuple(c.ref for c in a.firmware)))
    return tuple(found)


def doubted(state: NodeState) -> frozenset[AcceleratorId]:
    """Return the cards that cannot be trusted before they are written again, without those that the present job writes."""
    if state.handed_over:
        return frozenset()
    items = () if state.job is None else state.job.items
    return state.exposed - {i.action.accelerator for i in items if isinstance(i.action, Flash) and not i.restoring}


# ----------------------------------------------------------------------------------------------------------- the host path


def host_of(task: Any, state: NodeState) -> Ref | None:
    """Return the System of a node that has just come back; None for any other node.

    The tenant's code may still run on it.
    """
    handed = node_store.handed_over(task.node, state) if came_back(state) else None
    host = None if handed is None else handed.bmc(HOST)
    return None if host is None else host.system


def locked_out(task: Any, tools: Tools, system: Ref) -> bool:
    """Power off a host before anything of the node is read: what the host's code does meanwhile would not be seen.

    :returns: the host is off; False: the power-off was requested, and has to be waited for.
    :raises AccError: the BMC does not report the power state, or refuses the request.
    """
    with sessions(target_of(task), tools) as bmcs:
        bmc = bmcs[system.bmc]
        power = bmc.power(system)
        if power is PowerState.OFF:
            tools.power_changed(system, PowerState.OFF)
            return True
        node_store.held(task.node)
        try:
            switch(bmc, system, PowerState.OFF, tools)
        except AccError as exc:
            lost = isinstance(exc, BmcUnreachable) and exc.sent
            if not lost and not is_changing(exc):
                raise
            LOG.warning('%s', exc)  # the request may have arrived, or is under way: the next read shows it
            return False
        return bmc.power(system) is PowerState.OFF


def proven(state: NodeState, now: datetime) -> NodeState:
    """Return the node state after a step on a deployed node has proven its locks closed.

    A node that no deploy verification has handed over, such as an adopted one, is not proven while it is unknown what its cards
    run.
    """
    return state if state.proven is None and state.exposed else replace(state, proven=now)


def unwritten(state: NodeState) -> list[str]:
    """Return why no verification passes: cards that were not written again since it became unknown what they run."""
    why = (
        'its locks were open to a tenant or to a host that ran, or it is not as it was handed over (clean the node, which '
        'writes it)'
    )
    return [] if state.handed_over else [f'{d} was not written again: {why}' for d in sorted(state.exposed)]
