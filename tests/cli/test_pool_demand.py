# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""``pool demand``: an operator adds, lists and drops demands; every refusal names its reason, and no demand is lost by it."""

import json
import re
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from baremetal_acc.pools.spool import FOREVER, Spool
from baremetal_acc.scheduling.demand_status import DemandProgress, StoredDemand
from tests.cli.desk import Desk, Done


@pytest.fixture
def demanding(desk: Desk) -> Desk:
    """With a catalogue of two functions."""
    desk.images()
    desk.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\n')
    return desk


def demand(desk: Desk, *arguments: str) -> Done:
    """Run ``pool demand ...``."""
    return desk.run('pool', 'demand', *arguments, '--config-file', 'acc.conf')


def ids(desk: Desk) -> list[str]:
    """The demands that are listed."""
    done = demand(desk, 'list', '-f', 'json')
    assert 0 == done.code, done.err
    return [d['id'] for d in done.document['demands']]


def spool(desk: Desk) -> Spool:
    """The folder that the command uses."""
    return Spool(root=desk.folder / 'state' / 'baremetal-acc' / 'demands')


def test_it_is_told_once_listed_and_dropped(demanding: Desk) -> None:
    """Under the id that was given, or a new one; the function may be called as placement does."""
    assert [] == ids(demanding)
    done = demand(demanding, 'add', 'CUSTOM_ACC_FN_AES', '--resource-class', 'gold', '--id', 'req-1', '-f', 'json')
    [one] = done.document['demands']
    assert (0, 'req-1', 'aes', 'gold', 'file', 'waiting') == (
        done.code, one['id'], one['function'], one['resource_class'], one['source'], one['state'],
    )  # fmt: skip
    again = demand(demanding, 'add', 'aes', '--resource-class', 'CUSTOM_GOLD', '--id', 'req-1', '-f', 'json')
    assert (0, [one]) == (again.code, again.document['demands'])
    other = demand(demanding, 'add', 'gzip', '--id', 'req-1')
    assert 4 == other.code
    assert 'req-1: this id belongs to a stored demand for aes on nodes of class gold' in other.err
    done = demand(demanding, 'add', 'gzip', '-f', 'value', '-c', 'Id')
    assert re.fullmatch(r'[0-9a-f-]{36}\n', done.out)
    assert ['req-1', done.out.strip()] == ids(demanding)
    done = demand(demanding, 'drop', 'req-1', 'req-2', '-f', 'value', '-c', 'Id')
    assert (3, 'req-1\n') == (done.code, done.out)
    assert ['baremetal-acc: error: req-2: there is no such demand (pool demand list prints the ids)'] == done.errors
    assert 1 == len(ids(demanding))


def test_how_long_it_took_is_listed(demanding: Desk) -> None:
    """For people in seconds, with the region."""
    demand(demanding, 'add', 'aes', '--id', 'req-1')
    [told] = spool(demanding).told(datetime.now(UTC), FOREVER)
    served = StoredDemand(
        demand=told.demand, source='file', since=told.since + timedelta(seconds=24), progress=DemandProgress.SCHEDULABLE,
        provider='2ab9', took=timedelta(seconds=24.2),
    )  # fmt: skip
    spool(demanding).mark(served)
    done = demand(demanding, 'list', '-f', 'csv', '-c', 'State', '-c', 'Took', '-c', 'Region')
    assert ['"State","Took","Region"', '"schedulable","24 s","2ab9"'] == done.out.splitlines()


@pytest.mark.parametrize(
    ('arguments', 'code', 'said'),
    [
        (('add', 'brotli'), 2, "function: 'brotli': no such function in the catalogue (functions: aes, gzip)"),
        (('add', 'aes', '--id', ''), 2, "id: '' is not a valid name"),
        (('add', 'aes', '--id', 'x' * 256), 2, 'is not a valid name'),
        (('add', 'aes', '--resource-class', 'a\x1b[31m'), 2, 'resource_class'),
        (('add', 'aes', '--catalogue', 'nowhere.toml'), 2, 'nowhere.toml'),
        (('add',), 2, 'FUNCTION'),
        (('drop',), 2, 'ID'),
        (('drop', 'x'), 3, 'x: there is no such demand'),
    ],
)
def test_what_is_wrong_is_said(demanding: Desk, arguments: tuple[str, ...], code: int, said: str) -> None:
    """In one line, and nothing is kept."""
    done = demand(demanding, *arguments)
    assert (code, True) == (done.code, said in done.err), done.err
    assert [] == ids(demanding)


def test_a_full_folder_ends_with_its_own_code(demanding: Desk) -> None:
    """4: it is refused, and told how often that has happened."""
    small = Spool(root=demanding.folder / 'state' / 'baremetal-acc' / 'demands')
    demand(demanding, 'add', 'aes', '--id', 'first')
    with closing(sqlite3.connect(small.root / 'demands.sqlite')) as db:
        others = [(f'{n}', f'{n}', 'aes', b'') for n in range(small.most_of_one - 1)]
        db.executemany('INSERT INTO demand (id, request, function, told) VALUES (?, ?, ?, ?)', others)
        db.commit()
    done = demand(demanding, 'add', 'aes')
    assert 4 == done.code
    assert 'for aes stored already' in done.err
    done = demand(demanding, 'list')
    assert 'baremetal-acc: 1 demand was refused so far, because there were too many' in done.err


def test_the_folder_can_be_elsewhere(demanding: Desk) -> None:
    """As the option says; one that others may write is refused."""
    demanding.write('acc.conf', '[baremetal_acc]\ncatalogue = catalogue.toml\n[baremetal_acc_demand]\nfolder = elsewhere\n')
    assert 0 == demand(demanding, 'add', 'aes', '--id', 'a').code
    assert (demanding.folder / 'elsewhere' / 'demands.sqlite').is_file()
    (demanding.folder / 'elsewhere').chmod(0o777)
    done = demand(demanding, 'list')
    assert 2 == done.code
    assert 'other users may write there, and could have nodes reprogrammed (chmod 700' in done.err


def test_a_misspelt_option_is_told(demanding: Desk) -> None:
    """With nova_transport_url misspelt nobody would know why nothing is listened to."""
    demanding.write('acc.conf', '[baremetal_acc_demand]\nnova_transport = x\n')
    done = demand(demanding, 'list')
    assert 2 == done.code
    assert 'nova_transport: no such option' in done.err


def test_what_is_printed_is_as_its_schema_says(demanding: Desk, tree: Path) -> None:
    """And holds nothing else."""
    schema: dict[str, Any] = json.loads((tree / 'doc/source/schemas/demand.json').read_text())
    schema['additionalProperties'] = schema['properties']['demands']['items']['additionalProperties'] = False
    for arguments in (('add', 'aes', '--id', 'a'), ('list',), ('drop', 'a'), ('list',)):
        jsonschema.Draft202012Validator(schema).validate(demand(demanding, *arguments, '-f', 'json').document)
