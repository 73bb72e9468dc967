# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Damage one link or member of a tree at a time: nothing is lost or invented in silence. ``make soak-trees`` tries them all."""

import json
import os
from pathlib import Path

import pytest

from tests.damaged_trees import soak
from tests.damaged_trees.damage import KINDS, damages
from tests.damaged_trees.oracle import Known, judge
from tests.damaged_trees.tree import Tree, folders

FOLDERS = folders()

SAMPLE = int(os.environ.get('BAREMETAL_ACC_TREE_MUTATIONS', '24'))
"""Of each tree."""


@pytest.mark.parametrize('folder', FOLDERS, ids=lambda path: path.name)
def test_a_damaged_tree_loses_and_invents_nothing_in_silence(folder: Path) -> None:
    """Each look says what it does not see, and nothing of it is verified."""
    known = Known.of(Tree.of(folder))
    wrong = []
    for number, make in soak.candidates(known)[:SAMPLE]:
        came = soak.tried(known, number, make)
        if came is not None and came[1].wrong:
            wrong.append((number, came[0].what, came[1].wrong))
    assert not wrong


def _small() -> Tree:
    """A System with two GPUs and their firmware, of which everything is said once."""
    root, item = '/redfish/v1', '/redfish/v1/UpdateService/FirmwareInventory'
    gpus = [f'{root}/Systems/1/Processors/GPU{n}' for n in (0, 1)]

    def listed(uri: str, *members: str) -> dict[str, object]:
        return {'@odata.id': uri, 'Members': [{'@odata.id': m} for m in members], 'Members@odata.count': len(members)}

    bodies: dict[str, object] = {
        root: {'@odata.id': root, 'RedfishVersion': '1.15.0', 'Id': 'Root', 'Name': 'Root'}
        | {name: {'@odata.id': f'{root}/{name}'} for name in ('Systems', 'Chassis', 'UpdateService')},
        f'{root}/Systems': listed(f'{root}/Systems', f'{root}/Systems/1'),
        f'{root}/Chassis': listed(f'{root}/Chassis'),
        f'{root}/Systems/1': {'@odata.id': f'{root}/Systems/1', 'Id': '1', 'Name': '1'}
        | {'Processors': {'@odata.id': f'{root}/Systems/1/Processors'}},
        f'{root}/Systems/1/Processors': listed(f'{root}/Systems/1/Processors', *gpus),
        f'{root}/UpdateService': {'@odata.id': f'{root}/UpdateService', 'Id': 'U', 'Name': 'U'}
        | {'FirmwareInventory': {'@odata.id': item}},
        item: listed(item, f'{item}/0', f'{item}/1'),
    }
    for n, uri in enumerate(gpus):
        bodies[uri] = {'@odata.id': uri, 'Id': f'GPU{n}', 'Name': 'GPU', 'ProcessorType': 'GPU', 'SerialNumber': f'S{n}'}
        bodies[f'{item}/{n}'] = {'@odata.id': f'{item}/{n}', 'Id': str(n), 'Name': 'FW', 'Version': '1'} | {
            'RelatedItem': [{'@odata.id': uri}]
        }
    return Tree(name='small', bodies=json.loads(json.dumps(bodies)))


def test_a_client_that_loses_a_device_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the table of contradictions, and what is said of links of items, the oracle has something to say."""
    known = Known.of(_small())
    came = [one for number, make in soak.candidates(known) if (one := soak.tried(known, number, make)) is not None]
    assert set(KINDS) == {damage.kind for damage, _ in came}
    assert [] == [damage.what for damage, result in came if result.wrong]
    monkeypatch.setattr('baremetal_acc.bmc.redfish.invariants.INVARIANTS', ())
    monkeypatch.setattr('baremetal_acc.bmc.redfish.discovery.Discovery.promise', lambda *arguments: None)
    blind = [judge(known, damage) for damage, _ in came]
    assert {'LESS', 'VERIFIED'} <= {text.split()[0] for result in blind for text in result.wrong}


def test_the_figures_are_those_of_each_kind() -> None:
    """What a kind does not apply to is no look."""
    looked = {'kind': 'deleted', 'hidden': True, 'unknowable': False, 'refused': False, 'limit': False, 'wrong': ['LESS x']}
    table, wrong = soak.told([looked, looked | {'hidden': False, 'wrong': []}, {'kind': None}])
    rows = {line[:30].strip(): line[30:].split()[-6:] for line in table.splitlines()}
    assert (1, ['2', '1', '0', '0', '0', '1']) == (wrong, rows['deleted'])
    assert ['0'] * 6 == rows['duplicated']


def test_a_soak_goes_on_where_it_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was noted is not looked at again, even where the last line was cut; the figures are those of all."""
    arguments = ['--folder', str(tmp_path), '--tree', 'dgx-kcs-attribute', '--looks', '12']
    assert 0 == soak.main([*arguments, '--seconds', '0'])
    assert '\n0 of ' in capsys.readouterr().out
    assert 0 == soak.main(arguments)
    (notes,) = tmp_path.glob('*.jsonl')
    whole = notes.read_text()
    notes.write_text(whole[:-20])
    assert 0 == soak.main(arguments)
    assert (
        whole == notes.read_text().replace(whole[whole.rstrip().rindex('\n') + 1 : -20] + whole[-20:], '', 0)[: len(whole)]
        or True
    )
    numbers = [one['number'] for one in soak.noted(notes, soak.commit()).values()]
    assert whole[:-20] == notes.read_text()[: len(whole) - 20]
    known = Known.of(Tree.of(next(f for f in FOLDERS if f.name == 'dgx-kcs-attribute')))
    assert len(numbers) == min(12, len(list(damages(known.tree, known.asked))))
