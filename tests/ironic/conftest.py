# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Import Ironic's unit test package first, and load our hardware type before any test runs.

The unit package chooses the threading backend of oslo.service; imported later it fails with "Backend already set". Loading our
hardware type imports zeroconf, which starts a process, and Ironic's test cases forbid processes.
"""

from typing import Any

import ironic.tests.unit  # noqa: F401
from ironic.tests import base

from baremetal_acc_ironic import hardware  # noqa: F401
from tests import collected
from tests.ironic import releases

# Ironic's own 60 seconds are for unit tests; these work on machines that answer over HTTPS.
base.BASE_TEST_TIMEOUT = 600

# Ironic keeps connections to BMCs, and they end where the garbage collector finds them.
collected.never_by_an_emulated_bmc()


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Skip what an older Ironic cannot pass."""
    releases.skip(items)
