# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the actions of a plan, or of a job that has ended, as rows of a table without URIs, and as one line that counts them.

The settings of one lock mechanism on one card are one row with their number: ``lock (3)``. If a target still has more than
:data:`MOST_ROWS` rows, those that differ only in the numbers of cards and components are one row as well.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import assert_never

from baremetal_acc.model.action import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    ResetPurpose,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.bmc_state import RESTORED_TO
from baremetal_acc.model.job_item import Item, ItemState
from baremetal_acc.model.lock import ResetKind, Scope
from baremetal_acc.model.note import Demanded
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import HOST, AcceleratorId, Ref
from baremetal_acc.model.subject import Subject, SubjectKind, card_setting
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.planning.activation import BY_HAND
from baremetal_acc.render.bmc_settings import shown_before
from baremetal_acc.render.similar import grouped, merged, shape
from baremetal_acc.render.words import counted, shortened

MOST_ROWS = 20
"""Rows of a target from which on similar rows are merged: with title, notes and summary they still fit on one screen."""

RESTORE_SETTING = 'restore setting'
"""The word for an action that restores a setting of a BMC."""

_LOCKING = frozenset({'lock', 'unlock'})

Labels = Mapping[AcceleratorId, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRow:
    """One row: what is done to which device.

    :ivar action: the action as the summary counts it, such as ``flash`` or ``lock``.
    :ivar subject: the component, slot or lock mechanism.
    :ivar change: the versions before and after; empty where the action has none.
    :ivar last: of a plan the rule that demands the action; of a job the state of the action.
    :ivar number: the number of actions in the row.
    """

    device: str
    action: str
    subject: str
    change: str = ''
    last: str = ''
    number: int = 1

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """The four cells of the row."""
        action = self.action if self.number == 1 else f'{self.action} ({self.number})'
        return self.device, action, ' '.join(filter(None, (self.subject, self.change))), self.last


def of_plan(made: Plan, labels: Labels, verdict: Verdict) -> tuple[ActionRow, ...]:
    """Return the rows of a plan. Images are checked before anything is changed: these checks have no rows.

    :param verdict: the verdict on the inventory from which the plan was made; it tells which rule demands a lock.
    """
    shown = (a for a in made.actions if not isinstance(a, CheckImage))
    rules = _rules(made)
    return _fitted(replace(_row(a, labels), last=_rule(a, labels, rules, verdict)) for a in shown)


def of_job(items: Iterable[Item], labels: Labels) -> tuple[ActionRow, ...]:
    """Return the rows of a job that has ended: each write, the locks of each card, and whatever else did not succeed."""
    rows = _fitted(
        replace(_row(i.action, labels), action=_restored(i), last=_state(i))
        for i in items
        if isinstance(i.action, Flash | Program | Engage | Release | RestoreSetting | SetCardSetting)
        or i.state is not ItemState.DONE
    )
    return tuple(
        replace(group[0], subject=shortened([r.subject for r in group], 2), number=sum(r.number for r in group))
        for group in grouped(rows, lambda r: (r.device, r.action, r.last) if r.action in _LOCKING else id(r))
    )


def _restored(item: Item) -> str:
    return 'restore' if item.restoring and isinstance(item.action, Flash) else word(item.action)


def _state(item: Item) -> str:
    return 'not done' if item.state is ItemState.PLANNED else item.state.value


def _fitted(rows: Iterable[ActionRow]) -> tuple[ActionRow, ...]:
    by_card = tuple(_joined(rows, lambda r: r if r.action in _LOCKING else id(r)))
    if len(by_card) <= MOST_ROWS:
        return by_card
    return tuple(_joined(by_card, lambda r: (shape(r.device), r.action, shape(r.subject), r.change, r.last)))


def _joined(rows: Iterable[ActionRow], key: Callable[[ActionRow], object]) -> Iterator[ActionRow]:
    for group in grouped(tuple(rows), key):
        device, subject = merged([r.device for r in group]), merged([r.subject for r in group])
        yield replace(group[0], device=device, subject=subject, number=sum(r.number for r in group))


def _row(action: Action, labels: Labels) -> ActionRow:
    device, subject, change = '', '', ''
    match action:
        case Flash():
            device, subject = labels.get(action.accelerator, action.accelerator), action.component
            change = f'{action.expects or "unknown"} -> {action.version}'
        case Program():
            device, subject = labels.get(action.accelerator, action.accelerator), action.slot
            change = f'{action.expects or ""} -> {action.function} {action.version}'.strip()
        case SetCardSetting():
            device, subject = labels.get(action.accelerator, action.accelerator), action.setting
            change = f'{action.expects or "unknown"} -> {action.value}'
        case Release() | Engage():
            subject = action.mechanism
            device = labels.get(action.accelerator, action.accelerator)
            device = f'BMC {action.ref.bmc}' if action.scope is Scope.BMC else device
        case Reset():
            device, subject = _system(action.system), '' if action.kind is ResetKind.NONE else action.kind
        case RestoreSetting():
            device, subject = f'BMC {action.ref.bmc}', action.setting
            change = f'{shown_before(action)} -> {RESTORED_TO[action.setting]}'
        case Withdraw():
            subject = f'{counted(len(action.accelerators), "card")} from placement'
            if action.whole:
                why = 'a slot gets a function other than the one that it is claimed as'
                subject = f'the whole node from placement: {why}'
        case CheckImage():
            subject = action.image
        case Publish():
            subject = 'to placement'
        case _:
            assert_never(action)
    return ActionRow(device=device, action=word(action), subject=subject, change=change)


def word(action: Action) -> str:
    """Return the word for an action, as rows and summaries have it."""
    match action:
        case Engage():
            return 'lock'
        case Release():
            return 'unlock'
        case SetCardSetting():
            return 'set'
        case Reset(kind=kind) if kind is BY_HAND:
            return 'wait for power cord'
        case Reset(kind=ResetKind.AUX_POWER_CYCLE):
            return 'cycle standby power'
        case Reset():
            words = {ResetPurpose.HOLD: 'power off', ResetPurpose.RESUME: 'power on', ResetPurpose.ENFORCE: 'reset'}
            return words[action.purpose]
        case CheckImage():
            return 'check image'
        case RestoreSetting():
            return RESTORE_SETTING
        case Flash() | Program() | Withdraw() | Publish():
            return type(action).__name__.lower()
        case _:
            assert_never(action)


def _system(system: Ref) -> str:
    """The name of a System: that of its BMC, and its Id."""
    return f'{system.bmc} {system.uri.rstrip("/").rpartition("/")[2]}'


def _rules(made: Plan) -> Mapping[tuple[str, Subject], str]:
    """The rule that demands what is written to a part of a device, by the label of the device and the part."""
    return {(n.label, n.content.subject): n.content.rule for n in made.notes if isinstance(n.content, Demanded)}


def _rule(action: Action, labels: Labels, rules: Mapping[tuple[str, Subject], str], verdict: Verdict) -> str:
    match action:
        case Flash():
            subject = Subject(kind=SubjectKind.FIRMWARE, name=action.component)
            return rules.get((labels.get(action.accelerator, ''), subject), '')
        case Program():
            subject = Subject(kind=SubjectKind.FUNCTION, name=action.slot)
            return rules.get((labels.get(action.accelerator, ''), subject), '')
        case SetCardSetting():
            mine = (f for f in verdict.findings if f.accelerator == action.accelerator)
            return next((f.rule for f in mine if f.subject == card_setting(action.setting)), '')
        case Engage():
            whole = action.scope is Scope.BMC
            found = {
                f.rule
                for f in verdict.findings
                if f.subject.kind is SubjectKind.LOCK_PATH
                and f.subject.name in action.blocks
                and (whole or f.accelerator == action.accelerator)
            }
            return ', '.join(sorted(found))
        case RestoreSetting():
            return action.rule
        case _:
            return ''


# ------------------------------------------------------------------------------------------------------------- summaries

_COUNTED = ('flash', 'restore', 'program', RESTORE_SETTING, 'set', 'unlock', 'lock', 'publish')
"""The words that a summary counts, in this order."""


def counts(actions: Iterable[Action]) -> str:
    """Return the numbers of the writes of a plan: ``4 flash, 2 program, 11 lock``."""
    found = Counter(map(word, actions))
    return ', '.join(f'{found[name]} {name}' for name in _COUNTED if found[name]) or 'no writes'


def counts_done(items: Iterable[Item]) -> str:
    """Return how many of the writes of a job succeeded: ``3 of 4 flash, 11 lock``."""
    of_all, done = Counter[str](), Counter[str]()
    for item in items:
        of_all[_restored(item)] += 1
        done[_restored(item)] += item.state is ItemState.DONE
    parts = (f'{done[n]} of {of_all[n]} {n}' if done[n] < of_all[n] else f'{of_all[n]} {n}' for n in _COUNTED if of_all[n])
    return ', '.join(parts) or 'no writes'


def host(actions: Sequence[Action]) -> str:
    """Return what the actions do to the power of the host, and which other Systems they reset."""
    resets = [a for a in actions if isinstance(a, Reset)]
    purposes = {a.purpose for a in resets if a.system.bmc == HOST}
    parts = []
    if ResetPurpose.HOLD in purposes:
        parts.append('host off, then on' if ResetPurpose.RESUME in purposes else 'host off, and left off')
    elif ResetPurpose.RESUME in purposes:
        parts.append('host powered on')
    others = dict.fromkeys(_system(a.system) for a in resets if a.system.bmc != HOST or a.purpose is ResetPurpose.ENFORCE)
    parts += [f'{name} reset' for name in others]
    return '; '.join(parts) or 'no reset'


def lasted(time: timedelta) -> str:
    """Return a duration for people, to the second below an hour."""
    whole = round(time / timedelta(seconds=1))
    if whole < 60:
        return f'{whole} s'
    return f'{whole // 60} min {whole % 60} s' if whole < 3600 else f'{whole // 3600} h {whole % 3600 // 60} min'


def about(time: timedelta | None) -> str:
    """Return how long a plan will take: as long as the same plan took before; unknown where it was never executed."""
    if time is None:
        return 'duration unknown'
    minutes = round(time / timedelta(minutes=1))
    return f'about {counted(minutes, "minute")}' if minutes else 'less than a minute'
