# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""State machine of the accelerators that one instance has claimed: prepare, plug, and roll back.

A total table gives the next state of each accelerator; the functions apply it to all accelerators of the instance. When one
cannot be prepared, every accelerator that was written to is rolled back, in reverse order. An accelerator that cannot be rolled
back stays in state ``NOT_ROLLED_BACK`` until cleaning has dealt with it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from baremetal_acc.model.action import Action, Program
from baremetal_acc.model.attach import Attached, AttachEvent, Attachment, AttachState, FunctionAssignment, Place
from baremetal_acc.model.job import Job
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.refusal import Refusal

MOST = 256
"""How many accelerators and slots of one instance are stored. Measured: 64 slots need 5 KiB, packed."""

MOST_TEXT = 500
"""How many characters of a reason are stored with each accelerator."""

_NOTHING: Mapping[str, str] = MappingProxyType({})

_S = AttachState

_EVENTS = (
    AttachEvent.BEGIN,
    AttachEvent.READY,
    AttachEvent.BREAK,
    AttachEvent.PLUG,
    AttachEvent.BACK,
    AttachEvent.UNDONE,
    AttachEvent.STUCK,
)

_ROWS = {
    # begin, ready, break, plug, back, undone, stuck
    _S.PLANNED: (_S.PREPARING, _S.PLANNED, _S.PLANNED, _S.PLANNED, _S.GONE, _S.PLANNED, _S.PLANNED),
    _S.PREPARING: (_S.PREPARING, _S.PREPARED, _S.FAILED, _S.PREPARING, _S.UNPREPARING, _S.PREPARING, _S.PREPARING),
    # An accelerator that an earlier attempt has prepared is prepared again: its content may have changed meanwhile.
    _S.PREPARED: (_S.PREPARING, _S.PREPARED, _S.FAILED, _S.PLUGGED, _S.UNPREPARING, _S.PREPARED, _S.PREPARED),
    _S.PLUGGED: (_S.PREPARING, _S.PLUGGED, _S.PLUGGED, _S.PLUGGED, _S.UNPREPARING, _S.PLUGGED, _S.PLUGGED),
    # A failed accelerator is given to nobody until it was prepared again.
    _S.FAILED: (_S.PREPARING, _S.FAILED, _S.FAILED, _S.FAILED, _S.UNPREPARING, _S.FAILED, _S.FAILED),
    _S.UNPREPARING: (
        _S.PREPARING,
        _S.UNPREPARING,
        _S.UNPREPARING,
        _S.UNPREPARING,
        _S.UNPREPARING,
        _S.GONE,
        _S.NOT_ROLLED_BACK,
    ),
    _S.GONE: (_S.PREPARING, _S.GONE, _S.GONE, _S.GONE, _S.GONE, _S.GONE, _S.GONE),
    _S.NOT_ROLLED_BACK: (
        _S.PREPARING,
        _S.NOT_ROLLED_BACK,
        _S.NOT_ROLLED_BACK,
        _S.NOT_ROLLED_BACK,
        _S.UNPREPARING,
        _S.NOT_ROLLED_BACK,
        _S.NOT_ROLLED_BACK,
    ),
}

TABLE = {(state, event): to for state, row in _ROWS.items() for event, to in zip(_EVENTS, row, strict=True)}
"""The next state for every state and event. An event that does not apply leaves the state as it is: an event may come twice."""


def after(one: Attachment, event: AttachEvent, why: str | None = None) -> Attachment:
    """Return one accelerator after an event.

    :param why: what went wrong; None if nothing did.
    """
    state = TABLE[one.state, event]
    return replace(
        one,
        state=state,
        why=None if why is None else why[:MOST_TEXT],
        written=one.written and state is not AttachState.GONE,
        doubtful=one.doubtful and state is not AttachState.GONE,
    )


# ------------------------------------------------------------------------------------------------------------ preparing


def planned(instance: str, found: Iterable[Attachment], before: Attached | None) -> Attached:
    """Return the accelerators of an instance before they are prepared.

    An accelerator that an earlier attempt for the same instance has written keeps the function that it held before that
    attempt, not the instance's own function.

    :param found: what the attach drivers have found for the claims of the instance.
    """
    known = {(a.provider, a.accelerator): a for a in before.items} if before and before.instance == instance else {}
    items = []
    for one in found:
        old = known.get((one.provider, one.accelerator))
        if old is not None and _may_be_written(old):
            one = replace(one, previous=old.previous, written=True, doubtful=_is_doubtful(old))
        items.append(one)
    return Attached(instance=instance, items=tuple(items))


def begun(attached: Attached, made: Plan, job: str) -> Attached:
    """Start preparing all accelerators.

    Those that the job writes come in the order in which it writes them; those that it does not write are prepared at once.
    """
    order = _places(made.actions)
    items = [after(one, AttachEvent.BEGIN) for one in attached.items]
    ready = [after(one, AttachEvent.READY) for one in items if one.place not in order]
    written = [one for place in order for one in items if one.place == place]
    return replace(attached, items=(*ready, *written), job=job, reasons=())


def prepared(attached: Attached, job: Job, reasons: Sequence[str]) -> Attached:
    """Return all accelerators after the job that prepares them has ended.

    :param reasons: why the job failed; empty if it ended well.
    """
    items = []
    for one in attached.items:
        written, good, why = _written(one, job)
        # After a good write the content is known again, whatever was written before.
        one = replace(one, written=one.written or written, doubtful=not good if written else one.doubtful)
        if one.state is AttachState.PREPARING:
            well = good or not reasons
            event = AttachEvent.READY if well else AttachEvent.BREAK
            one = after(one, event, None if well else (why or reasons[0]))
        items.append(one)
    return replace(attached, items=tuple(items), job=None)


def plugged(attached: Attached) -> Attached:
    """Return all accelerators after they were verified, before the machine is handed over."""
    return replace(attached, items=tuple(after(one, AttachEvent.PLUG) for one in attached.items), job=None, reasons=())


# ----------------------------------------------------------------------------------------------------------- rolling back


def must_go_back(attached: Attached) -> bool:
    """Whether any accelerator was written, so that a failed deployment has something to roll back."""
    return any(_may_be_written(one) for one in attached.items)


def going_back(attached: Attached, reasons: Iterable[str]) -> Attached:
    """Start rolling back all accelerators. One that was not written needs no rollback."""
    items = []
    for one in attached.items:
        open_one = replace(one, back=None, written=_may_be_written(one), doubtful=_is_doubtful(one))
        back = after(open_one, AttachEvent.BACK)
        items.append(back if back.written else after(back, AttachEvent.UNDONE))
    return replace(attached, items=tuple(items), job=None, reasons=tuple(text[:MOST_TEXT] for text in reasons))


def _may_be_written(one: Attachment) -> bool:
    """Whether something was written to the accelerator, or may have been by a job whose end was not recorded."""
    return one.written or one.state is AttachState.PREPARING


def _is_doubtful(one: Attachment) -> bool:
    """Whether the content is unknown. A job that rolls an accelerator back may have been interrupted in a write, too."""
    return one.doubtful or one.state in (AttachState.PREPARING, AttachState.UNPREPARING, AttachState.NOT_ROLLED_BACK)


def in_reverse(attached: Attached) -> tuple[Attachment, ...]:
    """Return the accelerators that have to be rolled back, the last prepared first."""
    return tuple(one for one in reversed(attached.items) if one.state is AttachState.UNPREPARING)


def returned(
    attached: Attached,
    gives: Iterable[FunctionAssignment],
    kept: Mapping[str, str] = _NOTHING,
    failed: Mapping[str, str] = _NOTHING,
) -> Attached:
    """Return all accelerators once it is known how they are rolled back. Those that the job has to write stay open.

    :param gives: the functions that slots are to hold again.
    :param kept: why a provider keeps its content, which harms nobody, by provider.
    :param failed: why nobody can say how a provider is rolled back, by provider.
    """
    wanted = {give.place: give.function for give in gives}
    items = []
    for one in attached.items:
        if one.state is AttachState.UNPREPARING:
            back = None if one.place is None else wanted.get(one.place)
            one = replace(one, back=back)
            if one.provider in failed:
                one = after(one, AttachEvent.STUCK, failed[one.provider])
            elif back is None:
                one = after(one, AttachEvent.UNDONE, kept.get(one.provider))
        items.append(one)
    return replace(attached, items=tuple(items))


def in_turn(made: Plan, gives: Sequence[FunctionAssignment]) -> Plan:
    """Return the plan with its writes to slots in the order of these assignments, whatever order the images ask for."""
    rank = {give.place: number for number, give in enumerate(gives)}

    def turn(action: Action) -> Action:
        if not isinstance(action, Program):
            return action
        return replace(action, order=rank.get((action.accelerator, action.slot), len(rank)))

    return replace(made, actions=tuple(turn(action) for action in made.actions))


def without_refused(made: Plan, gives: Iterable[FunctionAssignment]) -> tuple[Plan, dict[AcceleratorId, tuple[Refusal, ...]]]:
    """Remove the devices that the plan refuses, and return why: one refused device does not prevent the rollback of the others.

    A refusal that is about the whole machine stays in the plan.
    """
    theirs = {give.accelerator for give in gives}
    why: dict[AcceleratorId, tuple[Refusal, ...]] = {}
    for refusal in made.refusals:
        if refusal.accelerator in theirs and refusal.accelerator is not None:
            why[refusal.accelerator] = (*why.get(refusal.accelerator, ()), refusal)
    actions = tuple(a for a in made.actions if not (isinstance(a, Program) and a.accelerator in why))
    left = tuple(r for r in made.refusals if r.accelerator not in why)
    return replace(made, actions=actions, refusals=left), why


def brought_back(attached: Attached, job: Job, holds: Mapping[Place, str] | None) -> Attached:
    """Return all accelerators after the job that rolls them back has ended.

    Accelerators that the job has not reached, because an earlier one failed, stay open: each such job settles at least one.

    :param holds: what their slots verifiably hold in the end; None: the machine could not be read.
    """
    tried = {one.place for one in attached.items if _written(one, job)[0]}
    items = []
    for one in attached.items:
        if one.state is AttachState.UNPREPARING:
            why = _why_not_back(one, job, holds)
            if why is None or not tried or one.place in tried:
                one = after(one, AttachEvent.UNDONE if why is None else AttachEvent.STUCK, why)
        items.append(one)
    return replace(attached, items=tuple(items), job=None)


def _why_not_back(one: Attachment, job: Job, holds: Mapping[Place, str] | None) -> str | None:
    """Return why the slot does not hold again what it should; None if it does."""
    if holds is None or one.place is None:
        return 'the slot could not be read in the end'
    written, good, why = _written(one, job)
    if holds.get(one.place) == one.back and (good or not written):
        return None
    return why or f'it should hold {one.back} again, but holds {holds.get(one.place) or "no known function"}'


def stuck(attached: Attached | None) -> tuple[Attachment, ...]:
    """Return the accelerators that could not be rolled back."""
    return () if attached is None else tuple(one for one in attached.items if one.state is AttachState.NOT_ROLLED_BACK)


def told(attached: Attached) -> tuple[str, ...]:
    """Describe how the rollback ended, one sentence for each accelerator with something to report, the last prepared first."""
    found = []
    for one in reversed(attached.items):
        match one.state:
            case AttachState.NOT_ROLLED_BACK:
                found.append(f'{one} was not rolled back: {one.why}; it is not available in placement')
            case AttachState.GONE if one.back is not None and one.back == one.previous:
                found.append(f'{one} was rolled back: it holds {one.back} again')
            case AttachState.GONE if one.back is not None:
                found.append(f'{one} was rolled back: it holds {one.back}, since its function before is unknown')
            case AttachState.GONE if one.why is not None:
                found.append(f'{one} was left as it is: {one.why}')
    return tuple(found)


# ----------------------------------------------------------------------------------------------------------- job items


def _places(actions: Iterable[Action]) -> tuple[Place, ...]:
    """Return the slots that a plan writes, in its order."""
    return tuple(dict.fromkeys((a.accelerator, a.slot) for a in actions if isinstance(a, Program)))


def _written(one: Attachment, job: Job) -> tuple[bool, bool, str | None]:
    """Return whether a job has written the accelerator or may have, whether that ended well, and what went wrong."""
    for item in reversed(job.items):
        action = item.action
        if isinstance(action, Program) and (action.accelerator, action.slot) == one.place:
            good = item.state in (ItemState.DONE, ItemState.STAGED)
            return item.state.begun and not item.untouched, good, None if good else item.message
    return False, False, None
