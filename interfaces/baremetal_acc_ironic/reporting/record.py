# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Store an inventory of accelerators in Ironic: inspection store (with the verdict), firmware components, capabilities, traits.

Placement's root provider is never written: traits are set on the Ironic node, and Nova copies them to placement.
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from ironic import objects
from ironic.common import context as ironic_context
from ironic.common import exception
from ironic.db.sqlalchemy import models
from ironic.drivers.modules import inspect_utils
from oslo_db.sqlalchemy import enginefacade
from oslo_log import log

from baremetal_acc.errors import StaleJob
from baremetal_acc.model.accelerator import Kind
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import HOST
from baremetal_acc.render import verdict_ends
from baremetal_acc_ironic.state.node_state import NodeState, StoredVerdict

LOG = log.getLogger(__name__)

PLUGIN_KEY = 'baremetal_acc'
"""Our key in the plugin data of the inspection store: ``{"format": 1, "inventory": {...}, "verdict": {...}}``."""

FORMAT = 1

VERDICT_KEY = 'verdict'
"""Key of the verdict in our part; its schema is doc/source/schemas/node-verdict.json."""

CURRENT: Mapping[str, Any] = MappingProxyType({'current': True, 'ended': None})
"""The mark of a verdict that describes the node. The mark is no part of what the digest covers, as it changes later."""

PREFIXES = {kind: kind.lower() for kind in Kind} | {Kind.NIC: 'acc-nic'}
"""First part of a firmware component's name. Ironic itself uses ``nic:``."""

_CHARACTERS = 255


# ------------------------------------------------------------------------------------------------------ inspection store


def stored(task: Any) -> Inventory | None:
    """Return the inventory that was stored last; None if there is none that can be read."""
    try:
        data = inspect_utils.get_inspection_data(task.node, task.context)['plugin_data']
        return decode(Inventory, data[PLUGIN_KEY]['inventory'])
    except exception.NodeInventoryNotFound:
        return None
    except (KeyError, TypeError, StaleJob) as exc:
        LOG.info('Node %s: no earlier inventory of its accelerators can be read: %s', task.node.uuid, exc)
        return None


def store(
    task: Any, inventory: Inventory, verdict: Mapping[str, Any] | None = None, known: StoredVerdict | None = None
) -> str | None:
    """Store an inventory, and the verdict on it, next to the data of Ironic's own inspection.

    With ``[inventory] data_backend = none`` nothing is stored.

    :param verdict: as :mod:`baremetal_acc_ironic.reporting.verdict_document` makes it.
    :param known: what is known of the verdict, if it was stored before; it may have ended.
    :returns: the digest of our part; None where there is no verdict.
    """
    try:
        data = inspect_utils.get_inspection_data(task.node, task.context)
    except exception.NodeInventoryNotFound:
        data = {'inventory': {}, 'plugin_data': {}}
    part: dict[str, Any] = {'format': FORMAT, 'inventory': encode(inventory)}
    if verdict is not None:
        part = _marked(part | {VERDICT_KEY: verdict}, known)
    _put(task.node, task.context, data, part)
    return None if verdict is None else digest_of(part)


def _put(node: Any, context: Any, data: Mapping[str, Any], part: Mapping[str, Any]) -> None:
    plugin_data = dict(data['plugin_data'] or {}) | {PLUGIN_KEY: part}
    inspect_utils.store_inspection_data(node, data['inventory'] or {}, plugin_data, context)


def mark(node: Any, known: StoredVerdict) -> bool:
    """Mark the stored verdict as one that does not describe the node any more.

    :param known: what is known of it; ``ended`` is set.
    :returns: nothing in the inspection data reads as a current verdict of ours any more; False: they could not be written.
    """
    context = ironic_context.get_admin_context()
    try:
        data = inspect_utils.get_inspection_data(node, context)
        part = (data['plugin_data'] or {}).get(PLUGIN_KEY)
        if not isinstance(part, dict) or VERDICT_KEY not in part:
            return True  # another inspection has replaced it
        told = _marked(part, known) if _is_ours(part, known) else {k: v for k, v in part.items() if k != VERDICT_KEY}
        _put(node, context, data, told)
    except exception.NodeInventoryNotFound:
        return True
    except Exception:
        # Ironic's database or its object storage: that is no reason not to store what was done to the cards.
        LOG.exception('Node %s: its stored verdict has ended, and could not be marked; this is tried again', node.uuid)
        return False
    return True


def kept(task: Any, state: NodeState) -> dict[str, Any] | None:
    """Return our part of the inspection data if it is what we have stored last; else None.

    Ironic's own inspection overwrites our part, and whatever runs on the host during an in-band inspection may send one of its
    own. So a verdict counts only with the digest of the whole part, and the mark that says whether it is current is made again.
    A node whose data an earlier version has stored has no such digest: then the inventory alone is returned.
    """
    try:
        data = inspect_utils.get_inspection_data(task.node, task.context)['plugin_data'] or {}
        found = data.get(PLUGIN_KEY)
        if found is None:
            return None
        if state.verdict is not None:
            return _marked(found, state.verdict) if _is_ours(found, state.verdict) else None
        same = digest(decode(Inventory, found['inventory'])) == state.digest
    except exception.NodeInventoryNotFound:
        return None
    except (AttributeError, KeyError, TypeError, ValueError, StaleJob) as exc:
        LOG.info('Node %s: the inventory of its accelerators in the inspection data cannot be read: %s', task.node.uuid, exc)
        return None
    return {'format': FORMAT, 'inventory': found['inventory']} if same else None


def digest_of(part: Mapping[str, Any]) -> str:
    """Return the digest of our part of the inspection data: SHA-256 of its JSON with sorted keys, without the mark.

    :raises KeyError: it is not a part with a verdict. ``TypeError``: its shape is another one.
    """
    verdict = {key: value for key, value in part[VERDICT_KEY].items() if key not in CURRENT}
    covered = {'format': part['format'], 'inventory': part['inventory'], VERDICT_KEY: verdict}
    return hashlib.sha256(json.dumps(covered, sort_keys=True).encode()).hexdigest()


def _is_ours(part: Any, known: StoredVerdict) -> bool:
    return isinstance(part, dict) and isinstance(part.get(VERDICT_KEY), dict) and digest_of(part) == known.digest


def _marked(part: Mapping[str, Any], known: StoredVerdict | None) -> dict[str, Any]:
    """Return the covered keys of our part, and the mark as it has to be; anything else in it is not ours."""
    body = {key: value for key, value in part[VERDICT_KEY].items() if key not in CURRENT}
    state = dict(CURRENT)
    if known is not None and known.ended is not None:
        text = verdict_ends.sentence(known.ended)
        state = {'current': False, 'ended': {'cause': known.ended.value, 'at': encode(known.ended_at), 'text': text}}
    return {'format': part['format'], 'inventory': part['inventory'], VERDICT_KEY: {**body, **state}}


def kept_inventory(task: Any, state: NodeState) -> Inventory | None:
    """Return the inventory of the inspection store if it is what we have stored last; else None."""
    found = kept(task, state)
    return None if found is None else decode(Inventory, found['inventory'])


def digest(inventory: Inventory) -> str:
    """Return a digest of an inventory that ignores times, sessions and measurements."""
    lasting = [replace(a, locks=(), measurements=None) for a in inventory.accelerators]
    locks = [(r.place, r.value) for a in inventory.accelerators for r in a.locks]
    return hashlib.sha256(json.dumps([encode(lasting), encode(locks)]).encode()).hexdigest()


# --------------------------------------------------------------------------------------------------- firmware components


def firmware_components(inventory: Inventory) -> list[dict[str, str | None]]:
    """Return rows of ``baremetal node firmware list``, such as ``gpu:HGX_FW_GPU_0``.

    The BMC's name is added where two BMCs use the same Id.
    """
    rows: dict[str, dict[str, str | None]] = {}
    for accelerator in inventory.accelerators:
        for component in accelerator.firmware:
            if component.id is None or component.version is None:
                continue
            name = f'{PREFIXES[accelerator.kind]}:{component.id}'
            if name in rows and component.ref.bmc != HOST:
                name = f'{name}@{component.ref.bmc}'
            rows.setdefault(
                name[:_CHARACTERS],
                {
                    'component': name[:_CHARACTERS],
                    'current_version': component.version[:_CHARACTERS],
                    'vendor': _cut(accelerator.vendor),
                    'model': _cut(accelerator.model),
                    'serial_number': _cut(accelerator.serial),
                },
            )
    return list(rows.values())


def sync_firmware(task: Any, inventory: Inventory) -> None:
    """Update the node's firmware components to an inventory; rows of cards that are gone are removed."""
    rows = firmware_components(inventory)
    node_id = task.node.id
    create, update, _same = objects.FirmwareComponentList.sync_firmware_components(task.context, node_id, rows)
    for row in create:
        objects.FirmwareComponent(task.context, node_id=node_id, **row).create()
    for row in update:
        component = objects.FirmwareComponent.get(task.context, node_id=node_id, name=row['component'])
        if component.current_version != row['current_version']:
            component.last_version_flashed = row['current_version']
        for key in ('current_version', 'vendor', 'model', 'serial_number'):
            setattr(component, key, row[key])
        component.save()
    if not any(gap.hides for gap in inventory.gaps):
        _remove_firmware(task, {str(row['component']) for row in rows})


def _remove_firmware(task: Any, present: set[str]) -> None:
    prefixes = tuple(f'{p}:' for p in PREFIXES.values())
    there = objects.FirmwareComponentList.get_by_node_id(task.context, task.node.id)
    gone = [c.component for c in there if c.component.startswith(prefixes) and c.component not in present]
    if not gone:
        return
    # Ironic's objects and its database interface can create and change these rows, and cannot delete one.
    with enginefacade.writer.using(threading.local()) as session:
        rows = session.query(models.FirmwareComponent).filter_by(node_id=task.node.id)
        rows.filter(models.FirmwareComponent.component.in_(gone)).delete(synchronize_session=False)


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:_CHARACTERS]


# ---------------------------------------------------------------------------------------------- traits and capabilities


def sync_traits(task: Any, wanted: Iterable[str], ours: Iterable[str]) -> frozenset[str]:
    """Set our traits on the node; traits that others have set stay, even if we would set them too.

    :param ours: the traits that we set earlier.
    :returns: those that are ours now.
    """
    node = task.node
    wanted, ours = frozenset(wanted), frozenset(ours)
    there = frozenset(objects.TraitList.get_by_node_id(task.context, node.id).get_trait_names())
    for trait in sorted((ours & there) - wanted):
        objects.Trait.destroy(task.context, node_id=node.id, trait=trait)
    for trait in sorted(wanted - there):
        objects.Trait(task.context, node_id=node.id, trait=trait).create()
    node.traits = objects.TraitList.get_by_node_id(task.context, node.id)
    node.obj_reset_changes(fields={'traits'})
    return (wanted - there) | (ours & there & wanted)


def sync_capabilities(task: Any, inventory: Inventory) -> None:
    """Update our capabilities to an inventory; all others stay as they are, and in their order. The node is not saved."""
    node = task.node
    items = str(node.properties.get('capabilities') or '').split(',')
    others = [item for item in items if item.strip() and item.split(':', 1)[0].strip() not in _CAPABILITIES]
    ours = (f'{name}:{number}' for name, number in capabilities(inventory).items())
    # A new dictionary: Ironic saves no change that is made within one.
    node.properties = dict(node.properties) | {'capabilities': ','.join([*others, *ours])}


def capabilities(inventory: Inventory) -> dict[str, str]:
    """Return ``accelerators:4`` and one more for each kind that there is, such as ``accelerators_gpu:2``."""
    found = {'accelerators': str(len(inventory.accelerators))}
    for kind in Kind:
        count = sum(1 for a in inventory.accelerators if a.kind is kind)
        if count:
            found[f'accelerators_{kind.lower()}'] = str(count)
    return found


_CAPABILITIES = frozenset({'accelerators', *(f'accelerators_{kind.lower()}' for kind in Kind)})
