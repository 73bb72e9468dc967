# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The benchmarks count right: the served BMC, the floor's arithmetic, the lists of needed requests, flashing, placement."""

import ast
import base64
import http.client
import json
import re
import select
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from baremetal_acc.emulator.hw.parameters import Parameters
from baremetal_acc.emulator.image import build_image, read_image
from benchmarks.flash import machine, tray
from benchmarks.flash import run as flash
from benchmarks.flash.served import Journal, is_closed, read_journal
from benchmarks.inventory import floor, harness, larger, many, peers, run
from benchmarks.inventory.fleet import _spread
from benchmarks.inventory.floor import Cost, bare, load, parse
from benchmarks.inventory.needed import DEEP, QUERY, ROOT
from benchmarks.inventory.needed import Tree as Recorded
from benchmarks.inventory.served import PASSWORD, USER, Bmc, Connection, Knobs, Server, Tree
from benchmarks.ipmi import run as ipmi
from benchmarks.ipmi.served import BLOCKS, LARGE, SMALL, TOLD
from benchmarks.placement import run as publishing
from benchmarks.placement import served

BASIC = base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()

DIAMOND = """
# a comment
  1   0 base   0 GET    /redfish/v1/  # where everything begins
  2   1 base   0 POST   /redfish/v1/SessionService/Sessions  # login
  3   2 base   0 GET    /a  # a
  4   2 base   0 GET    /b  # b
  5   4 base   9 GET    /b/c?$expand=.  # c
  6   4 lock   0 GET    /b/d  # d
  7   6 base   0 DELETE /redfish/v1/SessionService/Sessions/1  # logout
"""


def body(uri: str, **more: object) -> bytes:
    """A resource."""
    return json.dumps({'@odata.id': uri, 'Id': uri.rpartition('/')[2], 'Name': 'x', **more}).encode()


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A tree with one collection of two members, and a link that leads out of it."""
    for uri, content in {
        '/redfish/v1': body(
            '/redfish/v1', Things={'@odata.id': '/redfish/v1/Things'}, Memory={'@odata.id': '/redfish/v1/Memory'}
        ),
        '/redfish/v1/Things': body('/redfish/v1/Things', Members=[{'@odata.id': f'/redfish/v1/Things/{n}'} for n in 'ab']),
        '/redfish/v1/Things/a': body('/redfish/v1/Things/a'),
        '/redfish/v1/Things/b': b'{"@odata.id": "/redfish/v1/Things/b"}',
    }.items():
        place = tmp_path / uri.strip('/')
        place.mkdir(parents=True, exist_ok=True)
        (place / 'index.json').write_bytes(content)
    return tmp_path


class Talk:
    """One connection to a served BMC in this process, and the hands of its clock."""

    def __init__(self, recorded: Path, *, connections: int = 1, expand: bool = True, **knobs: object) -> None:
        self.bmc = Bmc()
        self.server = Server([self.bmc], Tree(recorded, expand=expand), Knobs(**knobs))  # type: ignore[arg-type]
        pairs = [socket.socketpair() for _ in range(connections)]
        self.ours = [ours for ours, _ in pairs]
        self.theirs = []
        for _, theirs in pairs:
            theirs.setblocking(False)
            self.theirs.append(Connection(self.server, self.bmc, theirs, shaking=False))

    def send(self, method: str, target: str, *, on: int = 0, content: bytes = b'', **headers: str) -> None:
        """Send a request, and let the BMC take it up."""
        given = {'Authorization': f'Basic {BASIC}', 'Content-Length': str(len(content))}
        given |= {name.replace('_', '-'): value for name, value in headers.items()}
        lines = [f'{method} {target} HTTP/1.1', *(f'{name}: {value}' for name, value in given.items() if value)]
        self.ours[on].sendall('\r\n'.join([*lines, '', '']).encode() + content)
        self.theirs[on].event(select.EPOLLIN)

    def tick(self) -> float:
        """Let the next thing happen that waits for its time; tells how long it had to wait."""
        at, _, call = self.server._timers.pop(0)
        self.server._timers.sort()
        call()
        return at

    def read(self, on: int = 0) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        whole = self.ours[on].recv(1 << 20)
        head, _, content = whole.partition(b'\r\n\r\n')
        first, *lines = head.decode().split('\r\n')
        return int(first.split()[1]), dict(line.split(': ', 1) for line in lines), content

    def ask(self, method: str, target: str, **more: object) -> tuple[int, dict[str, str], bytes]:
        """A whole exchange."""
        self.send(method, target, **more)  # type: ignore[arg-type]
        self.tick()
        return self.read()


# ------------------------------------------------------------------------------------------------------------ the floor


def test_the_floor_is_the_longest_chain_where_slots_are_plenty():
    """Root, login, b, c (or d) and the logout follow one another: five times the delay."""
    assert pytest.approx(0.25) == parse(DIAMOND).floor(Cost(delay=0.05, slots=8))


def test_a_login_beside_the_root_holds_up_what_follows_both():
    """Root and login at once, then b, c and the logout: four; with one slot all seven follow one another."""
    beside = parse(DIAMOND.replace('  2   1 base', '  2   0 base'))
    assert pytest.approx(4.0) == beside.schedule(Cost(delay=1.0, slots=8))
    assert pytest.approx(7.0) == beside.schedule(Cost(delay=1.0, slots=1))
    assert pytest.approx(4.0) == beside.floor(Cost(delay=1.0, slots=8))


def test_the_floor_is_all_the_work_where_slots_are_few():
    """Seven requests, one at a time."""
    assert pytest.approx(0.35) == parse(DIAMOND).floor(Cost(delay=0.05, slots=1))


def test_the_floor_until_everything_is_in_hand_leaves_the_logout_out():
    """One request less, and one less deep."""
    assert pytest.approx(0.20) == parse(DIAMOND).floor(Cost(delay=0.05, slots=8), logout=False)
    assert pytest.approx(0.30) == parse(DIAMOND).floor(Cost(delay=0.05, slots=1), logout=False)


def test_expanded_members_lengthen_the_chain_that_they_are_in():
    """Nine members at 0.1 s make the one request 0.95 s long."""
    assert pytest.approx(4 * 0.05 + 0.95) == parse(DIAMOND).floor(Cost(delay=0.05, slots=8, member_delay=0.1))


def test_the_best_schedule_cannot_overlap_login_and_logout_with_anything():
    """Two slots: root, login, (a, b), (c, d), logout; the floor of two slots is less."""
    cost = Cost(delay=1.0, slots=2)
    assert pytest.approx(5.0) == parse(DIAMOND).schedule(cost)
    assert pytest.approx(7.0) == parse(DIAMOND).schedule(Cost(delay=1.0, slots=1))
    assert parse(DIAMOND).floor(cost) <= parse(DIAMOND).schedule(cost)


def test_the_better_way_is_the_cheaper_floor():
    """Where members cost, plain reads may win."""
    plain = parse(DIAMOND.replace('   9 GET', '   0 GET'))
    cost = Cost(delay=0.05, slots=4, member_delay=0.1)
    assert plain.floor(cost) == floor.better([parse(DIAMOND), plain], cost)


def test_lock_places_that_nobody_read_do_not_raise_the_floor():
    """Else a client that reads less would look nearer to its limit."""
    assert 7 == len(parse(DIAMOND).counting(frozenset({'/b/d'})).requests)
    assert 6 == len(parse(DIAMOND).counting(frozenset()).requests)


@pytest.mark.parametrize(
    'line',
    [
        '  8   9 base   0 GET    /x  # after one that does not exist',
        '  3   2 base   0 GET    /x  # twice',
        '  8   2 base   0 GET  /x',
    ],
)
def test_a_wrong_list_is_refused(line: str):
    """A number that repeats, a parent that comes later, a line without a reason."""
    with pytest.raises(ValueError, match='line'):
        parse(DIAMOND + line)


def test_a_list_without_logout_is_refused():
    """Login and logout count."""
    with pytest.raises(ValueError, match='logout'):
        parse(DIAMOND.replace('DELETE', 'GET'))


# ------------------------------------------------------------------------------------------------------------ the lists


MADE = (larger.NAME, many.NAME)

LISTS = sorted(path.name.removesuffix('.plain.txt') for path in floor.NEEDED.glob('*.plain.txt'))


def test_every_recording_has_both_lists():
    """And the trees that are made."""
    assert {run.HGX.replace('/', '-'), *MADE, *(name.replace('/', '-') for name in run.OTHERS)} == set(LISTS)
    assert set(LISTS) == {path.name.removesuffix('.expand.txt') for path in floor.NEEDED.glob('*.expand.txt')}


def _put_in(tree: Recorded, request: floor.Request) -> list[str]:
    """What an expanded answer holds besides the collection itself."""
    members = tree.members(request.path)
    below = [f'{uri}/PCIeFunctions' for uri in members] if request.target.endswith(DEEP) else []
    below = [uri for uri in below if uri in tree.documents]
    return [*members, *below, *(uri for collection in below for uri in tree.members(collection))]


@pytest.mark.parametrize('name', [n for n in LISTS if n not in MADE])
def test_both_ways_read_the_same_resources_of_the_recording(name: str, shared: Path):
    """What $expand saves is requests, not knowledge: expanded collections bring exactly what plain reads ask singly."""
    vendor, _, model = name.partition('-')
    tree = Recorded(shared / 'recordings' / vendor / model)
    plain, expand = load(name, expand=False), load(name, expand=True)
    brought = set(expand.paths)
    for request in expand.requests:
        if request.target.endswith((QUERY, DEEP)):
            members = _put_in(tree, request)
            assert sum(1 for uri in members if uri in tree.documents) == request.members
            brought |= set(members) & plain.paths
    assert plain.paths == brought
    assert len(expand.requests) < len(plain.requests)


@pytest.mark.parametrize('name', [n for n in LISTS if n not in MADE])
def test_every_request_is_named_by_the_one_that_it_comes_after(name: str, shared: Path):
    """A client that follows links can ask for it then, and not earlier: that is what depth means."""
    vendor, _, model = name.partition('-')
    tree = Recorded(shared / 'recordings' / vendor / model)
    for expand in (False, True):
        listed = load(name, expand=expand)
        by_number = {r.number: r for r in listed.requests}
        for request in listed.requests[2:-1]:
            parent = by_number[request.after]
            answered = [ROOT] if parent.number == 2 else [parent.path]
            answered += _put_in(tree, parent) if parent.target.endswith((QUERY, DEEP)) else []
            assert request.path in {link for uri in answered for link in tree.links(uri)}, request.line()


@pytest.mark.parametrize('name', [n for n in LISTS if n not in MADE])
def test_what_holds_the_truth_is_on_the_list(name: str, shared: Path):
    """Firmware items and primary resources of all accelerators, unless the recording does not have them."""
    vendor, _, model = name.partition('-')
    folder = shared / 'recordings' / vendor / model
    truth = yaml.safe_load((folder / 'expected.yaml').read_text(encoding='utf-8'))
    tree = Recorded(folder)
    listed = load(name, expand=False).paths
    primary = {bare(a['primary_uri']) for a in truth['accelerators']} & set(tree.documents)
    ids = {f['id'] for a in truth['accelerators'] for f in a.get('firmware') or () if f.get('id')}
    items = {u for u in tree.documents if '/UpdateService/' in u and u.rpartition('/')[2] in ids}
    assert set() == (primary | items) - listed


def test_the_larger_tree_has_eight_gpus_that_differ(shared: Path):
    """Repeated from one, with serial numbers and UUIDs of their own; every member of a collection exists."""
    documents, truth = larger.build(
        Recorded(shared / 'recordings' / larger.HOST).documents, Recorded(shared / 'recordings' / larger.BASEBOARD).documents
    )
    gpus = [uri for uri in documents if re.fullmatch(f'{ROOT}/Systems/HGX_Baseboard_0/Processors/GPU_.', uri)]
    assert 8 == len(gpus)
    assert 8 == len({documents[uri]['UUID'] for uri in gpus}) == len({documents[uri]['SerialNumber'] for uri in gpus})
    told = {(a['uuid'], a['serial']) for a in truth['accelerators'] if a['kind'] == 'GPU'}
    assert {(documents[u]['UUID'].lower(), documents[u]['SerialNumber']) for u in gpus} == told
    assert 8 == sum(1 for uri in documents if re.fullmatch(f'{ROOT}/Chassis/HGX_ERoT_GPU_.', uri))
    for collection in ('Chassis', 'Systems', 'UpdateService/FirmwareInventory'):
        members = {m['@odata.id'] for m in documents[f'{ROOT}/{collection}']['Members']}
        assert members <= set(documents)


# ----------------------------------------------------------------------------------------------------------- the server


def test_a_request_waits_for_a_slot(recorded: Path):
    """Two slots: of three requests one waits, and starts when the first has ended."""
    talk = Talk(recorded, connections=3, slots=2)
    for on in range(3):
        talk.send('GET', '/redfish/v1/Things', on=on)
    assert (2, 1) == (talk.bmc.running, len(talk.bmc.waiting))
    talk.tick()
    assert (2, 0) == (talk.bmc.running, len(talk.bmc.waiting))
    talk.tick()
    talk.tick()
    assert (0, 2) == (talk.bmc.running, talk.bmc.peak)
    assert [200, 200, 200] == [talk.read(on)[0] for on in range(3)]


def test_requests_of_one_connection_are_answered_in_order(recorded: Path):
    """Sent at once, they take one slot after the other."""
    talk = Talk(recorded, slots=4)
    talk.send('GET', '/redfish/v1/Things/a')
    talk.send('GET', '/redfish/v1/Things/b')
    assert 1 == talk.bmc.running
    talk.tick()
    assert b'Things/a' in talk.read()[2]
    talk.tick()
    assert b'Things/b' in talk.read()[2]


def test_an_expanded_answer_costs_its_members(recorded: Path):
    """Both members are put in, and each adds its time."""
    talk = Talk(recorded, delay=0.0, member_delay=1000.0)
    talk.send('GET', '/redfish/v1/Things?$expand=.($levels=1)')
    talk.send('GET', '/redfish/v1/Things')
    expanded = talk.tick()
    members = json.loads(talk.read()[2])['Members']
    plain = talk.tick()
    assert ['a', None] == [m.get('Id') for m in members]
    assert 2000 == round(expanded - plain, -1)


def test_three_levels_bring_what_is_below_the_members(tmp_path: Path):
    """Members, their collections, and the members of these; not what Links lead to. One level leaves links there."""
    top = {'ProtocolFeaturesSupported': {'ExpandQuery': {'MaxLevels': 6}, 'OnlyMemberQuery': True}}
    for uri, content in {
        ROOT: body(ROOT, **top),
        f'{ROOT}/Cards': body(f'{ROOT}/Cards', Members=[{'@odata.id': f'{ROOT}/Cards/a'}]),
        f'{ROOT}/Cards/a': body(
            f'{ROOT}/Cards/a', Parts={'@odata.id': f'{ROOT}/Cards/a/Parts'}, Links={'Up': {'@odata.id': f'{ROOT}/Cards'}}
        ),
        f'{ROOT}/Cards/a/Parts': body(
            f'{ROOT}/Cards/a/Parts', Members=[{'@odata.id': f'{ROOT}/Cards/a/Parts/{n}'} for n in '01']
        ),
        f'{ROOT}/Cards/a/Parts/0': body(f'{ROOT}/Cards/a/Parts/0'),
        f'{ROOT}/Cards/a/Parts/1': body(f'{ROOT}/Cards/a/Parts/1'),
    }.items():
        place = tmp_path / uri.strip('/')
        place.mkdir(parents=True, exist_ok=True)
        (place / 'index.json').write_bytes(content)
    tree = Tree(tmp_path, expand=True)
    deep, flat = (tree.answer(f'{ROOT}/Cards?$expand=.($levels={n})') for n in (3, 1))
    (card,) = json.loads(deep.whole.partition(b'\r\n\r\n')[2])['Members']
    assert (['0', '1'], {'@odata.id': f'{ROOT}/Cards'}) == ([m['Id'] for m in card['Parts']['Members']], card['Links']['Up'])
    assert (4, 1) == (deep.members, flat.members)
    assert b'"Id": "a"' in tree.answer(f'{ROOT}/Cards?only').whole
    assert b'Members' in tree.answer(f'{ROOT}/Cards/a/Parts?only').whole


def test_a_bmc_without_expand_refuses_the_query_and_does_not_offer_it(recorded: Path):
    """501, and ExpandQuery all false."""
    talk = Talk(recorded, expand=False)
    assert 501 == talk.ask('GET', '/redfish/v1/Things?$expand=.')[0]
    features = json.loads(talk.ask('GET', '/redfish/v1/')[2])['ProtocolFeaturesSupported']
    assert not any(v for k, v in features['ExpandQuery'].items() if k != 'MaxLevels')


def test_a_session_is_counted_and_ends(recorded: Path):
    """Without it nothing but the root is told; a session that nobody closes is left."""
    talk = Talk(recorded)
    assert 401 == talk.ask('GET', '/redfish/v1/Things', Authorization='')[0]
    assert 200 == talk.ask('GET', '/redfish/v1/', Authorization='')[0]
    wrong = json.dumps({'UserName': USER, 'Password': 'other'}).encode()
    assert 401 == talk.ask('POST', '/redfish/v1/SessionService/Sessions', content=wrong, Authorization='')[0]
    given = json.dumps({'UserName': USER, 'Password': PASSWORD}).encode()
    status, headers, _ = talk.ask('POST', '/redfish/v1/SessionService/Sessions', content=given, Authorization='')
    token = headers['X-Auth-Token']
    assert (201, 1) == (status, len(talk.bmc.tokens))
    assert 200 == talk.ask('GET', '/redfish/v1/Things', Authorization='', X_Auth_Token=token)[0]
    assert 204 == talk.ask('DELETE', headers['Location'], Authorization='', X_Auth_Token=token)[0]
    assert 401 == talk.ask('GET', '/redfish/v1/Things', Authorization='', X_Auth_Token=token)[0]


def test_what_has_not_changed_is_said_so(recorded: Path):
    """An ETag that still holds gives 304 without a body."""
    talk = Talk(recorded)
    etag = talk.ask('GET', '/redfish/v1/Things')[1]['ETag']
    assert (304, b'') == talk.ask('GET', '/redfish/v1/Things', If_None_Match=etag)[::2]
    assert 200 == talk.ask('GET', '/redfish/v1/Things', If_None_Match='"other"')[0]
    assert 1 == talk.bmc.unchanged


def test_filling_puts_in_what_is_required_and_what_was_cut_off(recorded: Path):
    """Id and Name of every resource, and an empty collection behind a single link; a missing member stays missing."""
    bare_tree, filled = Tree(recorded, expand=True), Tree(recorded, expand=True, fill=True)
    assert b'404' in bare_tree.answer('/redfish/v1/Memory').whole[:20]
    assert b'"Members": []' in filled.answer('/redfish/v1/Memory').whole
    assert {'@odata.id', 'Id', 'Name'} <= set(json.loads(filled.bodies['/redfish/v1/Things/b']))
    assert b'404' in filled.answer('/redfish/v1/Things/c').whole[:20]


def test_the_server_counts_as_a_process_and_ends_with_its_standard_input(recorded: Path):
    """Requests, repeats, connections and logins of real connections; counting sets back; nothing stays behind."""
    with harness.Served(recorded, delay=0.0, slots=1, expand=True) as served:
        for _ in range(2):
            connection = http.client.HTTPConnection('127.0.0.1', served.ports[0], timeout=30)
            for target in ('/redfish/v1/', '/redfish/v1/Things'):
                connection.request('GET', target, headers={'Authorization': f'Basic {BASIC}'})
                answer = connection.getresponse()
                answer.read()
                assert 200 == answer.status
            connection.close()
        counts = served.counts()
        assert (4, 2, 2, 0, 1) == tuple(counts[n] for n in ('requests', 'repeated', 'connections', 'logins', 'peak'))
        assert {'GET /redfish/v1/': 2, 'GET /redfish/v1/Things': 2} == counts['asked']
        assert 0 == served.counts()['requests']
    assert 0 == served._process.returncode


def test_broken_bmcs_are_broken_in_their_own_way(recorded: Path):
    """One takes the connection and says nothing, one refuses it, one sends a byte at a time; the fourth is healthy."""
    with harness.Served(recorded, count=4, silent=1, refusing=1, dripping=1, delay=0.0) as served:
        assert ['silent', 'refusing', 'dripping', 'healthy'] == served.kinds
        silent, refusing, dripping, healthy = served.ports
        with socket.create_connection(('127.0.0.1', silent), 5) as sock:
            sock.sendall(b'GET /redfish/v1/ HTTP/1.1\r\n\r\n')
            sock.settimeout(0.2)
            with pytest.raises(TimeoutError):
                sock.recv(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(('127.0.0.1', refusing), 5)
        for port, most in ((dripping, 1), (healthy, 1 << 16)):
            with socket.create_connection(('127.0.0.1', port), 5) as sock:
                sock.sendall(b'GET /redfish/v1/ HTTP/1.1\r\n\r\n')
                got = sock.recv(1 << 16)
                assert 0 < len(got) <= most
                assert (most == 1) == (len(got) == 1)


# ---------------------------------------------------------------------------------------------------------- the harness


def test_a_bar_says_what_it_wanted_and_judges_by_the_exact_figure():
    """1.204 prints as 1.20 and misses 1.2 all the same; what was not run is short."""
    bars = harness.Bars()
    bars.at_most('a', 1.12, 1.2)
    bars.at_most('b', 1.204, 1.2)
    bars.at_least('c', 120.0, 120)
    bars.at_least('d', None, 3)
    assert [
        'bar a: 1.12, wanted <= 1.2: met',
        'bar b: 1.20, wanted <= 1.2: short',
        'bar c: 120.00, wanted >= 120: met',
        'bar d: not run, wanted >= 3: short',
    ] == bars.lines()
    assert not bars.all_met()


def test_broken_bmcs_stand_among_the_others_in_the_list():
    """None is lost, and no twenty in a row are healthy or broken."""
    kinds = [(n, 'silent') for n in range(5)] + [(n, 'healthy') for n in range(5, 100)]
    spread = _spread(kinds)
    assert sorted(kinds) == sorted(spread)
    assert [0, 20, 40, 60, 80] == [position for position, (_, kind) in enumerate(spread) if kind != 'healthy']


def test_ours_is_measured_on_the_whole_grid_with_expand_and_without():
    """10, 50 and 200 ms with 1, 2, 4 and 8 slots."""
    grid = {(c.delay, c.slots, c.expand) for c in run.cells(['grid'], full=False) if run.OURS in c.clients}
    assert {(d, s, e) for d in (0.01, 0.05, 0.2) for s in (1, 2, 4, 8) for e in (True, False)} == grid


def test_every_limit_has_a_figure():
    """Nothing is judged that is not measured; what is measured beside it is only a row."""
    rows = ('wall-over-floor', 'in-hand-over-floor', 'repeated-over-flat', 'ironic-wall-ratio')
    told = {f'{row}-{way}' for row in rows for way in ('expand', 'plain')} | {'ironic-requests-ratio-expand'}
    of_all = {'wall-over-schedule-expand', 'wall-over-schedule-plain'}
    assert (set(run.LIMITS) | told) - of_all == set(run.bars_of({}, 'peers', run.HGX))


def test_the_bar_of_schedules_is_about_the_worst_of_all_trees():
    """Each recording, the larger tree and the one of 134 devices, with $expand and without."""
    cells = [cell for cell in run.cells(run.ALL, full=False) if run.OURS in cell.clients]
    assert {*run.OTHERS, run.HGX, larger.NAME, many.NAME} == {cell.tree for cell in cells}
    found = {}
    for number, cell in enumerate(cells):
        best = load(cell.tree, expand=cell.expand).counting(frozenset()).schedule(cell.cost)
        run_of_it = {'wall': best * (1 + number / 100), 'asked': {}}
        found[cell, run.OURS] = run.Results(runs=[run_of_it])
    ratios = run.over_schedules(found)
    assert {(cell.tree, cell.expand) for cell in cells} == set(ratios)
    worst = {way: max(1 + n / 100 for n, cell in enumerate(cells) if cell.expand is way) for way in (True, False)}
    assert {way: pytest.approx(worst[way]) for way in worst} == {way: run._worst(ratios, expand=way) for way in worst}


def test_peers_are_locked_like_everything_else():
    """requirements/bench.txt has each requirement of the extra bench, or includes it (test_lock.py compares the versions)."""
    locked = peers.LOCK.read_text(encoding='utf-8') + ''.join(
        (peers.LOCK.parent / f'{name}.txt').read_text(encoding='utf-8') for name in ('cloud', 'test', 'demo', 'core')
    )
    names = {line.partition('==')[0] for line in locked.splitlines() if '==' in line}
    assert set() == {re.split('[<>=!~]', one)[0].replace('_', '-') for one in peers.requirements()} - names
    assert {need for peer in peers.PEERS for need in peer.needs} <= {re.split('[<>=!~]', r)[0] for r in peers.requirements()}


# -------------------------------------------------------------------------------------------------------------- flashing


def ended_at(last: float, *, nodes: int = 1, cards: int = 8, flashed: int | None = None, failures: int = 0) -> flash.Found:
    """What a run of ours may tell."""
    return flash.Found(
        case=flash.Case(name='x', nodes=nodes, cards=cards),
        client=flash.OURS,
        flashed=nodes if flashed is None else flashed,
        locked=nodes,
        uploads=nodes * cards,
        starts=nodes,
        written=nodes * cards,
        slowest=300.0,
        restart=30.0,
        ended=[last] * nodes,
        requests=1,
        connections=1,
        server_cpu=0.0,
        real=1.0,
        told={'failures': failures},
    )


def judged(*found: flash.Found) -> list[str]:
    """The bars of runs, at 300 s a device and 30 s a restart."""
    return flash.judge([found[0].case], found, 300.0, 30.0).lines()


def test_one_node_has_its_restart_beside_the_bar_and_a_fleet_has_not():
    """390 s less 30 s are 1.2 times the device; a fleet's restarts are part of its time."""
    assert ['bar flash-one-node: 1.20, wanted <= 1.2: met'] == judged(ended_at(390))
    assert ['bar flash-fleet: 1.30, wanted <= 1.3: met'] == judged(ended_at(390, nodes=100, cards=1))
    assert ['bar flash-fleet: 1.31, wanted <= 1.3: short'] == judged(ended_at(392, nodes=100, cards=1))


def test_the_worst_round_counts():
    """A good one does not make up for it."""
    assert ['bar flash-one-node: 1.40, wanted <= 1.2: short'] == judged(ended_at(330), ended_at(450))


@pytest.mark.parametrize('wrong', [{'flashed': 99}, {'failures': 1}])
def test_a_fast_fleet_that_left_a_node_out_is_short(wrong: dict[str, int]):
    """By the machine's own account, or by the client's."""
    assert ['bar flash-fleet: not run, wanted <= 1.3: short'] == judged(ended_at(310, nodes=100, cards=1, **wrong))


def test_the_bmc_takes_as_many_updates_at_once_as_there_are_cards():
    """Eight begin, and each card takes its own image only."""
    cards = [f'{machine.BMC}/{machine.item(n)}' for n in range(8)]
    found = machine.build(Parameters(parallel_updates=8), cards=8).machine
    for number, key in enumerate(cards):
        image = build_image(model=machine.IMAGE_MODEL, component=machine.component(number), version=machine.NEW)
        found.image_arrived(found.begin_update(machine.BMC, [key]), read_image(image))
    assert ['Running'] * 8 == [task.state.value for task in found.bmcs[machine.BMC].tasks.values()]
    other = machine.build(Parameters(parallel_updates=8), cards=8).machine
    task = other.begin_update(machine.BMC, cards[:1])
    other.image_arrived(task, read_image(image))
    assert 'Exception' == task.state.value


def test_pauses_are_jumped_over_and_the_flash_still_takes_its_time():
    """Our client on a real emulator: 300 s of flashing and two of 15 s of power pass, and the machine says that it is done."""
    arguments = SimpleNamespace(flash_seconds=300.0, reset_seconds=15.0, delay=0.0, slots=4, poll=30.0, limit=120.0)
    found = flash.measure(flash.OURS, flash.Case(name='one', nodes=1, cards=2), arguments)
    assert (1, 1, 1, []) == (found.flashed, found.locked, found.starts, found.told['failed'])
    assert 330.0 <= found.last
    assert found.last - found.told['skipped'] <= found.real


def test_our_periodic_flashes_a_fleet():
    """What of Ironic's database is replaced there is all that a turn asks for."""
    arguments = SimpleNamespace(flash_seconds=60.0, reset_seconds=5.0, delay=0.0, slots=4, poll=30.0, limit=120.0)
    found = flash.measure(flash.OURS, flash.Case(name='fleet', nodes=2, cards=1), arguments)
    assert ([], 2, 2, 2) == (found.told['failed'], found.flashed, found.locked, found.starts)


TRAY = flash.CASES['tray']


def bundle(last: float, client: str = flash.BUNDLE, **more: int) -> flash.Found:
    """What a run with a tray may tell: one upload, one start, each component once, unless it is said otherwise."""
    return replace(ended_at(last), case=TRAY, client=client, **({'uploads': 1} | more))


def test_a_bundle_is_judged_by_its_slowest_component_and_the_restart():
    """363 s are 1.1 times 300 s and 30 s; what one upload for each component takes is only a row."""
    assert ['bar bundle: 1.10, wanted <= 1.1: met'] == judged(bundle(363), bundle(2400, flash.ALONE, uploads=8))
    assert ['bar bundle: 1.11, wanted <= 1.1: short'] == judged(bundle(330), bundle(365))
    slower = replace(bundle(363), slowest=400.0)
    assert ['bar bundle: 0.84, wanted <= 1.1: met'] == judged(slower)


@pytest.mark.parametrize(
    'wrong', [{'uploads': 2}, {'starts': 2}, {'written': 7}, {'written': 9}, {'flashed': 0}, {'locked': 0}, {'nothing': 1}]
)
def test_a_bundle_that_was_not_one_upload_and_one_restart_is_short(wrong: dict[str, int]):
    """Nor is one that wrote a component twice, left one out or open, or that was not sent at all."""
    found = bundle(340, flash.ALONE) if 'nothing' in wrong else bundle(340, **wrong)
    assert ['bar bundle: not run, wanted <= 1.1: short'] == judged(found)


def test_a_journal_tells_of_the_slowest_component_of_all_uploads():
    """From the arrival of its own upload; what was skipped or has failed was not written, and other systems do not count."""
    told = [
        {'what': 'upload', 'time': 10.0, 'task': 0},
        {'what': 'skipped', 'time': 10.0, 'task': 0},
        {'what': 'written', 'time': 110.0, 'task': 0},
        {'what': 'written', 'time': 310.0, 'task': 0},
        {'what': 'upload', 'time': 400.0, 'task': 1},
        {'what': 'failed', 'time': 900.0, 'task': 1},
        {'what': 'written', 'time': 600.0, 'task': 1},
        {'what': 'restarted', 'time': 950.0, 'system': 'host'},
        {'what': 'restarted', 'time': 950.0, 'system': 'dpu'},
    ]
    assert Journal(uploads=2, starts=1, written=3, slowest=300.0) == read_journal(told)
    assert Journal(uploads=0, starts=0, written=0, slowest=0.0) == read_journal([])


@pytest.mark.parametrize(('client', 'uploads'), [(flash.BUNDLE, 1), (flash.ALONE, 2)])
def test_a_tray_is_flashed_by_a_bundle_and_by_one_upload_for_each_component(client: str, uploads: int):
    """By the machine's own account: the same components run, both after one start; only the uploads differ, and their time."""
    arguments = SimpleNamespace(flash_seconds=60.0, reset_seconds=15.0, delay=0.0, slots=4, poll=30.0, limit=300.0)
    found = flash.measure(client, replace(TRAY, cards=2), arguments)
    assert ([], 1, 1) == (found.told['failed'], found.flashed, found.locked)
    assert (uploads, 1, 2) == (found.uploads, found.starts, found.written)
    assert (client == flash.BUNDLE) == found.is_one_upload
    assert found.slowest == pytest.approx(60.0, abs=1.0)
    assert 30.0 == found.restart
    assert found.last >= uploads * 60.0 + 30.0


def test_a_tray_begins_with_its_locks_closed_or_open():
    """Whether the host has a way to a card is asked of all its ways."""
    for closed in (True, False):
        settings = {key: value for n in range(2) for key, value in tray.locks(n, closed).items()}
        found = tray.build(Parameters(gpus=2, settings=settings), 2).machine
        keys = [f'{machine.BMC}/{tray.item(n)}' for n in range(2)]
        assert [closed] * 2 == [is_closed(found, key) for key in keys]
    assert not is_closed(found, 'host/UEFI of another')


@pytest.mark.parametrize(
    'name',
    [
        'flash/clock.py',
        'flash/clients/ironic_firmware.py',
        'placement/clients/turns.py',
        'placement/clients/cyborg_conductor.py',
        'placement/clients/nova_report.py',
    ],
)
def test_what_runs_beside_peers_imports_nothing_of_ours(name: str):
    """Their environment is without us; what they share lies beside them."""
    tree = ast.parse((Path(flash.__file__).parents[1] / name).read_text(encoding='utf-8'))
    modules = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    modules |= {n.module or '' for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert set() == {m for m in modules if m.startswith(('baremetal_acc', 'benchmarks'))}


# ------------------------------------------------------------------------------------------------------------- placement


def published(client: str, seconds: float, *, calls: int = 1) -> list[publishing.Found]:
    """One round of a client, in which every case took the same."""
    usual = {'client': client, 'asked': {}, 'failed': {}}
    return [publishing.Found(case=case, seconds=seconds, cpu=seconds, calls=calls, **usual) for case in publishing.CASES]


def test_placement_counts_requests_by_what_they_are_and_begins_anew_when_it_told():
    """Names and UUIDs do not make another request of it; an error of the server is told by itself."""
    own = '0d7f3c55-9f7b-4d7f-8a43-4c2f7f3b9a01'

    def placement(environ, start_response):
        start_response('500 no' if environ['PATH_INFO'].endswith('traits') else '200 OK', [])
        return [b'{}']

    counting = served.Counting(placement)
    told: list[str] = []

    def ask(method: str, path: str) -> dict[str, object]:
        return json.loads(
            b''.join(counting({'REQUEST_METHOD': method, 'PATH_INFO': path}, lambda status, headers: told.append(status)))
        )

    for method, path in (
        ('PUT', f'/resource_providers/{own}/traits'),
        ('PUT', f'/resource_providers/{own}/inventories'),
        ('PUT', f'/resource_providers/{own[:-1]}2/inventories'),
        ('PUT', '/traits/CUSTOM_A'),
    ):
        ask(method, path)
    found = ask('GET', served.COUNTS)
    inventories, traits = (f'PUT /resource_providers/{{uuid}}/{what}' for what in ('inventories', 'traits'))
    assert {inventories: 2, traits: 1, 'PUT /traits/{name}': 1} == found['asked']
    assert {f'{traits} 500': 1} == found['failed']
    assert {} == ask('GET', served.COUNTS)['asked']


def test_the_most_calls_of_all_rounds_count_and_the_median_of_times():
    """A good round does not make up for a bad one; one slow round of a noisy machine is no measure."""
    rounds = [*published('ours', 1.0), *published('ours', 1.0, calls=2), *published('ours', 9.0), *published('Cyborg', 2.0)]
    lines = publishing.judge(publishing.Results(rounds)).lines()
    assert 'bar first-publish-calls: 2.00, wanted <= 19: met' in lines
    assert 'bar unchanged-calls: 2.00, wanted <= 1: short' in lines
    assert 'bar first-publish-time-over-cyborg: 0.50, wanted <= 0.6: met' in lines


def test_without_cyborg_the_calls_are_judged_all_the_same():
    """Where it cannot be installed there is no ratio, and nothing else is let off."""
    lines = publishing.judge(publishing.Results(published('ours', 1.0))).lines()
    assert ['first-publish-calls', 'unchanged-calls', 'one-reprogrammed-calls'] == [
        line.split()[1].rstrip(':') for line in lines
    ]


def test_our_publisher_takes_the_calls_that_the_page_says(tmp_path: Path):
    """Counted by a real placement, and looked at there: what is on offer is what was told."""
    with publishing.Placement(tmp_path, database=None, threads=1) as placement:
        client = publishing.Client(publishing.OURS, placement.url)
        try:
            list(publishing.measure(client, placement, nodes=0))
            found = {one.case: one.calls for one in publishing.measure(client, placement, nodes=2)}
        finally:
            client.close()
    expected = {publishing.FIRST: 19, publishing.UNCHANGED: 1, publishing.CHANGED: 4, publishing.WITHDRAWN: 2}
    assert expected == {case: found[case] for case in expected}
    assert 2 * 19 == found[publishing.ALL]


# ------------------------------------------------------------------------------------------------------------------ IPMI


def ipmi_found(client: str, case: str, delay: str, figure: float, turn: int = 0) -> ipmi.Found:
    return ipmi.Found(client=client, case=case, delay=delay, figure=figure, asked=1, turn=turn)


def ipmi_bars(**factors: float) -> dict[str, str]:
    """What the bars say when ours takes so many times ipmitool's time; 10 commands a second of ipmitool's."""
    found = []
    for delay in ipmi.DELAYS:
        for case in ipmi.CASES:
            factor = factors.get(case.replace(', ', '_').replace(' ', '_').replace('.', '_'), 0.05)
            found += [
                ipmi_found(ipmi.OURS, case, delay, 10 / factor if case == 'commands' else factor),
                ipmi_found(ipmi.IPMITOOL, case, delay, 10 if case == 'commands' else 1),
            ]
    return {line.split()[1].rstrip(':'): line.rpartition(' ')[2] for line in ipmi.bars(found).lines()}


@pytest.mark.parametrize(
    ('case', 'good', 'bad', 'bar'),
    [
        ('commands', 1.0, 1.01, 'commands-over-ipmitool'),
        ('upload_blocks_of_36', 1.0, 1.01, 'same-blocks-faster-than-ipmitool'),
        ('upload_blocks_of_900', 0.1, 0.11, 'larger-blocks-faster-than-ipmitool'),
        ('upload_HPM_2', 1.2, 1.21, 'hpm-2-time-over-ipmitool'),
    ],
)
def test_each_bar_of_ipmi_is_met_to_the_limit_and_short_behind_it(case, good, bad, bar):
    """With both delays; the others stay as they are."""
    assert {'met'} == set(ipmi_bars(**{case: good}).values())
    found = ipmi_bars(**{case: bad})
    assert {f'0ms-{bar}', f'2ms-{bar}'} == {name for name, word in found.items() if word == 'short'}


def test_without_ipmitool_no_bar_of_ipmi_is_met():
    """What was not measured is short."""
    alone = [ipmi_found(ipmi.OURS, case, delay, 1.0) for delay in ipmi.DELAYS for case in ipmi.CASES]
    assert {'short'} == {line.rpartition(' ')[2] for line in ipmi.bars(alone).lines()}


def test_clients_of_ipmi_are_compared_round_by_round():
    """Of rounds that both were there in: a machine that was slow for one of them slowed both."""
    case, delay = f'upload, {SMALL}', '2 ms'
    ours = [ipmi_found(ipmi.OURS, case, delay, seconds, turn) for turn, seconds in enumerate((1.0, 10.0, 1.0, 1.0))]
    theirs = [ipmi_found(ipmi.IPMITOOL, case, delay, seconds, turn) for turn, seconds in enumerate((2.0, 30.0, 4.0))]
    assert 3.0 == ipmi.faster([*ours, *theirs], delay, case, ipmi.IPMITOOL)
    assert ipmi.faster([*ours, *theirs], '0 ms', case, ipmi.IPMITOOL) is None
    assert ipmi.faster([*ours, *theirs[:1]], delay, case, ipmi.PYTHON_IPMI) is None
    assert 2.0 == ipmi.faster([*ours, *theirs[:1]], delay, case, ipmi.IPMITOOL)
    rates = [ipmi_found(client, 'commands', delay, rate) for client, rate in ((ipmi.OURS, 300.0), (ipmi.IPMITOOL, 100.0))]
    assert 3.0 == ipmi.faster(rates, delay, 'commands', ipmi.IPMITOOL)
    assert 'ours is faster' in ipmi.table([*ours, *theirs])
    assert ipmi.table([*ours, *theirs]).splitlines()[2].endswith(' 3.000')


def test_the_bmcs_of_the_benchmark_answer_ours(tmp_path: Path):
    """One round of ours: the inventory has its cards, and each upload runs in the end, in blocks of the size that there is."""
    desk = ipmi.Desk(tmp_path)
    with ipmi.Served(0.0) as served:
        ipmi.inventory(ipmi.OURS, desk, served, '0 ms')
        blocks = {}
        for kind in BLOCKS:
            served.counts()
            ipmi.upload(ipmi.OURS, desk, served, '2 ms', kind)
            blocks[kind] = served.counts()[kind]['2C/32']
    size = ipmi.IMAGE_BYTES['2 ms']
    assert size // 36 <= blocks[SMALL] <= size // 36 + 30
    assert max(blocks[LARGE], blocks[TOLD]) <= size // 600
