# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""One round of the watch over an unused node: its host has to be off, or its locks proven closed.

A quiet round reads only whether the host is off, over the session that is kept with its BMC. If the host is on, and neither an
operator has allowed that nor the operator's ramdisk runs, the locks are read: in full at first, later by rereading the watched
resources (:mod:`baremetal_acc.execution.integrity_watch`). A card that is not proven closed is marked as exposed, and its
chain of custody is broken; Ironic powers the host off, unless somebody may be using it.

Like every round, it shares the node's lock while it only reads; its findings count only if no flow has begun meanwhile.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from ironic.common import exception, states
from ironic.conductor import utils as manager_utils
from oslo_log import log

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.errors import AccError, BmcError, BmcUnreachable
from baremetal_acc.execution import Tools
from baremetal_acc.execution.integrity_watch import IntegrityReading
from baremetal_acc.model.custody import BreakCause
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.job import Flow
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.model.uri import systems_meant
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning import custody, untended, watch, watch_alarms
from baremetal_acc.planning.watch_alarms import TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import DriftAction
from baremetal_acc.policy.device_demands import ON_DRIFT
from baremetal_acc.render import troubles
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import interface_overrides, ramdisk_source
from baremetal_acc_ironic.host_power import gate
from baremetal_acc_ironic.host_power.gate import Reason, Situation
from baremetal_acc_ironic.periodics import round_reading, watch_states
from baremetal_acc_ironic.periodics.rounds import Basis, JudgedNode, WatchRounds
from baremetal_acc_ironic.power import MANAGED_INSPECTION
from baremetal_acc_ironic.reporting import alarm
from baremetal_acc_ironic.state import node_store
from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import custody_reading, wall_clock

LOG = log.getLogger(__name__)


def trusted(state: NodeState) -> bool:
    """Whether we have proven or written something of the node, or a tenant has had it.

    A host that is on now may have undone that. Before that, a host that is on is the normal beginning.
    """
    ours = bool(state.known or state.evidence or state.exposed or state.quarantined)
    return ours or state.handed_over or state.handed is not None or any(card.chain is not None for card in state.custody.cards)


def is_leased(node: Any) -> bool:
    """Whether the node has an instance or a lessee."""
    return node.instance_uuid is not None or node.lessee is not None


def is_enrolling(node: Any) -> bool:
    """Whether nothing is stored of an enrolled node: the BMC that its ``driver_info`` names may not be ready yet."""
    return node.provision_state == states.ENROLL and not node_store.known(node.driver_internal_info)


def over(task: Any, state: NodeState, now: datetime) -> NodeState:
    """Return the state of a node that is in use now: what was wrong while nobody used it is over. The caller stores it."""
    for one in state.untended:
        if one.told:
            alarm.over(task, one, ON_DRIFT, lifecycle=state.lifecycle, now=now)
    return replace(state, untended=())


class UnusedNodeRound:
    """One round over an unused node."""

    def __init__(self, task: Any, state: NodeState, rounds: WatchRounds, now: datetime) -> None:
        self._task = task
        self._state = state
        self._rounds = rounds
        self._now = now
        self._provision_state: str = task.node.provision_state
        self._since = task.node.provision_updated_at
        self._tools: Tools | None = None
        self._found: tuple[Sequence[WatchTrouble], bool] | None = None

    def run(self) -> None:
        """Read the host's power state, and more where that is not enough."""
        node = self._task.node
        try:
            found, is_blind = self._troubles(), False
        except (AccError, exception.InvalidParameterValue, exception.MissingParameterValue) as exc:
            if is_enrolling(node):
                LOG.info('Node %s: its host cannot be read yet: %s', node.uuid, exc)
                return
            found, is_blind = (untended.unread_host(exc, state=self._provision_state),), True
        self._say(found, is_blind)

    # ---- what is read ----

    def _troubles(self) -> tuple[WatchTrouble, ...]:
        self._tools = tools = round_reading.tools_for(self._task, self._state)
        address = target_of(self._task).bmcs[0]
        inventory = None
        power = self._power(address)
        if power is None:
            inventory, _ = self._look(tools, address)
            facts = inventory.bmc(HOST)
            power = PowerState.UNKNOWN if facts is None else facts.power
        if power is PowerState.OFF:
            self._rounds.judged.pop(self._task.node.uuid, None)
            return ()
        if power is PowerState.UNKNOWN:
            return (untended.unread_host(None, state=self._provision_state),)
        if self._is_allowed():
            self._expose_to_what_nobody_vouches_for()
            return ()
        if self._is_ramdisk():
            return ()
        found = self._unproven(tools, address)
        return untended.troubles(found, state=self._provision_state, trusted=trusted(self._state))

    def _power(self, address: BmcAddress) -> PowerState | None:
        """Return whether the host is on; None: the System of the node has to be looked up at its BMC.

        :raises BmcUnreachable: the BMC does not answer.
        """
        uuid = self._task.node.uuid
        system = self._system(address)
        if system is None:
            return None
        try:
            with round_reading.sessions_with(self._task, self._state, self._rounds).of(address) as bmc:
                power = bmc.power(system)
        except BmcUnreachable:
            raise
        except BmcError as exc:
            LOG.info('Node %s: the System of its host is looked up again: %s', uuid, exc)
            self._rounds.hosts.pop(uuid, None)
            return None
        self._rounds.hosts[uuid] = (address, system)
        return power

    def _system(self, address: BmcAddress) -> Ref | None:
        """Return the System of the node: from an earlier round, else from its address, else from a step's last read."""
        known = self._rounds.hosts.get(self._task.node.uuid)
        if known is not None:
            return known[1] if known[0] == address else None
        if address.system is not None:
            return Ref(bmc=HOST, uri=systems_meant(address.system, {})[0])
        seen = node_store.last_look(self._task.node, self._state)
        facts = None if seen is None else seen.bmc(HOST)
        return None if facts is None else facts.system

    def _look(
        self, tools: Tools, address: BmcAddress, seen: IntegrityReading | None = None
    ) -> tuple[Inventory, tuple[WatchedResource, ...]]:
        """Read the full inventory, and return the resources on which it rests.

        :param seen: the reread right before it.
        """
        inventory, witnesses = round_reading.look(self._task, tools, seen)
        facts = inventory.bmc(HOST)
        if facts is not None and facts.system is not None:
            self._rounds.hosts[self._task.node.uuid] = (address, facts.system)
        return inventory, witnesses

    def _unproven(self, tools: Tools, address: BmcAddress) -> untended.Unproven:
        """Return the cards that are not proven closed: from the last full read while the resources under it are unchanged."""
        uuid = self._task.node.uuid
        unbroken = {c.accelerator for c in self._state.custody.cards if c.chain is not None and c.chain.broken is None}
        basis = Basis(
            lifecycle=self._state.lifecycle,
            # Evidence from before the hand-over still counts while the node has not come back.
            evidence=custody_reading.evidence(self._state, Flow.SERVICE if self._state.handed_over else Flow.CLEAN),
            cards=self._state.known | unbroken,
            baseline=tools.baseline,
        )
        known = self._rounds.judged.pop(uuid, None)
        lasts = settings.guest().watch_look_interval
        seen = None
        if known is not None and known.basis == basis and self._now - known.at < lasts:
            seen = round_reading.glance(self._task, self._state, self._rounds, known.witnesses)
            if seen.quiet:
                self._rounds.judged[uuid] = known
                return known.unproven
        inventory, witnesses = self._look(tools, address, seen)
        node = target_of(self._task).node
        found = untended.unproven(
            inventory,
            tools.baseline,
            node,
            basis.evidence,
            lifecycle=basis.lifecycle,
            cards=basis.cards,
            blockable=tools.blockable,
            ways=tools.ways,
        )
        if not found.unread:
            self._rounds.judged[uuid] = JudgedNode(at=self._now, basis=basis, unproven=found, witnesses=witnesses)
        return found

    # ---- what allows a running host ----

    def _is_allowed(self) -> bool:
        """Whether an operator has allowed the host to be started, and the node is free, as the gate decides."""
        situation = Situation(
            provision_state=self._provision_state,
            state=self._state,
            leased=is_leased(self._task.node),
            operator=True,
            now=wall_clock.now(),
        )
        return gate.decide(situation) is Reason.ALLOWED

    def _expose_to_what_nobody_vouches_for(self) -> None:
        """Expose the cards if the operator who allowed the start does not vouch for what runs, whoever has started the host."""
        allowed = self._state.start_allowed
        if allowed is None or allowed.vouched:
            return
        if interface_overrides.exposed(self._task.node, self._state).exposed != self._state.exposed and self._take():
            self._state = interface_overrides.exposed(self._task.node, self._state)
            node_store.store(self._task.node, self._state)

    def _is_ramdisk(self) -> bool:
        """Whether the operator's ramdisk runs on the host, as far as Ironic knows.

        Between two flows it stays on only where ``[deploy] fast_track`` says so: ``driver_info['fast_track']`` does not count,
        for members of the project that owns the node write it.
        """
        node = self._task.node
        info = node.driver_internal_info
        if not settings.guest().trust_ramdisk or not ramdisk_source.trusted(node, self._state):
            return False
        match self._provision_state:
            case states.CLEANHOLD:
                return bool(info.get('agent_url')) and not info.get('cleaning_disable_ramdisk')
            case states.INSPECTWAIT:
                return bool(info.get(MANAGED_INSPECTION))
            case _:
                return settings.ironic().fast_track and bool(manager_utils.agent_is_alive(node))

    # ---- consequences ----

    def _say(self, found: Sequence[WatchTrouble], is_blind: bool) -> None:
        """Report, store and do what follows from the findings; nothing where all of that is known already."""
        came = self._came(found, is_blind)
        if not self._is_news(came, found) and not self._may_power_off(found):
            return
        self._found = (found, is_blind)
        if not self._take():
            return
        self._found = None
        self._step(found, is_blind)
        if self._may_power_off(found):
            self._power_off()

    def _came(self, found: Sequence[WatchTrouble], is_blind: bool) -> watch_alarms.WatchRound:
        patience = settings.guest().watch_patience
        return watch_alarms.next_round(
            self._state.untended, troubles.recorded(found), self._now, patience=patience, blind=is_blind
        )

    def _is_news(self, came: watch_alarms.WatchRound, found: Sequence[WatchTrouble]) -> bool:
        before = {a.trouble.key for a in self._state.untended}
        changed = before != {a.trouble.key for a in came.alarms} or not all(a.told for a in came.alarms)
        return changed or bool(came.begun or came.ended) or not _exposed(found) <= self._state.exposed

    def _take(self) -> bool:
        """Lock the node exclusively; False if a flow has begun or a step has worked since it was read."""
        task, before = self._task, self._state
        task.upgrade_lock(retry=True)
        node = task.node
        state = node_store.load(node)
        is_same = (node.provision_state, node.provision_updated_at) == (
            self._provision_state,
            self._since,
        ) and state.job is None
        facts = ('lifecycle', 'evidence', 'known', 'opened', 'start_allowed', 'handed_over', 'custody')
        is_same = is_same and all(getattr(state, name) == getattr(before, name) for name in facts)
        if not is_same:
            LOG.info('Node %s has changed since this round read it; the next round reads it again', node.uuid)
        self._state = state
        return is_same

    def _step(self, found: Sequence[WatchTrouble], is_blind: bool) -> None:
        task, state = self._task, self._state
        came = self._came(found, is_blind)
        for one in came.begun:
            alarm.begun(task, one, self._reactions(one.trouble), first=False, lifecycle=state.lifecycle, now=self._now)
        for one in came.ended:
            alarm.over(task, one, self._reactions(one.trouble), lifecycle=state.lifecycle, now=self._now)
        cards = _exposed(found)
        new = cards - state.exposed
        if new:
            alarm.told(
                task,
                [f'the code on the host may have written {", ".join(sorted(new))}; the next cleaning writes these cards again'],
            )
            known = self._rounds.hosts.get(task.node.uuid)
            ref = None if known is None else known[1]
            broken = custody.broken(state.custody, sorted(cards), BreakCause.HOST_RAN, wall_clock.now(), ref)
            state = replace(state, exposed=state.exposed | cards, custody=broken, proven=None)
        self._state = replace(state, untended=came.alarms)
        node_store.store(task.node, self._state)

    def _reactions(self, trouble: WatchTrouble) -> frozenset[DriftAction]:
        """Return the reactions that the rules ask for; only notifications are made here."""
        if self._tools is None:
            return ON_DRIFT
        seen = node_store.last_look(self._task.node, self._state)
        return watch.reactions(self._tools.baseline, target_of(self._task).node, seen, trouble)

    def _may_power_off(self, found: Sequence[WatchTrouble]) -> bool:
        """Whether the host is on next to open cards, and nobody can be using it.

        In maintenance an operator may be, unless Ironic itself has set maintenance for a fault.
        """
        node = self._task.node
        is_on = any(t.kind is TroubleKind.HOST_ON for t in found)
        is_nobodys = watch_states.expectation(self._provision_state).nobodys and not is_leased(node)
        is_kept = node.disable_power_off or (node.maintenance and node.fault is None)
        return settings.guest().power_off_untended_host and is_on and is_nobodys and not is_kept and trusted(self._state)

    def _power_off(self) -> None:
        """Let Ironic power the host off; Ironic records this state, so that its own synchronisation starts nothing."""
        node = self._task.node
        try:
            node_store.held(node)
            manager_utils.node_power_action(self._task, states.POWER_OFF)
        except (exception.NodeLocked, exception.NodeNotFound):
            raise
        except (exception.IronicException, AccError) as exc:
            # The alarm stays, and the next round tries again.
            LOG.error(
                'Node %s: its host is on while its cards are not proven closed, and cannot be powered off: %s', node.uuid, exc
            )
            return
        alarm.told(
            self._task,
            [
                'the host was powered off: it was on while its cards were not proven closed, and the node, which is '
                f'{self._provision_state}, is unused'
            ],
        )

    def locked_out(self) -> None:
        """Report the findings although another task holds the node's lock."""
        if self._found is None:
            return
        found, is_blind = self._found
        round_reading.locked_out(
            self._task,
            self._rounds,
            found,
            self._state.untended,
            self._reactions,
            lifecycle=self._state.lifecycle,
            now=self._now,
            blind=is_blind,
        )


def _exposed(found: Sequence[WatchTrouble]) -> frozenset[AcceleratorId]:
    """Return the cards that a host which is on may have written."""
    cards: frozenset[AcceleratorId] = frozenset().union(*(t.of for t in found if t.kind is TroubleKind.HOST_ON))
    return cards


__all__ = ['UnusedNodeRound', 'is_enrolling', 'is_leased', 'over', 'trusted']
