# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What people read: a row for each action, similar rows merged, marks on what a person answers for, one cause on each line."""

import io
from dataclasses import replace
from datetime import timedelta

import pytest

from baremetal_acc.cli.durations import EarlierJobs
from baremetal_acc.cli.exits import Exit
from baremetal_acc.cli.output import card_list, layout, results
from baremetal_acc.cli.state import TargetState, TargetStore
from baremetal_acc.errors import NotMet, Refused, WriteFailed
from baremetal_acc.model.action import CheckImage, Engage, Flash, Program, Reset, ResetPurpose
from baremetal_acc.model.custody import CardCustody, Chain, CustodyDemand, Origin
from baremetal_acc.model.finding import ChainOfCustody, PathState
from baremetal_acc.model.job import Flow
from baremetal_acc.model.job_item import ItemState
from baremetal_acc.model.lock import Coverage, LockState, ResetKind, Scope, WritablePart, WritePath
from baremetal_acc.model.note import Demanded, NoRestoreImage, Note
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import CUSTODY, Subject
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.model.waiver import Relaxation, Relaxed, Waived
from baremetal_acc.planning.job_transitions import begin
from baremetal_acc.render import action_rows, causes, marks, plan_lines, similar, verdict_lines
from tests.unit.planning import values as v

NOTHING = Verdict(target='node-1', findings=())


def card(number: int) -> AcceleratorId:
    """The id of a GPU."""
    return AcceleratorId(f'uuid:gpu-{number}')


def labels(count: int) -> dict[AcceleratorId, str]:
    """Labels of GPUs."""
    return {card(n): f'H100 GPU_{n}' for n in range(count)}


def flash(number: int, expects: str = v.OLD) -> Flash:
    """A write of a GPU's firmware."""
    place = v.ref(f'UpdateService/FirmwareInventory/GPU_{number}')
    return Flash(accelerator=card(number), component=f'GPU_{number}', ref=place, image='new', version=v.NEW, expects=expects)


def engage(number: int, field: str = 'Lock', mechanism: str = 'write_protected', scope: Scope = Scope.DEVICE) -> Engage:
    """A lock of a GPU."""
    place = v.ref(f'Chassis/GPU_{number}')
    return Engage(accelerator=card(number), mechanism=mechanism, ref=place, field=field, blocks=v.HOST_DEVICE, scope=scope)


def reset(purpose: ResetPurpose, kind: ResetKind = ResetKind.NONE) -> Reset:
    """A reset of the host."""
    return Reset(system=v.SYSTEM, purpose=purpose, kind=kind, why=())


def path_finding(number: int, **changes) -> Finding:
    """The finding about a GPU's path from the host."""
    values = {
        'accelerator': card(number),
        'label': f'H100 GPU_{number}',
        'subject': Subject.from_text('lock host-device'),
        'fact': PathState(accepted=frozenset({LockState.LOCKED_VERIFIED}), state=LockState.LOCKED_VERIFIED),
        'met': Met.YES,
        'rule': 'all',
        'state': LockState.LOCKED_VERIFIED,
    }
    return Finding(**(values | changes))


def cells(rows) -> list[tuple[str, str, str, str]]:
    """The cells of rows."""
    return [row.cells for row in rows]


# ------------------------------------------------------------------------------------------------------------------ plans


def test_each_action_is_one_row_with_its_rule_and_without_a_uri():
    """Settings of one lock are one row with their number; checks of images are no rows."""
    actions = (
        CheckImage(image='new'),
        reset(ResetPurpose.HOLD),
        flash(0),
        engage(0, 'A'),
        engage(0, 'B'),
        engage(1, scope=Scope.BMC, mechanism='lockdown'),
        reset(ResetPurpose.RESUME, ResetKind.POWER_CYCLE),
    )
    demanded = Demanded(subject=Subject.from_text('firmware GPU_0'), what=v.NEW, rule='gpus')
    made = Plan(target='node-1', actions=actions, notes=(Note(label='H100 GPU_0', content=demanded),))
    judged = Verdict(target='node-1', findings=(path_finding(0), path_finding(1, rule='other')))
    assert [
        ('host 1', 'power off', '', ''),
        ('H100 GPU_0', 'flash', 'GPU_0 1.0 -> 2.0', 'gpus'),
        ('H100 GPU_0', 'lock (2)', 'write_protected', 'all'),
        ('BMC host', 'lock', 'lockdown', 'all, other'),
        ('host 1', 'power on', 'power-cycle', ''),
    ] == cells(action_rows.of_plan(made, labels(2), judged))
    assert '1 flash, 3 lock' == action_rows.counts(actions)
    assert 'host off, then on' == action_rows.host(actions)


def test_many_rows_of_identical_cards_are_merged_and_another_version_is_not():
    """Twenty rows are not merged; with more, a card that runs another version keeps its row."""
    few = Plan(target='node-1', actions=tuple(flash(n) for n in range(20)))
    assert 20 == len(action_rows.of_plan(few, labels(20), NOTHING))
    many = Plan(target='node-1', actions=(*(flash(n) for n in range(20)), flash(20, '1.5'), engage(0), engage(1)))
    assert [
        ('H100 GPU_*', 'flash (20)', 'GPU_* 1.0 -> 2.0', ''),
        ('H100 GPU_20', 'flash', 'GPU_20 1.5 -> 2.0', ''),
        ('H100 GPU_*', 'lock (2)', 'write_protected', ''),
    ] == cells(action_rows.of_plan(many, labels(21), NOTHING))


def test_notes_are_told_once_for_all_cards_and_not_twice_with_the_table():
    """The rule of a write is in the table; ``--long`` merges nothing that differs."""
    notes = [Note(label=f'H100 GPU_{n}', content=NoRestoreImage(subject=Subject.from_text(f'firmware GPU_{n}'), image='i'))
             for n in range(8)]  # fmt: skip
    demanded = Demanded(subject=Subject.from_text('firmware GPU_0'), what=v.NEW, rule='gpus')
    notes.append(Note(label='H100 GPU_0', content=demanded))
    (line,) = plan_lines.noted(notes, 'node-1', long=False, with_unmet=True)
    assert line.startswith('note: H100 GPU_* (8): firmware GPU_* has no restore image: ')
    assert 8 == len(plan_lines.noted(notes, 'node-1', long=True, with_unmet=True))


@pytest.mark.parametrize(
    ('purposes', 'expected'),
    [
        ((), 'no reset'),
        ((ResetPurpose.HOLD,), 'host off, and left off'),
        ((ResetPurpose.RESUME,), 'host powered on'),
        ((ResetPurpose.ENFORCE,), 'host 1 reset'),
    ],
)
def test_the_summary_tells_what_happens_to_the_host(purposes, expected):
    """Its power, and resets."""
    assert expected == action_rows.host([reset(purpose) for purpose in purposes])


def test_similar_texts_are_merged_and_others_are_an_error():
    """Only numbers differ."""
    assert 'GPU_* runs 96.0' == similar.merged(['GPU_0 runs 96.0', 'GPU_1 runs 96.0'])
    assert 'A GPU_* (2), B' == similar.named(['A GPU_0', 'A GPU_1', 'B'])
    with pytest.raises(ValueError, match='more than numbers'):
        similar.merged(['GPU_0', 'FPGA_0'])


# ------------------------------------------------------------------------------------------------------------------- jobs


def job(*states: ItemState, actions=None):
    """A job that has ended, with the states of its actions."""
    actions = actions or (flash(0), flash(1), engage(0), engage(0, 'B'), reset(ResetPurpose.RESUME))
    made = begin(
        Plan(target='node-1', actions=actions), identity='j', node='node-1', flow=Flow.CLI, step='apply', lifecycle=1,
        now=v.NOW, timeout=timedelta(hours=1), requester='me', demands_met=True,
    )  # fmt: skip
    ended = (i.to(s, v.NOW + timedelta(minutes=12)) for i, s in zip(made.items, states or (ItemState.DONE,) * 9, strict=False))
    return replace(made, items=tuple(ended), ended=True)


def test_a_job_that_ended_well_has_a_row_for_each_write_and_one_for_the_locks_of_a_card():
    """A reset that was done has none."""
    items = job().items
    assert [
        ('H100 GPU_0', 'flash', 'GPU_0 1.0 -> 2.0', 'done'),
        ('H100 GPU_1', 'flash', 'GPU_1 1.0 -> 2.0', 'done'),
        ('H100 GPU_0', 'lock (2)', 'write_protected', 'done'),
    ] == cells(action_rows.of_job(items, labels(2)))
    assert '2 flash, 2 lock' == action_rows.counts_done(items)


def test_what_did_not_succeed_has_a_row_whatever_it_is():
    """A failed write, a reset that was skipped, and a lock in another state than its neighbour."""
    items = job(ItemState.DONE, ItemState.FAILED, ItemState.DONE, ItemState.PLANNED, ItemState.SKIPPED).items
    found = cells(action_rows.of_job(items, labels(2)))
    assert ['done', 'failed', 'done', 'not done', 'skipped'] == [row[3] for row in found]
    assert '1 of 2 flash, 1 of 2 lock' == action_rows.counts_done(items)


def test_the_duration_of_a_plan_is_that_of_the_same_plan_before(tmp_path):
    """On any target; not of another plan, of a job that failed, or of none."""
    tmp_path.chmod(0o700)
    store = TargetStore(root=tmp_path / 'state')
    same = Plan(target='node-9', actions=(flash(5), flash(7), engage(3), engage(5), reset(ResetPurpose.RESUME)))
    assert EarlierJobs(store).lasted(same) is None
    store.write(TargetState(target='node-1', job=replace(job(), reasons=('failed',))))
    assert EarlierJobs(store).lasted(same) is None
    store.write(TargetState(target='node-1', job=job()))
    lasted = EarlierJobs(store).lasted(same)
    assert timedelta(minutes=12) == lasted
    assert EarlierJobs(store).lasted(replace(same, actions=same.actions[1:])) is None
    assert ['about 12 minutes', 'less than a minute', 'duration unknown'] == [
        action_rows.about(time) for time in (lasted, timedelta(seconds=9), None)
    ]


# --------------------------------------------------------------------------------------------------------------- verdicts


def test_the_result_is_one_line_and_each_cause_another():
    """Parts with the same lock share a line; a finding with one cause is a sentence."""
    shared = v.reading(LockState.UNLOCKED)
    parts = [Coverage(subject=WritablePart(scope=Scope.COMPONENT, part=f'P{n}'), state=LockState.UNLOCKED, reading=shared)
             for n in range(2)]  # fmt: skip
    alone = Coverage(subject=WritablePart(scope=Scope.SLOT, part='Slot0'), state=LockState.UNSUPPORTED, reading=None)
    fact = PathState(accepted=frozenset({LockState.LOCKED_VERIFIED}), state=LockState.UNLOCKED, open=(*parts, alone))
    unmet = path_finding(0, fact=fact, met=Met.NO, state=LockState.UNLOCKED)
    judged = Verdict(target='node-1', findings=(unmet, path_finding(1)))
    assert 'not as the baseline wants: 1 finding' == verdict_lines.result(judged)
    ((head, causes_),) = verdict_lines.unmet(judged.unmet)
    assert 'H100 GPU_0, lock host-device: expected locked-verified, and 3 parts are not (rule all)' == head
    assert ['P0, P1 unlocked (', 'Slot0 unsupported ('] == [f'{cause.partition("(")[0]}(' for cause in causes_]
    one = path_finding(0, fact=replace(fact, open=(alone,)), met=Met.NO)
    assert [('no mechanism blocks this path' in head, parts) for head, parts in verdict_lines.unmet([one])] == [(True, ())]
    assert 'as the baseline wants: 1 demand met' == verdict_lines.result(Verdict(target='node-1', findings=(path_finding(1),)))
    assert 'demands nothing' in verdict_lines.result(NOTHING)


def test_what_a_person_answers_for_is_marked():
    """Waivers, acceptances, weaker lock states and relaxations, each by its word; what is proven has no mark."""
    until = v.NOW + timedelta(days=30)
    waived = tuple(
        Waived(accelerator=card(n), label=f'H100 GPU_{n}', path=WritePath.HOST_BMC_IPMI, parts=('x',), rule='boards',
               role='security', reason='no lock', expires=until)
        for n in range(2)
    )  # fmt: skip
    chain = Chain(accelerator=card(0), origin=Origin.ACCEPTED, begun=v.NOW, by=('alice',), until=until, reason='new card')
    custody = ChainOfCustody(demand=CustodyDemand.REQUIRED, custody=CardCustody(accelerator=card(0), chain=chain), at=v.NOW)
    findings = (
        path_finding(0),
        path_finding(1, state=LockState.LOCKED_REPORTED),
        path_finding(2, subject=Subject.from_text('lock host-bmc-ipmi'), state=LockState.UNSUPPORTED, accelerator=card(0)),
        path_finding(0, subject=CUSTODY, fact=custody, state=None),
    )
    relaxed = (Relaxation(kind=Relaxed.PATHS, rule='all', text='host-bmc-redfish need not be blocked'),)
    judged = Verdict(target='node-1', findings=findings, waived=waived, relaxed=relaxed)
    assert (
        'waived until 2026-12-21 12:00:00 UTC by security: host-bmc-ipmi of H100 GPU_* (2) is open, no mechanism blocks it '
        '(rule boards): no lock',
        'accepted by alice until 2026-12-21 12:00:00 UTC: what H100 GPU_0 runs: new card',
        'accepted: lock host-device of H100 GPU_1 is locked-reported (rule all accepts it)',
        'relaxed: rule all: host-bmc-redfish need not be blocked',
    ) == marks.of_verdict(judged, labels(3))
    assert () == marks.of_verdict(Verdict(target='node-1', findings=(path_finding(0),)), labels(1))


@pytest.mark.parametrize(('kind', 'head'), [(NotMet, 'not met'), (Refused, 'refused'), (WriteFailed, 'failed while writing')])
def test_an_error_with_several_causes_has_a_line_for_each(kind, head):
    """With one cause it is one line, as it was."""
    assert (f'{head}: 2 causes', 'one', 'two', '(do this)') == causes.lines(kind(['one', 'two'], hint='do this'))
    assert (f'{head}: one (do this)',) == causes.lines(kind(['one'], hint='do this'))


# ----------------------------------------------------------------------------------------------------------------- layout


def test_lines_are_wrapped_at_blanks_and_keep_uris_whole():
    """On a terminal; elsewhere each stays one line. Control characters of a BMC are replaced in both."""
    uri = '/redfish/v1/' + 'x' * 90
    line = f'  note: {"word " * 20}\x1b[2J{uri}'
    found = list(layout.wrapped([line], 60))
    assert ['  note: ', '      '] == [found[0][:8], found[1][:6]]
    assert max(map(len, found[:-1])) <= 60
    assert f'?[2J{uri}' in found[-1]
    assert [line.replace('\x1b', '?')] == list(layout.wrapped([line], None))


def test_the_width_is_that_of_a_terminal_only(monkeypatch):
    """``--max-width`` overrides it, and COLUMNS that of a terminal."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv('COLUMNS', '77')
    assert [None, 50, 77] == [layout.width(io.StringIO()), layout.width(io.StringIO(), 50), layout.width(Terminal())]
    monkeypatch.setenv('COLUMNS', 'wide')
    assert 80 == layout.width(Terminal())


def test_an_inventory_is_a_list_where_the_table_does_not_fit():
    """Nothing of a row is lost."""
    columns = ('Target', 'Kind', 'Model', 'Identity', 'Place', 'Firmware', 'Functions', 'Lock')
    row = ('node-1', 'FPGA', 'Intel D5005', 'IN1', 'Slot 3', ('F1 2.0', 'F2 1.0'), ('Slot0 gzip',), 'locked')
    bare = ('node-2', 'GPU', None, 'X', '', (), (), 'none')
    assert card_list.instead_of_table(columns, [row, bare], 200) is None
    assert card_list.instead_of_table(columns, [row, bare], None) is None
    found = card_list.instead_of_table(columns, [row, bare], 60)
    assert found is not None
    assert [
        ('node-1:', '  FPGA Intel D5005 IN1 (Slot 3): locked', '    F1 2.0, F2 1.0', '    Slot0 gzip'),
        ('node-2:', '  GPU X: none'),
    ] == [block.before for block in found]


def test_a_slot_that_is_programmed_names_function_and_version():
    """Whether or not the slot shows a version."""
    program = Program(
        accelerator=card(0), slot='Slot0', ref=v.ref('x'), image='i', function='gzip', version='3.1', expects=None
    )
    made = Plan(target='node-1', actions=(program, replace(program, slot='Slot1', expects='1.0')))
    assert ['Slot0 -> gzip 3.1', 'Slot1 1.0 -> gzip 3.1'] == [
        row[2] for row in cells(action_rows.of_plan(made, labels(1), NOTHING))
    ]


def test_several_targets_are_counted():
    """By their outcomes; one target is not."""

    def result(outcome: str) -> results.CommandResult:
        return results.CommandResult(document={'outcome': outcome}, code=Exit.HOLDS, block=layout.Block())

    assert () == results.total([result('planned')])
    (block,) = results.total([result('planned'), result('holds'), result('holds')])
    assert ('3 targets: 2 with nothing to do, 1 planned',) == block.after
