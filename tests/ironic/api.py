# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Put Ironic's real API in front of the conductor of a test case, on a node that has an owner and a lessee."""

import pecan
import webtest
from ironic.api import app as api_app
from ironic.common import policy as ironic_policy
from ironic.common import states
from ironic.conf import CONF

from baremetal_acc_ironic import compat
from tests.ironic.case import IronicCase

OWNER, LESSEE = 'a' * 32, 'b' * 32
VERSION = {'X-OpenStack-Ironic-API-Version': 'latest'}


BEFORE = {states.SERVICEFAIL: states.ACTIVE, states.CLEANFAIL: states.MANAGEABLE, states.DEPLOYFAIL: states.AVAILABLE}
"""The state in which a flow has begun, by the one in which it has failed."""


REFUSAL = 'insufficient privileges to execute step {}' if compat.api_checks_steps() else '.{} refused: '
"""What the API, or else the conductor, says of a step that somebody may not run."""


def is_refused(case: IronicCase, status: int) -> bool:
    """Whether a step that a request has named was refused, by whichever service checks its rule with the installed Ironic.

    A flow that has failed for it is undone, so that the next request finds the node as it was.
    """
    if compat.api_checks_steps():
        return status == 403
    node = case.node
    node.refresh()
    if status != 202 or node.provision_state not in BEFORE or ' refused: ' not in node.last_error:
        return False
    node.provision_state, node.target_provision_state = BEFORE[node.provision_state], None
    node.maintenance, node.fault, node.last_error = False, None, None
    node.save()
    return True


def configure_middleware(case: IronicCase, names: list[str]) -> None:
    """Name middleware of the API, if the installed Ironic's API takes any."""
    if 'middleware' in CONF.api:
        case.config(group='api', middleware=names)


def with_api(case: IronicCase) -> webtest.TestApp:
    """The real application, with the middleware that is configured and policy read anew; the node becomes an active one."""
    ironic_policy._ENFORCER = None
    case.addCleanup(setattr, ironic_policy, '_ENFORCER', None)
    case.addCleanup(pecan.set_config, {}, overwrite=True)
    case.node.owner, case.node.lessee = OWNER, LESSEE
    case.node.provision_state = states.ACTIVE
    case.node.save()
    return webtest.TestApp(api_app.VersionSelectorApplication())
