# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Parsing removes everything malformed from a resource, and reports it."""

from typing import Any

import pytest

from baremetal_acc.bmc.redfish.extended_info import objection, said, short
from baremetal_acc.bmc.redfish.parse import ResourceView, uuid_of, version_of
from baremetal_acc.bmc.redfish.pcie_function import class_code, pci_id, pci_ids
from baremetal_acc.model.inventory import Gap
from baremetal_acc.model.ref import HOST, Ref
from baremetal_acc.model.uri import normal

REF = Ref(bmc=HOST, uri='/redfish/v1/X')


def view(**body: Any) -> ResourceView:
    """A resource."""
    return ResourceView(REF, body, [])


@pytest.mark.parametrize(
    ('value', 'found', 'gaps'),
    [
        ('  MT1234   ', 'MT1234', 0),
        ('a\x00b\x1b[31m', 'a b [31m', 0),
        ('', None, 0),
        ('N/A', None, 0),
        ('nil', None, 0),
        ('0000-00', None, 0),
        (None, None, 0),
        (42, '42', 1),
        (True, None, 1),
        ([], None, 1),
        ({}, None, 1),
        (1.5, None, 1),
        ('x' * 300, 'x' * 256, 1),
    ],
)
def test_a_text_is_stripped_and_what_is_none_is_a_gap(value: Any, found: str | None, gaps: int) -> None:
    """Null is legal; a wrong type is odd, and named with its place."""
    seen = view(P=value)
    assert (found, gaps) == (seen.text('P'), len(seen.gaps))
    assert all(gap.ref == REF and gap.field == 'P' for gap in seen.gaps)


@pytest.mark.parametrize(
    ('value', 'found'),
    [('96.00.A6.00.01  ', '96.00.A6.00.01'), ('0', '0'), ('N/A', None), ('version not available', None), ('-*', None)],
)
def test_a_version_is_stripped_and_a_sentinel_is_none(value: str, found: str | None) -> None:
    """Seen in the recordings. Zero is a version."""
    assert found == version_of(view(Version=value), 'Version')


@pytest.mark.parametrize(
    ('value', 'is_one'),
    [
        ('Updating', False),
        ('Initializing...', False),
        ('Update in progress', False),
        ('00.00.00.00.00', False),
        ('0.0.0', False),
        ('0.0', True),
        ('0', True),
        ('0.0.1', True),
        ('Updating1', True),
    ],
)
def test_what_stands_in_the_place_of_a_version_during_an_update_is_none(value: str, is_one: bool) -> None:
    """Nobody shows them as versions of what runs; no public report of just this."""
    assert (value if is_one else None) == version_of(view(Version=value), 'Version')


@pytest.mark.parametrize(
    ('value', 'found'),
    [
        ('0x10de', '0x10de'),
        ('0X10DE', '0x10de'),
        ('10DE', '0x10de'),
        ('4139', '0x102b'),
        (4318, '0x10de'),
        ('0x0000', None),
        ('0xFFFF', None),
        ('', None),
        (None, None),
        ('x', None),
        (True, None),
        ([], None),
        ('0x123456', None),
        (-1, None),
    ],
)
def test_a_pci_id_has_one_form(value: Any, found: str | None) -> None:
    """Upper case, decimal text and numbers were all seen; sentinels are none."""
    assert found == pci_id(view(VendorId=value), 'VendorId')


@pytest.mark.parametrize(
    ('value', 'found'),
    [('0x030200', '0x030200'), ('0X030200', '0x030200'), ('0x000003', None), ('0x000000', None), ('x', None), (None, None)],
)
def test_a_class_code_in_the_wrong_byte_order_is_none(value: Any, found: str | None) -> None:
    """0x000003 was seen for a GPU and for a BMC's video chip."""
    assert found == class_code(view(ClassCode=value))


def test_an_address_needs_bus_device_and_function() -> None:
    """The standard's texts; the segment is 0 when it is not said."""
    whole = {'BusNumber': '0x1b', 'DeviceNumber': '0x00', 'FunctionNumber': '0x1'}
    assert '0000:1b:00.1' == pci_ids(view(**whole)).address
    assert '0002:1b:00.1' == pci_ids(view(SegmentNumber='0x0002', **whole)).address
    assert pci_ids(view(BusNumber='0x1b')).address is None


@pytest.mark.parametrize(
    ('value', 'found'),
    [
        ('AD524B88-E960-F81D-C7F5-C75C969131A2', 'ad524b88-e960-f81d-c7f5-c75c969131a2'),
        ('00000000-0000-0000-0000-000000000000', None),
        ('a47ad405f110d855c91a25cc0dfad09', None),
        ('', None),
        (7, None),
    ],
)
def test_a_uuid_has_one_form(value: Any, found: str | None) -> None:
    """31 digits were seen; they are no UUID."""
    assert found == uuid_of(view(UUID=value), 'UUID')


def test_links_of_odd_shapes_are_gaps_and_the_good_ones_stay() -> None:
    """A string where a link belongs, a null, a number."""
    seen = view(
        Links={'A': [{'@odata.id': '/a'}, None, 'x', {'@odata.id': 7}, {'@odata.id': '/a'}], 'B': 'x', 'C': {'@odata.id': '/c'}}
    )
    assert (('/a',), (), ('/c',)) == (seen.links('Links', 'A'), seen.links('Links', 'B'), seen.links('Links', 'C'))
    assert ['Links/A/1', 'Links/A/2', 'Links/A/3', 'Links/B'] == [gap.field for gap in seen.gaps]


def test_an_array_keeps_its_positions() -> None:
    """A slot is addressed by its position: a null before it does not move it."""
    slots = view(FPGA={'Slots': [None, {'SlotId': 'S1'}]}).parts('FPGA', 'Slots')
    assert slots[0] is None
    assert slots[1] is not None
    assert ('S1', 'FPGA/Slots/1') == (slots[1].text('SlotId'), slots[1].at)


def test_the_same_oddity_is_said_once() -> None:
    """However often it is read."""
    seen = view(P=[])
    seen.text('P')
    seen.text('P')
    assert [Gap(ref=REF, field='P', reason='text expected, an array found')] == seen.gaps


@pytest.mark.parametrize(
    ('uri', 'found'),
    [('/redfish/v1/', '/redfish/v1'), ('/a//b/', '/a/b'), ('/a#/b', '/a'), ('/a?$skip=1', '/a'), ('/', '/')],
)
def test_a_resource_has_one_key(uri: str, found: str) -> None:
    """Slashes, queries and fragments do not make another resource."""
    assert found == normal(uri)


@pytest.mark.parametrize(
    ('body', 'text'),
    [
        ({'error': {'message': 'plain'}}, 'plain'),
        ({'error': 'text'}, 'text'),
        ({'error': {'@Message.ExtendedInfo': [{'Message': 'one'}, {'Message': 'two'}, {'Message': 'one'}]}}, 'one; two'),
        ({'@Message.ExtendedInfo': {'MessageId': 'Base.1.0.Success'}}, 'Base.1.0.Success'),
        ({'WriteProtected@Message.ExtendedInfo': [{'Message': 'not writable'}]}, 'not writable'),
        ([], ''),
        (None, ''),
        (7, ''),
        ('just text', 'just text'),
        ({'error': {'@Message.ExtendedInfo': [None, 7, [], {'Message': []}]}}, ''),
    ],
)
def test_what_an_error_says(body: object, text: str) -> None:
    """Whatever its shape."""
    assert text == said(body).text


CRITICAL = {'Message': 'no', 'MessageSeverity': 'Critical'}
INFO = '@Message.ExtendedInfo'


@pytest.mark.parametrize(
    ('body', 'text', 'fails'),
    [
        ({'Messages': [CRITICAL]}, 'no', True),
        ({'Messages': [{'Message': 'no', 'Severity': 'Critical'}]}, 'no', True),
        ({'Messages': [{'Message': 'no', 'Severity': 'CRITICAL '}]}, 'no', True),
        ({'Messages': [{'MessageId': 'Update.1.2.ApplyFailed', 'Severity': 'Warning'}]}, 'Update.1.2.ApplyFailed', True),
        ({'Messages': [{'MessageId': 'Update.1.2.ApplyFailed', 'Severity': 'OK'}]}, None, False),
        ({'Messages': [{'Message': 'slow', 'Severity': 'Warning'}]}, 'slow', False),
        ({'Messages': [{'Message': 'all went well', 'Severity': 'OK'}, CRITICAL]}, 'no', True),
        ({INFO: [CRITICAL]}, 'no', True),
        ({INFO: CRITICAL}, 'no', True),
        ({f'Targets{INFO}': [CRITICAL]}, 'no', True),
        ({'Oem': {'Maker': [{f'Lock{INFO}': [CRITICAL]}]}}, 'no', True),
        ({'error': {INFO: [CRITICAL]}}, 'no', True),
        ({'error': {'Messages': [CRITICAL]}}, 'no', True),
        ({'error': {'code': 'Base.1.8.GeneralError', 'message': 'see below'}}, 'see below', True),
        ({'error': {'code': 'Maker.1.0.ExtendedInfo', 'message': 'The update failed.'}}, 'The update failed.', True),
        ({'error': {'code': 'Maker.1.0.ExtendedInfo', INFO: [{'MessageId': 'Maker.1.0.Success'}]}}, None, False),
        ({'error': {'code': 'Maker.1.0.ExtendedInfo', INFO: [{'MessageId': 'Maker.1.0.UpdateInProgress'}]}}, None, False),
        ({'error': 'Image signature is invalid'}, 'Image signature is invalid', True),
        ({'error': ''}, None, False),
        ({'error': None}, None, False),
        ({INFO: [{'MessageId': 'Base.1.8.Success'}]}, None, False),
        ({INFO: [{'Message': 'Done with 0 errors, without failure'}]}, None, False),
        ({INFO: [{'Message': 'verification failed'}]}, 'verification failed', True),
        # That a restart is needed is no failure, whatever its severity.
        ({INFO: [{'MessageId': 'Base.1.8.ResetRequired', 'MessageSeverity': 'Critical'}]}, 'Base.1.8.ResetRequired', False),
        ({INFO: [{'Message': 'a reboot is required', 'Severity': 'Critical'}]}, 'a reboot is required', False),
        (
            {INFO: [{'Message': 'it failed; a reboot is required', 'Severity': 'Critical'}]},
            'it failed; a reboot is required',
            True,
        ),
        ({INFO: [CRITICAL, {'MessageId': 'Base.1.8.Success'}, CRITICAL]}, 'no', True),
        ({INFO: [None, 7, [], {'Message': [], 'Severity': []}], 'Messages': 'x'}, None, False),
        ({'Messages': {'Severity': 'Critical'}}, None, False),
        ({'TaskState': 'Running'}, None, False),
        ([CRITICAL], None, False),
        (None, None, False),
    ],
)
def test_what_an_answer_of_success_says_against_the_request(body: object, text: str | None, fails: bool) -> None:
    """Wherever it stands; what is informational is left out."""
    found = objection(body)
    assert (text, fails) == ((None, False) if found is None else (found.text, found.fails))


def test_an_answer_of_success_is_searched_within_bounds_and_shows_no_secret() -> None:
    """However deep and however wide it is."""
    deep: Any = {INFO: [CRITICAL]}
    for _ in range(100_000):
        deep = {'a': deep}
    assert objection(deep) is None
    assert objection({'a': [{}] * 1_000_000}) is None
    found = objection(
        {'Messages': [{'Message': 'secret ' * 1000, 'Severity': 'Critical'}]}, lambda t: t.replace('secret', '***')
    )
    assert found is not None
    assert ('*** *** ', 300) == (found.text[:8], len(found.text))


def test_a_text_is_short_and_on_one_line() -> None:
    """300 characters, printable."""
    assert ('a b', 300, '') == (short('a\n\tb\x00'), len(short('x' * 10_000)), short({}))
