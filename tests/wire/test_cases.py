# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The trees of machines that were read wrongly once agree with what was worked out by hand, with $expand and without.

They lie in ``BAREMETAL_ACC_SHARED/cases/trees``, in the form of the recordings. compare.py compares what it compares of the
recordings; here are also compared locations, identities, traits, locks of the whole machine and the gaps that have to hide.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import Gap
from tests.wire.recorded import bodies, compared, looked

_SHARED = Path(os.environ.get('BAREMETAL_ACC_SHARED', Path(__file__).parents[3] / 'shared'))

TREES = sorted(path.parent.name for path in (_SHARED / 'cases' / 'trees').glob('*/expected.yaml'))

DIFFERENCES: dict[str, tuple[str, ...]] = {
    # Its expected.yaml takes a gap that hides for each of them instead: nothing that the BMC says tells what they are.
    'gaudi3-oam-without-type': ('ASIC: 8 expected, 0 reported',),
}
"""What is missing, line by line; all other trees agree."""


@pytest.mark.parametrize('expand', [False, True], ids=['plain', 'expand'])
@pytest.mark.parametrize('name', TREES)
def test_a_tree_that_was_read_wrongly_is_reported_as_it_is(name: str, expand: bool, bmc: Any, shared: Path) -> None:
    """Devices, fields, firmware and locks agree with expected.yaml but for the differences that are listed."""
    folder = shared / 'cases' / 'trees' / name
    expected = yaml.safe_load((folder / 'expected.yaml').read_text())
    bmc.tree = bodies(folder, expand=expand)
    found, gaps = looked(bmc, **({'system': expected['system']} if 'system' in expected else {}))
    said = (*compared(shared, folder, found), *_more(expected, found, gaps))
    assert DIFFERENCES.get(name, ()) == said, [g for g in gaps if g.hides]


def _more(expected: dict[str, Any], found: Iterable[Accelerator], gaps: Iterable[Gap]) -> Iterator[str]:
    """What compare.py does not compare."""
    by_uri = {ref.uri: a for a in found for ref in a.refs}
    for want in expected.get('accelerators', ()):
        got = by_uri.get(want['primary_uri'])
        if got is None:
            continue
        said = {'location': got.location, 'identity': got.identity.value, 'primary_uri': got.primary.uri}
        yield from (f'{want["label"]}: {k} {want[k]!r}, not {v!r}' for k, v in said.items() if k in want and want[k] != v)
        missing = set(want.get('traits', ())) - got.traits
        if missing:
            yield f'{want["label"]}: lacks {sorted(missing)}'
    hidden = {gap.ref.uri for gap in gaps if gap.hides}
    for one in expected.get('ambiguous', ()):
        if one['uri'] not in by_uri and one['uri'] not in hidden:
            yield f'{one["uri"]}: neither a device nor a gap that hides'
    readings = {(r.mechanism, r.ref.uri, r.field): r for a in found for r in a.locks}
    for lock in expected.get('platform_locks', ()):
        reading = readings.get((lock['mechanism'], lock['uri'], lock['field']))
        if reading is None or (reading.value or '').strip('"') != lock['value'] or reading.state.value != lock['state']:
            yield f'{lock["mechanism"]} {lock["field"]}: {reading}'
