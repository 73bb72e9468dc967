# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Note each card that no rule by serial number or PCI address names, although such a rule names an identical card of the node.

A rule for single cards matches by slot location, serial number or PCI address.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.finding import CardLeftOut
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.policy.baseline_rules import DEFAULT_RULE, Baseline, NodeFacts, Rule
from baremetal_acc.policy.device_demands import Demands, demands

_KEYS = ('firmware', 'revocations', 'functions', 'block', 'measure', 'custody', 'security_floor', 'sriov', 'dpu_mode')
"""The keys of a rule that protect a card, or say what it has to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A card that a rule for single cards does not apply to.

    :ivar note: the rule, and the keys of it that no rule sets for the card.
    """

    accelerator: AcceleratorId
    label: str
    note: CardLeftOut


def left_out(baseline: Baseline, accelerators: Iterable[Accelerator], node: NodeFacts) -> tuple[LeftOut, ...]:
    """Return the cards for which no rule demands what a rule for single cards demands of an identical card of the machine.

    This is no error, unless the author of the rule has forgotten the card.
    """
    return tuple(_left_out(baseline, tuple(accelerators), node))


def _left_out(baseline: Baseline, seen: tuple[Accelerator, ...], node: NodeFacts) -> Iterator[LeftOut]:
    for rule in baseline.rules:
        differs = rule.match.of_one_card()
        if not differs:
            continue
        makes = {_make(a) for a in seen if rule.match.device(a, node)}
        without = replace(rule.match, location=None, serial=None, pci_address=None)
        for a in seen:
            if _make(a) not in makes or rule.match.device(a, node) or not without.device(a, node):
                continue
            keys = [key for key in _KEYS if _goes_without(demands(baseline, a, node), rule, key)]
            if keys:
                note = CardLeftOut(rule=rule.name, keys=tuple(keys), differs=tuple(differs))
                yield LeftOut(accelerator=a.id, label=a.label, note=note)


def _goes_without(wanted: Demands, rule: Rule, key: str) -> bool:
    """Whether a rule sets a key, and the default that applies to the card demands less."""
    if not getattr(rule, key) or getattr(wanted, f'{key}_rule') != DEFAULT_RULE:
        return False
    return getattr(wanted, key) != getattr(rule, key) and (
        key != 'block' or rule.block is None or not rule.block <= wanted.block
    )


def _make(a: Accelerator) -> tuple[str | None, ...]:
    """Return a key that is the same for identical cards."""
    names = (None if text is None else text.casefold() for text in (a.vendor, a.model))
    return (a.kind, *names, a.pci.vendor_id, a.pci.device_id)
