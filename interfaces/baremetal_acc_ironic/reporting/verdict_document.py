# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Make the verdict that Ironic's inspection data hold: for each card and each demanded write path its state, and the reasons.

The schema is doc/source/schemas/node-verdict.json. Within ``format`` 1 keys may be added; no key is renamed, removed or given
another type. :mod:`baremetal_acc_ironic.reporting.record` adds the mark that says whether the verdict is current.
"""

from collections.abc import Iterable
from importlib import metadata
from typing import Any

from baremetal_acc.execution import Target, Tools
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.codec import encode
from baremetal_acc.model.custody import CardCustody, Custody, Origin
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Coverage, LockReading, WritePath
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.planning import custody as chains
from baremetal_acc.planning import custody_rules, lock_evidence
from baremetal_acc.policy.device_demands import demands
from baremetal_acc.render import custody as custody_words
from baremetal_acc.render import findings, marks

FORMAT = 1

Json = dict[str, Any]


def document(
    inventory: Inventory,
    verdict: Verdict,
    custody: Custody,
    target: Target,
    tools: Tools,
    *,
    lifecycle: int,
    flow: Flow | None,
    by: str,
    reasons: Iterable[str] = (),
) -> Json:
    """Return the verdict on a node as JSON.

    :param inventory: its lock readings are judged by our own records.
    :param flow: the flow in which it was taken; None: in no flow.
    :param by: the step, or what else took it.
    :param reasons: why the node as a whole is not met, besides the findings of the verdict.
    """
    cards = tuple(inventory.accelerators)
    known = {a.id for a in cards}
    whole = [findings.sentence(f) for f in verdict.unmet if f.accelerator not in known]
    whole += reasons
    return {
        'format': FORMAT,
        'release': f'baremetal-acc {metadata.version("baremetal-acc")}',
        'at': encode(inventory.at),
        'by': by,
        'flow': None if flow is None else flow.value,
        'lifecycle': lifecycle,
        'met': verdict.met and not whole,
        'reasons': whole,
        'marks': list(marks.of_verdict(verdict, {a.id: a.label for a in cards})),
        'cards': [_card(a, inventory, verdict, custody, target, tools) for a in cards],
    }


def _card(a: Accelerator, inventory: Inventory, verdict: Verdict, custody: Custody, target: Target, tools: Tools) -> Json:
    found = [f for f in verdict.findings if f.accelerator == a.id]
    locks = (*a.locks, *lock_evidence.vanished(a, tools.ways, inventory.at))
    return {
        'id': a.id,
        'name': a.label,
        'kind': a.kind.value,
        'vendor': a.vendor,
        'model': a.model,
        'part_number': a.part_number,
        'serial': a.serial,
        'uuid': a.uuid,
        'identity': a.identity.value,
        'pci_address': a.pci.address,
        'location': a.location,
        'bmc': a.primary.bmc,
        'uri': a.primary.uri,
        'met': all(f.met is Met.YES for f in found),
        'reasons': [findings.sentence(f) for f in found if f.met is not Met.YES],
        'paths': [_path(a, f, verdict, locks) for f in found if f.subject.kind is SubjectKind.LOCK_PATH and f.label == a.label],
        'custody': _custody(a, custody.of(a.id), inventory, target, tools),
    }


def _path(a: Accelerator, finding: Finding, verdict: Verdict, locks: tuple[LockReading, ...]) -> Json:
    """One demanded write path. Its state is that of the part that is protected worst."""
    path = WritePath(finding.subject.name)
    said = findings.words(finding.fact)
    let = next((w for w in verdict.waived if (w.accelerator, w.label, w.path) == (a.id, a.label, path)), None)
    return {
        'path': path.value,
        'state': None if finding.state is None else finding.state.value,
        'met': finding.met is Met.YES,
        'rule': finding.rule,
        'expected': said.expected,
        'found': said.found,
        'locks': _locks(lock_evidence.coverage(a, path, locks)),
        'waived': None if let is None else {'until': encode(let.expires), 'by': let.role, 'reason': let.reason},
    }


def _locks(covered: Iterable[Coverage]) -> list[Json]:
    """The locks that decide about a path, each with the parts of the card that rest on it; without a lock: no mechanism."""
    found: dict[tuple[Any, ...], Json] = {}
    for one in covered:
        reading = one.reading
        key = (None if reading is None else reading.place, one.state)
        if key not in found:
            found[key] = {
                'mechanism': None if reading is None else reading.mechanism,
                'lock': None if reading is None else reading.field,
                'bmc': None if reading is None else reading.ref.bmc,
                'uri': None if reading is None else reading.ref.uri,
                'state': one.state.value,
                'reason': None if reading is None else reading.reason,
                'parts': [],
            }
        found[key]['parts'].append(str(one.subject))
    return list(found.values())


def _custody(a: Accelerator, card: CardCustody, inventory: Inventory, target: Target, tools: Tools) -> Json:
    wanted = demands(tools.baseline, a, target.node)
    chain = card.chain
    broken = None if chain is None else chain.broken
    holds = chains.holds(card, inventory.at) and custody_rules.satisfies(card, wanted.custody, inventory.at)
    accepted = chain is not None and chain.origin is Origin.ACCEPTED
    return {
        'demand': wanted.custody.value,
        'rule': wanted.custody_rule,
        'holds': holds,
        'text': custody_words.explain(card, inventory.at),
        'origin': None if chain is None else chain.origin.value,
        'since': None if chain is None else encode(chain.begun),
        'reaches': None if chain is None else encode(chain.reaches),
        'strength': None if chain is None else chain.strength.value,
        'accepted_by': list(chain.by) if chain is not None and accepted else [],
        'until': None if chain is None else encode(chain.until),
        'reason': None if chain is None else chain.reason,
        'broken': None if broken is None else broken.cause.value,
    }
