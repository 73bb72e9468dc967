# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The subject of a finding, a refusal or a change: a kind and a name, with one text form that JSON and tables show.

Decisions are made on :attr:`Subject.kind` and :attr:`Subject.name`. The text form (``firmware GPU_0``) is part of the formats:
:meth:`Subject.from_text` reads what ``str`` has written, which stored verdicts of every release hold.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from baremetal_acc.model.lock import WritePath


class SubjectKind(StrEnum):
    """Kinds of subjects; the text form of each is in ``_FORMS``.

    ``accelerators``: all cards of a target. ``device``: a card by its identity. ``resource``: a resource of a BMC.
    ``lock-path``: a write path, ``lock-mechanism``: one lock, ``relock``: all locks that an unlock has opened.
    ``any-function``: a function, in any slot. ``card``, ``property``, ``slot-image``, ``host-access``, ``lock-reading`` and
    ``write-path`` occur only in changes between two reads. ``other``: a text of a newer release, or of a guest.
    """

    PRESENT = 'present'
    ACCELERATORS = 'accelerators'
    DEVICE = 'device'
    RESOURCE = 'resource'
    RULE = 'rule'
    FIRMWARE = 'firmware'
    REVOCATION = 'revocation'
    FUNCTION = 'function'
    ANY_FUNCTION = 'any-function'
    IMAGE = 'image'
    BUNDLE = 'bundle'
    LOCK_PATH = 'lock-path'
    LOCK_MECHANISM = 'lock-mechanism'
    RELOCK = 'relock'
    BMC_USERS = 'bmc-users'
    BMC_SETTING = 'bmc-setting'
    CARD_SETTING = 'card-setting'
    MEASUREMENTS = 'measurements'
    MEASUREMENT = 'measurement'
    CUSTODY = 'custody'
    QUARANTINE = 'quarantine'
    JOB = 'job'
    HOST = 'host'
    CARD = 'card'
    PROPERTY = 'property'
    SLOT_IMAGE = 'slot-image'
    HOST_ACCESS = 'host-access'
    LOCK_READING = 'lock-reading'
    WRITE_PATH = 'write-path'
    OTHER = 'other'


_FORMS = {
    SubjectKind.PRESENT: 'present',
    SubjectKind.ACCELERATORS: 'accelerators',
    SubjectKind.DEVICE: '{}',
    SubjectKind.RESOURCE: '{}',
    SubjectKind.RULE: 'rule {}',
    SubjectKind.FIRMWARE: 'firmware {}',
    SubjectKind.REVOCATION: 'revocation {}',
    SubjectKind.FUNCTION: 'function {}',
    SubjectKind.ANY_FUNCTION: 'function',
    SubjectKind.IMAGE: 'image {}',
    SubjectKind.BUNDLE: 'bundle {}',
    SubjectKind.LOCK_PATH: 'lock {}',
    SubjectKind.LOCK_MECHANISM: 'lock {}',
    SubjectKind.RELOCK: 'lock',
    SubjectKind.BMC_USERS: 'users of BMC {}',
    SubjectKind.BMC_SETTING: 'BMC setting {}',
    SubjectKind.CARD_SETTING: 'setting {}',
    SubjectKind.MEASUREMENTS: 'measurement',
    SubjectKind.MEASUREMENT: 'measurement {}',
    SubjectKind.CUSTODY: 'custody',
    SubjectKind.QUARANTINE: 'quarantine',
    SubjectKind.JOB: 'job',
    SubjectKind.HOST: 'host',
    SubjectKind.CARD: 'card',
    SubjectKind.PROPERTY: '{}',
    SubjectKind.SLOT_IMAGE: 'function {} image',
    SubjectKind.HOST_ACCESS: 'function {} host access',
    SubjectKind.LOCK_READING: 'lock {}',
    SubjectKind.WRITE_PATH: 'write path {}',
    SubjectKind.OTHER: '{}',
}
"""The text form of each kind; ``{}`` is replaced by the name. A test asserts that every kind is here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The subject of a finding, a refusal or a change.

    :ivar name: the name as the BMC, the baseline or the catalogue has it; empty for kinds without a name.
    """

    kind: SubjectKind
    name: str = ''

    def __str__(self) -> str:
        return _FORMS[self.kind].format(self.name)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the subject of a text form; an unknown text is kept as the name of an ``other``."""
        for kind, head in _HEADS:
            if text.startswith(head):
                name = text[len(head) :]
                return cls(kind=_kind_of_lock(name) if kind is SubjectKind.LOCK_PATH else kind, name=name)
        return cls(kind=_WORDS[text]) if text in _WORDS else cls(kind=SubjectKind.OTHER, name=text)


_STORED = tuple(kind for kind in SubjectKind if kind not in {
    SubjectKind.LOCK_MECHANISM, SubjectKind.DEVICE, SubjectKind.RESOURCE, SubjectKind.CARD, SubjectKind.PROPERTY,
    SubjectKind.SLOT_IMAGE, SubjectKind.HOST_ACCESS, SubjectKind.LOCK_READING, SubjectKind.WRITE_PATH, SubjectKind.OTHER,
})  # fmt: skip
"""Kinds that a text form is read as. ``lock NAME`` is a path or a mechanism, by its name; the other kinds are never stored."""

_HEADS = tuple((kind, _FORMS[kind].removesuffix('{}')) for kind in _STORED if _FORMS[kind].endswith(' {}'))
_WORDS = {_FORMS[kind]: kind for kind in _STORED if '{}' not in _FORMS[kind]}


def _kind_of_lock(name: str) -> SubjectKind:
    return SubjectKind.LOCK_PATH if name in set(WritePath) else SubjectKind.LOCK_MECHANISM


LOCKS = frozenset({SubjectKind.LOCK_PATH, SubjectKind.LOCK_MECHANISM, SubjectKind.RELOCK})
"""Kinds that are about locks."""

UNSEEN_OR_OPEN = LOCKS | {SubjectKind.PRESENT, SubjectKind.RULE}
"""Kinds whose demands must hold before a host may run: a device that is missing, or whose rules are undecided, is not locked.
"""


def firmware(name: str) -> Subject:
    """Return the subject of a component, by its Id or a pattern of the baseline."""
    return Subject(kind=SubjectKind.FIRMWARE, name=name)


def function(slot: str) -> Subject:
    """Return the subject of a slot, by its SlotId."""
    return Subject(kind=SubjectKind.FUNCTION, name=slot)


def rule(name: str) -> Subject:
    """Return the subject of a rule of the baseline."""
    return Subject(kind=SubjectKind.RULE, name=name)


def lock_path(path: WritePath) -> Subject:
    """Return the subject of a write path that has to be blocked."""
    return Subject(kind=SubjectKind.LOCK_PATH, name=path.value)


def lock_mechanism(name: str) -> Subject:
    """Return the subject of one lock, by its mechanism."""
    return Subject(kind=SubjectKind.LOCK_MECHANISM, name=name)


def bmc_setting(bmc: str, setting: str) -> Subject:
    """Return the subject of a setting of a BMC, by its key in ``[bmc]``."""
    return Subject(kind=SubjectKind.BMC_SETTING, name=f'{setting} of {bmc}')


def card_setting(setting: str) -> Subject:
    """Return the subject of a setting of a card, by its key in ``[[rule]]``."""
    return Subject(kind=SubjectKind.CARD_SETTING, name=setting)


PRESENT = Subject(kind=SubjectKind.PRESENT)
ACCELERATORS = Subject(kind=SubjectKind.ACCELERATORS)
ANY_FUNCTION = Subject(kind=SubjectKind.ANY_FUNCTION)
RELOCK = Subject(kind=SubjectKind.RELOCK)
MEASUREMENTS = Subject(kind=SubjectKind.MEASUREMENTS)
CUSTODY = Subject(kind=SubjectKind.CUSTODY)
QUARANTINE = Subject(kind=SubjectKind.QUARANTINE)
JOB = Subject(kind=SubjectKind.JOB)
HOST = Subject(kind=SubjectKind.HOST)
