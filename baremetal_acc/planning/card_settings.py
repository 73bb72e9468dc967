# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Compare the settings of each card with the rules: what is absent, unread or about to change does not meet a demand."""

from collections.abc import Iterator

from baremetal_acc.model import subject
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.card_setting import CardSetting, CardSettingReading, CardSettingResult
from baremetal_acc.model.finding import CardSettingFound
from baremetal_acc.model.inventory import Inventory
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
