# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Another package brings an attach driver: it is found by its entry point, asked before ours, and named where it is broken."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from baremetal_acc.attach.find import GROUP, drivers

CODE = """\
import json, sys
sys.path.insert(0, sys.argv[1])
from baremetal_acc.attach.find import drivers
found = drivers()
print(json.dumps({'drivers': [d.name for d in found.drivers], 'broken': dict(found.broken)}))
"""

DRIVER = """\
from baremetal_acc.attach.region import RegionAttachDriver

class Acme(RegionAttachDriver):
    name = 'acme'

class Region:
    name = 'region'

class Half:
    name = 'half'
    def can_handle(self, claim):
        return True

class Other(Acme):
    pass
"""


def installed(folder: Path, *entries: str) -> dict[str, Any]:
    """What is found beside a package that has these entry points."""
    info = folder / 'acme_attach-1.dist-info'
    info.mkdir()
    (info / 'METADATA').write_text('Metadata-Version: 2.1\nName: acme-attach\nVersion: 1\n')
    (info / 'entry_points.txt').write_text(f'[{GROUP}]\n' + ''.join(f'{entry}\n' for entry in entries))
    (folder / 'acme_attach.py').write_text(DRIVER)
    environment = {'HOME': str(folder), 'PATH': os.environ.get('PATH', '')}
    ran = subprocess.run([sys.executable, '-c', CODE, str(folder)], capture_output=True, text=True, check=True, env=environment)
    answer: dict[str, Any] = json.loads(ran.stdout)
    return answer


def test_what_we_ship_is_found() -> None:
    """One for slots, one for whole devices, one for DPUs; none is broken."""
    found = drivers()
    assert ['device', 'dpu', 'region'] == [d.name for d in found.drivers]
    assert () == found.broken


def test_another_packages_driver_is_asked_first(tmp_path: Path) -> None:
    """So it can take over what ours would look after."""
    found = installed(tmp_path, 'acme = acme_attach:Acme')
    assert {'drivers': ['acme', 'device', 'dpu', 'region'], 'broken': {}} == found


def test_a_broken_driver_is_named_and_breaks_no_other(tmp_path: Path) -> None:
    """One that cannot be loaded, one that lacks methods, one that has another name, and one that is called as ours is."""
    found = installed(
        tmp_path,
        'gone = no_such_module:Thing',
        'half = acme_attach:Half',
        'misnamed = acme_attach:Other',
        'region = acme_attach:Region',
        'acme = acme_attach:Acme',
    )
    assert ['acme', 'device', 'dpu', 'region'] == found['drivers']
    assert {'gone', 'half', 'misnamed', 'region'} == set(found['broken'])
    assert 'it cannot be loaded: ModuleNotFoundError' in found['broken']['gone']
    assert 'methods are missing: get_devices, prepare, post_plug, unprepare' == found['broken']['half']
    assert "its name is 'acme', which is not that of its entry point" == found['broken']['misnamed']
    assert 'acme_attach:Region has the name of another driver' == found['broken']['region']
