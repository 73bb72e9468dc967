# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Put Ironic's real API in front of the conductor of a test case, on a node that has an owner and a lessee."""

import pecan
import webtest
from ironic.api import app as api_app
from ironic.common import policy as ironic_policy
from ironic.common import states

from tests.ironic.case import IronicCase

OWNER, LESSEE = 'a' * 32, 'b' * 32
VERSION = {'X-OpenStack-Ironic-API-Version': 'latest'}


def with_api(case: IronicCase) -> webtest.TestApp:
    """The real application, with the middleware that is configured and policy read anew; the node becomes an active one."""
    ironic_policy._ENFORCER = None
    case.addCleanup(setattr, ironic_policy, '_ENFORCER', None)
    case.addCleanup(pecan.set_config, {}, overwrite=True)
    case.node.owner, case.node.lessee = OWNER, LESSEE
    case.node.provision_state = states.ACTIVE
    case.node.save()
    return webtest.TestApp(api_app.VersionSelectorApplication())
