# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decide whether the ramdisk that Ironic boots on a node is the operator's: nobody else can have chosen it.

Ironic takes kernel, ramdisk, ISO, boot loader and kernel parameters of its ramdisk from ``driver_info`` before its own
configuration, and members of the project that owns a node write ``driver_info``. Parameters come from ``instance_info`` before
all others (ironic 39.0.0, drivers/utils.py, ``get_kernel_append_params``), and admins of the project that leases a node write
that. So a node's ramdisk is the operator's where neither names anything, or where ``driver_info`` names what an operator has
accepted (:attr:`NodeState.ramdisk`, a digest). The same holds for ``network_data``, which the owner's members write too.

The ramdisk is accepted like a resource class (:mod:`baremetal_acc_ironic.authorization.accepted_values`), but earlier and more
often. Earlier, since Ironic boots the ramdisk before the first step: when a flow begins
(:mod:`baremetal_acc_ironic.authorization.rights`). More often, since a lessee cannot write ``driver_info``: on a node that no
flow of ours has met with an owner, each flow of an operator accepts it again.
"""

import hashlib
import json
from typing import Any

from baremetal_acc_ironic.state.node_state import NodeState

KEYS = frozenset(
    {
        # ironic 39.0.0: get_properties() of the boot interfaces of our hardware types, drivers/utils.py get_agent_*.
        'deploy_kernel',
        'deploy_ramdisk',
        'deploy_iso',
        'rescue_kernel',
        'rescue_ramdisk',
        'rescue_iso',
        'bootloader',
        'kernel_append_params',
        'config_via_removable',
        # From where the BMC fetches the ramdisk, and how.
        'external_http_url',
        'vmedia_transport_protocol',
        # Deprecated names, which Ironic still reads: drivers/modules/redfish/boot.py.
        'redfish_deploy_iso',
        'redfish_rescue_iso',
        'config_via_floppy',
        # drivers/modules/deploy_utils.py, with [pxe] enable_insecure_template_override.
        'pxe_template',
        # Which agent the conductor trusts: get_properties() of the deploy interfaces.
        'agent_verify_ca',
    }
)
"""Keys of ``driver_info`` that select what runs as Ironic's ramdisk."""

PREFIX = 'ansible_'
"""Prefix of further keys: what the deploy interface ``ansible`` runs in the ramdisk, and as which user."""

INSTANCE_KEYS = frozenset({'kernel_append_params', 'ramdisk_kernel_arguments'})
"""Keys of ``instance_info`` that do the same. They are never accepted: they are dropped with the instance."""


def digest(node: Any) -> str:
    """Return the digest of what ``driver_info`` and ``network_data`` say about the ramdisk."""
    return hashlib.sha256(json.dumps(_said(node), sort_keys=True, default=str).encode()).hexdigest()


def trusted(node: Any, state: NodeState) -> bool:
    """Whether the ramdisk that Ironic boots on the node is the operator's choice."""
    if INSTANCE_KEYS & set(node.instance_info or {}):
        return False
    return not _said(node) or digest(node) == state.ramdisk


def named_by(node: Any) -> list[str]:
    """Return the fields of the node that say something about the ramdisk, for people; without their values."""
    network = ['network_data'] if node.network_data else []
    keys = sorted(key for key in _said(node) if key != 'network_data')
    instance = sorted(INSTANCE_KEYS & set(node.instance_info or {}))
    return [*(f'driver_info[{key}]' for key in keys), *(f'instance_info[{key}]' for key in instance), *network]


def _said(node: Any) -> dict[str, Any]:
    given = (node.driver_info or {}).items()
    said = {key: value for key, value in given if value is not None and (key in KEYS or key.startswith(PREFIX))}
    # Ironic passes it to the ramdisk, which finds Ironic's API by it (ironic 39.0.0, drivers/modules/image_utils.py).
    return said | ({'network_data': node.network_data} if node.network_data else {})
