# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Damage one link or member of a tree at a time: no device is less without a gap that hides, and none is more without a gap."""

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baremetal_acc.errors import BmcError
from tests.wire.recorded import bodies, inventory_of

_SHARED = Path(os.environ.get('BAREMETAL_ACC_SHARED', Path(__file__).parents[3] / 'shared'))

FOLDERS = sorted(path.parent for kind in ('cases/trees/*', 'recordings/*/*') for path in _SHARED.glob(f'{kind}/expected.yaml'))

SAMPLE = int(os.environ.get('BAREMETAL_ACC_TREE_MUTATIONS', '12'))
"""Of each tree. A soak sets more."""

Tree = dict[str, Any]
Holder = tuple[Any, Any]
"""What holds a link, and under which name or number."""


def links_of(body: Any) -> Iterator[Holder]:
    """Every link of a resource, but the one to itself."""
    pairs = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in pairs:
        if isinstance(value, dict) and isinstance(value.get('@odata.id'), str):
            yield body, name
        yield from links_of(value)


def delete(holder: Any, name: Any) -> None:
    """A link of an array is gone, or a member, and the count is not. Of a collection that nothing links a BMC says nothing."""
    if isinstance(holder, list):
        del holder[name]


def duplicate(holder: Any, name: Any) -> None:
    """A link stands twice in its array."""
    if isinstance(holder, list):
        holder.append(holder[name])


def rename(holder: Any, name: Any) -> None:
    """It leads to nothing."""
    holder[name] = {'@odata.id': holder[name]['@odata.id'] + 'X'}


def recase(holder: Any, name: Any) -> None:
    """It is written in another case, and the BMC knows its own case only."""
    holder[name] = {'@odata.id': holder[name]['@odata.id'].swapcase().replace('/REDFISH/V1', '/redfish/v1')}


MUTATIONS: dict[str, Callable[[Any, Any], None]] = {f.__name__: f for f in (delete, duplicate, rename, recase)}


def mutations(tree: Tree, seed: str) -> Iterator[tuple[str, Tree]]:
    """Trees with one link of one resource damaged."""
    places = [(uri, n) for uri, body in tree.items() for n, _ in enumerate(links_of(body))]
    chance = random.Random(seed)
    for uri, n in chance.sample(places, min(SAMPLE, len(places))):
        name = chance.choice(sorted(MUTATIONS))
        body = json.loads(json.dumps(tree[uri]))
        holder, at = list(links_of(body))[n]
        what = f'{name} {uri} {at} {holder[at]["@odata.id"]}'
        MUTATIONS[name](holder, at)
        yield what, tree | {uri: body}


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda path: path.name)
def test_a_damaged_tree_loses_and_invents_nothing_in_silence(folder: Path, bmc: Any) -> None:
    """Each look says what it does not see."""
    expected = yaml.safe_load((folder / 'expected.yaml').read_text())
    address = {'system': expected['system']} if 'system' in expected else {}
    tree = {uri: json.loads(text) for uri, text in bodies(folder).items()}
    bmc.tree = tree
    whole = inventory_of(bmc, **address)
    known = {g for g in whole.gaps if g.hides}
    wrong = []
    for what, bmc.tree in mutations(tree, folder.name):
        try:
            seen = inventory_of(bmc, **address)
        except BmcError:
            continue
        hides = any(g.hides for g in seen.gaps if g not in known)
        if len(seen.accelerators) < len(whole.accelerators) and not hides:
            wrong.append(f'LESS {what}')
        if len(seen.accelerators) > len(whole.accelerators) and not set(seen.gaps) - set(whole.gaps):
            wrong.append(f'MORE {what}')
    assert not wrong
