# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The rig of the tests of faults, whose machine also takes habits."""

from tests.faults.conftest import rig

__all__ = ['rig']
