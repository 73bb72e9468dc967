# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which addresses are one BMC, by what they say and by what their names lead to."""

import socket

import pytest

from baremetal_acc.cli import address_match


@pytest.fixture
def names(monkeypatch):
    """A system that knows some names, and counts what it is asked."""
    known = {'bmc7': ['192.0.2.7', '2001:db8::7'], 'localhost': ['127.0.0.1', '::1']}
    asked = []
    real = socket.getaddrinfo

    def getaddrinfo(host, port, *rest, flags=0, **more):
        if flags & socket.AI_NUMERICHOST or host[:1].isdigit() or ':' in host:
            return real(host, port, *rest, flags=flags | socket.AI_NUMERICHOST, **more)
        asked.append(host)
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, 'Name or service not known')
        return [(0, 0, 0, '', (address, 0)) for address in known[host]]

    monkeypatch.setattr(socket, 'getaddrinfo', getaddrinfo)
    return asked


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('ipmi://localhost:8460', 'ipmi://127.0.0.1:8460'),
        ('ipmi://localhost:8460', 'ipmi://[::1]:8460'),
        ('https://LOCALHOST./', 'https://127.0.0.1:443'),
        ('ipmi://192.0.2.7', 'ipmi://192.0.2.7:623'),
        ('https://192.0.2.7', 'https://192.0.2.7:443/'),
        ('https://[2001:db8::7]', 'https://[2001:0db8:0:0::7]:443'),
        ('https://[::ffff:192.0.2.7]', 'https://192.0.2.7'),
        ('ipmi://127.1', 'ipmi://127.0.0.1'),
        ('https://192.0.2.7:8443', 'ipmi://192.0.2.7:8443'),
        ('https://BMC7', 'https://bmc7.'),
        ('https://bmc8', 'https://bmc8:443'),
    ],
)
def test_spellings_of_one_address_are_one_bmc_without_looking_up_names(names, one, other):
    """In a list of ten thousand targets no name is looked up."""
    assert address_match.written(one) & address_match.written(other)
    assert [] == names
    assert address_match.resolved(one) & address_match.resolved(other)


@pytest.mark.parametrize(('one', 'other'), [('https://bmc7', 'https://192.0.2.7'), ('ipmi://bmc7:623', 'ipmi://[2001:db8::7]')])
def test_a_name_is_where_it_leads_to(names, one, other):
    """Only there where somebody has to look it up."""
    assert not address_match.written(one) & address_match.written(other)
    assert address_match.resolved(one) & address_match.resolved(other)


@pytest.mark.parametrize(
    ('one', 'other'),
    [
        ('https://192.0.2.7', 'https://192.0.2.8'),
        ('https://192.0.2.7', 'https://192.0.2.7:8443'),
        ('https://bmc7', 'https://bmc7:8443'),
        ('https://bmc8', 'https://bmc9'),
        ('https://bmc8', 'https://192.0.2.7'),
        ('ipmi://127.0.0.2', 'ipmi://localhost'),
        ('https://' + 'a' * 70, 'https://' + 'b' * 70),
    ],
)
def test_other_addresses_are_other_bmcs(names, one, other):
    """A name that leads nowhere stands for itself."""
    assert not address_match.written(one) & address_match.written(other)
    assert not address_match.resolved(one) & address_match.resolved(other)
