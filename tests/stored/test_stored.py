# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Jobs, targets, nodes and certificates that earlier versions have stored are read by this one, and gone on with."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.certificates import envelope
from baremetal_acc.certificates.folder import CertificateFolder
from baremetal_acc.cli import target_verdict
from baremetal_acc.cli.commands import status
from baremetal_acc.cli.history import HistoryEntry, of_stored
from baremetal_acc.cli.state import TargetState, TargetStore
from baremetal_acc.errors import BmcUnreachable, CertificateInvalid, StaleJob
from baremetal_acc.execution import Target, Tools, tick
from baremetal_acc.model.certificate import Certificate
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY
from baremetal_acc.model.job import Done, Failed, Job, Wait
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from tests.stored import told
from tests.stored.folder import COMMITS, HERE, files, laid_out

NOW = datetime(2026, 11, 29, tzinfo=UTC)

KINDS = {
    'spool': 'test_stores.py',
    'pool': 'test_stores.py',
    'serials': 'test_stores.py',
    'state': 'test_stored.py',
    'nodes': 'test_stored.py',
    'certificates': 'test_stored.py',
}
"""Which file of tests reads all that is in a folder."""


def each(kind: str) -> list[Any]:
    """The files of one kind of all commits."""
    found = [path for commit in COMMITS for path in files(commit, kind, '*.json')]
    return [pytest.param(path, id=str(path.relative_to(HERE))) for path in found]


STATES, NODES = each('state'), each('nodes')


def expected(path: Path) -> Any:
    """What the version that has written a file makes of it."""
    folder = path.parents[1]
    return expected_of(folder.name)[str(path.relative_to(folder))]


@cache
def expected_of(commit: str) -> dict[str, Any]:
    """What a commit makes of its files."""
    found = json.loads((HERE / commit / 'expected.json').read_text())
    assert isinstance(found, dict)
    return found


def plain(value: Any) -> Any:
    """As JSON gives it back."""
    return json.loads(json.dumps(value, default=str))


def asked(found: Any, said: Any) -> Any:
    """What was found, without the fields that the version which has written a file did not have."""
    if isinstance(found, dict) and isinstance(said, dict):
        return {name: asked(held, said.get(name)) for name, held in found.items() if name in said or ':' not in name}
    if isinstance(found, list) and isinstance(said, list) and len(found) == len(said):
        return [asked(*both) for both in zip(found, said, strict=True)]
    return found


def store_of(path: Path, folder: Path, body: Any = None) -> tuple[TargetStore, str]:
    """The state folder of the version that has written a file, with that file, as this version's store; and its target.

    :param body: what lies there instead.
    """
    kept = json.loads(path.read_text())
    root = folder / 'baremetal-acc'
    place = root / 'jobs' / f'{kept["target"]}.json'
    for each_folder in (root, place.parent):
        each_folder.mkdir(mode=0o700)
    place.write_text(path.read_text() if body is None else json.dumps(body))
    place.chmod(0o600)
    return TargetStore(root=root), kept['target']


@pytest.fixture(scope='session')
def states(tmp_path_factory) -> Callable[[Path], TargetState]:
    """What the command line has kept of the target of a file, through its store: taken over once for all tests."""

    @cache
    def read(path: Path) -> TargetState:
        store, target = store_of(path, tmp_path_factory.mktemp('state'))
        return store.read(target)

    return read


@pytest.fixture
def job(states, path) -> Job:
    """The job of a target."""
    found = states(path).job
    assert found is not None
    return found


def jobs(*stands: str) -> list[Any]:
    """The files whose jobs stand so: ``ended``, ``judged`` (they have their verdict, and not ended), ``works``."""
    found = []
    for one in STATES:
        job = json.loads(one.values[0].read_text())['job']
        is_now = 'none' if job is None else 'ended' if job['ended'] else 'judged' if job['verdict'] else 'works'
        if is_now in stands:
            found.append(one)
    return found


@pytest.fixture(params=COMMITS)
def certificates(request, tmp_path) -> Path:
    """The folder of certificates, and the key of their issuer."""
    return laid_out(request.param, 'certificates', tmp_path)


def test_every_file_is_read_by_a_test():
    """A folder of another kind, or a file that nothing here asks for, fails."""
    for commit in COMMITS:
        kinds = {p.name for p in (HERE / commit).iterdir() if p.is_dir()}
        assert kinds <= set(KINDS), commit
        assert {'expected.json'} == {p.name for p in (HERE / commit).iterdir() if p.is_file()}, commit
        read = {str(p.relative_to(HERE / commit)) for kind in ('state', 'nodes') for p in files(commit, kind)}
        assert read == set(expected_of(commit)), commit
        assert kinds >= {'state', 'nodes', 'spool', 'pool', 'serials', 'certificates'}, commit
    assert {'94f9a7d'} < set(COMMITS)


@pytest.mark.parametrize('path', STATES)
def test_a_target_of_the_command_line_is_what_it_was(path, states):
    """As the version that has stored it understood it: its job, each item, its findings in the words that are shown."""
    assert expected(path) == asked(plain(told.of_state(states(path))), expected(path))


@pytest.mark.parametrize('path', STATES)
def test_a_target_has_a_status_and_its_last_job_is_its_history(path, states):
    """Earlier versions stored no history."""
    state = states(path)
    if state.job is None or not state.job.ended:
        assert (state.job is None) is (status.document(state, (), NOW)['job'] is None)
        return
    entry = of_stored(state.job)
    assert (state.job.id, state.job.step, None) == (entry.id, entry.command, entry.ended)
    assert entry == decode(HistoryEntry, json.loads(json.dumps(encode(entry))))
    found = status.document(state, (entry,), NOW)
    assert len(state.quarantined) == len(found['quarantined'])
    assert (entry.outcome, entry.met) == (
        found['last']['outcome'],
        None if found['verified'] is None else found['verified']['met'],
    )


@pytest.mark.parametrize('commit', COMMITS)
def test_what_is_done_next_comes_after_the_job_of_an_earlier_version(commit, tmp_path):
    """The table is made in a database that was taken over."""
    path = next(one.values[0] for one in jobs('ended') if one.values[0].parents[1].name == commit)
    store, target = store_of(path, tmp_path)
    job = store.read(target).job
    assert [job.id] == [e.id for e in store.history(target)]
    store.write(store.read(target), HistoryEntry(id='new', target=target, command='lock', begun=NOW, ended=NOW, outcome='done'))
    assert [job.id, 'new'] == [e.id for e in store.history(target)]


@pytest.mark.parametrize('path', NODES)
def test_a_node_is_what_it_was(path):
    """As the version that has stored it understood it: its job, what was proven, who waived what, what is looked for."""
    assert expected(path) == asked(plain(told.of_node(json.loads(path.read_text()))), expected(path))


@pytest.mark.parametrize('path', STATES)
def test_a_target_that_is_stored_again_is_the_same(path, states):
    """What this version writes of it says no less."""
    again = decode(TargetState, json.loads(json.dumps(encode(states(path)))))
    assert states(path) == again
    assert expected(path) == asked(plain(told.of_state(again)), expected(path))


@pytest.mark.parametrize('path', STATES[:1])
def test_a_target_is_kept_on_by_the_store_of_today(path, tmp_path):
    """Beside what an earlier version has left there."""
    store, target = store_of(path, tmp_path)
    state = replace(store.read(target), lifecycle=7)
    store.write(state)
    assert state == TargetStore(root=store.root).read(target)


def test_the_files_are_of_jobs_in_every_stage():
    """They are no formality: jobs that write, that put back, that have failed, that wait for nothing but their verdict."""
    for commit in COMMITS:
        facts = expected_of(commit)
        jobs = [f['job'] for f in facts.values() if f['job'] is not None]
        items = [item for job in jobs for item in job['items']]
        assert {'planned', 'sent', 'running', 'staged', 'done', 'failed', 'skipped'} == {i['state'] for i in items}, commit
        actions = {'Withdraw', 'CheckImage', 'Release', 'Flash', 'Program', 'Reset', 'Engage', 'Publish'}
        assert actions == {i['action'] for i in items}, commit
        assert {'cli', 'clean', 'deploy', 'service'} == {j['is'][2] for j in jobs}, commit
        assert any(i['flags'][2] for i in items), commit
        assert any(i['task'] and i['state'] == 'running' for i in items), commit
        assert any(j['unmet'] for j in jobs), commit
        assert any(j['unfinished'] and j['stands'][3] for j in jobs), commit
        assert any(j['verdict'] and j['verdict']['waived'] for j in jobs), commit
        assert any(j['undos'] for j in jobs), commit
        for name in (
            'quarantined',
            'waivers',
            'overrides',
            'certificate',
            'drift',
            'watched',
            'handed',
            'undos',
            'attached',
            'regions',
        ):
            assert any(f.get(name) for f in facts.values()), (commit, name)


def later(value: Any) -> set[str]:
    """The fields that say something which 94f9a7d did not have."""
    if isinstance(value, dict):
        own = {name.removeprefix('later: ') for name in value if name.startswith('later: ')}
        return own.union(*map(later, value.values()))
    return set().union(*map(later, value)) if isinstance(value, list) else set()


def test_the_files_of_later_versions_say_what_the_first_could_not():
    """Custody, bundles, hosts that were held off or started, alarms of nodes that nobody uses."""
    facts = expected_of('c24de4d')
    wanted = {'custody', 'bundle', 'retry', 'complaints', 'others', 'held_off', 'interferences', 'pushed', 'evidence', 'forced'}
    assert wanted | {'proven', 'start_allowed', 'untended', 'ramdisk', 'bmcs', 'owned'} <= later(facts)
    chains = [chain for fact in facts.values() for chain in fact.get('later: custody', {}).get('cards', ())]
    assert set() == later(expected_of('94f9a7d')) - {'bmcs', 'owned', 'off_since'}
    assert chains


def target_of(job: Job) -> Target:
    """The machine that a job was begun on."""
    addresses = tuple(BmcAddress(name=name, address=address) for name, address in job.bmcs)
    return Target(name=job.target, node=NodeFacts(name=job.target), bmcs=addresses)


def tools_of(saved: list[Job]) -> Tools:
    """Tools for a machine none of whose BMCs answers."""

    def connect(address: BmcAddress) -> Any:
        raise BmcUnreachable(bmc=address.name, what='no answer')

    return Tools(connect=connect, mechanisms=(), baseline=Baseline(rules=()), catalogue=(), images=None, save=saved.append)


@pytest.mark.parametrize('path', jobs('works'))
def test_a_job_goes_on(job):
    """Its first turn, with BMCs that do not answer yet, waits and forgets nothing."""
    again, outcome = tick(job, target_of(job), tools_of([]), job.created + timedelta(seconds=30))
    assert isinstance(outcome, Wait), outcome
    assert [(i.action, i.task) for i in job.items] == [(i.action, i.task) for i in again.items[: len(job.items)]]
    assert (job.engagements, job.undos, job.bmcs) == (again.engagements, again.undos, again.bmcs)
    assert f'the {job.step} job of {job.created:%Y-%m-%d %H:%M:%S}Z is unfinished' in target_verdict.unfinished(job)


@pytest.mark.parametrize('path', jobs('judged', 'ended'))
def test_a_job_with_a_verdict_ends_by_it(path, job):
    """Nothing is read again of its machine."""
    saved: list[Job] = []
    _, outcome = tick(job, target_of(job), tools_of(saved), job.created + timedelta(seconds=30))
    assert not isinstance(outcome, Wait)
    facts = expected(path)['job']
    demands_met = facts['stands'][2]
    well = not facts['reasons'] and (not facts['unmet'] or not demands_met)
    assert (job.verdict, well) == (outcome.verdict, isinstance(outcome, Done))


@pytest.mark.parametrize('path', jobs('works'))
def test_a_job_is_bound_to_its_machine(job):
    """It is turned on no other machine of that name."""
    addresses = tuple(BmcAddress(name=name, address='https://192.0.2.77') for name, _ in job.bmcs)
    other = Target(name=job.target, node=NodeFacts(name=job.target), bmcs=addresses)
    with pytest.raises(StaleJob, match=job.bmcs[0][1]):
        tick(job, other, tools_of([]), job.created)


@pytest.mark.parametrize('path', jobs('works'))
def test_a_job_past_its_deadline_fails_and_says_why(job):
    """It is not turned for ever."""
    saved: list[Job] = []
    now = job.deadline
    for _ in range(40):
        now += timedelta(minutes=10)
        job, outcome = tick(job, target_of(job), tools_of(saved), now)
        if not isinstance(outcome, Wait):
            break
    assert isinstance(outcome, Failed), outcome
    assert outcome.reasons
    assert saved[-1].ended


@pytest.mark.parametrize('path', STATES[:1])
@pytest.mark.parametrize('where', ['state', 'job'])
def test_a_target_of_a_newer_format_is_refused_by_name(path, where, tmp_path):
    """An interrupted job may be in it: it is named, and is not to be taken away."""
    body = json.loads(path.read_text())
    (body if where == 'state' else body['job'])['format'] = 99
    store, target = store_of(path, tmp_path, body)
    with pytest.raises(StaleJob, match='99, this version reads 1') as caught:
        store.read(target)
    assert [True, True] == [word in str(caught.value) for word in (str(store.root), target)]
    assert 'an interrupted job may be in it' in (caught.value.hint or '')


@pytest.mark.parametrize('path', STATES[:1])
def test_a_field_that_is_not_known_is_refused_by_name(path, tmp_path):
    """A later version has written it, and it may mean anything."""
    body = json.loads(path.read_text())
    body['job']['items'][0]['teleported'] = True
    store, target = store_of(path, tmp_path, body)
    with pytest.raises(StaleJob, match='Item has no field teleported'):
        store.read(target)


@pytest.mark.parametrize('path', NODES[:1])
def test_a_node_of_a_newer_format_is_refused_by_name(path):
    """With what to do about it."""
    from baremetal_acc_ironic.state import node_store

    value = json.loads(path.read_text()) | {'format': 99}
    with pytest.raises(StaleJob, match='has another format than 1') as caught:
        node_store.load(told.node_of(value))
    assert told.UUID in str(caught.value)
    assert 'with the version of baremetal-acc that began it' in (caught.value.hint or '')


@pytest.mark.parametrize('path', NODES[:1])
@pytest.mark.parametrize('packed', ['!', '', 'eJw=', 7])
def test_a_node_whose_packed_state_is_damaged_is_refused_by_name(path, packed):
    """With what to do about it."""
    from baremetal_acc_ironic.state import node_store

    value = json.loads(path.read_text()) | {'packed': packed}
    with pytest.raises(StaleJob, match='cannot be read') as caught:
        node_store.load(told.node_of(value))
    assert told.UUID in str(caught.value)
    assert 'with the version of baremetal-acc that began it' in (caught.value.hint or '')


@pytest.mark.parametrize('path', [p for p in NODES if '94f9a7d' in p.id])
def test_a_node_that_was_handed_over_before_proofs_were_kept_has_one(path):
    """That version handed a node over by a verification alone: its tenant keeps its host. Any other node has no proof."""
    from baremetal_acc_ironic.state import node_store

    value = json.loads(path.read_text())
    state = node_store.load(told.node_of(value))
    assert ('handed' in value) == (state.proven is not None)
    if state.proven is not None and state.certificate is not None:
        assert state.certificate.issued == state.proven
    assert NO_CUSTODY == state.custody
    assert ((), None, False, False) == (state.untended, state.start_allowed, state.owned, state.leased)


def test_a_certificate_proves_what_it_proved(certificates):
    """By the key of its issuer; the bytes that were signed are the bytes that are kept."""
    trust = envelope.trusted([certificates / 'issuer.pem'])
    folder = CertificateFolder(root=certificates / 'kept')
    found = {p.name: p for p in folder.root.rglob('*-d-1.json')}
    assert {'10-d-1.json', '8-d-1.json'} == set(found)
    for path in found.values():
        certificate = envelope.opened(path.read_bytes(), trust)
        assert isinstance(certificate, Certificate)
        assert ('node-1', 'd-1', int(path.name.partition('-')[0])) == (
            certificate.node.name,
            certificate.deployment,
            certificate.lifecycle,
        )
        assert path.read_bytes() == folder.get(certificate.reference)
        assert (
            path.read_bytes()
            == json.dumps(json.loads(path.read_bytes()), sort_keys=True, separators=(',', ':'), ensure_ascii=False).encode()
            + b'\n'
        )
        assert certificate.accelerators
        assert encode(certificate.issued) == json.loads(path.read_bytes())['certificate']['issued']
    assert found['10-d-1.json'] == (folder.root / 'by-name' / 'node-1.json').resolve()


def test_a_certificate_that_was_changed_or_is_newer_proves_nothing(certificates):
    """Whoever changed it."""
    trust = envelope.trusted([certificates / 'issuer.pem'])
    [path] = (certificates / 'kept').glob('*/10-d-1.json')
    with pytest.raises(CertificateInvalid, match='the signature does not match'):
        envelope.opened(path.read_bytes().replace(b'"lifecycle":10', b'"lifecycle":12'), trust)
    with pytest.raises(CertificateInvalid, match='does not have format 1'):
        envelope.unchecked(path.read_bytes().replace(b'"format":1', b'"format":9'))
