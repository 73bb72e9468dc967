# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render what is told below the table of a plan: notes, each once for all cards that it is about.

What the table has already (the rule that demands a write), what is marked (:mod:`baremetal_acc.render.marks`), and what the
summary says has no note.
"""

from collections.abc import Iterable

from baremetal_acc.model.note import Demanded, LeftOpen, LessThanDefault, Note, NothingToDo, NotMended
from baremetal_acc.render import notes as in_words
from baremetal_acc.render.similar import grouped, merged, named, shape

_ELSEWHERE = (Demanded, LeftOpen, LessThanDefault, NothingToDo)


def noted(notes: Iterable[Note], target: str, *, long: bool, with_unmet: bool) -> tuple[str, ...]:
    """Return the notes as lines.

    :param long: notes that differ only in numbers are not merged.
    :param with_unmet: include the findings that no action fixes; an error that lists all findings has them already.
    """
    without = _ELSEWHERE if with_unmet else (*_ELSEWHERE, NotMended)
    told = [(note.label, in_words.text(note.content)) for note in notes if not isinstance(note.content, without)]
    return tuple(_line(group, target) for group in grouped(told, lambda n: n if long else shape(n[1])))


def _line(group: list[tuple[str, str]], target: str) -> str:
    """One line for the notes of several devices: their labels, and the text that they share."""
    which = named(label for label, _ in group if label != target)
    return f'note: {which}{": " if which else ""}{merged([text for _, text in group])}'
