# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic steps of this plugin: what each may do, its arguments with their JSON schemas, and who may run it in which flow.

Arguments never carry secrets or URLs: Ironic stores them in the clear. They are checked here, by name and value, before any BMC
is asked; Ironic itself checks names only.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import jsonschema

from baremetal_acc.errors import UsageError
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.image import Image, ImageKind
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import WritePath
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.model.subject import SubjectKind
from baremetal_acc.model.waiver import LONGEST, LONGEST_TEXT
from baremetal_acc.planning import bmc_settings, relevance
from baremetal_acc.planning.plan import EVERYTHING, Part
from baremetal_acc.policy.baseline_rules import Baseline, Match, NodeFacts, Rule
from baremetal_acc.policy.device_demands import demands
from baremetal_acc_ironic.state.node_state import Granted, Override

_NAME = {'type': 'string', 'minLength': 1, 'maxLength': 255}
_REASON = {'type': 'string', 'minLength': 1, 'maxLength': LONGEST_TEXT}
_END = {'type': 'string', 'minLength': 1, 'maxLength': 64}
_END_INFO = (
    'When it ends: an ISO 8601 date (it ends as that day begins in UTC), or a date and time with an offset; at most '
    f'{LONGEST.days} days ahead.'
)
_DEVICES = {'type': 'array', 'items': _NAME, 'minItems': 1, 'maxItems': 256, 'uniqueItems': True}
_FUNCTIONS = {
    'type': 'object',
    'minProperties': 1,
    'maxProperties': 256,
    'propertyNames': _NAME,
    'additionalProperties': _NAME,
}

_DEVICES_INFO = {
    'devices': {
        'description': (
            'List of accelerators, each by its id ("uuid:..."), UUID, serial or label ("H100 GPU_0"), as the inventory shows '
            'them. All if not given.'
        ),
        'required': False,
    }
}
_FUNCTIONS_INFO = {
    'functions': {
        'description': (
            'Dictionary from a slot pattern to the name of a function of the catalogue, such as {"Slot0": "gzip"}. It '
            'overrides the baseline until the node is cleaned. The functions of the baseline if not given.'
        ),
        'required': False,
    }
}
_CLAIMED_INFO = {
    'claimed': {
        'description': (
            'Whether the regions that the instance of the node has claimed get the functions that its flavor requests by the '
            'traits CUSTOM_ACC_CAN_<NAME>. Only in a deployment, and without devices and functions.'
        ),
        'required': False,
    }
}


_PATHS = {'type': 'array', 'items': {'enum': [path.value for path in WritePath]}, 'uniqueItems': True}
_WAIVER_INFO = {
    'paths': {
        'description': (
            f'List of the write paths that may stay open where no mechanism blocks them: {", ".join(WritePath)}. An empty '
            'list takes back earlier waivers.'
        ),
        'required': True,
    },
    'reason': {'description': 'Reason for the waiver. Required unless paths is empty.', 'required': False},
    'expires': {
        'description': f'{_END_INFO} Required unless paths is empty.',
        'required': False,
    },
}


_ALLOW_START_INFO = {
    'reason': {
        'description': 'Reason for the permission. A step without any argument ends an earlier permission.',
        'required': False,
    },
    'expires': {
        'description': _END_INFO,
        'required': False,
    },
    'vouched': {
        'description': (
            'Whether you vouch for all code that the host boots until then. If not, and if the host was started, the next '
            'cleaning writes the firmware of all accelerators again.'
        ),
        'required': False,
    },
}


_ACCEPT_INFO = {
    'reason': {'description': 'Why you vouch for what the cards run.', 'required': True},
    'until': {
        'description': _END_INFO,
        'required': True,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One Ironic step.

    :ivar parts: what its plan may change; empty for steps without a plan.
    :ivar concerns: kinds of the subjects of findings that decide whether it has succeeded; None for all.
    :ivar takes_over: it begins even if another job is unfinished, since it engages the locks of all devices again.
    :ivar operators: only the operator may name it in a flow; the project that leases the node may not.
    :ivar automatic: flows that may have it whoever begins them: automated cleaning, and what a deploy does by itself.
    :ivar schema: JSON schema of each argument.
    :ivar argsinfo: the arguments as Ironic's decorators take them.
    """

    name: str
    parts: frozenset[Part]
    concerns: frozenset[SubjectKind] | None = None
    takes_over: bool = False
    operators: bool = True
    automatic: frozenset[Flow] = frozenset()
    schema: Mapping[str, Any]
    argsinfo: Mapping[str, Any]

    @property
    def writes_images(self) -> bool:
        """Whether its plan may write firmware or program functions."""
        return bool(self.parts & {Part.FIRMWARE, Part.FUNCTIONS})

    def reads_settings(self, baseline: Baseline) -> bool:
        """Whether its plan may restore settings of BMCs, which have to be read for that."""
        return Part.SETTINGS in self.parts and bmc_settings.has_restores(baseline)

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments after checking them.

        :raises UsageError: one is wrong; names it and its value.
        """
        schema = {'type': 'object', 'properties': dict(self.schema), 'additionalProperties': False}
        found = next(iter(jsonschema.Draft202012Validator(schema).iter_errors(dict(given))), None)
        if found is not None:
            where = ''.join(f'[{part}]' if n else str(part) for n, part in enumerate(found.absolute_path))
            known = ', '.join(self.schema) or 'none'
            raise UsageError(
                argument=f'argument {where}' if where else 'arguments',
                what=_short(found.message),
                hint=f'arguments of {self.name}: {known}',
            )
        return given


RECONCILE = Step(
    name='reconcile_accelerators',
    parts=EVERYTHING,
    takes_over=True,
    automatic=frozenset({Flow.CLEAN}),
    schema={},
    argsinfo={},
)
INVENTORY = Step(name='inventory_accelerators', parts=frozenset(), operators=False, schema={}, argsinfo={})
VERIFY = Step(name='verify_accelerators', parts=frozenset(), operators=False, schema={}, argsinfo={})
UNLOCK = Step(
    name='unlock_accelerators',
    parts=frozenset({Part.UNLOCK, Part.PUBLISH}),
    concerns=frozenset(),
    schema={'devices': _DEVICES},
    argsinfo=_DEVICES_INFO,
)
LOCK = Step(
    name='lock_accelerators',
    parts=frozenset({Part.LOCK}),
    concerns=relevance.LOCKING,
    takes_over=True,
    automatic=frozenset({Flow.CLEAN, Flow.DEPLOY}),
    schema={'devices': _DEVICES},
    argsinfo=_DEVICES_INFO,
)
UPDATE = Step(
    name='update_accelerator_firmware',
    parts=frozenset({Part.FIRMWARE, Part.LOCK, Part.PUBLISH}),
    concerns=relevance.FIRMWARE,
    automatic=frozenset({Flow.CLEAN}),
    schema={'devices': _DEVICES},
    argsinfo=_DEVICES_INFO,
)
PROGRAM = Step(
    name='program_accelerators',
    parts=frozenset({Part.FUNCTIONS, Part.LOCK, Part.PUBLISH}),
    concerns=relevance.FUNCTIONS,
    operators=False,
    schema={'devices': _DEVICES, 'functions': _FUNCTIONS, 'claimed': {'type': 'boolean'}},
    argsinfo=_DEVICES_INFO | _FUNCTIONS_INFO | _CLAIMED_INFO,
)
PUBLISH = Step(
    name='publish_accelerators',
    parts=frozenset({Part.PUBLISH}),
    concerns=frozenset(),
    automatic=frozenset({Flow.CLEAN}),
    schema={},
    argsinfo={},
)

WAIVE = Step(
    name='waive_accelerator_locks',
    parts=frozenset(),
    schema={
        'paths': _PATHS,
        'reason': _REASON,
        'expires': _END,
        'devices': _DEVICES,
    },
    argsinfo=_WAIVER_INFO | _DEVICES_INFO,
)

ALLOW_START = Step(
    name='allow_host_start',
    parts=frozenset(),
    schema={
        'reason': _REASON,
        'expires': _END,
        'vouched': {'type': 'boolean'},
    },
    argsinfo=_ALLOW_START_INFO,
)

ACCEPT = Step(
    name='accept_accelerator_custody',
    parts=frozenset(),
    schema={
        'reason': _REASON,
        'until': _END,
        'devices': _DEVICES,
    },
    argsinfo=_ACCEPT_INFO | _DEVICES_INFO,
)

STEPS = {s.name: s for s in (RECONCILE, INVENTORY, VERIFY, UNLOCK, LOCK, UPDATE, PROGRAM, PUBLISH, WAIVE, ALLOW_START, ACCEPT)}


def chosen(inventory: Inventory, names: Iterable[str] | None) -> frozenset[AcceleratorId] | None:
    """Return the devices that an argument ``devices`` names; None for all.

    :raises UsageError: a name matches no device, or several.
    """
    if names is None:
        return None
    found = set()
    for name in names:
        meant = {a.id for a in inventory.accelerators if name in (a.id, a.uuid, a.serial, a.label)}
        if len(meant) != 1:
            there = ', '.join(f'{a.label} ({a.id})' for a in inventory.accelerators) or 'none'
            what = f'{name!r} matches {"no device" if not meant else "several devices"} of this node'
            raise UsageError(argument='argument devices', what=what, hint=f'devices: {there}')
        found |= meant
    return frozenset(found)


def overrides(
    functions: Mapping[str, str] | None,
    only: frozenset[AcceleratorId] | None,
    inventory: Inventory,
    baseline: Baseline,
    node: NodeFacts,
    catalogue: Iterable[Image],
) -> tuple[Override, ...]:
    """Return what an argument ``functions`` asks for, by device; slots that it does not name keep what the baseline asks for.

    :param only: the devices that were named; None: every device that has a matching slot.
    :raises UsageError: the catalogue has no such function, or no device has such a slot.
    """
    if functions is None:
        return ()
    known = sorted({i.function for i in catalogue if i.kind is ImageKind.FUNCTION and i.function is not None})
    for slot, function in functions.items():
        if function not in known:
            raise UsageError(
                argument=f'argument functions[{slot}]',
                what=f'the catalogue has no function {function!r}',
                hint=f'functions: {", ".join(known) or "none"}',
            )
    named = [a for a in inventory.accelerators if only is None or a.id in only]
    for slot in functions:
        if not any(_has_slot(a, slot) for a in named):
            there = ', '.join(f'{s.slot_id} of {a.label}' for a in named for s in a.slots) or 'none'
            what = f'no chosen device has a slot {slot!r}'
            raise UsageError(argument='argument functions', what=what, hint=f'slots: {there}')
    return tuple(
        Override(device=a.id, functions=_first_of_each((*asked, *demands(baseline, a, node).functions)))
        for a in named
        if (asked := tuple((slot, function) for slot, function in functions.items() if _has_slot(a, slot)))
    )


def _first_of_each(functions: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Keep the first function of each pattern: later ones have no effect, and a pool asks again and again."""
    first: dict[str, str] = {}
    for pattern, function in functions:
        first.setdefault(pattern, function)
    return tuple(first.items())


def refuse_beside_claimed(given: Mapping[str, Any], flow: Flow) -> None:
    """Check that an argument ``claimed`` is the only one, and is used in a deployment.

    :raises UsageError: it is not.
    """
    beside = sorted(set(given) - {'claimed'})
    if beside or flow is not Flow.DEPLOY:
        what = (
            f'cannot be combined with {", ".join(beside)}' if beside else f'is only for a deployment, and this flow is {flow}'
        )
        raise UsageError(argument='argument claimed', what=what, hint='leave it out, or name the slots by functions')


def overridden(baseline: Baseline, asked: Iterable[Override]) -> Baseline:
    """Return the baseline with rules for what program steps asked for in front."""
    rules = (
        Rule(name=f'step argument for {o.device}', match=Match(ids=frozenset({o.device})), functions=o.functions) for o in asked
    )
    return replace(baseline, rules=(*rules, *baseline.rules))


def waived(baseline: Baseline, given: Iterable[Granted]) -> Baseline:
    """Return the baseline with the waivers that were given for the node."""
    rules = (Rule(name=rule_of(g), match=Match(ids=g.devices), waiver=g.waiver) for g in given)
    return replace(baseline, granted=(*rules, *baseline.granted))


def rule_of(given: Granted) -> str:
    """Return the rule name that is shown for a waiver of a step."""
    return f'{WAIVE.name} of {given.since:%Y-%m-%d %H:%M:%S}Z'


def _has_slot(accelerator: Accelerator, pattern: str) -> bool:
    return any(fnmatchcase(s.slot_id.casefold(), pattern.casefold()) for s in accelerator.slots)


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 3] + '...'
