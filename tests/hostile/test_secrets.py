# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The text of a BMC is shown without our secrets, wherever it is cut."""

from baremetal_acc.bmc.redfish.extended_info import LONGEST, said
from tests.hostile.mutate import PASSWORD


def test_no_half_of_a_password_is_left_where_a_text_is_cut():
    """A BMC repeats the password just where its text is cut: what was redacted afterwards kept the first half."""
    for before in range(LONGEST - len(PASSWORD) - 3, LONGEST + 3):
        body = {'error': {'message': 'x' * before + PASSWORD}}
        assert PASSWORD[:3] not in said(body, lambda text: text.replace(PASSWORD, '***')).text


def test_what_a_bmc_says_is_shown_as_it_is_where_there_is_nothing_to_hide():
    """Nothing else is taken out."""
    assert 'no such thing' == said({'error': {'message': ' no such\nthing '}}).text
