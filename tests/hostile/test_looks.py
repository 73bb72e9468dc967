# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An inspection of a BMC that keeps to no rule ends well. Connections to a real server; ``make soak-hostile`` does more."""

import json
import os
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from hypothesis import strategies as st

from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.locks.registry import mechanisms
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import HOST
from baremetal_acc.planning.verify import verify
from tests.hostile.bmc import Answer, Honest, Request, Sent, head
from tests.hostile.look import LARGE, LOCKED, NODE, NOW, SMALL, Case, case, faults, judge, known_of, look, tree
from tests.hostile.mutate import DOCUMENT, HEAVY, SLOW, WIRE, Hostile
from tests.hostile.oracle import Served, closed, false_locks, false_versions

REPEATABLE = hypothesis.settings(
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)


def replay(made: Case) -> str:
    """How to have that look again."""
    return f'.venv/bin/python -m tests.hostile.soak --seed {made.script.seed} --only {made.script.number}'


def well(bmc, made):
    """Look, and demand that nothing is wrong."""
    seen, found = judge(bmc, made)
    assert not found, '\n'.join([*found, f'again: {replay(made)}'])
    return seen


@hypothesis.settings(REPEATABLE, max_examples=40)
@hypothesis.given(number=st.integers(0, 10**6))
def test_every_look_at_a_hostile_bmc_ends_well(bmc, number):
    """In an inventory or an error of ours, in time, without a lock, a version or a connection that nobody gave cause for."""
    made = case(0, number, bmc.stranger)
    hypothesis.assume(not made.script.slow and not made.script.heavy)
    well(bmc, made)


@pytest.mark.parametrize('name', [n for n in (*DOCUMENT, *WIRE) if n not in SLOW])
def test_a_look_ends_well_whatever_single_thing_the_bmc_does(bmc, name):
    """Each kind of change alone, in nearly every answer, of a tree that is locked and of one that is open."""
    for number, (recording, variant) in enumerate((('nvidia/bluefield3', 'closed'), ('dmtf/rackmount', 'open'))):
        script = Hostile(
            tree=tree(recording, variant), seed=2, number=number, stranger=bmc.stranger, expand=number == 0, only=(name,),
            slow=True, heavy=True, rate=0.3 if name in HEAVY else 0.9, wire=1.0 if name in WIRE else 0.0, entry=0.0,
        )  # fmt: skip
        made = Case(name=recording, variant=variant, script=script, then_honest=True)
        seen, found = judge(bmc, made)
        assert not found, '\n'.join(found)
        assert script.used.get(name, 0) >= 1
        assert seen.inventory is not None or seen.error is not None


@pytest.mark.parametrize('name', sorted(SLOW))
def test_a_slow_bmc_costs_a_look_its_budget_and_no_more(bmc, name):
    """Bytes that drip, and answers that never come: the look ends, with what it has."""
    script = Hostile(
        tree=tree('dmtf/rackmount', 'open'), seed=3, number=0, stranger=bmc.stranger, only=(name,), slow=True, rate=0.5,
        wire=1.0, entry=0.0,
    )  # fmt: skip
    made = Case(name='dmtf/rackmount', variant='open', script=script)
    _, found = judge(bmc, made)
    assert not found, '\n'.join(found)


@pytest.mark.parametrize('recording', [*SMALL, *LARGE])
def test_an_honest_look_finds_no_fault_with_the_client_or_with_the_oracle(bmc, recording):
    """What the oracle holds against hostile looks, it does not hold against these; with $expand and without they are equal."""
    known = known_of(bmc, recording, 'open')
    script = Honest(tree=tree(recording, 'open'), expand=True)
    seen = look(bmc, script, tls=True)
    assert [] == faults(seen, script)
    assert seen.inventory is not None
    assert {a.id for a in known.inventory.accelerators} == {a.id for a in seen.inventory.accelerators}


def test_the_oracle_sees_a_lock_and_a_version_that_nobody_sent(bmc):
    """A judge that never says no judges nothing: an inventory of a closed tree is false for an open one."""
    opened, shut = tree('nvidia/bluefield3', 'open'), tree('nvidia/bluefield3', 'closed')
    script = Honest(tree=shut)
    seen = look(bmc, script)
    assert seen.inventory is not None
    assert any(LockState.LOCKED_REPORTED is r.state for a in seen.inventory.accelerators for r in a.locks)
    assert [] == false_locks(seen.inventory, Served({HOST: (script.log, {})}))
    other = [Sent(method='GET', target=uri, bodies=(json.dumps(body).encode(),)) for uri, body in opened.items()]
    assert false_locks(seen.inventory, Served({HOST: (other, {})}))
    assert false_versions(seen.inventory, Served({}))


class Flips(Honest):
    """A BMC whose locks are closed at first, and open afterwards; to who has an ETag it says that nothing has changed."""

    after = None

    def answer(self, request: Request) -> Answer:
        if self.after is not None:
            self.tree = self.after
            if 'if-none-match' in request.headers:
                return Answer(pieces=[head(304, {'ETag': '"1"'})], sent=Sent(method='GET', target=request.target))
        answer = super().answer(request)
        answer.pieces[0] = answer.pieces[0].replace(b'\r\n', b'\r\nETag: "1"\r\n', 1)
        return answer


@pytest.mark.parametrize('recording', ['nvidia/bluefield3', 'dmtf/rackmount', 'nvidia/gh200'])
def test_an_etag_hides_no_lock_that_was_opened(bmc, recording):
    """A second look over one connection: every lock is open now, and the BMC says 304 wherever it is asked whether it is."""
    script = Flips(tree=tree(recording, 'closed'), expand=False)
    bmc.play(script)
    states = []
    with RedfishDriver().connect(BmcAddress(name=HOST, address=bmc.http)) as connection:
        for _ in range(2):
            seen = connection.look(NOW)
            states.append({r.state for a in seen.accelerators for m in mechanisms() for r in m.read(a, [seen.reader], NOW)})
            script.after = tree(recording, 'open')
    bmc.play(None)
    assert LockState.LOCKED_REPORTED in states[0]
    assert LockState.LOCKED_REPORTED not in states[1]


class Unasked(Honest):
    """A BMC that says 304 although nobody asked whether anything has changed."""

    def answer(self, request: Request) -> Answer:
        if request.target.count('/') < 4 or request.method != 'GET':
            return super().answer(request)
        return Answer(pieces=[head(304, {'ETag': '"1"'})], sent=Sent(method='GET', target=request.target))


def test_not_modified_is_no_answer_to_who_has_nothing(bmc):
    """304 for what was never read: a gap, and a verdict that is not met."""
    script = Unasked(tree=tree('nvidia/gh200', 'closed'))
    seen = look(bmc, script)
    assert [] == faults(seen, script)
    assert seen.inventory is not None
    assert any('304' in gap.reason or 'redirect' in gap.reason for gap in seen.inventory.gaps)
    assert not verify(seen.inventory, LOCKED, NODE, (), (), lifecycle=1).met


def test_a_member_that_claims_another_collections_uri_closes_no_lock(bmc):
    """Chassis holds a member that says it is a firmware item, write protected: the item itself says that it is open."""
    honest = tree('nvidia/bluefield3', 'open')
    known = known_of(bmc, 'nvidia/bluefield3', 'open')
    reading = next(r for a in known.inventory.accelerators for r in a.locks if r.mechanism == 'write_protected')
    spoofed = {**honest[reading.ref.uri], 'WriteProtected': True}
    members = honest['/redfish/v1/Chassis']['Members']
    # The expanded answer of the collection holds it; at its own place it is as it was.
    script = Honest(tree={**honest, '/redfish/v1/Chassis': {**honest['/redfish/v1/Chassis'], 'Members': [*members, spoofed]}})
    seen = look(bmc, script)
    assert [] == faults(seen, script, known)
    assert seen.inventory is not None
    now = next(r for a in seen.inventory.accelerators for r in a.locks if r.place == reading.place)
    assert LockState.UNLOCKED == now.state
    assert not closed(now, Served({HOST: (script.log, {})}))


CHILD = """
import resource, sys
from datetime import timedelta
from baremetal_acc.bmc.driver import BmcAddress
from baremetal_acc.bmc.redfish.driver import RedfishDriver
from baremetal_acc.bmc.retry import ReadRetry
from baremetal_acc.errors import AccError
from tests.hostile.look import NOW
address = BmcAddress(name='host', address=sys.argv[1], budget=timedelta(seconds=8), timeout=timedelta(seconds=4))
driver = RedfishDriver(patience=ReadRetry(attempts=1))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    with driver.connect(address) as connection:
        connection.look(NOW)
except AccError as exc:
    print(exc, file=sys.stderr)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""

MOST_MEMORY = 400 * 1024
"""KiB that one look may add to a process, whatever is sent: a few times what 8 MiB and 400,000 values take."""


def test_no_answer_makes_a_look_take_more_memory_than_a_machine_has(bmc):
    """Much packed into little, hundreds of thousands of values, members and levels: measured in a process of its own."""
    checkout = Path(__file__).parents[2]
    script = Hostile(
        tree=tree('nvidia/gh200', 'open'), seed=4, number=0, stranger=bmc.stranger, only=(*HEAVY, 'header_flood'), heavy=True,
        rate=0.6, wire=0.5, entry=0.0,
    )  # fmt: skip
    bmc.play(script)
    done = subprocess.run(
        [sys.executable, '-c', CHILD, bmc.http],
        cwd=checkout,
        env={**os.environ, 'PYTHONPATH': str(checkout)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    bmc.play(None)
    assert '' == ''.join(line for line in done.stderr.splitlines(keepends=True) if 'Traceback' in line)
    assert 0 == done.returncode, done.stderr
    assert len(script.used) >= 4
    assert int(done.stdout) < MOST_MEMORY
