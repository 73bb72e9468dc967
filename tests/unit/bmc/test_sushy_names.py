# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The names of sushy that its subclasses of ours use, private ones among them, are there."""

import inspect
from importlib.metadata import version
from types import ModuleType

import pytest
import sushy.auth

from baremetal_acc.bmc.redfish import login
from tests.support import inherited

PAIRS = {'login': (login, 'Login', sushy.auth, 'AuthBase')}

WAYS_IN = {'login': {'_do_authenticate', 'can_refresh_session'}}
"""Methods of sushy that are ours instead."""


def wrong(ours: ModuleType, name: str, theirs: str, base: str, ways_in: set[str]) -> list[str]:
    """What a source of sushy has not got of what our class rests on."""
    mine, there = inherited.members(inspect.getsource(ours), name), inherited.members(theirs, base)
    return [
        *(f'{base} has no {one}' for one in sorted(inherited.missing(mine, there))),
        *(f'{base} has no {one} to replace' for one in sorted(ways_in - there.defined)),
        *(f'{method} of {base} uses {one}, which nobody sets' for method, one in inherited.unset(mine, there)),
    ]


@pytest.mark.parametrize('pair', PAIRS)
def test_the_names_of_sushy_that_we_rely_on_are_there(pair):
    """By the source of the release that is installed."""
    ours, name, theirs, base = PAIRS[pair]
    found = wrong(ours, name, inspect.getsource(theirs), base, WAYS_IN[pair])
    todo = f'Read what {theirs.__name__} does now, and make {ours.__name__} fit it, or bound sushy in setup.cfg'
    assert [] == found, f'sushy {version("sushy")}: {"; ".join(found)}. {todo}.'


@pytest.mark.parametrize(
    ('pair', 'old', 'new', 'says'),
    [
        ('login', '_username', '_user', 'AuthBase has no _username'),
        ('login', '_do_authenticate', '_log_in', 'AuthBase has no _do_authenticate to replace'),
    ],
)
def test_a_name_that_changed_is_found(pair, old, new, says):
    """One that we use, and one that is ours instead."""
    ours, name, theirs, base = PAIRS[pair]
    source = inspect.getsource(theirs)
    assert old in source
    assert says in wrong(ours, name, source.replace(old, new), base, WAYS_IN[pair])
