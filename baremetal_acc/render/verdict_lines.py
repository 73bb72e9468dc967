# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render the verdict on a target as lines: the result first, then each demand that is not met, with one cause on each line."""

from collections.abc import Iterable, Iterator

from baremetal_acc.model.finding import PathState
from baremetal_acc.model.verdict import Finding, Verdict
from baremetal_acc.render import findings
from baremetal_acc.render.words import counted

AS_WANTED = 'as the baseline wants'

_MOST_PARTS = 20
"""Limit of the open parts that one finding lists; ``-f json`` has all of them."""


def result(verdict: Verdict) -> str:
    """Return the result in one line."""
    if not verdict.met:
        return not_wanted(len(verdict.unmet))
    if not verdict.findings:
        return f'{AS_WANTED}, which demands nothing of this target'
    return f'{AS_WANTED}: {counted(len(verdict.findings), "demand")} met'


def not_wanted(number: int) -> str:
    """Return the words for a verdict with findings that are not met."""
    return f'not {AS_WANTED}: {counted(number, "finding")}'


def unmet(found: Iterable[Finding]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield each finding as a sentence, and the causes where it has several."""
    for one in found:
        if not isinstance(one.fact, PathState) or len(one.fact.open) < 2:
            yield findings.sentence(one), ()
            continue
        expected, parts = findings.words(one.fact).expected, len(one.fact.open)
        head = f'{one.label}, {one.subject}: expected {expected}, and {parts} parts are not (rule {one.rule})'
        yield head, findings.open_parts(one.fact, _MOST_PARTS)
