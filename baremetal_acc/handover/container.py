# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which certificates lie in this container of an object store? One object for each life and deployment of a node.

``NODE/7-DEPLOYMENT.json``; one that was put away, when the node came back, has ``X-Object-Meta-Superseded: true``. Objects are
never removed by us: that is what the store's own expiry is for.

Source: OpenStack Object Storage API v1, "Create or replace object", "Get object content", "Create or update object metadata".
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol
from urllib.parse import quote

from keystoneauth1 import exceptions as ksa

from baremetal_acc.errors import StateError
from baremetal_acc.model.certificate import Reference

_LONGEST_NAME = 256
"""Bytes of a container's name. Source: the same, "container_name"."""

_HINT = 'option [baremetal_acc] certificate_container names the container, group [swift] says how to reach it'


class Adapter(Protocol):
    """What is needed of a ``keystoneauth1.adapter.Adapter`` for the object store."""

    def request(self, url: str, method: str, **kwargs: Any) -> Any:
        """Send one request and give a ``requests.Response``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of certificates."""

    name: str
    adapter: Adapter

    def make(self) -> None:
        """See that the container is there.

        :raises StateError: it is not, or has no name that one can have.
        """
        if not self.name or '/' in self.name or len(self.name.encode()) > _LONGEST_NAME:
            raise StateError(f'{self.name!r} is no name of a container', hint=_HINT)
        self._ask('PUT', quote(self.name, safe=''), good=(HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT))

    def put(self, which: Reference, data: bytes) -> str:
        """Keep a signed certificate, and read it back.

        :returns: container and object.
        :raises StateError: it is not there now, as it was given.
        """
        self.make()
        # The store compares what it got with this and answers 422: source as above, request header ETag.
        etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
        headers = {'Content-Type': 'application/json', 'ETag': etag}
        path = self._path(which)
        self._ask('PUT', path, good=(HTTPStatus.CREATED,), data=data, headers=headers)
        found = self._ask('GET', path, good=(HTTPStatus.OK,))
        if found.content != data:
            raise StateError(f'{self.label(which)}: what is read there is not what was written', hint=_HINT)
        return self.label(which)

    def get(self, which: Reference) -> bytes:
        """The bytes that are kept of it.

        :raises StateError: there are none.
        """
        content: bytes = self._ask('GET', self._path(which), good=(HTTPStatus.OK,)).content
        return content

    def put_away(self, which: Reference) -> None:
        """It is over: it stays, and says so. Where it is not there, nothing has to.

        :raises StateError: it could not be marked.
        """
        headers = {'X-Object-Meta-Superseded': 'true', 'Content-Type': 'application/json'}
        self._ask('POST', self._path(which), good=(HTTPStatus.ACCEPTED, HTTPStatus.NOT_FOUND), headers=headers)

    def _path(self, which: Reference) -> str:
        return f'{quote(self.name, safe="")}/{"/".join(quote(part, safe="") for part in _object(which))}'

    def label(self, which: Reference) -> str:
        """Container and object, for people."""
        return '/'.join((self.name, *_object(which)))

    def _ask(
        self,
        method: str,
        path: str,
        *,
        good: tuple[HTTPStatus, ...],
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """One request. Its answer is never quoted: it could hold what somebody else put there.

        :raises StateError: it was answered otherwise, or not at all.
        """
        try:
            answer = self.adapter.request(
                f'/{path}', method, data=data, headers=dict(headers or {}), raise_exc=False, redirect=False, log=False
            )
        except ksa.ClientException as exc:
            raise StateError(f'object store: {method} /{path}: {type(exc).__name__}', hint=_HINT) from exc
        if answer.status_code not in good:
            raise StateError(f'object store: {method} /{path}: status {answer.status_code}', hint=_HINT)
        return answer


def _object(which: Reference) -> tuple[str, str]:
    node = which.node.uuid or which.node.name
    return node, f'{which.lifecycle}-{which.deployment}.json'
