# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Members of a collection, as the body of an answer lists them."""

from baremetal_acc.bmc.driver import JsonObject
from baremetal_acc.errors import BmcAnswerInvalid

MAX_MEMBERS = 2000


def members(body: JsonObject) -> tuple[JsonObject, ...]:
    """The members of a collection's body that are objects."""
    found = body.get('Members')
    return tuple(m for m in found if isinstance(m, dict)) if isinstance(found, list) else ()


def link_to(value: object, owner: str) -> object:
    """A link in place of an expanded resource below its owner; any other value unchanged."""
    if not isinstance(value, dict) or '@odata.type' not in value or not ('Id' in value or 'Members' in value):
        return value
    link = link_of(value)
    return {'@odata.id': link} if link is not None and link.startswith(f'{owner}/') and '#' not in link else value


def link_of(member: object) -> str | None:
    """The URI of a member; None if it is no link."""
    link = member.get('@odata.id') if isinstance(member, dict) else None
    return link if isinstance(link, str) and link else None


def check_number(label: str, place: str, found: list[object]) -> None:
    """Refuse a collection that is too large.

    :raises BmcAnswerInvalid: it has more than MAX_MEMBERS members.
    """
    if len(found) > MAX_MEMBERS:
        raise BmcAnswerInvalid(bmc=label, uri=place, what=f'more than {MAX_MEMBERS} members')


def member_list(body: JsonObject, label: str, place: str) -> list[object]:
    """The members of one page, of any type. Null is an empty list: seen on real BMCs.

    :raises BmcAnswerInvalid: it is no collection.
    """
    found = body.get('Members', ...)
    if found is None:
        return []
    if not isinstance(found, list):
        raise BmcAnswerInvalid(bmc=label, uri=place, what='not a collection: Members is missing, or not an array')
    return found
