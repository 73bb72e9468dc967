# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a refusal means to all but the driver, and what follows from it."""

import pickle
from http import HTTPStatus
from types import SimpleNamespace

import pytest

from baremetal_acc.bmc.ipmi.command import CommandRefused, CompletionCode
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.errors import BmcRefusalReason, BmcRefused, is_not_found
from baremetal_acc.execution.retry_policy import is_changing, took_nothing

RAW = SimpleNamespace(label='host (ipmi://192.0.2.1)')
OWN = {404: BmcRefusalReason.NOT_FOUND, 410: BmcRefusalReason.GONE, 409: BmcRefusalReason.CONFLICT}


def http(status):
    return HttpRefused(bmc='host', uri='/redfish/v1', what='no', status=status)


@pytest.mark.parametrize('status', [*sorted(map(int, HTTPStatus)), 419, 499, 599, 999])
def test_a_status_has_one_reason(status):
    """RFC 9110, section 15: three have one of their own, all others that of their class."""
    of_class = {4: BmcRefusalReason.INVALID_REQUEST}.get(status // 100, BmcRefusalReason.OTHER)
    of_class = BmcRefusalReason.INTERNAL_ERROR if status >= 500 else of_class
    assert OWN.get(status, of_class) is http(status).reason


@pytest.mark.parametrize('code', CompletionCode)
def test_a_completion_code_is_read_by_its_command_alone(code):
    """That it is a number like a HTTP status means nothing; nothing was done."""
    refused = CommandRefused(RAW, 'Activate Firmware', code)
    assert BmcRefusalReason.OTHER is refused.reason
    assert took_nothing(refused)
    assert not is_changing(refused)


@pytest.mark.parametrize('reason', BmcRefusalReason)
def test_what_follows_from_a_reason(reason):
    """A table of all of them: not found, gone, power just changing, nothing done."""
    expected = {
        BmcRefusalReason.NOT_FOUND: (True, True, False, True),
        BmcRefusalReason.GONE: (False, True, False, True),
        BmcRefusalReason.CONFLICT: (False, False, True, True),
        BmcRefusalReason.INVALID_REQUEST: (False, False, False, True),
        BmcRefusalReason.INTERNAL_ERROR: (False, False, False, False),
        BmcRefusalReason.OTHER: (False, False, False, True),
    }
    refused = BmcRefused(bmc='host', what='no', reason=reason)
    assert expected[reason] == (is_not_found(refused), refused.gone, is_changing(refused), took_nothing(refused))


@pytest.mark.parametrize('refused', [http(405), CommandRefused(RAW, 'Activate Firmware', CompletionCode.NOT_IN_STATE)])
def test_another_process_gets_it_as_it_is(refused):
    """With the code that its driver reads."""
    again = pickle.loads(pickle.dumps(refused))
    assert (type(refused), str(refused), vars(refused)) == (type(again), str(again), vars(again))
