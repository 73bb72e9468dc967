# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Render inventories, plans and verdicts as the JSON and YAML documents that tools read. Pure functions; the keys are stable.

The schemas are doc/source/schemas/*.json. Within ``format`` 1 keys may be added; no key is renamed, removed or given another
type.
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from baremetal_acc.errors import AccError
from baremetal_acc.model.accelerator import Accelerator, PciIds, ReconfigurationSlot
from baremetal_acc.model.action import (
    Action,
    CheckImage,
    Engage,
    Flash,
    Program,
    Publish,
    Release,
    Reset,
    RestoreSetting,
    SetCardSetting,
    Withdraw,
)
from baremetal_acc.model.bmc_state import RESTORED_TO
from baremetal_acc.model.card_setting import CardSettingReading
from baremetal_acc.model.codec import encode
from baremetal_acc.model.firmware import Component
from baremetal_acc.model.inventory import Inventory, Sending
from baremetal_acc.model.job import Job
from baremetal_acc.model.lock import LockReading, LockState, Scope, WritePath
from baremetal_acc.model.measurement import MeasurementReading
from baremetal_acc.model.plan import Plan
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.verdict import Finding, Met, Verdict
from baremetal_acc.model.waiver import Relaxation, Waived
from baremetal_acc.planning import bundle_parts, lock_evidence
from baremetal_acc.planning.action_descriptions import complained
from baremetal_acc.render import findings, notes, refusals

FORMAT = 1

Json = dict[str, Any]

_NOT_KNOWN: Mapping[BmcName, Sending] = MappingProxyType({})

_LOCKED = frozenset({LockState.LOCKED_VERIFIED, LockState.LOCKED_REPORTED})

_OPEN = frozenset({LockState.UNLOCKED, LockState.PARTIAL, LockState.PENDING_RESET})


def document(targets: Iterable[Json]) -> Json:
    """The whole document of a command."""
    return {'format': FORMAT, 'targets': list(targets)}


def failure(error: AccError | None) -> Json | None:
    """The error of a target, None when there is none."""
    return None if error is None else {'type': type(error).__name__, 'message': str(error)}


# -------------------------------------------------------------------------------------------------------------- inventory


def inventory(target: str, seen: Inventory | None, error: AccError | None = None) -> Json:
    """One target of the inventory document.

    :param seen: the inventory, its lock readings compared with our records of engaged locks; None where it could not be read.
    """
    return {
        'target': target,
        'accelerators': [] if seen is None else [accelerator(a) for a in seen.accelerators],
        'platform_devices': []
        if seen is None
        else [
            {'bmc': p.ref.bmc, 'uri': p.ref.uri, 'kind': p.kind, 'model': p.model, 'reason': p.reason}
            for p in seen.platform_devices
        ],
        'platform_locks': [] if seen is None else [lock(r) for r in seen.platform_locks],
        'gaps': []
        if seen is None
        else [
            {
                'bmc': g.ref.bmc,
                'uri': g.ref.uri,
                'field': g.field,
                'accelerator': g.accelerator,
                'reason': g.reason,
                'hides': g.hides,
            }
            for g in seen.gaps
        ],
        'error': failure(error),
    }


def accelerator(a: Accelerator) -> Json:
    """One device."""
    body = {
        'id': a.id,
        'kind': a.kind.value,
        'vendor': a.vendor,
        'model': a.model,
        'part_number': a.part_number,
        'serial': a.serial,
        'uuid': a.uuid,
        'identity': a.identity.value,
        'location': a.location,
        'pci': {name: getattr(a.pci, name) for name in PciIds.__dataclass_fields__},
        'uris': [{'bmc': ref.bmc, 'uri': ref.uri} for ref in a.refs],
        'primary_uri': a.primary.uri,
        'firmware': [_component(c) for c in a.firmware],
        'functions': [
            {
                'id': f.id,
                'name': f.name,
                'type': f.type,
                'uuid': f.uuid,
                'version': f.version,
                'manufacturer': f.manufacturer,
                'state': f.state,
                'health': f.health,
                'bmc': f.ref.bmc,
                'uri': f.ref.uri,
            }
            for f in a.functions
        ],
        'slots': [_slot(s) for s in a.slots],
        'locks': [lock(r) for r in a.locks if r.scope is not Scope.BMC],
        'device_lock': device_lock(a),
        'uncovered_paths': uncovered_paths(a),
        'traits': sorted(a.traits),
        'state': a.state,
        'health': a.health,
        'health_rollup': a.health_rollup,
    }
    if a.merged_by:
        body['merged_by'] = [
            {'basis': by.basis.value, 'uris': [{'bmc': ref.bmc, 'uri': ref.uri} for ref in by.refs]} for by in a.merged_by
        ]
    if a.settings is not None:
        body['settings'] = [_setting(r) for r in a.settings]
    if a.measurements is not None:
        body['measurements'] = [_measured(r) for r in a.measurements]
    return body


def _setting(r: CardSettingReading) -> Json:
    return {
        'setting': r.setting.value,
        'bmc': r.ref.bmc,
        'uri': r.ref.uri,
        'field': r.field,
        'value': r.value,
        'pending': r.pending,
        'reason': r.reason,
    }


def _measured(r: MeasurementReading) -> Json:
    return {
        'bmc': r.ref.bmc,
        'uri': r.ref.uri,
        'integrity': r.integrity,
        'state': r.state.value,
        'reason': r.reason,
        'spdm': r.version,
        'signer': r.signer,
        'fingerprint': r.fingerprint,
        'root': r.root,
        'nonce': r.nonce,
        'at': r.at.isoformat(),
        'measurements': [
            {'index': m.index, 'kind': m.kind, 'algorithm': m.algorithm, 'raw': m.raw, 'hashed': m.hashed, 'value': m.value}
            for m in r.measurements
        ],
        'versions': [{'part': named.part, 'version': named.version} for named in r.versions],
    }


def device_lock(a: Accelerator) -> str:
    """Whether the write path ``host-device`` of a device is blocked, in one word.

    ``locked``: every part that can be written (component, slot) has a mechanism that blocks ``host-device`` and reads locked;
    ``unlocked``: at least one part is open, also a part without a mechanism where other parts have one; ``unknown``: a
    mechanism exists, its state cannot be read, and no other part reads open; ``none``: no mechanism blocks this path at all.
    """
    if not any(WritePath.HOST_DEVICE in r.blocks for r in a.locks):
        return 'none'
    states = {c.state for c in lock_evidence.coverage(a, WritePath.HOST_DEVICE, a.locks)}
    if states <= _LOCKED:
        return 'locked'
    if LockState.UNKNOWN in states and not states & _OPEN:
        return 'unknown'
    return 'unlocked'


def uncovered_paths(a: Accelerator) -> list[str]:
    """Write paths that no known mechanism can block, for at least one part of the device."""
    return [
        path.value
        for path in WritePath
        if any(c.state is LockState.UNSUPPORTED for c in lock_evidence.coverage(a, path, a.locks))
    ]


def lock(reading: LockReading) -> Json:
    """One reading of one lock mechanism."""
    return {
        'mechanism': reading.mechanism,
        'bmc': reading.ref.bmc,
        'uri': reading.ref.uri,
        'field': reading.field,
        'value': _literal(reading.value),
        'state': reading.state.value,
        'scope': reading.scope.value,
        'part': reading.part,
        'blocks': sorted(path.value for path in reading.blocks),
        'reason': reading.reason,
    }


def _literal(text: str | None) -> Any:
    """The value of a lock as the BMC sent it: decoded from JSON where it is JSON."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _component(c: Component) -> Json:
    return {
        'id': c.id,
        'name': c.name,
        'version': c.version,
        'staged': c.staged,
        'lowest_supported': c.lowest_supported,
        'updateable': c.updateable,
        'software_id': c.software_id,
        'write_protected': c.write_protected,
        'certain': c.certain,
        'bmc': c.ref.bmc,
        'uri': c.ref.uri,
    }


def _slot(s: ReconfigurationSlot) -> Json:
    return {
        'slot_id': s.slot_id,
        'index': s.index,
        'uuid': s.uuid,
        'programmable_from_host': s.programmable_from_host,
        'function': None if s.function is None else s.function.id,
        'version': None if s.function is None else s.function.version,
        'item': None if s.item is None else s.item.id,
        'staged': None if s.item is None else s.item.staged,
    }


# ------------------------------------------------------------------------------------------------------- plans, verdicts


def plan(made: Plan, labels: Mapping[AcceleratorId, str], sendings: Mapping[BmcName, Sending] = _NOT_KNOWN) -> Json:
    """A plan.

    :param labels: labels of the devices, by id.
    :param sendings: how an image is sent to each BMC.
    """
    return {
        'actions': [action(a, labels, sendings) for a in made.actions],
        'refusals': [
            {'accelerator': r.accelerator, 'device': r.label, 'subject': str(r.subject), 'reason': refusals.reason(r.reason)}
            for r in refusals.in_order(made.refusals)
        ],
        'notes': [{'device': note.label, 'text': notes.text(note.content)} for note in made.notes],
    }


def against_others(job: Job, labels: Mapping[AcceleratorId, str]) -> list[Json]:
    """Notes on those parts of sent bundles that no item of the job names: the BMC's complaints about them, and the versions
    that they show in the end.
    """
    sent = [(a, i) for i in job.items if isinstance(a := i.action, Flash)]
    said = [
        {
            'device': labels.get(a.accelerator, a.accelerator),
            'text': f'bundle {a.bundle}: the BMC reports problems with other parts of it: {complained(c)}',
        }
        for a, i in sent
        for c in i.complaints
    ]
    shown = [
        {'device': job.target, 'text': f'bundle {a.bundle}: {line}'} for a, i in sent for line in bundle_parts.told(i.others)
    ]
    return said + shown


def action(a: Action, labels: Mapping[AcceleratorId, str], sendings: Mapping[BmcName, Sending] = _NOT_KNOWN) -> Json:
    """One action, always with the same keys.

    ``from`` and ``to`` are versions, names or literal values; ``reset`` is the reset that activates the change. An image that
    is sent to a BMC has the transfer (``way``), the requested ``apply_time``, its ``order``, and the image that is written
    (``restore``) if it fails.
    """
    body: Json = {
        'action': type(a).__name__.lower(),
        'accelerator': None,
        'device': None,
        'subject': None,
        'bmc': None,
        'uri': None,
        'field': None,
        'image': None,
        'from': None,
        'to': None,
        'reset': None,
        'way': None,
        'apply_time': None,
        'order': None,
        'restore': None,
        'bundle': None,
        'forced': False,
        'why': [],
        'by': None,
    }
    match a:
        case Withdraw():
            body |= {'subject': ', '.join(labels.get(i, i) for i in a.accelerators)}
            if a.whole:
                body |= {
                    'why': ['a slot gets a function other than the one that it is claimed as, so the whole node is withdrawn']
                }
        case CheckImage():
            body |= {'action': 'check-image', 'image': a.image}
        case Release():
            body |= {'subject': a.mechanism, 'field': a.field, 'from': _literal(a.expects), 'to': 'unlocked'}
        case Engage():
            body |= {'subject': a.mechanism, 'field': a.field, 'to': 'locked', 'reset': a.needs.value}
        case SetCardSetting():
            body |= {'action': 'set-card-setting', 'subject': a.setting.value, 'field': a.field}
            body |= {'from': a.expects, 'to': a.value, 'reset': a.needs.value}
        case Flash():
            body |= {'subject': a.component, 'image': a.image, 'from': a.expects, 'to': a.version, 'reset': a.reset.value}
            body |= {'order': a.order, 'restore': a.restore, **_sent(sendings.get(a.ref.bmc))}
            body |= {'bundle': a.bundle, 'forced': a.forced}
        case Program():
            body |= {'subject': a.slot, 'image': a.image, 'from': a.expects, 'to': f'{a.function} {a.version}'}
            body |= {'order': a.order, 'forced': a.forced, **_sent(sendings.get(a.ref.bmc))}
        case Reset():
            body |= {'subject': a.purpose.value, 'bmc': a.system.bmc, 'uri': a.system.uri, 'reset': a.kind.value}
            body |= {'to': {'hold': 'off', 'resume': 'on', 'enforce': 'reset'}[a.purpose.value], 'why': list(a.why)}
            if a.by is not None:
                body |= {'by': a.by.uri}
        case RestoreSetting():
            body |= {'action': 'restore-setting', 'device': f'BMC {a.ref.bmc}', 'subject': a.setting.value}
            body |= {'bmc': a.ref.bmc, 'uri': a.ref.uri, 'field': a.field, 'from': a.expects, 'to': RESTORED_TO[a.setting]}
        case Publish():
            pass
    if isinstance(a, Release | Engage | Flash | Program | SetCardSetting):
        body |= {'accelerator': a.accelerator, 'device': labels.get(a.accelerator), 'bmc': a.ref.bmc, 'uri': a.ref.uri}
    if isinstance(a, Release | Engage) and a.scope is Scope.BMC:
        # Such a lock belongs to no card, although the action names one.
        body |= {'accelerator': None, 'device': f'BMC {a.ref.bmc}'}
    return body


def _sent(how: Sending | None) -> Json:
    return {} if how is None else {'way': how.way.value, 'apply_time': how.apply_time}


def verdict(judged: Verdict) -> Json:
    """The comparison of an inventory with the baseline."""
    return {
        'met': judged.met,
        'findings': [finding(f) for f in judged.findings],
        'waived': [waived(w) for w in judged.waived],
        'relaxed': [relaxation(r) for r in judged.relaxed],
    }


NO_VERDICT: Mapping[str, Any] = MappingProxyType({'met': False, 'findings': [], 'waived': [], 'relaxed': []})
"""The verdict on a target that could not be read."""


def waived(w: Waived) -> Json:
    """A waiver in use."""
    return {
        'accelerator': w.accelerator,
        'device': w.label,
        'path': w.path.value,
        'parts': list(w.parts),
        'rule': w.rule,
        'role': w.role,
        'reason': w.reason,
        'expires': encode(w.expires),
    }


def relaxation(r: Relaxation) -> Json:
    """A relaxation: a rule that demands less than the default."""
    return {'kind': r.kind.value, 'rule': r.rule, 'text': r.text, 'accelerators': list(r.accelerators)}


def finding(f: Finding) -> Json:
    """One demand of the baseline, and the value that was found."""
    said = findings.words(f.fact)
    return {
        'accelerator': f.accelerator,
        'device': f.label,
        'subject': str(f.subject),
        'expected': said.expected,
        'found': said.found,
        'met': f.met is Met.YES,
        'rule': f.rule,
        'state': None if f.state is None else f.state.value,
    }
