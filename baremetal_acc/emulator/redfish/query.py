# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Redfish query parameters of a GET: $expand, $select, $top, $skip and only.

The functions take plain bodies and a function that finds a body by its URI, so that a recorded tree is served by the same
rules. Source: DSP0266, query parameters.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import Body

MAX_LEVELS = 6
# An expansion of everything over six levels would block the emulator; real BMCs have a limit, too.
MAX_EXPANDED = 5000
_EXPAND = re.compile(r'^([.~*])(?:\(\$levels=(\d+)\))?$')

Find = Callable[[str], Body | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The query parameters of one GET."""

    expand: str | None = None
    levels: int = 1
    select: tuple[str, ...] = ()
    top: int | None = None
    skip: int = 0
    only: bool = False
    other: Mapping[str, str] = field(default_factory=dict)


def parse_query(parameters: Mapping[str, str], *, can_expand: bool = True) -> Query:
    """Parse the query of a request.

    :raises RedfishError: 400 for a wrong value, 501 for a $ parameter that is not supported.
    """
    expand: str | None = None
    levels, top, skip = 1, None, 0
    select: tuple[str, ...] = ()
    for name, value in parameters.items():
        match name:
            case '$expand':
                if not can_expand:
                    raise RedfishError(501, 'QueryNotSupported')
                parsed = _EXPAND.match(value)
                if parsed is None:
                    raise RedfishError(400, 'QueryParameterValueFormatError', value, name)
                expand, levels = parsed[1], int(parsed[2] or 1)
                if not 1 <= levels <= MAX_LEVELS:
                    raise RedfishError(400, 'QueryParameterOutOfRange', value, name, f'1 to {MAX_LEVELS} levels')
            case '$select':
                select = tuple(part.strip() for part in value.split(',') if part.strip())
            case '$top':
                top = _number(name, value)
            case '$skip':
                skip = _number(name, value)
            case 'only':
                pass
            case _ if name.startswith('$'):
                raise RedfishError(501, 'QueryNotSupported')
    return Query(expand=expand, levels=levels, select=select, top=top, skip=skip, only='only' in parameters)


def _number(name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit():
        raise RedfishError(400, 'QueryParameterValueFormatError', value, name)
    return int(value)


def answer(body: Body, query: Query, find: Find, *, path: str, page_size: int | None = None) -> tuple[Body, int]:
    """Apply a query to a body; return the body and the number of resources that were expanded into it."""
    if isinstance(body.get('Members'), list):
        if query.only and len(body['Members']) == 1:
            uri = body['Members'][0].get('@odata.id')
            body = find(uri) or body
        else:
            body = _page(body, query, path, page_size)
    expanded = 0
    if query.expand is not None:
        walk = _Expansion(query.expand, find)
        body = walk.resource(body, query.levels)
        expanded = walk.count
    if query.select:
        body = _select(body, query)
    return body, expanded


def _page(body: Body, query: Query, path: str, page_size: int | None) -> Body:
    members = body['Members']
    limits = [limit for limit in (query.top, page_size) if limit is not None]
    if not limits and not query.skip:
        return body
    shown = members[query.skip :]
    limit = min(limits) if limits else len(shown)
    page = {**body, 'Members': shown[:limit]}
    rest_wanted = query.top is None or query.top > limit
    if len(shown) > limit and rest_wanted:
        parameters = [f'$skip={query.skip + limit}']
        if query.top is not None:
            parameters.append(f'$top={query.top - limit}')
        if query.expand is not None:
            parameters.append(f'$expand={query.expand}($levels={query.levels})')
        page['Members@odata.nextLink'] = f'{path}?{"&".join(parameters)}'
    return page


class _Expansion:
    """Replaces references by the resources: '.' except those under Links, '~' only those under Links, '*' all."""

    def __init__(self, how: str, find: Find) -> None:
        self._how = how
        self._find = find
        self.count = 0

    def resource(self, body: Body, levels: int) -> Body:
        if levels == 0:
            return body
        shown: Body = {}
        for name, value in body.items():
            if name == 'Links':
                shown[name] = self._inside(value, levels) if self._how in '~*' else value
            elif name == 'Actions' or name.startswith('@') or '@Redfish.' in name:
                shown[name] = value
            else:
                shown[name] = self._inside(value, levels) if self._how in '.*' or name == 'Members' else value
        return shown

    def _inside(self, value: Any, levels: int) -> Any:
        if isinstance(value, list):
            return [self._inside(one, levels) for one in value]
        if not isinstance(value, dict):
            return value
        uri = value.get('@odata.id')
        if len(value) == 1 and isinstance(uri, str) and '#' not in uri:
            found = self._find(uri) if self.count < MAX_EXPANDED else None
            if found is None:
                return value
            self.count += 1
            return self.resource(found, levels - 1)
        return {name: self._inside(one, levels) for name, one in value.items()}


def _select(body: Body, query: Query) -> Body:
    names = {name.split('/', 1)[0] for name in query.select}
    if query.expand is not None and isinstance(body.get('Members'), list):
        return {**body, 'Members': [_picked(member, names) for member in body['Members'] if isinstance(member, dict)]}
    return _picked(body, names)


def _picked(body: Body, names: set[str]) -> Body:
    return {name: value for name, value in body.items() if name in names or name.startswith('@odata.')}
