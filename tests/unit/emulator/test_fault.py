# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which fault rule is for what, and how often?"""

import pytest

from baremetal_acc.emulator.fault import NAMES, BadFault, Faults


def test_a_rule_fits_by_globs_and_only_what_it_names():
    """A rule for a device does not touch what belongs to no device."""
    faults = Faults()
    faults.add({'name': 'slow', 'device': 'GPU_*', 'uri': '/redfish/v1/Chassis/*'})
    assert faults.find('slow', bmc='host', device='GPU_1', uri='/redfish/v1/Chassis/HGX_GPU_1')
    assert None is faults.find('slow', bmc='host', device='FPGA1', uri='/redfish/v1/Chassis/x')
    assert None is faults.find('slow', bmc='host', device=None, uri='/redfish/v1/Chassis/x')
    assert None is faults.find('slow', bmc='host', device='GPU_1', uri='/redfish/v1/Systems/x')


def test_a_count_is_used_up_and_looking_does_not_use_it():
    """Looking at a rule for what is shown must not spend it."""
    faults = Faults()
    faults.add({'name': 'refuse', 'count': 1})
    assert faults.find('refuse', bmc='host', use=False)
    assert faults.find('refuse', bmc='host')
    assert None is faults.find('refuse', bmc='host')
    assert [1] == [rule['hits'] for rule in faults.describe()]


@pytest.mark.parametrize(
    ('rule', 'words'),
    [
        ({'name': 'sloow'}, 'unknown fault'),
        ({}, 'unknown fault'),
        ({'name': 'slow', 'second': 1}, "unknown parameter 'second'"),
        ({'name': 'slow', 'seconds': 'long'}, 'seconds must be a number'),
        ({'name': 'slow', 'seconds': True}, 'seconds cannot be'),
        ({'name': 'refuse', 'after': 1}, 'after cannot be'),
        ({'name': 'slow', 'count': 0}, 'count must be'),
        ({'name': 'slow', 'uri': 3}, 'uri must be a glob'),
        ({'name': 'version-lies', 'version': 3}, 'version must be a text'),
    ],
)
def test_a_rule_that_cannot_be_is_refused_and_names_the_item(rule, words):
    """A misspelt fault that silently does nothing would make a test pass that shows nothing."""
    with pytest.raises(BadFault, match=words):
        Faults().add(rule)


@pytest.mark.parametrize('name', sorted(NAMES))
def test_every_name_can_be_added_with_its_defaults_and_taken_away(name):
    """The table of names is what the documentation promises."""
    faults = Faults()
    rule = faults.add({'name': name})
    assert dict(NAMES[name][0]) == rule.parameters
    assert 1 == faults.remove(rule.id)
    assert not faults.any(name)
