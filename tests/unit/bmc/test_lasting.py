# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The digest of a resource changes with some of its properties, and not with others."""

import pytest

from baremetal_acc.bmc.resource_digest import BY_ITSELF, digest, tells_as_much

ROOT_OF_TRUST = {
    '@odata.etag': '"1"',
    'Id': 'HGX_ERoT_GPU_0',
    'Status': {'State': 'Enabled', 'Health': 'OK'},
    'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': False, 'BackgroundCopyStatus': 'Completed'}},
    'Sensors': [{'Reading': 40, 'Name': 'Temperature'}],
    'LastResetTime': '2026-11-22T10:00:00Z',
}


@pytest.mark.parametrize(
    'changes',
    [
        {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': True, 'BackgroundCopyStatus': 'Completed'}}},
        {'Oem': {'Nvidia': {'BackgroundCopyStatus': 'Completed'}}},
        {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': None, 'BackgroundCopyStatus': 'Completed'}}},
        {'Status': {'State': 'Enabled', 'Health': 'Critical'}},
        {'Id': 'HGX_ERoT_GPU_1'},
        {'Sensors': []},
        {'WriteProtected': False},
    ],
)
def test_what_a_card_says_of_itself_and_of_its_locks_is_told(changes):
    """Another value, a value that is gone, and one that has come: each gives another digest."""
    assert digest(ROOT_OF_TRUST) != digest(ROOT_OF_TRUST | changes)


def test_what_changes_by_itself_is_not_told():
    """Clocks, readings and ETags; and the order of properties says nothing."""
    later = ROOT_OF_TRUST | {
        '@odata.etag': '"2"',
        'LastResetTime': '2026-11-22T11:00:00Z',
        'Sensors': [{'Reading': 60, 'Name': 'Temperature'}],
    }
    assert digest(ROOT_OF_TRUST) == digest(dict(reversed(later.items())))


def test_no_property_that_a_lock_a_version_or_an_identity_is_read_from_is_left_out():
    """The names are those of the mechanisms and of the parser."""
    read = {
        'WriteProtected', 'ProgrammableFromHost', 'InbandUpdatePolicyEnabled', 'HostRshim', 'Attributes', 'Version',
        'FirmwareVersion', 'SoftwareId', 'UUID', 'SerialNumber', 'Model', 'PartNumber', 'Status', 'FPGA', 'Links', 'Oem',
        'InterfaceEnabled', 'ServiceEnabled', 'State', 'Health', 'Updateable',
    }  # fmt: skip
    assert not read & BY_ITSELF


@pytest.mark.parametrize(
    ('other', 'as_much'),
    [
        (ROOT_OF_TRUST, True),
        (ROOT_OF_TRUST | {'Actions': {}, '@odata.etag': '"9"'}, True),
        (ROOT_OF_TRUST | {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': True, 'BackgroundCopyStatus': 'Completed'}}}, False),
        (ROOT_OF_TRUST | {'Oem': {'Nvidia': {'InbandUpdatePolicyEnabled': 0, 'BackgroundCopyStatus': 'Completed'}}}, False),
        (ROOT_OF_TRUST | {'Oem': {'Nvidia': {'BackgroundCopyStatus': 'Completed'}}}, False),
        (ROOT_OF_TRUST | {'Oem': None}, False),
        (ROOT_OF_TRUST | {'Sensors': []}, False),
        ({}, False),
    ],
)
def test_an_answer_tells_as_much_if_it_says_all_of_the_other_with_the_same_values(other, as_much):
    """More may be in it; nothing may be missing, or be something else."""
    assert as_much is tells_as_much(other, ROOT_OF_TRUST)
