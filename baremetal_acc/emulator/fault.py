# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The faults of an emulated BMC: named rules, each with a selector, a count and parameters.

A rule selects BMC, device, URI and method by globs (``*`` when absent) and says how often it applies (always when ``count`` is
absent). :data:`NAMES` has every fault; the docs list the faults from it. The code that implements a fault looks for its rule by
name (:meth:`Faults.find`). A fault that only replaces the answer of the service has its answer in :data:`ANSWERS` and needs no
other code. The parameters of a rule are checked when the rule is added.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

# name -> (parameter -> default, what happens)
NAMES: Mapping[str, tuple[Mapping[str, Any], str]] = {
    # locks
    'lock-ignored': ({}, 'the BMC reports success for a write to a lock, and changes nothing'),
    'lock-reports-locked': ({}, 'a lock is open, and is shown as locked'),
    'lock-unread': ({}, 'a lock is open and cannot be read: it is shown as locked, next to a message about the failed read'),
    'lock-never-in-force': ({}, 'a write to a lock is accepted, and no restart brings it into force'),
    'setting-ignored': ({}, 'the BMC reports success for a write to a setting that is no lock, and changes nothing'),
    'setting-never-in-force': ({}, 'a write to a setting that is no lock is accepted, and no restart brings it into force'),
    'licence-missing': ({}, 'a write to a lock is refused, because its licence is missing'),
    'lock-read-error': ({}, 'a root of trust does not answer: its lock is shown as locked, and nothing else of it is shown'),
    'lock-lost-on-reset': ({}, 'a restart of its system opens the lock'),
    'lock-lost-on-bmc-reset': ({}, 'a restart of the BMC opens the lock'),
    'lock-lost-on-update': ({}, 'a write of an image to the card opens the lock'),
    # tasks and images
    'task-vanishes': ({'at_percent': 50, 'completes': False}, 'the task no longer exists; with completes, the write continues'),
    'task-fails': (
        {'at_percent': 50, 'message': 'The device refused the image.', 'completes': False},
        'the task ends in Exception; with completes, the image is written nevertheless',
    ),
    'task-stuck': (
        {'at_percent': 50, 'completes': False},
        'the task stays Running at that percentage; with completes, the image is written nevertheless',
    ),
    'task-completed-version-unchanged': ({}, 'the task ends in Completed, and the device keeps its firmware'),
    'equal-version-skipped': (
        {},
        'an image of the version that a component runs is not written, unless ForceUpdate is true; the task ends in Completed',
    ),
    'task-completed-critical': (
        {'message': 'The device did not take the image.', 'status': 'Critical', 'completes': False},
        'the task ends in Completed with this TaskStatus and a Critical message; with completes, the image is written',
    ),
    'task-not-cancelled': ({}, 'a running task cannot be deleted (405)'),
    'task-id-reused': (
        {'at_percent': 50, 'completes': False},
        'the task no longer exists, and another job has its id; with completes, the image is written',
    ),
    'monitor-empty': ({}, 'an update is accepted without a body, and its task monitor immediately answers 200 without a body'),
    'no-task': (
        {'service_says': True},
        'an update is answered 200 without body or Location, and no task is shown; with service_says, UpdateService has the '
        'state Updating while an image is written',
    ),
    'task-monitor-only': (
        {'vanishes': False},
        'an update has a monitor under UpdateService, and no Task: 202 during the write, then 204 without a body, or 404 with '
        'vanishes',
    ),
    'task-waits-for-restart': (
        {'state': 'Pending', 'says': True, 'message': 'Restart the host to install the image.'},
        'a task stays Pending, Scheduled or New until the host has restarted; then the image is written and is in force; '
        'without says, no message gives the reason',
    ),
    'task-waits-for-start': (
        {'asked': True, 'new_task': False, 'checks': 0},
        'an image is written after a request of UpdateService.StartUpdate; until then its task is Pending. With asked, the '
        'only apply time is OnStartUpdateRequest; with new_task, the task ends after the check of the image, and '
        'StartUpdate begins another one; checks is the number of seconds that the task runs first',
    ),
    'location-elsewhere': (
        {'base': 'https://bmc.internal.example'},
        'Location is an absolute URI, with an address that the BMC takes for its own',
    ),
    'item-late': (
        {'seconds': 60.0, 'missing': False},
        'an item shows Version null for that long after an update; with missing, the item does not exist',
    ),
    'background-copy': (
        {'seconds': 60.0},
        'after an update, a root of trust copies the image for that long, and refuses a further update of its card',
    ),
    'version-lies': (
        {'version': None, 'item_only': False},
        'the item shows this version, or without one the version that was last sent; with item_only, the card shows the truth',
    ),
    'activation-lost': ({}, 'a restart does not activate a staged image'),
    'activates-with-bmc': ({}, 'an image is staged, and only a restart of its BMC brings it into force'),
    'activation-refused': (
        {'leaves': None},
        'the card drops a staged image in the restart, and keeps its firmware; with leaves, it runs that version',
    ),
    'image-damaged': ({'after_bytes': 4096}, 'one bit of an image changes on its way into the BMC'),
    'image-refused': (
        {'message': 'The image is signed with a key that was revoked.', 'version': None, 'below': None},
        'the card refuses an image before it is written; with version, only an image of that version; with below, only images '
        'of a lower security version',
    ),
    'component-fails': (
        {'stage': 'apply', 'message': 'The device could not write the image.'},
        'one component of a package fails in this stage (transfer, verify or apply), and the others are written',
    ),
    'package-refused': (
        {'message': 'The signature of the package is wrong.'},
        'a package is refused after it has arrived, and nothing of it is written',
    ),
    'target-refused': ({}, 'a target of an update is refused (400), as if it did not exist'),
    'task-messages': (
        {'form': 'none'},
        'the messages of a task about the components of a package: none, results (the result of each) or older (message '
        'ids of earlier firmware)',
    ),
    'update-503': ({'retry_after': 1}, 'update requests are answered 503'),
    'upload-cut': (
        {'after_bytes': 4096, 'restarts': False},
        'the connection is cut during an upload; with restarts, the BMC restarts',
    ),
    'upload-stalls': ({'after_bytes': 4096}, 'the BMC stops reading an upload, and the connection stays open'),
    'memory-exhausted': ({'at_once': 1}, 'the BMC restarts when more updates than that run at a time'),
    # the BMC
    'service-restarts': (
        {'at_percent': 50, 'completes': True},
        'only the Redfish service restarts in the middle of an update, and loses its tasks; the update continues (without '
        'completes, it is lost), and a further update is accepted at the same time',
    ),
    'bmc-restart': (
        {'at_percent': 50, 'completes': False, 'seconds': None},
        'the BMC restarts in the middle of an update, and does not answer for that long',
    ),
    'self-test-fails': ({'bits': 1}, 'firmware that was activated over IPMI fails the self-test of its controller'),
    'bmc-restart-on-request': ({'seconds': None}, 'the BMC restarts instead of answering'),
    'password-rotated': ({}, 'the BMC no longer accepts any password or session'),
    'certificate-changed': ({}, 'new connections get a certificate of another authority'),
    'clock-jumps': ({'seconds': 86400}, 'the time that the machine reports jumps once'),
    # signed measurements
    'measurement-wrong': (
        {'how': 'stale-nonce'},
        'a root of trust (feature spdm) signs in a wrong way: stale-nonce, replayed, other-key, other-root, expired, '
        'other-device, truncated, debug-mode or unsigned',
    ),
    # cards and power
    'device-absent': ({}, 'the device and all of its resources are missing'),
    'item-renamed': (
        {'by_version': False},
        'an item that received an image has another Id and URI; with by_version, Id and URI of each item contain its version',
    ),
    'cards-swapped': ({'one': 'GPU_0', 'other': 'GPU_1'}, 'each of two cards has the names and URIs of the other'),
    'card-exchanged': ({}, 'the card has another serial number and another UUID'),
    'other-variant': (
        {'takes': 'oem', 'shows': None},
        'the card is another variant of its model: it accepts only images for the model takes; shows is an object of '
        'properties, such as PartNumber, with their values on this card',
    ),
    'power-lost': (
        {'at_percent': 50, 'leaves': None},
        'the host loses power in the middle of an update; with leaves, the item then runs that version',
    ),
    'reset-types-missing': (
        {'types': 'PowerCycle'},
        'a system does not support these reset types, which are separated by commas',
    ),
    'absent-while-off': ({}, 'the device and all of its resources are shown only while its system is on'),
    'powered-on-by-update': ({}, 'the BMC powers on the system of the card at the end of an update'),
    # answers
    'trailing-slash': ({'status': 308}, 'a write to a URI without a trailing slash is redirected to the URI with one'),
    'session-limit': ({'most': 1}, 'a login is refused (503) while that many sessions exist; Basic authentication works'),
    'slow': ({'seconds': 1.0}, 'the answer is delayed, over Redfish and over IPMI'),
    'refuse': ({'after': False}, 'the connection is cut; with after, only after the request was executed'),
    'hang': ({'after': False}, 'no answer is sent, and the connection stays open; with after, the request is executed first'),
    'drip': ({'bytes_per_second': 1.0}, 'the body of the answer arrives that slowly'),
    'http-status': ({'status': 500, 'retry_after': None}, 'the answer is this status with a Redfish error'),
    'truncated-json': ({}, 'the body ends in the middle'),
    'strange-json': (
        {'how': 'duplicate-keys'},
        'the body is JSON that a parser does not expect: duplicate-keys, huge, nan, many-members, endless-next or deep',
    ),
    'expand-broken': ({}, 'expanded members lack Id and Name'),
    'ipmi-code': (
        {'code': 0xC0, 'after': False},
        'an IPMI command (its method: 2C/32) is answered with this completion code; with after, the command is executed first',
    ),
    'ipmi-lost': (
        {'share': 0.02, 'seed': 0},
        'this share of the IPMI datagrams is lost in each direction; with method login or session, only those of a login or of '
        'a session',
    ),
    'ipmi-malformed': (
        {'how': 'integrity'},
        'IPMI answers (their method: login or session) are malformed: integrity, truncated, lengths, sha1, session, '
        'sequence, plain, huge or garbage',
    ),
    'ipmi-session-lost': ({}, 'the session ends at an IPMI command (its method: 0A/11), which is not answered'),
    'wrong-etag': ({}, 'the ETag that is shown is not the one that If-Match is compared with'),
    'weak-etag': (
        {'matches': False},
        'the ETags are weak and match nothing; with matches, their strong form matches',
    ),
    'precondition-required': (
        {'hides': False},
        'a PATCH without If-Match is refused (428); with hides, no ETag is shown either',
    ),
    'patch-later': (
        {'seconds': 3.0, 'monitor': True, 'said': True},
        'a PATCH is answered 202 and executed that many seconds later, and others are refused until then; without monitor, '
        'nothing exists at Location; without said, it is answered 204, and others are accepted',
    ),
}

MEASURED = frozenset(
    {'stale-nonce', 'replayed', 'other-key', 'other-root', 'expired', 'other-device', 'truncated', 'debug-mode', 'unsigned'}
)
"""Values of ``how`` of ``measurement-wrong``."""

STRANGE = frozenset({'duplicate-keys', 'huge', 'nan', 'many-members', 'endless-next', 'deep'})
"""Values of ``how`` of ``strange-json``."""

MALFORMED = frozenset({'integrity', 'truncated', 'lengths', 'sha1', 'session', 'sequence', 'plain', 'huge', 'garbage'})
"""Values of ``how`` of ``ipmi-malformed``."""

AWAITING = frozenset({'New', 'Pending', 'Scheduled'})
"""Values of ``state`` of ``task-waits-for-restart``."""

RESET_TYPES = frozenset(
    {
        *('On', 'ForceOff', 'GracefulShutdown', 'GracefulRestart', 'ForceRestart', 'Nmi'),
        *('ForceOn', 'PushPowerButton', 'PowerCycle', 'Suspend', 'Pause', 'Resume', 'FullPowerCycle'),
    }
)
"""Values of ``types`` of ``reset-types-missing``, separated by commas. Source: DSP8010 Resource, ResetType."""

STAGES = frozenset({'transfer', 'verify', 'apply'})
"""Values of ``stage`` of ``component-fails``."""

FORMS = frozenset({'none', 'results', 'older'})
"""Values of ``form`` of ``task-messages``."""

_ONE_OF: Mapping[tuple[str, str], frozenset[str]] = {
    ('measurement-wrong', 'how'): MEASURED,
    ('strange-json', 'how'): STRANGE,
    ('ipmi-malformed', 'how'): MALFORMED,
    ('task-waits-for-restart', 'state'): AWAITING,
    ('reset-types-missing', 'types'): RESET_TYPES,
    ('component-fails', 'stage'): STAGES,
    ('task-messages', 'form'): FORMS,
}

# Types of the parameters whose default is None, by parameter name.
_OPTIONAL: Mapping[str, tuple[tuple[type, ...], str]] = {
    'version': ((str,), 'a string'),
    'leaves': ((str,), 'a string'),
    'below': ((int,), 'a whole number'),
    'shows': ((dict,), 'an object'),
    'seconds': ((int, float), 'a number'),
    'retry_after': ((int, float, str), 'a number or a string'),
}


class BadFault(ValueError):
    """A fault rule is not valid: unknown name, or an unknown or wrong parameter."""


@dataclass(slots=True, kw_only=True)
class Fault:
    """One rule. ``count`` is the number of times that it still applies; None: without limit."""

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
        """Whether the rule applies here. A request that belongs to no device fits only rules that select no device."""
        return (
            self.count != 0
            and fnmatchcase(bmc, self.bmc)
            and (self.device == '*' if device is None else fnmatchcase(device, self.device))
            and fnmatchcase(uri, self.uri)
            and fnmatchcase(method, self.method)
        )

    def describe(self) -> dict[str, Any]:
        """Return the rule as JSON, as ``GET /control/faults`` shows it."""
        return {name: getattr(self, name) for name in self.__slots__}


def _http_status(rule: Fault) -> tuple[int, object]:
    return int(rule.parameters['status']), rule.parameters['retry_after']


ANSWERS: Mapping[str, Callable[[Fault], tuple[int, object] | None]] = {'http-status': _http_status}
"""Faults that answer in place of the Redfish service: each gives the HTTP status, and Retry-After if there is one.

None: this time the service answers. The function is called once for each request that the rule fits, after the request was
counted (:attr:`Fault.hits`).
"""


class Faults:
    """The rules in force."""

    def __init__(self) -> None:
        self._rules: list[Fault] = []
        self._lasting: set[int] = set()
        self._next = 1

    def add(self, document: Mapping[str, Any], *, lasting: bool = False) -> Fault:
        """Add a rule from its JSON: ``{"name", "bmc", "device", "uri", "method", "count", and its parameters}``.

        :param lasting: the rule belongs to a habit, and stays when all rules are removed.
        :raises BadFault: the rule is not valid; the text names the wrong item.
        """
        fields = dict(document)
        name = fields.pop('name', None)
        if name not in NAMES:
            raise BadFault(f'unknown fault {name!r}; the faults are {", ".join(sorted(NAMES))}')
        selector = {key: fields.pop(key) for key in ('bmc', 'device', 'uri', 'method') if key in fields}
        for glob, value in selector.items():
            if not isinstance(value, str):
                raise BadFault(f'fault {name}: {glob} must be a glob string, not {value!r}')
        count = fields.pop('count', None)
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise BadFault(f'fault {name}: count must be a positive whole number, not {count!r}')
        parameters = dict(NAMES[name][0])
        for key, value in fields.items():
            if key not in parameters:
                raise BadFault(f'fault {name}: unknown parameter {key!r}; its parameters are {", ".join(parameters) or "none"}')
            _check(str(name), key, parameters[key], value)
            parameters[key] = value
        rule = Fault(id=self._next, name=str(name), count=count, parameters=parameters, **selector)
        self._next += 1
        self._rules.append(rule)
        if lasting:
            self._lasting.add(rule.id)
        return rule

    def find(
        self, name: str, *, bmc: str, device: str | None = None, uri: str = '', method: str = '', use: bool = True
    ) -> Fault | None:
        """Return the first rule of that name that applies here, or None.

        :param use: count the use. Code that only shows a state does not count.
        """
        for rule in self._rules:
            if rule.name == name and rule.fits(bmc=bmc, device=device, uri=uri, method=method):
                if use:
                    rule.hits += 1
                    if rule.count is not None:
                        rule.count -= 1
                return rule
        return None

    def remove(self, fault_id: int | None = None) -> int:
        """Remove one rule, or all rules but those of habits; return how many were removed."""
        before = len(self._rules)
        kept = self._lasting if fault_id is None else {rule.id for rule in self._rules} - {fault_id}
        self._rules = [rule for rule in self._rules if rule.id in kept]
        return before - len(self._rules)

    def describe(self) -> list[dict[str, Any]]:
        """Return all rules as JSON."""
        return [rule.describe() for rule in self._rules]

    def any(self, name: str) -> bool:
        """Whether a rule of that name is left."""
        return any(rule.name == name and rule.count != 0 for rule in self._rules)


def _check(name: str, key: str, default: Any, value: Any) -> None:
    """Check the value of a parameter.

    :raises BadFault: the parameter cannot have this value.
    """
    if default is None:
        types, what = _OPTIONAL[key]
        if isinstance(value, bool) or not isinstance(value, types):
            raise BadFault(f'fault {name}: {key} must be {what}, not {value!r}')
        return
    if isinstance(default, bool) is not isinstance(value, bool):
        raise BadFault(f'fault {name}: {key} cannot be {value!r}')
    if isinstance(default, int | float) and not isinstance(value, int | float):
        raise BadFault(f'fault {name}: {key} must be a number, not {value!r}')
    if isinstance(default, str) and not isinstance(value, str):
        raise BadFault(f'fault {name}: {key} must be a string, not {value!r}')
    allowed = _ONE_OF.get((name, key))
    words = value.split(',') if key == 'types' else [value]
    if allowed is not None and not allowed.issuperset(words):
        raise BadFault(f'fault {name}: {key} must be one of {", ".join(sorted(allowed))}, not {value!r}')
