# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Ironic's test code is imported in the order that the tests of the guest need."""

from tests.ironic import conftest as _of_the_guest  # noqa: F401
