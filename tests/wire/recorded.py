# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read a tree that a FakeBmc serves, and compare the inventory with its expected.yaml, by the compare.py of the recordings."""

import importlib.util
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import yaml

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.card_settings import registry as card_settings
from baremetal_acc.execution.context import ImageStore, Target, Tools
from baremetal_acc.execution.observation import observe as observe_target
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap, Inventory
from baremetal_acc.model.lock import LockState, WritePath
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.lock_evidence import coverage
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)

ADDRESS = 'https://192.0.2.1'

EXPAND = '?$expand=.($levels=1)'

DEEP = '?$expand=.($levels=3)'

ONLY = '?only'


def bodies(top: Path, *, expand: bool = False, levels: int = 1) -> dict[str, Any]:
    """The resources of a folder by URI.

    :param expand: the root says that collections can be expanded, and each is there expanded, too.
    :param levels: how many of them at once.
    """
    tree: dict[str, Any] = {
        '/' + str(path.parent.relative_to(top)): path.read_bytes().decode('utf-8-sig')
        for path in top.glob('redfish/**/index.json')
    }
    return expanded(tree, levels) if expand else tree


def expanded(tree: dict[str, Any], levels: int = 1) -> dict[str, Any]:
    """A tree whose root says that collections can be expanded; what a member leads to is looked up without case."""
    read = {uri: json.loads(body) if isinstance(body, str) else body for uri, body in tree.items()}
    read['/redfish/v1'] = read['/redfish/v1'] | {
        'ProtocolFeaturesSupported': {'ExpandQuery': {'Levels': True, 'MaxLevels': levels, 'NoLinks': True}}
    }
    for uri, body in list(read.items()):
        listed = body.get('Members') if isinstance(body, dict) else None
        if isinstance(listed, list):
            links = [m.get('@odata.id') if isinstance(m, dict) else None for m in listed]
            whole = [
                read.get(link.rstrip('/'), m) if isinstance(link, str) else m for m, link in zip(listed, links, strict=True)
            ]
            read[uri + EXPAND] = body | {'Members': whole}
            if levels >= 3:
                read[uri + DEEP] = body | {'Members': [_with_all_below(m, read, 2) for m in whole]}
    return read


def of_one(tree: dict[str, Any]) -> dict[str, Any]:
    """A tree whose root says that a collection of one can be asked for that one, and does it; it cannot expand."""
    read = {uri: json.loads(body) if isinstance(body, str) else body for uri, body in tree.items()}
    read['/redfish/v1'] = read['/redfish/v1'] | {'ProtocolFeaturesSupported': {'OnlyMemberQuery': True}}
    for uri, body in list(read.items()):
        listed = body.get('Members') if isinstance(body, dict) else None
        if isinstance(listed, list) and len(listed) == 1 and listed[0]['@odata.id'].rstrip('/') in read:
            read[uri + ONLY] = read[listed[0]['@odata.id'].rstrip('/')]
    return read


def _with_all_below(body: Any, read: dict[str, Any], levels: int) -> Any:
    """A resource with what its links lead to, but for those in Links. Source: DSP0266, "Use of the $expand query parameter"."""
    if not isinstance(body, dict) or not levels:
        return body

    def put_in(value: Any) -> Any:
        if isinstance(value, list):
            return [put_in(item) for item in value]
        if not isinstance(value, dict) or set(value) != {'@odata.id'}:
            return value
        found = read.get(str(value['@odata.id']).rstrip('/'), value)
        return _with_all_below(found, read, levels - 1)

    return {key: value if key == 'Links' else put_in(value) for key, value in body.items()}


def device_lock(accelerator: Accelerator) -> str:
    """The one word for the host's own way to the card, as expected.yaml has it."""
    readings = [r for r in accelerator.locks if WritePath.HOST_DEVICE in r.blocks]
    if not readings:
        return 'none'
    states = {c.state for c in coverage(accelerator, WritePath.HOST_DEVICE, readings)}
    if states <= {LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED}:
        return 'locked'
    if states & {LockState.UNLOCKED, LockState.PARTIAL, LockState.PENDING_RESET}:
        return 'unlocked'
    return 'unknown'


def as_document(accelerator: Accelerator) -> dict[str, Any]:
    """The keys that compare.py compares."""
    names = ('vendor_id', 'device_id', 'subsystem_vendor_id', 'subsystem_id')
    return {
        'kind': accelerator.kind,
        'vendor': accelerator.vendor,
        'model': accelerator.model,
        'serial': accelerator.serial,
        'uuid': accelerator.uuid,
        'part_number': accelerator.part_number,
        'primary_uri': accelerator.primary.uri,
        'uris': [ref.uri for ref in accelerator.refs],
        'pci': {name: getattr(accelerator.pci, name) for name in names},
        'firmware': [{'id': c.id, 'version': c.version} for c in accelerator.firmware],
        'device_lock': device_lock(accelerator),
    }


def observe(bmc: Any) -> tuple[Accelerator, ...]:
    """A look with its locks."""
    return looked(bmc)[0]


def tools_of(bmc: Any, baseline: Baseline | None = None, **address: Any) -> Tools:
    """What the straight path works with, at a FakeBmc."""
    return Tools(
        connect=lambda _: bmc.connect(**address),
        mechanisms=mechanisms(),
        card_settings=card_settings.mechanisms(),
        baseline=baseline or Baseline(rules=()),
        catalogue=(),
        images=cast(ImageStore, None),
    )


def target_of(**address: Any) -> Target:
    """A target of one BMC."""
    return Target(name='node', node=NodeFacts(name='node'), bmcs=(BmcAddress(name=HOST, address=ADDRESS, **address),))


def inventory_of(bmc: Any, **address: Any) -> Inventory:
    """What the straight path sees, locks included."""
    return observe_target(target_of(**address), tools_of(bmc, **address), NOW)


def looked(bmc: Any, **address: Any) -> tuple[tuple[Accelerator, ...], tuple[Gap, ...]]:
    """The devices with their locks, and the gaps."""
    seen = inventory_of(bmc, **address)
    return seen.accelerators, seen.gaps


def compared(shared: Path, folder: Path, found: Iterable[Accelerator]) -> tuple[str, ...]:
    """What compare.py says of a folder with an expected.yaml, line by line."""
    spec = importlib.util.spec_from_file_location('compare', shared / 'recordings' / 'compare.py')
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    expected = yaml.safe_load((folder / 'expected.yaml').read_text())
    return tuple(module.compare(expected, {'accelerators': [as_document(a) for a in found]}))
