# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The refusals and notes of a plan as people read them."""

from collections.abc import Iterable
from typing import NamedTuple

from baremetal_acc.model.note import Note
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.render import notes as notes_in_words
from baremetal_acc.render import refusals as render


class Told(NamedTuple):
    """One refusal in words."""

    accelerator: AcceleratorId | None
    label: str
    subject: str
    reason: str


def refused(made: Plan) -> tuple[Told, ...]:
    """All of a plan, in the order in which documents list them."""
    return tuple(
        Told(one.accelerator, one.label, str(one.subject), render.reason(one.reason)) for one in render.in_order(made.refusals)
    )


def reasons(made: Plan) -> list[str]:
    """Only why."""
    return [one.reason for one in refused(made)]


def sentences(made: Plan) -> list[str]:
    """Whole sentences."""
    return [render.sentence(one) for one in render.in_order(made.refusals)]


class ToldNote(NamedTuple):
    """One note in words."""

    label: str
    text: str


def notes(found: Iterable[Note]) -> list[ToldNote]:
    """Sorted by label and text."""
    return sorted(ToldNote(note.label, notes_in_words.text(note.content)) for note in found)
