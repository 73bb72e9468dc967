# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does the page about malicious images and catalogues list what is tried, and nothing else?"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.malicious import test_catalogues, test_images, test_renamed, test_signatures, test_swapped, test_web


def names(table: Iterable[object]) -> list[str]:
    """What the cases of a table are called."""
    return [case if isinstance(case, str) else case[0].__name__.replace('_', ' ') for case in table]


TABLES = {
    'that are refused by the plan': test_images.TABLE,
    'changes after the check': test_swapped.TABLE,
    'other meanings of a planned name': test_renamed.TABLE,
    'other meanings of a way back': test_renamed.WAY_BACK,
    'signatures of an image': test_signatures.IMAGES,
    'that can never be right (code 2, before any BMC is asked)': test_catalogues.DOCUMENTS,
    'that must not be followed': test_catalogues.REFUSED,
    'signatures of the catalogue that prove nothing': test_signatures.FORGED,
    'files of signatures, trust roots and signed catalogues': test_signatures.BROKEN,
    'answers of a server that is allowed': test_web.LIES,
}
"""By what stands before each list."""


@pytest.mark.parametrize('heading', TABLES)
def test_the_page_lists_every_case_with_its_count(heading, tree: Path):
    """What is tried and not listed helps nobody; what is listed and not tried would be a lie."""
    cases = names(TABLES[heading])
    text = ' '.join((tree / 'doc' / 'source' / 'malicious.rst').read_text().split())
    _, found, rest = text.partition(f' {len(cases)} {heading}')
    assert found
    assert rest.partition(': ')[2].startswith('; '.join(cases) + '.')
