# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What a version makes of the stored jobs, states and nodes: what it decides by, and what it shows.

Run as a program it writes that to ``expected.json``, by the code of the version that has written the files; the tests compare
today's code with it. How it was run is in README.rst beside this file.
"""

import argparse
import json
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from baremetal_acc import execution
from baremetal_acc.certificates import envelope
from baremetal_acc.cli import target_verdict
from baremetal_acc.cli.output import documents
from baremetal_acc.cli.state import TargetState
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.job import Job
from baremetal_acc.planning.drift import drift
from baremetal_acc.render import findings

ACTION = (
    'accelerator',
    'component',
    'slot',
    'function',
    'image',
    'version',
    'expects',
    'content',
    'restore',
    'mechanism',
    'field',
)
"""Fields of actions, of whichever has them."""

LATER_OF_ACTIONS = ('forced', 'installed', 'bundle', 'alone', 'retry', 'item', 'by', 'manager', 'again')

LATER_OF_ITEMS = (
    *(
        'evidence',
        'unsure',
        'follows',
        'cancelled',
        'uncancelled',
        'waits',
        'unconditional',
        'objection',
        'task_failed',
        'strayed',
    ),
    *(
        'shown',
        'pushed',
        'managers',
        'told_busy',
        'cut',
        'rejected',
        'again',
        'task_started',
        'started',
        'complaints',
        'others',
    ),
)

LATER_OF_JOBS = ('off_since', 'held_off', 'left_on', 'shut', 'interferences', 'custody', 'wholly')

LATER_OF_NODES = ('taken', 'ramdisk', 'bmcs', 'owned', 'leased', 'proven', 'start_allowed', 'custody', 'untended')
"""Fields that 94f9a7d has not: what it has written says nothing of them."""

UUID = '1be26c0b-03f2-4d2e-ae87-c02d7f33c123'


def _later(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """What a value says in fields that not every version has."""
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {f'later: {name}': encode(held) for name, held in found.items() if held not in (None, False, (), frozenset())}


def of_job(job: Job | None) -> dict[str, Any] | None:
    """A job: what it is at, each of its items, what it found, what it holds."""
    if job is None:
        return None
    return {
        'is': [job.target, job.node, job.flow.value, job.step, job.lifecycle, job.requester],
        'time': [encode(job.created), encode(job.deadline)],
        'stands': [job.ended, job.second, job.demands_met, job.writing, job.opened, sorted(job.devices)],
        'doing': execution.doing(job),
        'unfinished': None if job.ended else _unfinished(job),
        'reasons': list(job.reasons),
        'quarantined': list(job.quarantined),
        'bmcs': [list(one) for one in job.bmcs],
        'items': [_item(item) for item in job.items],
        'verdict': None if job.verdict is None else documents.verdict(job.verdict),
        'unmet': [] if job.verdict is None else list(map(findings.sentence, job.verdict.unmet)),
        'engagements': [_engagement(e) for e in job.engagements],
        'undos': [[u.mechanism, u.ref.uri, u.field, list(u.closed)] for u in job.undos],
        'turned_away': [[t.bmc, t.right.value, t.times] for t in job.turned_away],
        **_later(job, LATER_OF_JOBS),
    }


def _unfinished(job: Job) -> str:
    """What is said of an unfinished job, in the words of 94f9a7d and c24de4d."""
    said = target_verdict.unfinished(job)
    said = said.replace(f'the {job.step} job of ', f'its {job.step} of ', 1)
    return said.replace('Z is unfinished (', 'Z has not ended (', 1)


def _item(item: Any) -> dict[str, Any]:
    action = item.action
    found = {
        'action': type(action).__name__,
        'state': item.state.value,
        'since': encode(item.since),
        'uri': action.ref.uri if hasattr(action, 'ref') else None,
        'bmc': action.ref.bmc if hasattr(action, 'ref') else None,
        'task': None if item.task is None else item.task.uri,
        'message': item.message,
        'percent': item.percent,
        'before': item.before,
        'flags': [item.stalled, item.untouched, item.restoring, item.silent],
        'waits': [encode(item.waiting), encode(item.busy), encode(item.moved)],
        'progress': None if item.progress is None else str(item.progress).replace('UploadProgress(', 'Progress('),
    }
    for name in ACTION:
        if hasattr(action, name):
            found[name] = _plain(getattr(action, name))
    if hasattr(action, 'purpose'):
        found |= {
            'system': action.system.uri,
            'purpose': action.purpose.value,
            'kind': action.kind.value,
            'why': list(action.why),
        }
    if hasattr(action, 'accelerators'):
        found |= {'accelerators': list(action.accelerators), 'whole': action.whole}
    return found | _later(action, LATER_OF_ACTIONS) | _later(item, LATER_OF_ITEMS)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


def _engagement(e: Any) -> list[Any]:
    return [e.mechanism, e.accelerator, e.ref.uri, e.field, e.lifecycle, e.flow, e.session, encode(e.at), sorted(e.blocks)]


def of_state(state: TargetState) -> dict[str, Any]:
    """A target of the command line."""
    return {
        'target': state.target,
        'lifecycle': state.lifecycle,
        'known': sorted(state.known),
        'unlocked': [[m.accelerator, encode(m.at)] for m in state.unlocked],
        'quarantined': [_quarantine(*_named(m), m) for m in state.quarantined],
        'unfinished': state.unfinished is not None,
        'job': of_job(state.job),
        **_later(state, ('accepted',)),
    }


def _named(mark: Any) -> tuple[str, Any]:
    """Device and time of a quarantine of the command line, which has had other names for them."""
    return (mark.device, mark.since) if hasattr(mark, 'device') else (mark.accelerator, mark.at)


def _quarantine(device: str, since: Any, mark: Any) -> list[Any]:
    return [device, encode(since), mark.why, mark.firmware, [r.uri for r in mark.refs], [r.uri for r in mark.anew]]


def node_of(value: Any) -> SimpleNamespace:
    """A node that has a value under our key."""
    return SimpleNamespace(uuid=UUID, driver_internal_info={'baremetal_acc': value})


def of_node(value: Any) -> dict[str, Any]:
    """A node of Ironic, by what its value under our key says."""
    from baremetal_acc_ironic.state import node_store

    node = node_of(value)
    state = node_store.load(node)
    seen, handed = node_store.last_look(node, state), node_store.handed_over(node, state)
    info = node.driver_internal_info
    return {
        'lifecycle': state.lifecycle,
        'stands': [state.handed_over, state.unplanned, state.writing],
        'asked': None if state.asked is None else encode(state.asked),
        'cheap': [node_store.busy(info), list(node_store.withdrawn(info)), node_store.unwatched(info)],
        'job': of_job(state.job),
        'evidence': [_engagement(e) for e in state.evidence],
        'known': sorted(state.known),
        'blockable': [[card, path.value, part] for card, path, part in state.blockable],
        'ways': sorted([w.mechanism, w.ref.uri, w.field, list(w.blocks)] for w in state.ways),
        'opened': None if state.opened is None else [encode(state.opened.since), state.opened.why],
        'quarantined': [_quarantine(q.device, q.since, q) for q in state.quarantined],
        'overrides': [[o.device, [list(pair) for pair in o.functions]] for o in state.overrides],
        'waivers': [[encode(g.waiver), encode(g.since), sorted(g.devices)] for g in state.waivers],
        'exposure': None if state.exposure is None else state.exposure.value,
        'resource_class': state.resource_class,
        'digest': [state.digest, encode(state.looked), sorted(state.traits)],
        'certificate': _certificate(state.certificate),
        'drift': None
        if state.drift is None
        else [encode(state.drift.at), state.drift.by, list(state.drift.changes), state.drift.more],
        'unseen': state.unseen,
        'watched': None if state.watched is None else _watched(state.watched),
        'exposed': [sorted(state.exposed), sorted(state.anew)],
        'shelf': encode(state.shelf),
        'regions': None if state.regions is None else encode(state.regions),
        'attached': None if state.attached is None else encode(state.attached),
        'undos': [[u.mechanism, u.ref.uri, u.field, list(u.closed)] for u in state.undos],
        'seen': _look(seen),
        'handed': _look(handed),
        **_later(state, LATER_OF_NODES),
    }


def _certificate(kept: Any) -> Any:
    if kept is None:
        return None
    signed = None if kept.packed is None else envelope.unchecked(envelope.unpacked(kept.packed))
    cards = [] if signed is None else [[c.id, sorted(p.path.value for p in c.paths)] for c in signed.accelerators]
    return [
        kept.lifecycle,
        kept.deployment,
        kept.name,
        encode(kept.issued),
        kept.key,
        kept.digest,
        kept.superseded,
        kept.away,
        cards,
    ]


def _watched(watched: Any) -> list[Any]:
    alarms = [encode(alarm) for alarm in watched.alarms]
    return [watched.lifecycle, encode(watched.looked), len(watched.witnesses), alarms]


def _look(inventory: Any) -> Any:
    """The cards, their firmware and their locks; and that a look is as itself."""
    if inventory is None:
        return None
    cards = [
        {
            'id': a.id,
            'label': a.label,
            'kind': a.kind.value,
            'firmware': [[c.ref.uri, c.version] for c in a.firmware],
            'slots': [[s.slot_id, encode(s.function)] for s in a.slots],
            'locks': [[r.mechanism, r.field, r.state.value] for r in a.locks],
        }
        for a in inventory.accelerators
    ]
    return {'cards': cards, 'bmcs': [b.name for b in inventory.bmcs], 'changes': len(drift(inventory, inventory))}


def told(path: Path) -> dict[str, Any]:
    """What is made of a file of the kind of its folder."""
    value = json.loads(path.read_text())
    return of_state(decode(TargetState, value)) if path.parent.name == 'state' else of_node(value)


def main() -> None:
    """Write what this version makes of the files of a commit."""
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=Path)
    folder = parser.parse_args().folder
    found = {str(p.relative_to(folder)): told(p) for kind in ('state', 'nodes') for p in sorted((folder / kind).glob('*.json'))}
    lines = (f'{json.dumps(name)}: {json.dumps(facts, ensure_ascii=False, default=str)}' for name, facts in found.items())
    (folder / 'expected.json').write_text('{\n' + ',\n'.join(lines) + '\n}\n')


if __name__ == '__main__':
    main()
