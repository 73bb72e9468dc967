# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The step ``waive_accelerator_locks``: let write paths of one node stay open until a date; and report nodes that rely on it.

A waiver of the step is for one node; a rule of the baseline can give the same for many. It covers paths that no mechanism
blocks, and has a reason and an end. It holds until the node comes back, and its end at the latest. Whoever has asked for the
step answers for it. No automated flow gives one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from oslo_log import log

from baremetal_acc import execution
from baremetal_acc.errors import UsageError
from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.model.waiver import Waived, Waiver, moment
from baremetal_acc.planning import waivers
from baremetal_acc.render import notes
from baremetal_acc_ironic.authorization import rights
from baremetal_acc_ironic.reporting import notification
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import Granted, NodeState
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps import definitions, flow_steps, statement, step_errors, step_preparation, wall_clock
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)

MOST = 16
"""Waivers of one node: they share the space that Ironic has for our state of it."""

_ARGUMENTS = ('reason', 'expires')


# -------------------------------------------------------------------------------------------------------------- the step


def waive(task: Any, given: Mapping[str, Any]) -> None:
    """Give a waiver, or take back earlier ones. Nothing is written to a BMC.

    :raises StepFailed: the arguments make no valid waiver, or nobody has asked for it by hand.
    """
    with step_errors.told_by(task, definitions.WAIVE):
        flow = flow_steps.flow_of(task)
        arguments = definitions.WAIVE.arguments(given)
        if not rights.by_hand(task.node, flow):
            raise UsageError(
                argument=definitions.WAIVE.name,
                what='an automated flow cannot give a waiver',
                hint='let an administrator run it in manual cleaning or service, or add a waiver to a rule of the baseline',
            )
        now = wall_clock.now()
        state = step_preparation.returned(task, node_store.load(task.node), flow, definitions.WAIVE)
        who = rights.begun_by(task, state, flow)
        # Without authentication Ironic has no name for the requester.
        role = who.by if who.requester is not None else 'unknown, no authentication'
        wanted = _waiver(arguments, role, now)
        devices = _devices(task, state, arguments.get('devices'), now)
        left = [g for g in state.waivers if not g.waiver.ended(now)]
        if wanted is None:
            kept = tuple(g for g in left if devices and g.devices != devices)
            text = (
                f'{definitions.WAIVE.name}: waivers taken back by {who.by}: {len(state.waivers) - len(kept)}, left: {len(kept)}'
            )
        else:
            kept = (Granted(waiver=wanted, since=now, devices=devices), *_besides(left, devices, wanted.paths))
            which = f'{len(devices)} {"device" if len(devices) == 1 else "devices"}' if devices else 'all devices'
            text = (
                f'{definitions.WAIVE.name}: {", ".join(sorted(wanted.paths))} of {which} may stay '
                'open where no mechanism blocks it, '
                f'until {moment(wanted.expires)} or until the node comes back, by {who.by}: {wanted.reason}'
            )
        if len(kept) > MOST:
            hint = f'take back those that are not needed: {definitions.WAIVE.name} with paths = []'
            raise UsageError(argument=definitions.WAIVE.name, what=f'the node has {MOST} waivers already', hint=hint)
        node_store.store(task.node, replace(state, waivers=kept))
        LOG.warning('Node %s: %s', task.node.uuid, text)
        provision_state.told(task.node, text, user=who.user)
        notification.waivers(task, [_of_node(g) for g in kept], by=definitions.WAIVE.name, at=now, in_use=False)


def _waiver(arguments: Mapping[str, Any], role: str, now: datetime) -> Waiver | None:
    """Return the waiver that the arguments ask for; None: earlier ones are taken back.

    :raises UsageError: an argument is missing, or wrong.
    """
    name = definitions.WAIVE.name
    if 'paths' not in arguments:
        raise UsageError(
            argument='argument paths', what='is missing', hint=f'{name} needs paths; an empty list takes back earlier waivers'
        )
    paths = frozenset(WritePath(path) for path in arguments['paths'])
    if not paths:
        for key in _ARGUMENTS:
            if key in arguments:
                raise UsageError(argument=f'argument {key}', what='is only allowed if paths is not empty')
        return None
    reason, expires = statement.reason_and_end(arguments, definitions.WAIVE, now, end='expires', beside=' with paths')
    return Waiver(role=role, reason=reason, expires=expires, paths=paths)


def _devices(task: Any, state: NodeState, names: Iterable[str] | None, now: datetime) -> frozenset[AcceleratorId]:
    """Return the devices that are named; an empty set: all of them."""
    if names is None:
        return frozenset()
    inventory = execution.observe(target_of(task), tools_of(task, state, images=False), now)
    return definitions.chosen(inventory, names) or frozenset()


def _besides(known: Iterable[Granted], devices: frozenset[AcceleratorId], paths: frozenset[WritePath]) -> tuple[Granted, ...]:
    """Return the earlier waivers, without paths that are waived again for the same devices."""
    rest = (
        replace(g, waiver=replace(g.waiver, paths=g.waiver.paths - paths)) if g.devices == devices else g for g in known
    )  # fmt: skip
    return tuple(g for g in rest if g.waiver.paths)


def _of_node(given: Granted) -> notification.Waiving:
    return notification.Waiving(
        accelerators=tuple(sorted(str(d) for d in given.devices)),
        paths=tuple(sorted(str(path) for path in given.waiver.paths)),
        rule=definitions.rule_of(given),
        role=given.waiver.role,
        reason=given.waiver.reason,
        expires=given.waiver.expires,
    )


# ---------------------------------------------------------------------------------------------------------------- reports


def tell(task: Any, verdict: Verdict, by: str) -> None:
    """Report in log, history and a notification that a node relies on waivers; in log and history what else is relaxed."""
    node = task.node
    lines = waivers.summary(verdict.waived)
    relaxed = [notes.text(n.content) for n in waivers.told(verdict.target, (), verdict.relaxed, {})]
    for line in lines:
        LOG.warning('Node %s: %s: %s', node.uuid, by, line)
    for line in relaxed:
        LOG.info('Node %s: %s: %s', node.uuid, by, line)
    if lines or relaxed:
        provision_state.told(node, f'{by}: {"; ".join((*lines, *relaxed))}')
    if lines:
        notification.waivers(task, _in_use(verdict.waived), by=by, at=wall_clock.now(), in_use=True)


def _in_use(waived: Iterable[Waived]) -> list[notification.Waiving]:
    """Return one entry for each path and waiver."""
    devices: dict[tuple[str, str, str, str, datetime], list[str]] = {}
    for w in waived:
        devices.setdefault((str(w.path), w.rule, w.role, w.reason, w.expires), []).append(str(w.accelerator))
    return [
        notification.Waiving(
            accelerators=tuple(sorted(ids)), paths=(path,), rule=rule, role=role, reason=reason, expires=expires
        )
        for (path, rule, role, reason, expires), ids in sorted(devices.items())
    ]
