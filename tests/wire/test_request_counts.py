# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An inventory of a recorded machine costs the requests that doc/source/reference/performance.rst says, locks included."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import TREE
from tests.wire.recorded import bodies, inventory_of, of_one

pytestmark = pytest.mark.usefixtures('steady')

SESSION = 2
"""Login and logout, which these replies do without."""

NAMES = {
    '8 GPUs (Supermicro)': 'supermicro/hgx-h100-8gpu',
    '8 L40 and a DPU (Lenovo)': 'lenovo/sr670v2-8xl40-bluefield2',
    'H100 and a DPU (Dell)': 'dell/r750-h100-bluefield2',
    '2 H100 NVL (HPE)': 'hpe/dl380a-gen11-2xh100nvl',
    'GH200 (NVIDIA)': 'nvidia/gh200',
    'BlueField-3 (NVIDIA)': 'nvidia/bluefield3',
    'rack server with an FPGA (DMTF)': 'dmtf/rackmount',
    'SmartNIC (DMTF)': 'dmtf/smartnic',
}

ONE_PROCESSOR = {'SmartNIC (DMTF)'}
"""What it brings in place of its list of processors may be one of several, so that the list is read as well."""


def _told() -> dict[str, list[int]]:
    """The table of the page: $expand before and now, three levels, plain before and now, only."""
    text = (TREE / 'doc' / 'source' / 'reference' / 'performance.rst').read_text(encoding='utf-8')
    rows = re.findall(r'^   \* - (.*)\n' + r'     - (\d+)\n' * 6, text, re.MULTILINE)
    return {name: [int(figure) for figure in figures] for name, *figures in rows}


@pytest.mark.parametrize('name', sorted(NAMES))
def test_a_recorded_machine_costs_what_the_page_says(bmc: Any, shared: Path, name: str) -> None:
    """With one level of $expand, with three, without, and without but with the query only."""
    folder = shared / 'recordings' / NAMES[name]
    plain = bodies(folder)
    root = json.loads(plain['/redfish/v1'])
    root.pop('ProtocolFeaturesSupported', None)
    plain['/redfish/v1'] = root
    one, three = (bodies(folder, expand=True, levels=levels) for levels in (1, 3))
    found = []
    for tree in (one, three, plain, of_one(plain)):
        bmc.tree = tree
        bmc.seen.clear()
        inventory_of(bmc)
        found.append(len(bmc.seen) + SESSION)
    before, now, deep, before_plain, now_plain, only = _told()[name]
    assert [now, deep, now_plain] == found[:3]
    # Which list of processors is asked first for its only member is chance; the page says what it costs if it has just one.
    assert only <= found[3] <= only + (name in ONE_PROCESSOR)
    # One more is the UpdateService that a root does not link, or what says which resets a chassis takes; the page names them.
    assert before + 1 >= max(now, deep)
    assert before_plain + 1 >= max(now_plain, only)
