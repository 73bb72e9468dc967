# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The resource tree of an emulated BMC: resources, collections and actions, and the checks of PATCH and action parameters."""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Union

from baremetal_acc.emulator.redfish.errors import RedfishError

Body = dict[str, Any]

ROOT = '/redfish/v1'
OK: Mapping[str, str] = {'State': 'Enabled', 'Health': 'OK'}


def status(state: str = 'Enabled', health: str | None = 'OK') -> Body:
    """A Status object."""
    return {'State': state} if health is None else {'State': state, 'Health': health}


def ref(uri: str) -> Body:
    """A reference to a resource."""
    return {'@odata.id': uri}


def refs(uris: Iterable[str]) -> list[Body]:
    """References to resources."""
    return [ref(uri) for uri in uris]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request: the account, its privileges, and the session if there is one."""

    user: str | None
    privileges: frozenset[str]
    session: str | None = None

    def may(self, privilege: str) -> bool:
        """Whether the account has that privilege."""
        return privilege in self.privileges


@dataclass(frozen=True, slots=True, kw_only=True)
class Writable:
    """A writable property: its JSON types, its allowed values if it has a list, and the function that writes it."""

    types: tuple[type, ...]
    write: Callable[[Any], None]
    allowed: tuple[Any, ...] | None = None


# An object is a mapping, an array a tuple with one mapping per element, any other property a Writable.
Writables = Mapping[str, Union[Writable, 'Writables', tuple['Writables', ...]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of an action. ``refused`` are those of the allowed values that are not accepted at present."""

    name: str
    types: tuple[type, ...] = (str,)
    required: bool = False
    allowed: tuple[Any, ...] | None = None
    show_allowed: bool = True
    refused: Callable[[], frozenset[Any]] = frozenset

    def values(self) -> tuple[Any, ...] | None:
        """The values that the parameter accepts; None: any."""
        if self.allowed is None:
            return None
        refused = self.refused()
        return tuple(value for value in self.allowed if value not in refused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The answer of an action, a creation or a deletion: status, body, headers."""

    status: int = 204
    body: Body | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceAction:
    """An action of a resource: ``#Type.Name``, the URI that it is posted to, and the function that carries it out.

    :ivar is_oem: the action is shown under Oem.
    :ivar is_offered: whether the action is available at present.
    """

    name: str
    target: str
    parameters: tuple[Parameter, ...]
    invoke: Callable[[Caller, Body], Outcome]
    privilege: str = 'ConfigureComponents'
    extra: Mapping[str, Any] | Callable[[], Mapping[str, Any]] = field(default_factory=dict)
    is_oem: bool = False
    is_offered: Callable[[], bool] = lambda: True

    def describe(self) -> Body:
        """The object of the action under Actions."""
        shown: Body = {'target': self.target}
        for parameter in self.parameters:
            values = parameter.values()
            if values is not None and parameter.show_allowed:
                shown[f'{parameter.name}@Redfish.AllowableValues'] = list(values)
        return shown | dict(self.extra() if callable(self.extra) else self.extra)

    def check(self, given: Mapping[str, Any]) -> Body:
        """Check the parameters of a request, and return them.

        :raises RedfishError: 400, naming the parameter.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        short = self.name.lstrip('#')
        for name, value in given.items():
            parameter = known.get(name)
            if parameter is None:
                raise RedfishError(400, 'ActionParameterUnknown', short, name)
            if not _is_of(value, parameter.types):
                raise RedfishError(400, 'ActionParameterValueTypeError', json.dumps(value), name, short)
            values = parameter.values()
            if values is not None and value not in values:
                raise RedfishError(400, 'ActionParameterValueNotInList', str(value), name, short)
        for parameter in self.parameters:
            if parameter.required and parameter.name not in given:
                raise RedfishError(400, 'ActionParameterMissing', short, parameter.name)
        return dict(given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One resource of a BMC.

    :ivar render: returns its properties without @odata.id and @odata.type.
    :ivar device: the card that it belongs to; when the card is absent, so is the resource.
    :ivar owner: the account that it belongs to, such as that of a session.
    :ivar is_missing: whether this resource alone is absent.
    :ivar volatile: properties that do not change the ETag.
    """

    uri: str
    type: str
    render: Callable[[], Body]
    writable: Callable[[], Writables] | None = None
    actions: tuple[ResourceAction, ...] = ()
    device: str | None = None
    privilege: str = 'ConfigureComponents'
    self_privilege: str | None = None
    read_privilege: str = 'Login'
    owner: str | None = None
    create: Callable[[Caller, Body], Outcome] | None = None
    delete: Callable[[Caller], Outcome] | None = None
    members: Callable[[], Sequence[str]] | None = None
    is_missing: Callable[[], bool] | None = None
    volatile: frozenset[str] = frozenset()


def collection(
    uri: str,
    kind: str,
    members: Callable[[], Sequence[str]] | Sequence[str],
    *,
    name: str | None = None,
    create: Callable[[Caller, Body], Outcome] | None = None,
    privilege: str = 'ConfigureComponents',
    device: str | None = None,
    extra: Mapping[str, Any] | None = None,
) -> Resource:
    """A collection of resources of one kind; Members are filled in from ``members``."""
    shown: Body = {'Name': name or f'{kind} Collection', **(extra or {})}
    return Resource(
        uri=uri,
        type=f'#{kind}Collection.{kind}Collection',
        render=lambda: dict(shown),
        members=members if callable(members) else lambda: members,
        create=create,
        privilege=privilege,
        device=device,
    )


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two objects recursively; other values are taken from the second."""
    whole = dict(one)
    for name, value in other.items():
        known = whole.get(name)
        whole[name] = merged(known, value) if isinstance(known, Mapping) and isinstance(value, Mapping) else value
    return whole


class ResourceTree:
    """All resources of one BMC: fixed ones, and those that come and go (tasks, sessions, functions)."""

    def __init__(self, is_absent: Callable[[str], bool]) -> None:
        self._is_absent = is_absent
        self._fixed: dict[str, Resource] = {}
        self._sources: list[Callable[[], Iterable[Resource]]] = []
        self._children: dict[str, list[str]] = {}

    def add(self, *resources: Resource) -> None:
        """Add fixed resources.

        :raises ValueError: the URI exists already: the product is wrong.
        """
        for resource in resources:
            if resource.uri in self._fixed:
                raise ValueError(f'{resource.uri} already exists')
            self._fixed[resource.uri] = resource

    def extend(self, uri: str, more: Callable[[], Body], writable: Callable[[], Writables] | None = None) -> None:
        """Add properties and writable properties to a resource, as vendors extend one."""
        one = self._fixed[uri]
        takes = one.writable

        def writables() -> Writables:
            return merged(takes() if takes is not None else {}, writable() if writable is not None else {})

        self._fixed[uri] = replace(
            one,
            render=lambda: merged(one.render(), more()),
            writable=writables if takes is not None or writable is not None else None,
        )

    def add_source(self, source: Callable[[], Iterable[Resource]]) -> None:
        """Add a source of resources that come and go; it is called for each request."""
        self._sources.append(source)

    def has(self, uri: str) -> bool:
        """Whether the URI is one of the fixed resources."""
        return uri in self._fixed

    def join(self, collection_uri: str, member_uri: str) -> None:
        """Make a resource a member of a collection that uses :meth:`joined`."""
        self._children.setdefault(collection_uri, []).append(member_uri)

    def joined(self, collection_uri: str) -> Callable[[], Sequence[str]]:
        """A function that returns the members that joined a collection."""
        return lambda: tuple(self._children.get(collection_uri, ()))

    def snapshot(self) -> dict[str, Resource]:
        """All present resources by URI."""
        found = dict(self._fixed)
        for source in self._sources:
            for resource in source():
                found[resource.uri] = resource
        return {uri: one for uri, one in found.items() if not self._is_away(one)}

    def hidden(self) -> frozenset[str]:
        """URIs of fixed resources that are absent, alone or with their device. No resource links to them, either."""
        return frozenset(uri for uri, one in self._fixed.items() if self._is_away(one))

    def _is_away(self, resource: Resource) -> bool:
        is_gone = resource.device is not None and self._is_absent(resource.device)
        return is_gone or (resource.is_missing is not None and resource.is_missing())


def body_of(resource: Resource, hidden: frozenset[str] = frozenset()) -> Body:
    """The whole body of a resource, with its ETag in ``@odata.etag``."""
    body: Body = {'@odata.id': resource.uri, '@odata.type': resource.type, **resource.render()}
    if resource.members is not None:
        members = [uri for uri in resource.members() if uri not in hidden]
        body['Members@odata.count'] = len(members)
        body['Members'] = refs(members)
    if offered := [action for action in resource.actions if action.is_offered()]:
        shown = body.setdefault('Actions', {})
        for action in offered:
            place = shown.setdefault('Oem', {}) if action.is_oem else shown
            place[action.name] = action.describe()
    if hidden:
        body = _without(body, hidden)
    body['@odata.etag'] = etag_of(body, resource.volatile)
    return body


def etag_of(body: Mapping[str, Any], volatile: frozenset[str] = frozenset()) -> str:
    """A strong ETag: a digest of the body without its volatile properties."""
    stable = {key: value for key, value in body.items() if key not in volatile and key != '@odata.etag'}
    digest = hashlib.sha256(json.dumps(stable, sort_keys=True).encode()).hexdigest()[:16]
    return f'"{digest}"'


def _without(value: Any, hidden: frozenset[str]) -> Any:
    """Remove references to absent resources from arrays, with their counts, and from objects."""
    if isinstance(value, dict):
        left = {key: _without(one, hidden) for key, one in value.items() if not _points_into(one, hidden)}
        for key, one in value.items():
            count = f'{key}@odata.count'
            if isinstance(one, list) and left.get(count) == len(one):
                left[count] = len(left[key])
        return left
    if isinstance(value, list):
        return [_without(one, hidden) for one in value if not _points_into(one, hidden)]
    return value


def _points_into(value: Any, hidden: frozenset[str]) -> bool:
    return isinstance(value, dict) and len(value) == 1 and str(value.get('@odata.id', '')).split('#')[0] in hidden


def _is_of(value: Any, types: tuple[type, ...]) -> bool:
    if isinstance(value, bool):
        return bool in types
    return isinstance(value, types)


def check_patch(patch: Any, writables: Writables, current: Mapping[str, Any]) -> list[tuple[Writable, Any]]:
    """Check a PATCH, and return what it writes. Nothing is written before all of it was checked.

    In an array, an empty object or null leaves the element as it is. Source: DSP0266, modify operations on arrays.

    :raises RedfishError: 400, naming the property.
    """
    if not isinstance(patch, dict):
        raise RedfishError(400, 'MalformedJSON')
    writes = _check_object(patch, writables, current, '')
    if not patch:
        raise RedfishError(400, 'EmptyJSON')
    return writes


def _check_object(
    patch: Mapping[str, Any], writables: Writables, current: Mapping[str, Any], path: str
) -> list[tuple[Writable, Any]]:
    writes: list[tuple[Writable, Any]] = []
    for name, value in patch.items():
        where = f'{path}/{name}'
        if name.startswith('@') or '@' in name:
            continue
        rule = writables.get(name)
        if rule is None:
            if name in current:
                raise RedfishError(400, 'PropertyNotWritable', name, related=f'#{where}')
            raise RedfishError(400, 'PropertyUnknown', name, related=f'#{where}')
        if isinstance(rule, Writable):
            if not _is_of(value, rule.types):
                raise RedfishError(400, 'PropertyValueTypeError', json.dumps(value), name, related=f'#{where}')
            if rule.allowed is not None and value not in rule.allowed:
                raise RedfishError(400, 'PropertyValueNotInList', str(value), name, related=f'#{where}')
            writes.append((rule, value))
        elif isinstance(rule, tuple):
            writes += _check_array(value, rule, current.get(name), where)
        else:
            if not isinstance(value, dict):
                raise RedfishError(400, 'PropertyValueTypeError', json.dumps(value), name, related=f'#{where}')
            inner = current.get(name)
            writes += _check_object(value, rule, inner if isinstance(inner, dict) else {}, where)
    return writes


def _check_array(value: Any, rules: tuple[Writables, ...], current: Any, path: str) -> list[tuple[Writable, Any]]:
    name = path.rsplit('/', 1)[-1]
    if not isinstance(value, list):
        raise RedfishError(400, 'PropertyValueTypeError', json.dumps(value), name, related=f'#{path}')
    if len(value) > len(rules):
        raise RedfishError(400, 'ArraySizeTooLong', name, str(len(rules)), related=f'#{path}')
    writes: list[tuple[Writable, Any]] = []
    for index, element in enumerate(value):
        if element is None or element == {}:
            continue
        where = f'{path}/{index}'
        if not isinstance(element, dict):
            raise RedfishError(400, 'PropertyValueTypeError', json.dumps(element), name, related=f'#{where}')
        shown = current[index] if isinstance(current, list) and index < len(current) else {}
        writes += _check_object(element, rules[index], shown, where)
    return writes
