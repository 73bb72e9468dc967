# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every message of doc/source/howto/pools.rst is given, word by word, when its cause occurs."""

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from baremetal_acc.errors import IronicRefused, StaleJob
from baremetal_acc.placement.client import RESHAPER, PlacementAnswer, refusal
from baremetal_acc.placement.node_withdrawal import NodeWithdrawal
from baremetal_acc.pools.ironic import IronicApi
from baremetal_acc.pools.journal import Entry, MoveJournal
from baremetal_acc.pools.nodes import parse
from baremetal_acc.pools.state_machine import MoveStage
from baremetal_acc.scheduling.pool_plan import plan
from baremetal_acc.scheduling.pools import Demand
from tests.pages import messages, pattern
from tests.unit.planning import values as v
from tests.unit.pools.test_moves import MARK, MOVE, NODE, Cloud, mover, offering
from tests.unit.pools.test_nodes import Reply, ironic
from tests.unit.scheduling.test_pool_plan import machine, pool, pools

MESSAGES = messages('pools')


def begun(journal: MoveJournal, change: Callable[[Cloud], object], **more: Any) -> str:
    """What is told of a move."""
    cloud = Cloud()
    change(cloud)
    return str(mover(cloud, journal, **more).begin(MOVE))


def claimed(journal: MoveJournal) -> str:
    """Somebody was faster."""
    return begun(journal, lambda cloud: setattr(cloud, 'claims', ('FPGA of p by consumer c',)))


def kept_meanwhile(journal: MoveJournal) -> str:
    """A tenant came and went since it was withdrawn, and it was not cleaned."""
    cloud = marked()
    cloud.offered = ()
    entry = Entry(move=MOVE, stage=MoveStage.MANAGE, begun=v.NOW - timedelta(days=3), offered=offering('gzip'))
    return str(mover(cloud, journal).resume(entry))


def marked() -> Cloud:
    """Its machine is withdrawn from placement by its conductor."""
    cloud = Cloud()
    read = cloud.node

    def node(uuid: str) -> dict[str, Any]:
        raw = read(uuid)
        raw['driver_internal_info']['baremetal_acc']['shelf'] = {'withdrawn': MARK}
        return raw

    cloud.node = node
    return cloud


def busy(raw: dict[str, Any]) -> str:
    """Why a node is not taken."""
    read = parse(raw)
    assert read is not None
    return str(read.busy)


def failed(journal: MoveJournal) -> str:
    """The cleaning has."""
    cloud = Cloud()
    cloud.state, cloud.more = 'clean failed', {'last_error': 'no power'}
    return str(mover(cloud, journal).resume(Entry(move=MOVE, stage=MoveStage.CLEAN, begun=v.NOW)))


def not_as_asked(journal: MoveJournal) -> str:
    """The cleaning of its way back has written something else."""
    cloud = Cloud()
    return str(mover(cloud, journal).resume(Entry(move=MOVE, stage=MoveStage.PROVIDE, begun=v.NOW)))


def left_alone(journal: MoveJournal) -> str:
    """Somebody inspects it."""
    cloud = Cloud()
    cloud.state = 'inspecting'
    return str(mover(cloud, journal).resume(Entry(move=MOVE, stage=MoveStage.CLEAN, begun=v.NOW)))


def under_way(journal: MoveJournal) -> str:
    """Ironic refuses its way back."""
    return begun(journal, lambda cloud: cloud.fails.update(provide=IronicRefused('status 409')))


def short(journal: MoveJournal) -> str:
    """All is claimed that could be given it."""
    [found] = plan([machine('n1', 'gzip', None, busy='instance')], pools(pool('gzip', 1)), (), v.NOW).short
    return found.why


def serves_others(journal: MoveJournal) -> str:
    """The only region that could is held for somebody who waits for what it holds."""
    fleet = [machine('n1', 'aes')]
    waits = Demand(id='a', function='aes', at=v.NOW)
    [found] = plan(fleet, pools(pool('gzip', 1)), (waits,), v.NOW).short
    return found.why


def rests(journal: MoveJournal) -> str:
    """Somebody waits for two functions of one machine, and its regions were changed a moment ago."""
    one = machine('n1', None, None)
    fleet = [replace(one, regions=tuple(replace(r, changed=v.NOW) for r in one.regions))]
    both = [Demand(id=f'r/{n}', function=name, at=v.NOW, of=2) for n, name in enumerate(('aes', 'gzip'), 1)]
    [found] = plan(fleet, pools(), both, v.NOW).short
    return found.why


class NoRoot:
    """A placement in which nova-compute has made nothing."""

    def get(self, path: str, **query: str) -> PlacementAnswer:
        """No providers."""
        return PlacementAnswer(status=200, code=None, body={'resource_providers': []})


def no_root(journal: MoveJournal) -> str:
    """No nova-compute manages it."""
    client: Any = NoRoot()
    return str(NodeWithdrawal(client).busy(NODE))


def ironic_refuses(journal: MoveJournal) -> str:
    """A mere member of the owner's project asks."""
    client: IronicApi = ironic(lambda method, url: Reply(403, {'error_message': 'Forbidden'}))[0]
    with pytest.raises(IronicRefused) as caught:
        client.provision(NODE, 'clean')
    return str(caught.value)


def not_ours(journal: MoveJournal) -> str:
    """Somebody has changed a move."""
    journal.write(Entry(move=MOVE, stage=MoveStage.CLEAN, begun=v.NOW))
    with closing(sqlite3.connect(journal.root / 'moves.sqlite')) as db:
        db.execute("UPDATE move SET entry = '{}'")
        db.commit()
    with pytest.raises(StaleJob) as caught:
        journal.read()
    return str(caught.value)


PROVOKED: dict[str, Callable[[MoveJournal], str]] = {
    'NAME: cancelled: ...': claimed,
    'NAME: cancelled: ...; its conductor has withdrawn it': kept_meanwhile,
    'withdrawn from placement by its conductor': lambda _: busy(marked().node(NODE)),
    'NAME: failed: ...; the pools leave the node alone': failed,
    'NAME: failed: its functions are not available': lambda journal: begun(
        journal, lambda cloud: setattr(cloud, 'publishes', False)
    ),
    'NAME: failed: its new functions were not verified': not_as_asked,
    'NAME: left alone': left_alone,
    'NAME: still under way': under_way,
    'every suitable node is claimed or busy': short,
    'every suitable region serves another': serves_others,
    'every suitable node has regions': rests,
    'placement has no root provider for the node': no_root,
    'status 403 ... (the role service': lambda _: str(
        refusal('POST', RESHAPER, PlacementAnswer(status=403, code='placement.undefined_code', body={}))
    ),
    'status 403: ... (the user in [ironic]': ironic_refuses,
    '.../moves.sqlite: stored move of node NODE cannot be read': not_ours,
    'last_error is set': lambda _: busy(Cloud().node(NODE) | {'last_error': 'no power'}),
}
"""How a message begins on the page, and what brings it about."""


def of(message: str) -> str:
    """Which of those that are brought about it is: the longest that it begins with."""
    return max((begins for begins in PROVOKED if message.startswith(begins)), key=len, default='')


def test_every_message_of_the_page_is_brought_about() -> None:
    """One that is added has to be, too."""
    assert sorted(PROVOKED) == sorted(of(message) for message in MESSAGES)


@pytest.mark.parametrize('begins', list(PROVOKED))
def test_it_is_said_as_the_page_has_it(begins: str, tmp_path) -> None:
    """What varies is an ellipsis there, or in capitals."""
    [message] = [m for m in MESSAGES if of(m) == begins]
    said = PROVOKED[begins](MoveJournal(root=tmp_path))
    assert re.search(pattern(message, 'NAME', 'NODE'), said), said
