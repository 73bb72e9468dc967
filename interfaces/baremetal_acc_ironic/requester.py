# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Who asks? The user that Keystone has vouched for, with project, roles and scope; nobody else is believed.

Ironic's API takes the identity of a request from its headers. On most paths keystonemiddleware has set them, and has left the
token's data beside them, where no header reaches. On its public ones (heartbeat, lookup, continue_inspection) nobody has: there
a client names itself as it likes, and what it says travels on to the conductor, and into a flow that it resumes. So a user
without the token's data is none (ironic 39.0.0, api/middleware/auth_public_routes.py and common/context.py).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from baremetal_acc.model.job import Flow
from baremetal_acc_ironic import settings

KEYSTONE = 'keystone'

_CHARACTERS = 255
_ROLES = 32

UNKNOWN = 'unknown'
"""The user of what nobody can be named for, in histories; ``ironic`` is that of what the conductor began itself."""

IRONIC = 'ironic'


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """A user and its scope, as of the moment of the request. Ids are Keystone's, names are for people.

    :ivar system_scope: ``all`` for the operator's own tokens; None for those of a project.
    :ivar request_id: by which the request is found in the log of Ironic's API.
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
        """For people: ``alice (demo)``, or ``root (system)``."""
        user = self.user_name or self.user or UNKNOWN
        scope = self.project_name or self.project or ('system' if self.system_scope else None)
        return user if scope is None else f'{user} ({scope})'


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who has begun a flow.

    :ivar requester: None if nobody that Keystone vouched for.
    :ivar by: for people, whoever it was.
    """

    flow: Flow
    requester: Requester | None
    by: str

    @property
    def user(self) -> str:
        """The user's id, for the node's history; that column has 64 characters."""
        return ((self.requester and self.requester.user) or self.by.split(' ', 1)[0])[:64]


def of(context: Any) -> Requester | None:
    """Who is behind a context; None if it is the conductor's own, or if nobody vouches for whom it names.

    With ``noauth`` and ``http_basic`` Ironic asks no policy at all: there everybody is who they say.
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


def asked(context: Any, flow: Flow, what: str) -> Asked:
    """Who begins a flow now.

    :param what: what begins, such as ``automated cleaning``.
    """
    found = of(context)
    if found is not None:
        by = found.label
    elif getattr(context, 'user_id', None) or getattr(context, 'user_name', None):
        by = f'{UNKNOWN} ({what}, asked for without a token)'
    elif not checked():
        by = f'{UNKNOWN} ({what}, where Ironic asks for no user)'
    else:
        by = f'{IRONIC} ({what})'
    return Asked(flow=flow, requester=found, by=by)


def checked() -> bool:
    """Ironic's API asks Keystone who somebody is."""
    return settings.ironic().auth_strategy == KEYSTONE


def is_operator(who: Requester | None) -> bool:
    """Who asks has the scope of the whole system, or Ironic asks nobody who they are."""
    return not checked() or (who is not None and who.system_scope is not None)


def _texts(values: Iterable[object]) -> tuple[str, ...]:
    return tuple(sorted({text for value in values if (text := _text(value)) is not None}))[:_ROLES]


def _text(value: object) -> str | None:
    """A text of somebody else's: bounded, and in one line."""
    if value is None:
        return None
    return ''.join(c if c.isprintable() else '?' for c in str(value)[:_CHARACTERS]) or None
