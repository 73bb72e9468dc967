# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The power state of the host: whether it may be powered on, and the note about a host that stays off after a command."""

from collections.abc import Sequence
from datetime import UTC, datetime

from baremetal_acc import execution
from baremetal_acc.cli import plan_builder, target_verdict
from baremetal_acc.cli.output import text
from baremetal_acc.cli.plan_request import Verb
from baremetal_acc.cli.state import TargetState
from baremetal_acc.cli.target_entry import TargetEntry
from baremetal_acc.errors import Refused
from baremetal_acc.execution import Target, Tools
from baremetal_acc.execution.power import keeping_off
from baremetal_acc.model.inventory import Inventory, PowerState
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.subject import UNSEEN_OR_OPEN, SubjectKind
from baremetal_acc.model.verdict import Finding
from baremetal_acc.render import findings

_STORED = frozenset({SubjectKind.JOB, SubjectKind.QUARANTINE, SubjectKind.RELOCK})
"""Findings that are made from the stored state of a target, and for which its host must not run."""


def find_host_power(inventory: Inventory) -> PowerState | None:
    """The power state of the host; of several hosts it is off if one of them is off."""
    powers = [facts.power for facts in inventory.hosts]
    return PowerState.OFF if PowerState.OFF in powers else next(iter(powers), None)


def look(
    target: Target, tools: Tools, state: TargetState, starting: Ref | None = None
) -> tuple[Inventory, TargetState, tuple[Finding, ...]]:
    """Read a target, and find what keeps its host from being powered on.

    These are the conditions under which a job powers on the host that it has held off
    (:func:`~baremetal_acc.execution.power.keeping_off`), and those that only the command line stores: an unfinished job,
    quarantined cards, and cards that were unlocked on purpose.

    :param starting: the System that is about to be started, where it is known; otherwise it is the first host that is not on.
    :returns: the inventory; the stored state, updated by it; the findings for which the host must not run.
    :raises BmcError: a BMC cannot be read at all.
    """
    tools = state.tools(tools)
    inventory = execution.observe(target, tools, datetime.now(UTC))
    state = plan_builder.meanwhile(state, inventory)
    if starting is None:
        starting = next((f.system for f in inventory.hosts if f.system is not None and f.power is not PowerState.ON), None)
    verdict = execution.compare(
        inventory, target, tools, state.engagements, lifecycle=state.lifecycle, starting=starting, measured=False
    )
    verdict = target_verdict.marked(verdict, inventory, state)
    if state.unfinished is None:
        state = state.with_custody(target_verdict.custody_of(inventory, target, tools, state, starting=starting))
    found = (*(f for f in verdict.unmet if f.subject.kind in _STORED), *keeping_off(verdict))
    return inventory, state, tuple(dict.fromkeys(found))


def refusal(state: TargetState, found: Sequence[Finding]) -> Refused:
    """The error of a power-on that is refused, with the command that helps. The worst kind of finding decides which."""
    job = state.unfinished
    kinds = {finding.subject.kind for finding in found}
    hint = None
    if job is not None:
        hint = f'{target_verdict.goes_on(job)}; after that, power on'
    elif SubjectKind.QUARANTINE in kinds:
        hint = f'{target_verdict.MENDING}; after that, power on'
    elif kinds & {SubjectKind.RELOCK, *UNSEEN_OR_OPEN}:
        hint = 'lock --execute engages the locks and reads them back; after that, power on'
    elif SubjectKind.BMC_USERS in kinds:
        hint = 'remove the accounts from the BMC, or change bmc_users of the rule; after that, power on'
    return Refused([f'the host must not run: {findings.sentence(finding)}' for finding in found], hint=hint)


def note_host_power(entry: TargetEntry, power: PowerState | None, verb: Verb, spoilt: Sequence[str], *, good: bool) -> None:
    """Note that the host is off and stays off: a command powers on only a host that it has powered off itself.

    :param spoilt: labels of the quarantined cards.
    """
    if power is not PowerState.OFF:
        return
    how = f'power on --execute --target {entry.name}'
    if spoilt:
        are = 'is' if len(spoilt) == 1 else 'are'
        what = f'is off, and has to stay off while {", ".join(spoilt)} {are} quarantined: {target_verdict.MENDING}'
    elif verb is Verb.UNLOCK and not good:
        what = f'is off and stays off, because locks may be open: run lock --execute, which engages all of them, then {how}'
    elif verb is Verb.UNLOCK:
        what = f'is off and stays off while its cards are unlocked: run lock --execute, which locks them, then {how}'
    elif good:
        what = f'was found off and stays off; when it is needed: {how}'
    else:
        what = f'is off and stays off: fix what failed and run the same command again, then {how}'
    text.note(f'{entry.name}: the host {what}')
