# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A pool file means what it says, what it cannot mean is refused, and what is short is told in a line."""

from datetime import timedelta

import pytest

from baremetal_acc.errors import DocumentError
from baremetal_acc.scheduling.pools import AT_A_TIME, DEMAND_LASTS, REST, Pool, Pools, Short, parse


def test_a_pool_file_says_goals_and_limits():
    """Names come by themselves, and so do the limits."""
    text = 'format = 1\n[[pool]]\nfunction = "gzip"\nfree = 4\n'
    assert Pools(
        pools=(Pool(name='pool-1', function='gzip', free=4),), rest=REST, demand_lasts=DEMAND_LASTS, at_a_time=AT_A_TIME
    ) == parse(text, 'pools.toml')
    full = (
        'format = 1\nrest_seconds = 0\ndemand_seconds = 60\nmachines_at_a_time = 1\nmove_seconds = 90\n'
        '[[pool]]\nname = "p"\nfunction = "aes"\n'
        'free = 0\nspare = 2\nresource_class = "gold*"\nowner = "p1"\nmachines_at_a_time = 1\n'
    )
    assert Pools(
        pools=(Pool(name='p', function='aes', free=0, spare=2, resource_class='gold*', owner='p1', at_a_time=1),),
        rest=timedelta(0),
        demand_lasts=timedelta(minutes=1),
        at_a_time=1,
        move_lasts=timedelta(seconds=90),
    ) == parse(full, 'pools.toml')


def test_the_sample_is_a_pool_file(tree):
    """An operator copies it, and changes it; what it says of what is usual is so."""
    found = parse((tree / 'etc/baremetal_acc/pools.toml').read_text(), 'pools.toml')
    assert [('gzip on gold', 8, 2, 'gold*', 2), ('aes', 4, 0, None, None)] == [
        (p.name, p.free, p.spare, p.resource_class, p.at_a_time) for p in found.pools
    ]
    assert Pools(pools=found.pools) == found


@pytest.mark.parametrize(
    ('text', 'what'),
    [
        ('format = 2\n', 'format = 1 expected, 2 found'),
        ('format = 1\n[[pool]]\nfree = 1\n', 'function is missing'),
        ('format = 1\n[[pool]]\nfunction = "a"\n', 'free is missing'),
        ('format = 1\n[[pool]]\nfunction = "a"\nfree = -1\n', 'free'),
        ('format = 1\n[[pool]]\nfunction = "a"\nfree = 1\nfre = 1\n', 'fre'),
        ('format = 1\nmachines_at_a_time = 0\n', 'machines_at_a_time'),
        ('format = 1\n[[pool]]\nfunction = "a"\nfree = 1\nmachines_at_a_time = 0\n', 'machines_at_a_time'),
        ('format = 1\nhurry = 1\n', 'hurry'),
        (
            'format = 1\n' + '[[pool]]\nname = "x"\nfunction = "a"\nfree = 1\n' * 2,
            "name: two pools are named 'x'",
        ),
    ],
)
def test_what_a_pool_file_cannot_mean_is_refused(text, what):
    """With file and key."""
    with pytest.raises(DocumentError) as failed:
        parse(text, 'pools.toml')
    assert what in str(failed.value)
    assert 'pools.toml' in str(failed.value)


def test_what_is_short_is_told_in_a_line():
    """Who, how many regions of what, and why: the same by pool plan and by pool watch."""
    short = Short(who='pool gzip on gold', function='gzip', missing=2, why='machines_at_a_time = 4 is reached')
    assert 'pool gzip on gold: 2 gzip missing: machines_at_a_time = 4 is reached' == str(short)
