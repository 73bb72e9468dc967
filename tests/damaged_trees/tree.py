# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Recorded trees, and a transport that answers from them in this process: no socket, no thread of a server."""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import yaml

from tests.replies import Asked, Given

Body = Any
"""A resource: JSON as it was read."""

ROOT = '/redfish/v1'

SHARED = Path(os.environ.get('BAREMETAL_ACC_SHARED') or Path(__file__).parents[3] / 'shared')

EXPANDS = {'ProtocolFeaturesSupported': {'ExpandQuery': {'Levels': True, 'MaxLevels': 1, 'NoLinks': True}}}


def folders() -> list[Path]:
    """The recordings and the trees of cases, those with an expected.yaml."""
    kinds = ('cases/trees/*', 'recordings/*/*')
    return sorted(path.parent for kind in kinds for path in SHARED.glob(f'{kind}/expected.yaml'))


def plain(uri: str) -> str:
    """A URI as trees have it: no query, no fragment, no slash at its end."""
    return '/' + uri.partition('#')[0].partition('?')[0].strip('/')


@dataclass(slots=True)
class Place:
    """Where a resource holds a link, but that to itself.

    :ivar uri: of the resource; ``number`` of the link in it.
    """

    uri: str
    number: int
    target: str
    listed: bool


@dataclass
class Tree:
    """A machine's resources by URI.

    :ivar system: the System that the target is, where expected.yaml names one.
    """

    name: str
    bodies: dict[str, Body]
    system: str | None = None

    @classmethod
    def of(cls, folder: Path) -> 'Tree':
        """The tree of a folder."""
        found = {
            '/' + str(path.parent.relative_to(folder)): json.loads(path.read_bytes().decode('utf-8-sig'))
            for path in folder.glob('redfish/**/index.json')
        }
        expected = yaml.safe_load((folder / 'expected.yaml').read_text())
        return cls(name=f'{folder.parent.name}/{folder.name}', bodies=found, system=expected.get('system'))

    @cached_property
    def answers(self) -> dict[str, bytes]:
        """What is sent for each resource."""
        return {uri: json.dumps(body).encode() for uri, body in self.bodies.items()}

    @cached_property
    def places(self) -> list[Place]:
        """Every link of every resource."""
        return [
            Place(uri, n, plain(holder[name]['@odata.id']), isinstance(holder, list))
            for uri, body in sorted(self.bodies.items())
            for n, (holder, name) in enumerate(links_of(body))
        ]


def links_of(body: Body) -> Iterator[tuple[Any, Any]]:
    """What holds each link of a resource, and under which name or number."""
    pairs = body.items() if isinstance(body, dict) else enumerate(body) if isinstance(body, list) else ()
    for name, value in pairs:
        if isinstance(value, dict) and isinstance(value.get('@odata.id'), str):
            yield body, name
        yield from links_of(value)


@dataclass
class Service:
    """A BMC that has a tree, with some resources changed.

    :ivar changed: resources that are others now; None: not there.
    :ivar expands: collections can be expanded.
    :ivar folds: URIs are taken in any case, and answers say them as they are.
    :ivar asked: paths that were asked for.
    """

    tree: Tree
    changed: Mapping[str, Body | None] = field(default_factory=dict)
    expands: bool = False
    folds: bool = False
    asked: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._folded = {uri.casefold(): uri for uri in self.tree.bodies}

    def answer(self, asked: Asked) -> Given:
        """The answer to one request; all that is not a read is taken, and does nothing."""
        path, _, query = unquote(asked.url.split('://', 1)[1]).partition('?')
        uri = plain(path.partition('/')[2])
        self.asked.add(uri)
        status, content = self._answer(uri, expand='$expand' in query) if asked.method == 'GET' else (204, b'')
        return Given(status=status, headers={'Content-Type': 'application/json'}, content=content)

    def body(self, uri: str) -> Body | None:
        """What is at a URI now."""
        known = self._known(uri)
        return self.changed[known] if known in self.changed else self.tree.bodies.get(known)

    def said(self, uri: str) -> Body | None:
        """What a client that expands collections, where the BMC can, is told of a URI."""
        body = self.body(uri)
        if self.expands and isinstance(body, dict) and isinstance(body.get('Members'), list):
            return body | {'Members': [self._member(member) for member in body['Members']]}
        return body

    def _known(self, uri: str) -> str:
        return self._folded.get(uri.casefold(), uri) if self.folds and uri not in self.tree.bodies else uri

    def _answer(self, uri: str, *, expand: bool) -> tuple[int, bytes]:
        body = self.body(uri)
        if body is None:
            return 404, b'{"error": {"code": "Base.1.0.ResourceMissingAtURI", "message": "not there"}}'
        known = self._known(uri)
        if self.expands and known == ROOT:
            body = body | EXPANDS
        elif expand and isinstance(body.get('Members'), list):
            body = body | {'Members': [self._member(member) for member in body['Members']]}
        elif known not in self.changed:
            return 200, self.tree.answers[known]
        return 200, json.dumps(body).encode()

    def _member(self, member: Any) -> Any:
        link = member.get('@odata.id') if isinstance(member, dict) else None
        found = self.body(plain(link)) if isinstance(link, str) else None
        return member if found is None else found
