# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Tell from an answer of placement whether a call was accepted, was overtaken by somebody else, or is refused."""

from http import HTTPStatus

from baremetal_acc.errors import PlacementError, PlacementRefused
from baremetal_acc.placement.client import CANNOT_DELETE_PARENT, INVENTORY_IN_USE, PlacementAnswer, refusal


class PlacementChanged(Exception):
    """Somebody else wrote, or placement failed on concurrent writers: read, compare and send again.

    :ivar once: try again only once: a second refusal of that kind is final.
    """

    def __init__(self, error: PlacementError | None = None, *, once: bool = False) -> None:
        self.error = error
        self.once = once
        super().__init__()


class InventoryHeld(Exception):
    """Placement refused a call that removes inventory which a consumer holds."""


class ProviderNeeded(Exception):
    """A provider cannot be deleted yet, because a provider below it is held."""


def accepted(answer: PlacementAnswer, method: str, path: str) -> PlacementAnswer:
    """Return an answer that accepts a call.

    :raises InventoryHeld: a consumer holds inventory that the call removes.
    :raises PlacementChanged: placement has changed since it was read.
    :raises PlacementError: placement refuses the call.
    """
    if answer.code == INVENTORY_IN_USE:
        raise InventoryHeld
    if not answer.ok:
        raise changed_or_refused(method, path, answer)
    return answer


def changed_or_refused(method: str, path: str, answer: PlacementAnswer) -> Exception:
    """Return :class:`PlacementChanged` or a refusal.

    409 and 5xx mean that somebody else wrote, 404 that somebody deleted; 400 may mean that a name was deleted.
    """
    error = refusal(method, path, answer)
    passing = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
    if answer.code == CANNOT_DELETE_PARENT:
        # Or a provider of ours that another publisher has just created there.
        why = f'{error.message}: it has child providers that are not ours'
        return PlacementChanged(PlacementRefused(why, hint='delete the child providers first'), once=True)
    if answer.status in passing or answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return PlacementChanged(error, once=answer.status == HTTPStatus.BAD_REQUEST)
    return error
