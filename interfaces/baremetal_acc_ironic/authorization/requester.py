# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Identify the user behind a request: only a user that Keystone has authenticated, with project, roles and scope, is believed.

Ironic's API takes the identity of a request from its headers. On most paths keystonemiddleware has set these headers, and has
stored the token's data in the request environment, where no header reaches. On the public paths (heartbeat, lookup,
continue_inspection) it does neither: a client can name itself as it likes there, and its claim reaches the conductor, and a
flow that it resumes. So a user without the token's data counts as none (ironic 39.0.0, api/middleware/auth_public_routes.py and
common/context.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import settings

KEYSTONE = 'keystone'

_CHARACTERS = 255
MOST_ROLES = 32
"""Roles of a requester that are stored."""

UNKNOWN = 'unknown'
"""The user in histories when nobody can be named; ``ironic`` is the user of what the conductor began itself."""

IRONIC = 'ironic'


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """A user and its scope at the moment of the request. Ids are Keystone's, names are for people.

    :ivar system_scope: ``all`` for the operator's own tokens; None for those of a project.
    :ivar request_id: id of the request in the log of Ironic's API.
    """

    user: str | None
    user_name: str | None
    project: str | None
    project_name: str | None
    roles: tuple[str, ...]
    system_scope: str | None
    request_id: str | None

    @property
    def label(self) -> str:
        """A text for people: ``alice (demo)``, or ``root (system)``."""
        user = self.user_name or self.user or UNKNOWN
        scope = self.project_name or self.project or ('system' if self.system_scope else None)
        return user if scope is None else f'{user} ({scope})'


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContext:
    """Who has begun a flow.

    :ivar requester: the user; None if Keystone has authenticated none.
    :ivar by: a text for people, whoever it was.
    """

    STORED_NAME: ClassVar = 'Asked'

    flow: Flow
    requester: Requester | None
    by: str

    @property
    def user(self) -> str:
        """The user's id, for the node's history, whose column has 64 characters."""
        return ((self.requester and self.requester.user) or self.by.split(' ', 1)[0])[:64]


def of(context: Any) -> Requester | None:
    """Return the user of a request context; None if it is the conductor's own, or if its user is not authenticated.

    With ``noauth`` and ``http_basic`` Ironic checks no policy at all: there every claimed user is believed.
    """
    if checked() and not getattr(context, 'auth_token_info', None):
        return None
    user = _text(getattr(context, 'user_id', None))
    name = _text(getattr(context, 'user_name', None))
    if user is None and name is None:
        return None
    return Requester(
        user=user,
        user_name=name,
        project=_text(getattr(context, 'project_id', None)),
        project_name=_text(getattr(context, 'project_name', None)),
        roles=_texts(getattr(context, 'roles', None) or ()),
        system_scope=_text(getattr(context, 'system_scope', None)),
        request_id=_text(getattr(context, 'request_id', None)),
    )


def asked(context: Any, flow: Flow, what: str) -> RequestContext:
    """Return who begins a flow now.

    :param what: what begins, such as ``automated cleaning``.
    """
    found = of(context)
    if found is not None:
        by = found.label
    elif getattr(context, 'user_id', None) or getattr(context, 'user_name', None):
        by = f'{UNKNOWN} ({what}, requested without a token)'
    elif not checked():
        by = f'{UNKNOWN} ({what}, Ironic authenticates no user)'
    else:
        by = f'{IRONIC} ({what})'
    return RequestContext(flow=flow, requester=found, by=by)


def checked() -> bool:
    """Whether Ironic's API authenticates users by Keystone."""
    return settings.ironic().auth_strategy == KEYSTONE


def is_operator(who: Requester | None) -> bool:
    """Whether the requester has system scope, or Ironic does not authenticate requests."""
    return not checked() or (who is not None and who.system_scope is not None)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({text for value in values if (text := _text(value)) is not None}))[:MOST_ROLES]


def _text(value: object) -> str | None:
    """Reduce a text of unknown origin to one printable line of bounded length."""
    if value is None:
        return None
    return ''.join(c if c.isprintable() else '?' for c in str(value)[:_CHARACTERS]) or None
