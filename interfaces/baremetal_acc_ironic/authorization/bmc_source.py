# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Refuse to verify a node whose ``driver_info`` names other BMC addresses than those that an operator has accepted.

Members of the project that owns a node may write ``driver_info``, and with it which BMC we ask: a BMC of their own would report
that every lock is closed. The first flow that an operator begins accepts the addresses that are set then
(:attr:`NodeState.bmcs`, a digest). After that, a node that has or had an owner accepts other addresses only by hand (see
:mod:`baremetal_acc_ironic.authorization.accepted_values`); a node that none of our flows has met with an owner accepts them
whenever an operator begins a flow. Logins are not part of the digest: a wrong login fails at the BMC. Where a project runs all
flows of its own nodes itself, nothing is ever accepted, and the addresses are believed.
"""

import hashlib
import json
from typing import Any

from baremetal_acc_ironic.state.node_state import NodeState
from baremetal_acc_ironic.state.target import BMCS
from baremetal_acc_ironic.steps import definitions

KEYS = ('redfish_address', 'redfish_system_id', 'redfish_verify_ca', 'ipmi_address', 'ipmi_port')
"""Keys of ``driver_info`` that say where the host's BMC is, which of its Systems is the host, and how the BMC authenticates
itself."""

FURTHER = ('address', 'system', 'verify_ca', 'node')
"""The same for each BMC of ``acc_bmcs``."""


def digest(node: Any) -> str:
    """Return the digest of the BMC addresses in ``driver_info``."""
    info = node.driver_info or {}
    said: dict[str, Any] = {key: info[key] for key in KEYS if info.get(key) is not None}
    bmcs = info.get(BMCS)
    if isinstance(bmcs, dict):
        given = {name: value for name, value in bmcs.items() if isinstance(value, dict)}
        said[BMCS] = {name: {key: value[key] for key in FURTHER if key in value} for name, value in given.items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def contested(node: Any, state: NodeState) -> tuple[str, ...]:
    """Return why the node fails although every rule is met: it was read at BMCs that no operator has accepted."""
    if state.bmcs is None or state.bmcs == digest(node) or not (state.owned or node.owner is not None):
        return ()
    return (
        f'driver_info names other BMCs (redfish_*, ipmi_*, {BMCS}) than those that an operator has accepted (if they are '
        f'right, let a system administrator run {definitions.RECONCILE.name} in manual cleaning or service, which accepts '
        'them; otherwise restore the accepted ones)',
    )
