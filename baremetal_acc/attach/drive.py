# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Call the attach drivers, each once for all its accelerators of an instance, and validate their answers.

If a driver raises an exception or returns an invalid answer, the error names it, and the other drivers are not affected. A
driver may request changes only to the devices and slots that it was given.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from baremetal_acc.attach.api import Around, AttachDriver, AttachUndo, PreparedAttachment
from baremetal_acc.attach.find import GROUP, FoundDriver
from baremetal_acc.errors import AccError
from baremetal_acc.model.attach import Attachment, Claim, FunctionAssignment

T = TypeVar('T')

_TEXT = 500
"""Limit of a sentence of a driver, in characters: it may be somebody else's code."""

_HINT = 'repair or uninstall the package of this driver'


class AttachDriverBroken(AccError):
    """An attach driver raised or answered something that it must not. Names the driver."""

    def __init__(self, driver: str, what: str) -> None:
        self.driver = driver
        self.what = what
        super().__init__(f'attach driver {driver} ({GROUP}): {what}', hint=_HINT)


def devices(found: FoundDriver, claims: Sequence[Claim], around: Around) -> tuple[Attachment, ...]:
    """Return the attachments of all claims, sorted by device and slot.

    :raises AttachDriverBroken: a driver fails, or answers wrongly.
    :raises AccError: no driver is for a claim.
    """
    shares: dict[str, list[Claim]] = {}
    by_name = {d.name: d for d in found.drivers}
    for claim in claims:
        shares.setdefault(_driver_of(found, claim).name, []).append(claim)
    made: list[Attachment] = []
    for name, share in shares.items():
        ask = partial(by_name[name].get_devices, tuple(share), around)
        made += (replace(a, driver=name) for a in _asked(name, 'get_devices', ask, partial(_theirs, share)))
    return _sorted(made)


def prepare(found: FoundDriver, attachments: Sequence[Attachment], around: Around) -> PreparedAttachment:
    """Return what all attachments will be, and what has to be done for that.

    :raises AccError: it cannot be done; then nothing is done for any attachment.
    """
    made: list[Attachment] = []
    gives: list[FunctionAssignment] = []
    for name, share in _shares(attachments).items():
        answer = _asked(name, 'prepare', partial(_named(found, name).prepare, tuple(share), around), partial(_prepared, share))
        gives += answer.gives
        made += (replace(a, driver=name) for a in answer.attachments)
    return PreparedAttachment(attachments=_sorted(made), gives=tuple(gives))


def post_plug(found: FoundDriver, attachments: Sequence[Attachment], around: Around) -> tuple[str, ...]:
    """Return what is not as promised of all attachments. What a driver cannot tell counts as not as promised."""
    sentences: list[str] = []
    for name, share in _shares(attachments).items():
        try:
            driver = _named(found, name)
            sentences += _asked(name, 'post_plug', partial(driver.post_plug, tuple(share), around), _sentences)
        except AccError as exc:
            sentences.append(str(exc))
    return tuple(sentences)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachRoute:
    """How the devices of all attachments are restored.

    :ivar undo: what has to be done, and what stays as it is.
    :ivar failed: by provider, why its driver could not tell.
    """

    undo: AttachUndo = field(default_factory=AttachUndo)
    failed: dict[str, str] = field(default_factory=dict)


def unprepare(found: FoundDriver, attachments: Sequence[Attachment], around: Around) -> AttachRoute:
    """Return how the devices of attachments are restored, in the order of the attachments.

    A driver that fails does not keep the others from it. Where the package of a driver is gone, one of our drivers takes over.
    """
    gives: list[FunctionAssignment] = []
    kept: dict[str, str] = {}
    failed: dict[str, str] = {}
    for name, share in _shares(attachments).items():
        try:
            driver = _heir(found, name, share)
            undo = _asked(name, 'unprepare', partial(driver.unprepare, tuple(share), around), partial(_undone, share))
        except AccError as exc:
            failed |= {a.provider: str(exc) for a in share}
        else:
            gives += undo.gives
            kept |= undo.kept
    order = {a.place: number for number, a in enumerate(attachments)}
    return AttachRoute(undo=AttachUndo(gives=tuple(sorted(gives, key=lambda g: order[g.place])), kept=kept), failed=failed)


def _driver_of(found: FoundDriver, claim: Claim) -> AttachDriver:
    """Return the first driver that accepts a claim. A driver that fails is reported only if no other one accepts it.

    :raises AttachDriverBroken: no driver accepts it, and one is broken.
    :raises AccError: no driver accepts it.
    """
    broken = dict(found.broken)
    for driver in found.drivers:
        try:
            if _asked(driver.name, 'can_handle', partial(driver.can_handle, claim), bool):
                return driver
        except AccError as exc:
            broken[driver.name] = exc.what if isinstance(exc, AttachDriverBroken) else exc.message
    what = f'{"the device" if claim.slot is None else claim.slot} of {claim.accelerator}'
    for name, why in sorted(broken.items()):
        raise AttachDriverBroken(name, f'{why}; and no other driver accepts {what}')
    raise AccError(f'no attach driver accepts {what}', hint=f'install one (entry points {GROUP})')


def _named(found: FoundDriver, name: str) -> AttachDriver:
    """Return the driver of a name.

    :raises AttachDriverBroken: it is not there any more.
    """
    for driver in found.drivers:
        if driver.name == name:
            return driver
    raise AttachDriverBroken(name, dict(found.broken).get(name, 'it is no longer installed'))


def _heir(found: FoundDriver, name: str, share: Sequence[Attachment]) -> AttachDriver:
    """Return the driver that restores the devices of a driver: that one, or where it is gone one of ours.

    :raises AttachDriverBroken: it is broken, or there is none.
    """
    names = {d.name: d for d in found.drivers}
    if name not in names and name not in dict(found.broken):
        name = 'device' if share[0].slot is None else 'region'
    return _named(found, name)


def _shares(attachments: Iterable[Attachment]) -> dict[str, list[Attachment]]:
    shares: dict[str, list[Attachment]] = {}
    for one in attachments:
        shares.setdefault(one.driver, []).append(one)
    return shares


def _theirs(share: Sequence[Claim], answer: object) -> tuple[Attachment, ...]:
    """Validate what get_devices has answered: one attachment for each claim.

    :raises ValueError: it is something else.
    """
    made = tuple(a for a in _list(answer) if isinstance(a, Attachment))
    wanted = sorted((c.provider, c.accelerator, c.slot or '') for c in share)
    if sorted((a.provider, a.accelerator, a.slot or '') for a in made) != wanted:
        raise ValueError(f'its answer is not for the requested claims ({len(share)})')
    return made


def _prepared(share: Sequence[Attachment], answer: object) -> PreparedAttachment:
    """Validate what prepare has answered.

    :raises TypeError: it is something else.
    :raises ValueError: it is for others than it was asked for.
    """
    if not isinstance(answer, PreparedAttachment):
        raise TypeError(f'it returned {type(answer).__name__}, not PreparedAttachment')
    made = tuple(a for a in _list(answer.attachments) if isinstance(a, Attachment))
    if [(a.provider, a.place) for a in made] != [(a.provider, a.place) for a in share]:
        raise ValueError('its answer is not for the requested attachments')
    return PreparedAttachment(attachments=made, gives=_own(share, answer.gives))


def _undone(share: Sequence[Attachment], answer: object) -> AttachUndo:
    """Validate what unprepare has answered.

    :raises TypeError: it is something else.
    :raises ValueError: it is for others than it was asked for.
    """
    if not isinstance(answer, AttachUndo):
        raise TypeError(f'it returned {type(answer).__name__}, not AttachUndo')
    return AttachUndo(gives=_own(share, answer.gives), kept={str(p): str(why)[:_TEXT] for p, why in answer.kept.items()})


def _own(share: Iterable[Attachment], gives: object) -> tuple[FunctionAssignment, ...]:
    """Return what a driver wants programmed, if that is only in slots that it was given.

    :raises ValueError: it is elsewhere: in a slot of another instance, for one.
    """
    theirs = {a.place for a in share}
    found = tuple(g for g in _list(gives) if isinstance(g, FunctionAssignment))
    strangers = [g for g in found if g.place not in theirs]
    if strangers:
        raise ValueError(f'it requests a change of a slot that it was not given: {strangers[0]}')
    return found


def _sentences(answer: object) -> tuple[str, ...]:
    return tuple(str(sentence)[:_TEXT] for sentence in _list(answer))


def _list(answer: object) -> Sequence[object]:
    """Return the answer as a sequence.

    :raises TypeError: it is neither a tuple nor a list; a text is none either.
    """
    if not isinstance(answer, tuple | list):
        raise TypeError(f'it returned {type(answer).__name__}, not a tuple or list')
    return answer


def _sorted(made: Iterable[Attachment]) -> tuple[Attachment, ...]:
    return tuple(sorted(made, key=lambda a: (a.accelerator, a.slot or '')))


def _asked(name: str, method: str, call: Callable[[], object], read: Callable[[object], T]) -> T:
    """Call a driver, and return its answer after validation.

    :raises AccError: it cannot be done, as the driver says.
    :raises AttachDriverBroken: the driver raised anything else, or answered something that it must not.
    """
    try:
        return read(call())
    except AccError:
        raise
    except Exception as exc:
        # A driver may be code of another package, which may raise anything.
        raise AttachDriverBroken(name, f'{method}: {type(exc).__name__}: {exc}') from exc
