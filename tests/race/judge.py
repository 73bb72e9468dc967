# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Judge one round of the race: everything claimed was available, and nothing withdrawn was, by the records of that round.

Calls on one machine that overlap make one group; between groups nothing of ours is under way, and what may be claimed then
follows from what came before:

* after one publication that succeeded: what is true of the machine, and nothing else;
* after one withdrawal that succeeded: what was on offer before, without what was withdrawn;
* after all of it was put back: that, unless anything was on offer already;
* after others: whatever was on offer before, or was meant to be.

A claim that placement took, and every look at its database, is compared with that of the moments in which it can have happened.
"""

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.race.oracle import Snapshot
from tests.race.proxy import LATE_SECONDS, Delivery
from tests.race.publishers import Op
from tests.race.world import NODE_CLASS, Machine, Place

Offers = dict[Place, int]

SLACK = LATE_SECONDS + 1.0
"""For so long after a call that failed a request of it may arrive. Only the process that sent it can know of that."""


@dataclass(slots=True)
class Span:
    """A time with one set of offers.

    :ivar allowed: the most that may be on offer.
    :ivar exact: that it is all on offer, too.
    :ivar why: for people.
    """

    begun: float
    ended: float
    allowed: Offers
    exact: bool
    why: str


@dataclass(slots=True)
class Verdict:
    """What was found.

    :ivar checked: how much was compared, by kind.
    """

    wrong: list[tuple[float, int | None, str]] = field(default_factory=list)
    checked: dict[str, int] = field(default_factory=dict)

    def count(self, what: str) -> None:
        self.checked[what] = self.checked.get(what, 0) + 1


def groups(ops: Iterable[Op]) -> list[list[Op]]:
    """Calls that overlap, together."""
    found: list[list[Op]] = []
    until = float('-inf')
    for op in sorted(ops, key=lambda op: op.start):
        if op.start > until:
            found.append([])
        found[-1].append(op)
        until = max(until, op.end)
    return found


def _most(*all_of: Mapping[Place, int]) -> Offers:
    found: Offers = {}
    for offers in all_of:
        for place, amount in offers.items():
            found[place] = max(found.get(place, 0), amount)
    return found


def spans(machine: Machine, ops: list[Op], begun: float, ended: float, first: Offers) -> list[Span]:
    """What may be on offer, from the beginning to the end of a round."""
    found: list[Span] = []
    now, exact, why, at = dict(first), True, 'the end of the last round', begun
    failed: list[Op] = []
    for group in groups(ops):
        start, end = group[0].start, max(op.end for op in group)
        found.append(Span(at, start, now, exact, why))
        meant = [op.offers for op in group if op.offers is not None]
        during = _most(now, *meant)
        found.append(Span(start, end, during, False, f'within {", ".join(f"{op.who} {op.kind}" for op in group)}'))
        failed = [op for op in failed if start - op.end < SLACK]
        now, exact, why = _after(group, now, failed)
        failed += [op for op in group if op.outcome in ('lost', 'refused', 'wrong') and op.offers]
        at = end
    found.append(Span(at, ended, now, exact, why))
    return found


def _after(group: list[Op], now: Offers, failed: list[Op]) -> tuple[Offers, bool, str]:
    why = f'after {", ".join(f"{op.who} {op.kind}: {op.outcome}" for op in group)}'
    if len(group) == 1 and group[0].offers is not None and group[0].outcome in ('ok', 'busy'):
        op = group[0]
        kept = {place: n for place, n in now.items() if place[0] in op.left}
        others = [o.offers for o in failed if o.writer != op.writer and o.offers]
        assert op.offers is not None
        if op.kind == 'put back':  # unless somebody else has published the machine
            return _most(now, op.offers, *others), op.outcome == 'ok' and not now and not others, why
        return _most(op.offers, kept, *others), op.outcome == 'ok' and not others and 'nothing but' not in op.kind, why
    meant = _most(now, *(op.offers for op in group if op.offers is not None))
    if all(op.offers is None for op in group):
        for op in group:
            if op.scope is not None and op.outcome in ('ok', 'busy'):
                gone = set(op.scope) - set(op.left)
                meant = {place: n for place, n in meant.items() if place[0] not in gone}
    return meant, False, why


def judge(
    machines: list[Machine],
    ops: list[Op],
    deliveries: list[Delivery],
    snapshots: list[Snapshot],
    begun: float,
    ended: float,
    first: Mapping[int, Offers],
) -> Verdict:
    """All of one round."""
    verdict = Verdict()
    of = {p: m for m in machines for p in (m.root, *m.ours)}
    roots = {m.root: m for m in machines}
    timeline = {
        m.number: spans(m, [op for op in ops if op.machine == m.number], begun, ended, first[m.number])
        for m in machines
        if not m.flat
    }
    for op in ops:
        if op.outcome == 'wrong':
            verdict.wrong.append((op.start, op.machine, f'{op.who} {op.kind}: {op.text}'))
    for note in deliveries:
        _delivery(verdict, note, of, roots, timeline)
    for snapshot in snapshots:
        _look(verdict, snapshot, machines, timeline)
    _roots(verdict, snapshots, deliveries, machines)
    return verdict


def _within(timeline: list[Span], begun: float, ended: float) -> list[Span]:
    return [span for span in timeline if span.begun <= ended and begun <= span.ended]


def _delivery(
    verdict: Verdict,
    note: Delivery,
    of: Mapping[str, Machine],
    roots: Mapping[str, Machine],
    timeline: Mapping[int, list[Span]],
) -> None:
    if note.who.startswith('p'):
        target = note.path.removeprefix('/resource_providers/').partition('/')[0]
        if target in roots and not roots[target].flat:
            verdict.wrong.append((note.sent, roots[target].number, f'wrote to a root: {note.told()}'))
        if note.path == '/reshaper':
            touched = {p for p in note.body['inventories'] if p in roots and not roots[p].flat}
            if touched:
                verdict.wrong.append((note.sent, None, f'wrote to a root: {note.told()}'))
            if note.body['allocations'] and not any(of[p].flat for p in note.body['inventories']):
                verdict.wrong.append((note.sent, None, f'claims: {note.told()}'))
        if note.path.startswith('/allocations'):
            verdict.wrong.append((note.sent, None, f'claims: {note.told()}'))
        if note.status in (401, 403):
            verdict.wrong.append((note.sent, None, f'the role service was not enough: {note.told()}'))
        verdict.count('writes of publishers')
        return
    claim = note.method == 'PUT' and note.path.startswith('/allocations/')
    if not claim or note.status >= 300 or note.answered is None:
        return
    if note.had is None:
        verdict.count('claims of consumers of whom nobody knew what they had')
        return
    for provider, own in note.body['allocations'].items():
        machine = of.get(provider)
        for name, amount in own['resources'].items():
            if machine is None or machine.flat or provider == machine.root:
                continue
            if amount <= note.had.get((provider, name), 0):
                # Placement lets everybody keep what he has, whatever became of its inventory.
                verdict.count('claims that were kept')
                continue
            verdict.count('claims that were taken')
            there = _within(timeline[machine.number], note.sent, note.answered)
            settled = [s for s in there if s.begun <= note.sent and note.answered <= s.ended and not s.why.startswith('within')]
            if settled:
                verdict.count('claims that were taken while nothing of ours was under way')
            if not any(span.allowed.get((provider, name), 0) >= amount for span in there):
                why = '; '.join(span.why for span in there)
                what = f'{amount} {name} of {machine.told(provider)}'
                verdict.wrong.append((note.sent, machine.number, f'a ghost was claimed: {what}, {why}: {note.told()}'))


def _look(verdict: Verdict, snapshot: Snapshot, machines: list[Machine], timeline: Mapping[int, list[Span]]) -> None:
    free = snapshot.free()
    for machine in machines:
        if machine.flat:
            continue
        there = _within(timeline[machine.number], snapshot.begun, snapshot.ended)
        ours = {place: n for place, n in free.items() if place[0] in machine.ours}
        verdict.count('looks at machines')
        for place, amount in ours.items():
            if not any(span.allowed.get(place, 0) >= amount for span in there):
                why = '; '.join(span.why for span in there)
                what = f'{amount} {place[1]} of {machine.told(place[0])}'
                verdict.wrong.append((snapshot.begun, machine.number, f'a ghost is on offer: {what}, {why}'))
        if len(there) == 1 and there[0].exact:
            verdict.count('looks at machines of which all is known')
            if ours != there[0].allowed:
                lacks = {machine.told(p) + ' ' + c for p, c in there[0].allowed.keys() ^ ours.keys()}
                text = f'not as it was said: {lacks or ours}, {there[0].why}'
                verdict.wrong.append((snapshot.begun, machine.number, text))


def _roots(verdict: Verdict, snapshots: list[Snapshot], deliveries: list[Delivery], machines: list[Machine]) -> None:
    """A root's generation moves when somebody claims of it, and never else; its inventory never changes."""
    for machine in machines:
        if machine.flat:
            continue
        claims = [
            (d.sent, d.answered or d.sent)
            for d in deliveries
            if d.who.startswith('c') and d.method == 'PUT' and d.path.startswith('/allocations/') and d.status != 409
        ]
        place = (machine.root, NODE_CLASS)
        for before, after in itertools.pairwise(snapshots):
            if before.stocks.get(place) != after.stocks.get(place):
                verdict.wrong.append((after.begun, machine.number, 'the inventory of its root was changed'))
            if before.providers[machine.root][0] != after.providers[machine.root][0] and not any(
                sent <= after.ended and before.begun <= answered for sent, answered in claims
            ):
                verdict.wrong.append((after.begun, machine.number, 'the generation of its root moved without a claim'))


def story(at: float, machine: Machine | None, ops: list[Op], deliveries: list[Delivery]) -> list[str]:
    """What happened to a machine just before something was wrong."""
    if machine is None:
        return []
    ours = {machine.root, *machine.ours}
    lines = [
        (op.start, f'{op.start:.3f}..{op.end:.3f} {op.who} {op.kind}: {op.outcome} {op.text} {op.truth}')
        for op in ops
        if op.machine == machine.number and at - 6 < op.start < at + 0.3
    ]
    for note in deliveries:
        if at - 4 < note.sent < at + 0.3 and any(p in note.path or p in str(note.body) for p in ours):
            text = note.told()
            for provider in ours:
                text = text.replace(provider, f'<{machine.told(provider)}>')
            lines.append((note.sent, f'    {text}'))
    return [text for _, text in sorted(lines)][-80:]
