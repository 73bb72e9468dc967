# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Decisions are made on types and attributes, never on a sentence, and facts hold no sentence: ``render`` alone makes them.

What can be checked by reading the code, and is, of everything that we ship without emulator and demo:

* outside ``render`` no ``.reason``, ``.message``, ``.text`` or ``.why`` and no ``str`` of a caught error is compared, matched
  or searched, and no ``.reasons`` are chosen from. Whether there is one at all may be asked (``is None``, or its truth).
* no class of ``model``, ``policy``, ``planning`` and ``scheduling`` has a field of text with a name that sentences have.
* what puts a fact into words (``FindingText``, ``TroubleText``) is made by ``render`` alone.

Each exception is named with its reason, and one that is not needed any more fails.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.unit.test_floors import CORE, GUEST, modules, room

READ = frozenset({'reason', 'message', 'text', 'why'})
"""Attributes that hold words."""

SEARCHED_BY = frozenset({
    'startswith', 'endswith', 'partition', 'rpartition', 'find', 'rfind', 'index', 'count', 'search', 'match', 'fullmatch',
    'findall',
})  # fmt: skip
"""What decides by the words of a text that it is called on, or is given."""

BMC_SAYS = "the BMC's own words, which nothing of ours has made"
OPERATOR_SAYS = "an operator's own words, from a document"
TOLD_ONCE = 'a message is repeated only when it says something else; nothing else depends on it'
SENTENCES_STORED = 'a job has no more than its sentences to say which of its failures are of this card'

MAY_DECIDE: Mapping[tuple[str, str], str] = {
    ('baremetal_acc.bmc.redfish.answer_errors', 'words.text'): BMC_SAYS,
    (
        'baremetal_acc.planning.action_descriptions',
        'complaint.text',
    ): f'{BMC_SAYS}; whether they name the part is for the sentence',
    (
        'baremetal_acc.planning.write_transitions',
        'item.message',
    ): f'{BMC_SAYS}: a task without a percentage moves when they change',
    (
        'baremetal_acc.planning.write_transitions',
        'seen.message',
    ): f'{BMC_SAYS}: a task without a percentage moves when they change',
    ('baremetal_acc.planning.followed_tasks', 'item.message'): f'{BMC_SAYS}: as in planning.write_transitions',
    ('baremetal_acc.planning.followed_tasks', 'task.message'): f'{BMC_SAYS}: as in planning.write_transitions',
    ('baremetal_acc.scheduling.pool_plan', 'c.why'): 'the name of a demand or a pool: journals of moves call it so',
    ('baremetal_acc.model.measurement', 'self.reason'): 'the text form that certificates of every release have',
    ('baremetal_acc.model.document', 'value.text'): OPERATOR_SAYS,
    ('baremetal_acc.cli.yaml_reader', 'value.text'): OPERATOR_SAYS,
    ('baremetal_acc.model.toml', 'str(exc)'): 'the only place where tomllib says in which line a document is wrong',
    (
        'baremetal_acc.config.options',
        'str(exc)',
    ): "the value is cut out of oslo.config's sentence, so that it is not said twice",
    ('baremetal_acc.planning.write_outcomes', 'job.reasons'): SENTENCES_STORED,
    ('baremetal_acc.planning.quarantine', 'job.reasons'): SENTENCES_STORED,
    ('baremetal_acc_ironic.periodics.availability', 'before.why'): TOLD_ONCE,
    ('baremetal_acc_ironic.periodics.deny_list', 'str(exc)'): TOLD_ONCE,
    ('baremetal_acc_ironic.periodics.recovery', 'state.opened.why'): TOLD_ONCE,
    ('baremetal_acc_ironic.placement_setup', 'known.why'): TOLD_ONCE,
    ('baremetal_acc_ironic.placement_setup', 'str(exc)'): TOLD_ONCE,
}

NAMES_OF_PROSE = frozenset({'reason', 'message', 'text', 'why', 'says', 'hint', 'doing', 'sentence', 'words'})
"""Of a field; with an s at the end, too."""

STORED = 'sentences that stored jobs of every release hold'
FOR_PEOPLE = 'what is waited for, for people alone'
LOCK_SAYS = 'what the mechanism of a lock says of its reading: inventories and certificates have it'

MAY_HOLD_PROSE: Mapping[str, str] = {
    'model.attach.Attachment.why': STORED,
    'model.attach.Attached.reasons': STORED,
    'model.bmc_state.UnreadSetting.reason': f'{BMC_SAYS}, or those of the error about it',
    'model.card_setting.CardSettingReading.reason': f'{BMC_SAYS}, or those of the error about it',
    'model.certificate.CertifiedCustody.reason': OPERATOR_SAYS,
    'model.certificate.CertifiedGap.reason': BMC_SAYS,
    'model.certificate.CertifiedLock.reason': LOCK_SAYS,
    'model.custody.Chain.reason': OPERATOR_SAYS,
    'model.document.Table.text': OPERATOR_SAYS,
    'model.document.Unquoted.text': OPERATOR_SAYS,
    'model.inventory.Complaint.text': BMC_SAYS,
    'model.inventory.Gap.reason': f'{BMC_SAYS}, or those of the error about it',
    'model.inventory.Objection.text': BMC_SAYS,
    'model.inventory.PlatformDevice.reason': 'why an inventory does not count a device as an accelerator, for people alone',
    'model.inventory.TaskReading.message': BMC_SAYS,
    'model.job.Failed.reasons': STORED,
    'model.job_item.Item.message': STORED,
    'model.job.Job.reasons': STORED,
    'model.action.Reset.why': 'names of images and mechanisms that a reset is for',
    'model.login_refusal.LoginRefusal.hint': STORED,
    'model.quarantine.Quarantine.why': STORED,
    'model.job.Wait.doing': FOR_PEOPLE,
    'model.lock.LockReading.reason': LOCK_SAYS,
    'model.measurement.MeasurementReading.reason': 'what the check of a signature says; certificates have it',
    'model.note.WaitsForUpdate.message': 'of the error about it',
    'model.refusal.CannotBeClosed.why': LOCK_SAYS,
    'model.refusal.NoRecord.why': LOCK_SAYS,
    'model.refusal.QuarantinedNeedsStart.reasons': 'names of images that a start is for, as of Reset.why',
    'model.waiver.Relaxation.text': 'certificates of every release have it',
    'model.waiver.Waived.reason': OPERATOR_SAYS,
    'model.waiver.Waiver.reason': OPERATOR_SAYS,
    'planning.trouble.TroubleText.text': 'an alarm as it is stored: what puts a fact into words',
    'planning.job_readings.WriteSight.message': BMC_SAYS,
    'planning.update_states.Next.why': f'becomes one of the {STORED}',
    'scheduling.pools.RegionChange.why': 'the name of a demand or a pool: journals of moves call it so',
    'scheduling.pools.Short.why': FOR_PEOPLE,
    'scheduling.pool_plan._Want.why': FOR_PEOPLE,
}

WORDED = frozenset({'FindingText', 'TroubleText'})
"""Facts in words."""

MAY_WORD: Mapping[tuple[str, str], str] = {
    (
        'baremetal_acc.cli.target_verdict',
        'FindingText',
    ): 'what the command line says of its own marks and jobs, with the commands to give',
    ('baremetal_acc_ironic.state.quarantine', 'FindingText'): 'a card that placement must not hear of: no word of it is told',
}


def _words(node: ast.expr, caught: frozenset[str]) -> Iterator[ast.expr]:
    """The expressions within one that are words: attributes by their names, and ``str`` of errors that are caught."""
    called = {id(inner.func) for inner in ast.walk(node) if isinstance(inner, ast.Call)}
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(attr=name) if name in READ and id(inner) not in called:
                yield inner
            case ast.Call(func=ast.Name(id='str'), args=[ast.Name(id=name)]) if name in caught:
                yield inner


def _is_member(node: ast.expr) -> bool:
    """A member of an enumeration, or several: what is compared with that is no text."""
    match node:
        case ast.Attribute(attr=name):
            return name.isupper()
        case ast.Tuple(elts=several) | ast.Set(elts=several):
            return all(map(_is_member, several))
    return False


def _in_table(read: list[ast.expr]) -> list[bool]:
    """Which sides of ``in`` are members, the right one also by the name of a constant."""
    left, right = read
    return [_is_member(left), _is_member(right) or (isinstance(right, ast.Name) and right.id.isupper())]


def decisions(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and expression of each text that something is decided by."""
    caught = frozenset(node.name for node in ast.walk(code) if isinstance(node, ast.ExceptHandler) and node.name)
    for node in ast.walk(code):
        read: list[ast.expr] = []
        match node:
            case ast.Compare(ops=ops) if not all(isinstance(one, ast.Is | ast.IsNot) for one in ops):
                read = [node.left, *node.comparators]
                known = map(_is_member, read) if len(ops) > 1 or not isinstance(ops[0], ast.In | ast.NotIn) else _in_table(read)
                read = [] if sum(not one for one in known) < 2 else read
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=args) if name in SEARCHED_BY:
                read = [value, *args]
            case ast.Match() if any(isinstance(one, ast.MatchValue) and not _is_member(one.value) for one in ast.walk(node)):
                read = [node.subject]
            case ast.comprehension(iter=ast.Attribute(attr='reasons' | 'why') as chosen, ifs=[_, *_]):
                yield chosen.lineno, ast.unparse(chosen)
        for expression in read:
            yield from ((found.lineno, ast.unparse(found)) for found in _words(expression, caught))


def prose(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name, with its class, of each field of text that has a name of prose."""
    for node in ast.walk(code):
        for field in node.body if isinstance(node, ast.ClassDef) else ():
            match field:
                case ast.AnnAssign(target=ast.Name(id=name), annotation=kind) if NAMES_OF_PROSE & {
                    name,
                    name.removesuffix('s'),
                }:
                    if any(isinstance(inner, ast.Name) and inner.id == 'str' for inner in ast.walk(kind)):
                        yield field.lineno, f'{node.name}.{name}'


def worded(code: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of each call that puts a fact into words."""
    for node in ast.walk(code):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in WORDED:
                yield node.lineno, name


def violations(module: str, source: str) -> Iterator[str]:
    """What in a module breaks a rule, one sentence each."""
    code = ast.parse(source)
    if room(module) in ('render', 'emulator', 'demo'):
        return
    for line, text in decisions(code):
        if (module, text) not in MAY_DECIDE:
            yield f'{module}:{line} may not decide by the words of {text}: decide by a type or a field of its own'
    for line, name in worded(code):
        if (module, name) not in MAY_WORD:
            yield f'{module}:{line} may not make a {name}: render puts facts into words'
    if room(module) in ('model', 'policy', 'planning', 'scheduling'):
        for line, name in prose(code):
            if f'{module.removeprefix(f"{CORE}.")}.{name}' not in MAY_HOLD_PROSE:
                yield f'{module}:{line} may not hold prose in {name}: give it the facts, and let render make the sentence'


def test_nothing_is_decided_by_a_sentence_and_no_fact_holds_one(tree: Path) -> None:
    """No module of ours breaks a rule."""
    everything = [(name, path.read_text()) for name, path in modules(tree)]
    assert {f'{CORE}.planning.drift', f'{CORE}.planning.trouble', f'{GUEST}.periodics.watch'} < {name for name, _ in everything}
    assert [] == [sentence for name, source in everything for sentence in violations(name, source)]


def test_each_exception_is_needed(tree: Path) -> None:
    """One that is not is taken out of the table: it would let the next sentence in."""
    code = {name: ast.parse(path.read_text()) for name, path in modules(tree)}
    assert set(MAY_DECIDE) <= {(name, text) for name, parsed in code.items() for _, text in decisions(parsed)}
    assert set(MAY_WORD) <= {(name, text) for name, parsed in code.items() for _, text in worded(parsed)}
    fields = {f'{name.removeprefix(f"{CORE}.")}.{text}' for name, parsed in code.items() for _, text in prose(parsed)}
    assert set(MAY_HOLD_PROSE) <= fields


@pytest.mark.parametrize(
    ('module', 'source', 'sentence'),
    [
        ('planning.x', 'if refusal.reason == "none": pass', 'x:1 may not decide by the words of refusal.reason'),
        ('planning.x', 'if "none" in finding.text: pass', 'words of finding.text'),
        ('execution.x', 'y = [r for r in found if r.reason.startswith("no ")]', 'words of r.reason'),
        ('execution.x', 'y = one.why.partition(" ")[0]', 'words of one.why'),
        ('cli.x', 'y = re.search("line", error.message)', 'words of error.message'),
        ('cli.x', 'match item.message:\n    case "busy": pass', 'words of item.message'),
        ('cli.x', 'try: f()\nexcept E as exc:\n    y = "busy" in str(exc)', 'x:3 may not decide by the words of str(exc)'),
        ('cli.x', 'try: f()\nexcept E as e:\n    if str(e).endswith("!"): pass', 'words of str(e)'),
        ('cli.x', 'y = exc.reason in (Refusal.GONE, "other")', 'words of exc.reason'),
        ('cli.x', 'y = BUSY in exc.reason', 'words of exc.reason'),
        ('cli.x', 'y = exc.reason == BUSY', 'words of exc.reason'),
        ('execution.x', 'y = [r for r in job.reasons if r.endswith("!")]', 'words of job.reasons'),
        ('planning.x', 'y = 1 if len(f"{one.text}") > 2 else 3', 'words of one.text'),
        ('model.x', 'class A:\n    reason: str', 'x:2 may not hold prose in A.reason'),
        ('model.x', 'class A:\n    reasons: tuple[str, ...] = ()', 'prose in A.reasons'),
        ('planning.x', 'class A:\n    why: str | None = None', 'prose in A.why'),
        ('planning.x', 'class A:\n    said: int\n    text: Mapping[str, int]', 'prose in A.text'),
        ('planning.x', 'y = FindingText(expected="1", found="2")', 'may not make a FindingText'),
        ('execution.x', 'y = trouble.TroubleText(text="it is open")', 'may not make a TroubleText'),
    ],
)
def test_each_rule_can_fail(module: str, source: str, sentence: str) -> None:
    """A small module that breaks the rule is found, by the line that breaks it."""
    (found,) = violations(f'{CORE}.{module}', source)
    assert sentence in found


@pytest.mark.parametrize(
    ('module', 'source'),
    [
        ('render.x', 'if why.reason == "none": pass\ny = TroubleText(text="x")'),
        ('planning.x', 'y = None if gap.reason is None else gap'),
        ('planning.x', 'if item.message: pass'),
        ('planning.x', 'if exc.reason is Refusal.GONE or exc.reason in (Refusal.GONE, Refusal.OTHER): pass'),
        ('execution.x', 'y = exc.reason in _MAY_BE_GONE'),
        ('planning.x', 'match exc.reason:\n    case Refusal.GONE: pass\n    case NoSlot(): pass'),
        ('planning.x', 'if isinstance(refusal.reason, NoMechanism): pass'),
        ('planning.x', 'class A:\n    reason: Reason | None\n    subject: str'),
        ('execution.x', 'class A:\n    reason: str'),
        ('bmc.x', 'y = view.text("State") == "On"'),
        ('cli.x', 'try: f()\nexcept E as exc:\n    y = f"it failed: {exc}", str(exc)'),
        ('cli.x', 'y = str(path) == "a"'),
    ],
)
def test_what_is_allowed_passes(module: str, source: str) -> None:
    """Whether there is a reason, what kind it is, and to say it."""
    assert [] == list(violations(f'{CORE}.{module}', source))
