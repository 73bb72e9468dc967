# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The page about malicious images and catalogues lists what is tried, and nothing else."""

from pathlib import Path

import pytest

from tests.malicious.attack import Attack
from tests.malicious.test_classes import TABLES, cases, of_class


@pytest.fixture(scope='module')
def page(tree: Path) -> str:
    """The page on one line."""
    return ' '.join((tree / 'doc' / 'source' / 'contributor' / 'malicious.rst').read_text().split())


@pytest.mark.parametrize('heading', TABLES)
def test_the_page_lists_every_case_with_its_count(heading, page):
    """What is tried and not listed helps nobody; what is listed and not tried would be a lie."""
    names = [name for name, _ in cases(heading)]
    _, found, rest = page.partition(f' {len(names)} {heading}')
    assert found
    assert rest.partition(': ')[2].startswith('; '.join(names) + '.')


def test_the_page_counts_the_cases_of_each_class(page):
    """By class, as the issue asks for them, and the classes that it does not name."""
    for attack in Attack:
        assert f' * - {attack} - {len(of_class(attack))} ' in page
