# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A PCI address has one normal form, however it is written, and a pattern is one over normal forms."""

from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from baremetal_acc.model import pci_address

PARTS = st.tuples(st.integers(0, 0xFFFF), st.integers(0, 0xFF), st.integers(0, 0x1F), st.integers(0, 0xFF))


@given(parts=PARTS, zeros=st.tuples(st.booleans(), st.booleans(), st.booleans()), capitals=st.booleans(), left=st.booleans())
def test_all_ways_to_write_an_address_have_one_normal_form(parts, zeros, capitals, left):
    """Zeros in front, case, and a domain 0 that is left out do not count; the normal form is its own."""
    domain, bus, device, function = parts
    expected = pci_address.write(domain=domain, bus=bus, device=device, function=function)
    written = f'{domain:0{8 if zeros[0] else 1}x}:{bus:0{2 if zeros[1] else 1}x}:{device:0{2 if zeros[2] else 1}x}.{function:x}'
    if left and domain == 0:
        written = written.partition(':')[2]
    written = written.upper() if capitals else written
    assert expected == pci_address.normal(written) == pci_address.normal(expected) == pci_address.pattern(written)


@pytest.mark.parametrize(
    'text',
    [
        '',
        '17',
        '17:00',
        '0000:17:00',
        '17:00.',
        '17:20.0',
        '10000:17:00.0',
        '117:00.0',
        '0x17:00.0',
        '17.00.0',
        'g7:00.0',
        '1:2:3:4.0',
    ],
)
def test_what_is_no_address_has_no_normal_form(text):
    """Nor is it a pattern."""
    assert (None, None) == (pci_address.normal(text), pci_address.pattern(text))


@pytest.mark.parametrize(
    ('text', 'matches', 'does_not'),
    [
        ('17:00.*', ('0000:17:00.0', '0000:17:00.1f'), ('0001:17:00.0', '0000:17:01.0')),
        ('0:17:00.[01]', ('0000:17:00.0', '0000:17:00.1'), ('0000:17:00.2',)),
        ('5:0.*', ('0000:05:00.0',), ('0000:50:00.0',)),
        ('*:1B:00.0', ('0000:1b:00.0', '0001:1b:00.0'), ('0000:1c:00.0',)),
        ('1?:00.0', ('0000:17:00.0',), ('0000:27:00.0',)),
        ('17:*', ('0000:17:00.0', '0000:17:1f.7'), ('0000:18:17.0',)),
    ],
)
def test_a_pattern_is_over_normal_forms(text, matches, does_not):
    """Without a domain it is for domain 0, as an address without one is."""
    pattern = pci_address.pattern(text)
    assert all(fnmatchcase(address, pattern) for address in matches)
    assert not any(fnmatchcase(address, pattern) for address in does_not)


@pytest.mark.parametrize('text', ['*', '17*', '*.0', 'a:b:c:*'])
def test_a_pattern_has_all_parts_of_an_address(text):
    """Else nobody could tell which part a number is of."""
    assert pci_address.pattern(text) is None
