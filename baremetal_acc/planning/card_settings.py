# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the settings of each card with the rules: what is absent, unread or about to change does not meet a demand."""

from collections.abc import Iterator

from baremetal_acc.model import subject
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.action import SetCardSetting
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, CardSettingResult
from baremetal_acc.model.finding import CardSettingFound
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.verdict import Finding, Met
from baremetal_acc.planning.trouble import SettingNotMet
from baremetal_acc.planning.watch_alarms import TroubleKind, WatchTrouble
from baremetal_acc.policy.baseline_rules import Baseline, CardSettingDemand, NodeFacts
from baremetal_acc.policy.device_demands import Demands, demands

_CERTAIN = frozenset({CardSettingResult.DIFFERS, CardSettingResult.PENDING})


def are_demanded(baseline: Baseline) -> bool:
    """Whether any rule demands a setting of a card. If none does, no card is asked for one."""
    return any(rule.sriov is not None or rule.dpu_mode is not None for rule in baseline.rules)


def demanded(baseline: Baseline, accelerator: Accelerator, node: NodeFacts) -> frozenset[CardSetting]:
    """Return the settings that rules demand of a device; only these are read."""
    return frozenset(demand.setting for demand, _ in demands(baseline, accelerator, node).settings)


def findings(accelerator: Accelerator, wanted: Demands) -> Iterator[Finding]:
    """Yield one finding for each setting that rules demand of a device."""
    for demand, rule in wanted.settings:
        fact = compared(demand, accelerator.settings)
        yield Finding(
            accelerator=accelerator.id,
            label=accelerator.label,
            subject=subject.card_setting(demand.setting),
            fact=fact,
            met=Met.YES if fact.result is CardSettingResult.MATCHES else Met.NO,
            rule=rule,
        )


def troubles(inventory: Inventory, baseline: Baseline, node: NodeFacts) -> Iterator[WatchTrouble]:
    """Yield the settings of cards of a watched node that are not as the rules demand.

    A setting that is not shown, or could not be read, is reported only if it stays so.
    """
    if not are_demanded(baseline):
        return
    for accelerator in inventory.accelerators:
        for finding in findings(accelerator, demands(baseline, accelerator, node)):
            fact = finding.fact
            if finding.met is not Met.YES and isinstance(fact, CardSettingFound):
                certain = fact.result in _CERTAIN
                yield WatchTrouble(
                    kind=TroubleKind.SETTING if certain else TroubleKind.UNREADABLE,
                    device=accelerator.id,
                    subject=str(finding.subject),
                    fact=SettingNotMet(found=fact, rule=finding.rule),
                    certain=certain,
                )


def compared(demand: CardSettingDemand, readings: tuple[CardSettingReading, ...] | None) -> CardSettingFound:
    """Compare what was read of a device with a demand. A value that differs counts more than one that could not be read."""

    def found(result: CardSettingResult, *shown: CardSettingReading) -> CardSettingFound:
        return CardSettingFound(setting=demand.setting, expected=demand.expected, result=result, readings=shown)

    if readings is None:
        return found(CardSettingResult.NOT_READ)
    mine = tuple(r for r in readings if r.setting is demand.setting)
    differing = tuple(r for r in mine if r.value not in (None, demand.expected))
    if differing:
        return found(CardSettingResult.DIFFERS, *differing)
    pending = tuple(r for r in mine if r.pending not in (None, demand.expected))
    if pending:
        return found(CardSettingResult.PENDING, *pending)
    unread = tuple(r for r in mine if r.reason is not None)
    if unread:
        return found(CardSettingResult.UNREAD, *unread)
    hidden = tuple(r for r in mine if r.value is None)
    if hidden or not mine:
        return found(CardSettingResult.NOT_SHOWN, *hidden)
    return found(CardSettingResult.MATCHES, *mine)


# ---------------------------------------------------------------------------------------------------------------- setting


def changes(accelerator: Accelerator, wanted: Demands) -> Iterator[tuple[SetCardSetting, CardSettingReading]]:
    """Yield what a plan sets back on a device, each with its reading, where a rule says so and a mechanism can.

    A setting that is not shown, or could not be read, is not written: nobody could tell what the write has done.
    """
    for demand, _ in wanted.settings:
        fact = compared(demand, accelerator.settings)
        if not demand.restores or fact.result not in _CERTAIN:
            continue
        mine = [r for r in accelerator.settings or () if r.setting is demand.setting and demand.expected in r.sets]
        # Where all of them show the value already, it is set, and takes effect with the reset.
        waiting = [r for r in mine if r.needs is not ResetKind.NONE]
        for reading in [r for r in mine if not is_set(r, demand.expected)] or waiting:
            action = SetCardSetting(
                accelerator=accelerator.id,
                setting=demand.setting,
                mechanism=reading.mechanism,
                ref=reading.ref,
                field=reading.field,
                value=demand.expected,
                expects=reading.value,
                needs=reading.needs,
            )
            yield action, reading


def reading_of(action: SetCardSetting, inventory: Inventory | None) -> CardSettingReading | None:
    """Return the present reading of the property that an action sets."""
    card = None if inventory is None else inventory.accelerator(action.accelerator)
    wanted = (action.mechanism, action.ref, action.field)
    return next((r for r in (None if card is None else card.settings) or () if r.place == wanted), None)


def is_set(reading: CardSettingReading, value: str) -> bool:
    """Whether a value is in effect and stays, or is what takes effect later."""
    return reading.reason is None and value == (reading.value if reading.pending is None else reading.pending)


def is_written(reading: CardSettingReading, action: SetCardSetting) -> bool:
    """Whether a reading after the write shows the value.

    Where no resource shows what takes effect later, a value that needs a reset may be shown only after it.
    """
    return is_set(reading, action.value) or (reading.settings is None and action.needs is not ResetKind.NONE)


def not_in_effect(job: Job, inventory: Inventory) -> dict[int, str]:
    """Return the settings that a job has set and that are not in effect in the end, by position, with what is shown.

    Every property of the setting counts, whichever of them was written: one may show what is set, another what is in effect.
    """
    found = {}
    for position, item in enumerate(job.items):
        action = item.action
        if not isinstance(action, SetCardSetting) or item.state is not ItemState.DONE:
            continue
        card = inventory.accelerator(action.accelerator)
        demand = CardSettingDemand(setting=action.setting, expected=action.value)
        fact = compared(demand, None if card is None else card.settings)
        if fact.result is not CardSettingResult.MATCHES:
            found[position] = f'the BMC accepted it, but {told(next(iter(fact.readings), None))}'
    return found


def told(reading: CardSettingReading | None) -> str:
    """Return what a property shows, as part of a message."""
    if reading is None or (reading.value is None and reading.reason is None):
        return 'the setting is not shown'
    if reading.reason is not None:
        return f'the setting could not be read: {reading.reason}'
    later = '' if reading.pending is None else f', and {reading.pending} is set for the next reset'
    return f'the setting is {reading.value}{later}'
