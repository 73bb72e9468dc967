# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""A node that an operator has had in its hands does not verify at other BMCs than those that the operator has taken.

Members of the project that owns a node write ``driver_info``, and with it which BMC we ask: one of their own would say that
every lock is closed. The first flow that an operator begins takes the addresses that there are (:attr:`Memory.bmcs`, a digest).
After that a node that has or had an owner takes others only by hand, as :mod:`baremetal_acc_ironic.taking` has it, and one that
no flow of ours has met with an owner takes them whenever an operator begins a flow. Logins are not part of it: a wrong one ends
at the BMC. Where a project runs all flows of its own nodes itself, nothing is taken, and it is believed.
"""

import hashlib
import json
from typing import Any

from baremetal_acc_ironic import steps
from baremetal_acc_ironic.node import Memory
from baremetal_acc_ironic.target import BMCS

KEYS = ('redfish_address', 'redfish_system_id', 'redfish_verify_ca', 'ipmi_address', 'ipmi_port')
"""Of ``driver_info``: where the host's BMC is, what of it is the host, and how it proves who it is."""

FURTHER = ('address', 'system', 'verify_ca', 'node')
"""Likewise of each BMC of ``acc_bmcs``."""


def digest(node: Any) -> str:
    """Of where ``driver_info`` says that the BMCs are."""
    info = node.driver_info or {}
    said: dict[str, Any] = {key: info[key] for key in KEYS if info.get(key) is not None}
    bmcs = info.get(BMCS)
    if isinstance(bmcs, dict):
        given = {name: value for name, value in bmcs.items() if isinstance(value, dict)}
        said[BMCS] = {name: {key: value[key] for key in FURTHER if key in value} for name, value in given.items()}
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def contested(node: Any, mind: Memory) -> tuple[str, ...]:
    """Why the node is not as it should be though every rule holds: it was read at BMCs that no operator has taken."""
    if mind.bmcs is None or mind.bmcs == digest(node) or not (mind.owned or node.owner is not None):
        return ()
    return (
        f'driver_info names other BMCs (redfish_*, ipmi_*, {BMCS}) than those that an operator has taken (see that they are '
        f'right, and let a system administrator run {steps.RECONCILE.name} in manual cleaning or service, which takes them; '
        'else set them back)',
    )
