# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does this BMC misbehave today? Named rules, each with a selector, a count and parameters.

A rule says which BMC, device, URI and method it is for (globs, ``*`` when absent) and how often it applies (always when
``count`` is absent). What each name means stands in :data:`NAMES`; the parameters of a rule are checked when it is made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# name -> (parameter -> default, what happens)
NAMES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    'lock-ignored': ({}, 'a write to a lock is answered as done, and nothing changes'),
    'lock-reports-locked': ({}, 'a lock is shown as locked, and stands open'),
    'lock-lost-on-reset': ({}, 'a reset of the machine opens the lock'),
    'task-vanishes': ({'at_percent': 50, 'completes': False}, 'the task is gone; with completes the write went on'),
    'task-fails': ({'at_percent': 50, 'message': 'The device refused the image.'}, 'the task ends in Exception'),
    'task-stuck': ({'at_percent': 50}, 'the task stays Running at that percentage'),
    'task-completed-version-unchanged': ({}, 'the task says Completed, the device keeps what it had'),
    'version-lies': ({'version': None}, 'the item shows this version; without one, what was last sent to it'),
    'update-503': ({'retry_after': 1}, 'requests to update are answered 503'),
    'slow': ({'seconds': 1.0}, 'the answer waits'),
    'refuse': ({'after': False}, 'the connection is cut; with after, once the request has been carried out'),
    'http-status': ({'status': 500}, 'the answer is this status with a Redfish error'),
    'truncated-json': ({}, 'the body ends in the middle'),
    'expand-broken': ({}, 'expanded members lack Id and Name'),
    'device-absent': ({}, 'the device and all that belongs to it is gone'),
    'wrong-etag': ({}, 'the ETag shown is not the one that If-Match is compared with'),
    'bmc-restart': ({'at_percent': 50, 'completes': False}, 'the BMC restarts in the middle of an update'),
    'upload-cut': ({'after_bytes': 4096}, 'the connection is cut in the middle of an upload'),
}


class BadFault(ValueError):
    """A rule that cannot be: unknown name, unknown or wrong parameter."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule. ``count`` is what is left of it; None means for ever."""

    id: int
    name: str
    bmc: str = '*'
    device: str = '*'
    uri: str = '*'
    method: str = '*'
    count: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    hits: int = 0

    def fits(self, *, bmc: str, device: str | None, uri: str, method: str) -> bool:
        """Whether the rule is for this. What belongs to no device fits only a rule that names none."""
        return (
            self.count != 0
            and fnmatchcase(bmc, self.bmc)
            and (self.device == '*' if device is None else fnmatchcase(device, self.device))
            and fnmatchcase(uri, self.uri)
            and fnmatchcase(method, self.method)
        )

    def describe(self) -> dict[str, Any]:
        """The rule as JSON, as ``GET /control/faults`` shows it."""
        return {name: getattr(self, name) for name in self.__slots__}


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._next = 1

    def add(self, document: Mapping[str, Any]) -> Fault:
        """A new rule from its JSON: ``{"name", "bmc", "device", "uri", "method", "count", and its parameters}``.

        :raises BadFault: the rule cannot be; the text names the item.
        """
        fields = dict(document)
        name = fields.pop('name', None)
        if name not in NAMES:
            raise BadFault(f'unknown fault {name!r}; one of {", ".join(sorted(NAMES))}')
        selector = {key: fields.pop(key) for key in ('bmc', 'device', 'uri', 'method') if key in fields}
        for glob, value in selector.items():
            if not isinstance(value, str):
                raise BadFault(f'fault {name}: {glob} must be a glob, not {value!r}')
        count = fields.pop('count', None)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise BadFault(f'fault {name}: count must be a positive number, not {count!r}')
        parameters = dict(NAMES[name][0])
        for key, value in fields.items():
            if key not in parameters:
                raise BadFault(f'fault {name}: unknown parameter {key!r}; one of {", ".join(parameters) or "none"}')
            default = parameters[key]
            if default is not None and isinstance(default, bool) is not isinstance(value, bool):
                raise BadFault(f'fault {name}: {key} cannot be {value!r}')
            if isinstance(default, int | float) and not isinstance(value, int | float):
                raise BadFault(f'fault {name}: {key} must be a number, not {value!r}')
            if (isinstance(default, str) or key == 'version') and not isinstance(value, str):
                raise BadFault(f'fault {name}: {key} must be a text, not {value!r}')
            parameters[key] = value
        rule = Fault(id=self._next, name=str(name), count=count, parameters=parameters, **selector)
        self._next += 1
        self._rules.append(rule)
        return rule

    def find(
        self, name: str, *, bmc: str, device: str | None = None, uri: str = '', method: str = '', use: bool = True
    ) -> Fault | None:
        """The first rule of that name for this, or None. ``use`` counts it; looking without counting is for what is shown."""
        for rule in self._rules:
            if rule.name == name and rule.fits(bmc=bmc, device=device, uri=uri, method=method):
                if use:
                    rule.hits += 1
                    if rule.count is not None:
                        rule.count -= 1
                return rule
        return None

    def remove(self, fault_id: int | None = None) -> int:
        """Take away one rule, or all; tells how many went."""
        before = len(self._rules)
        self._rules = [rule for rule in self._rules if fault_id is not None and rule.id != fault_id]
        return before - len(self._rules)

    def describe(self) -> list[dict[str, Any]]:
        """All rules as JSON."""
        return [rule.describe() for rule in self._rules]

    def any(self, name: str) -> bool:
        """Whether some rule of that name is left."""
        return any(rule.name == name and rule.count != 0 for rule in self._rules)
