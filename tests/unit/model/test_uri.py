# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What an operator may mean who names a System."""

import pytest

from baremetal_acc.model.ownership import Ownership
from baremetal_acc.model.uri import may_be_one_system, system_id, systems_meant

IDS = {'/r/Systems/1': 'Blade', '/r/Systems/2': '2', '/r/Systems/Blade': 'x', '/r/Systems/4': None}


@pytest.mark.parametrize(
    ('named', 'expected'),
    [
        ('2', ('/r/Systems/2',)),
        ('4', ('/r/Systems/4',)),
        ('x', ('/r/Systems/Blade',)),
        ('Blade', ('/r/Systems/1', '/r/Systems/Blade')),
        ('blade', ()),
        ('', ()),
        ('/r/Systems/9', ('/r/Systems/9',)),
        ('r//Systems/%39/', ('/r/Systems/9',)),
        ('/', ('/',)),
    ],
)
def test_a_system_is_meant_by_its_uri_or_by_its_id(named, expected):
    """A URI means itself; an Id what says it, or ends in it."""
    assert expected == systems_meant(named, IDS)


@pytest.mark.parametrize(
    ('named', 'expected'), [('2', '/r/Systems/2'), ('Blade', '/Blade'), ('9', '/9'), ('/r/Systems/9', '/r/Systems/9')]
)
def test_what_means_none_or_several_is_no_system(named, expected):
    """So that nothing is the target's."""
    assert expected == Ownership(machines=frozenset(IDS), ids=IDS).named(named)


@pytest.mark.parametrize(
    ('one', 'other', 'same'),
    [
        ('1', '1', True),
        ('1', '2', False),
        ('1', '/r/Systems/1/', True),
        ('/r/Systems/1', 'r/Systems/1', True),
        ('/r/Systems/1', '/s/Systems/1', False),
    ],
)
def test_two_names_may_be_those_of_one_system(one, other, same):
    """A URI and an Id by what the URI ends in; two URIs only if they are one."""
    assert same is may_be_one_system(one, other) is may_be_one_system(other, one)
    assert not same or system_id(one) == system_id(other)
