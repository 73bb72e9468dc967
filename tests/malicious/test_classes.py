# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Each class of attacks that is asked for has twenty malicious cases, counted over all tables, each case once."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from tests.malicious import (
    test_catalogues,
    test_images,
    test_late,
    test_renamed,
    test_signatures,
    test_swapped,
    test_threshold,
    test_web,
)
from tests.malicious.attack import NAMED, Attack

LEAST = 20

TABLES = {
    'images that the plan refuses': test_images.TABLE,
    'changes after the check': test_swapped.TABLE,
    'other meanings of a planned name': test_renamed.TABLE,
    'other meanings of the name of a restore image': test_renamed.WAY_BACK,
    'expiries between the check and the push': test_late.BETWEEN,
    'expiries between a failed flash and the write of the restore image': test_late.BACK,
    'signatures of an image': test_signatures.IMAGES,
    'catalogues that are not valid (code 2, before baremetal-acc connects to a BMC)': test_catalogues.DOCUMENTS,
    'catalogues that must not be used': test_catalogues.REFUSED,
    'signatures of the catalogue that prove nothing': test_signatures.FORGED,
    'files of signatures, trust roots and signed catalogues': test_signatures.BROKEN,
    'catalogues that are not the newest': test_signatures.OLDER,
    'catalogues that too few keys have signed': test_threshold.SHORT,
    'thresholds that cannot be met or are not the configured one': test_threshold.IMPOSSIBLE,
    'baselines that are not signed as required': test_threshold.BASELINES,
    'answers of a server that is allowed': test_web.LIES,
    'answers about another file than the wanted image': test_web.OTHERS,
    'servers that send something else later': test_web.LATER,
    'servers that send a few bytes now and then': test_web.DRIPS,
    'certificates of a server': test_web.CERTIFICATES,
    'servers that get no request': test_web.FOREIGN,
}
"""All cases, by what stands before their list on the page."""


def cases(heading: str) -> Iterator[tuple[str, Attack]]:
    """What the cases of a table are called, and their classes."""
    table = TABLES[heading]
    if isinstance(table, Mapping):
        yield from ((str(name), row[0]) for name, row in table.items())
    else:
        yield from ((row[1].__name__.replace('_', ' '), row[0]) for row in table)


def of_class(attack: Attack) -> list[tuple[str, str]]:
    """The cases of a class, with the headings of their tables."""
    return [(name, heading) for heading in TABLES for name, of in cases(heading) if of is attack]


@pytest.mark.parametrize('attack', NAMED, ids=[attack.name for attack in NAMED])
def test_there_are_at_least_twenty_distinct_ones_of_each_class(attack):
    """As many as the issue asks for. What is none of its classes does not count, and no name counts twice."""
    found = {name for name, _ in of_class(attack)}
    assert len(found) >= LEAST, f'{len(found)} distinct cases of class "{attack}", {LEAST} are asked for'


@pytest.mark.parametrize('attack', NAMED, ids=[attack.name for attack in NAMED])
def test_no_two_cases_of_a_class_are_called_alike(attack):
    """In whatever tables they stand: a case that is there twice is found by its name."""
    found = sorted(of_class(attack))
    assert [] == [pair for pair in pairwise(found) if pair[0][0] == pair[1][0]]


def test_there_are_the_eleven_classes_of_the_issue():
    """None of them is dropped, and none is made up to be counted."""
    asked = (
        'wrong card, downgrade, revoked, expired, bit-flipped, swapped between check and push, truncated, oversized, '
        'path traversal, redirect to another host, forged signature'
    )
    assert asked == ', '.join(NAMED)
