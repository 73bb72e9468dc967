# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write settings of a BMC: PATCH on the condition that nothing has changed, and actions that have no task of ours.

Source: DSP0266, sections "ETags", "PATCH (update)" and "Asynchronous operations"; RFC 9110, sections 8.8.3 and 13.1.1.
"""

import logging
import re
from collections.abc import Iterator, Mapping

from baremetal_acc.bmc.api import Accepted, Document, JsonObject
from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.connector import Answer, Connector
from baremetal_acc.bmc.redfish.reader import fresh
from baremetal_acc.bmc.redfish.trouble import HttpRefused
from baremetal_acc.errors import BmcConflict, BmcError, BmcRefused
from baremetal_acc.model.inventory import Objection, TaskState
from baremetal_acc.model.ref import BmcName, Ref

LOG = logging.getLogger(__name__)

_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
"""Source: RFC 9110, section 8.8.3."""

_SENDABLE = re.compile(r'[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]{0,254}[\x21-\x7e\x80-\xff])?')
"""What can be the value of a header at all, however malformed it is as an ETag."""

_ANY = '*'

_ACCEPTED, _BAD_REQUEST = 202, 400


class Writer:
    """Writes to one BMC, each once: what is refused for its condition has not been done, and is sent with another one."""

    def __init__(self, connector: Connector, name: BmcName, session: str) -> None:
        self.session = session
        self.name = name
        self.accepted: list[Accepted] = []
        self.unconditional: list[Ref] = []
        self.objections: list[Objection] = []
        self._connector = connector

    def fresh(self, uri: str) -> Document:
        """Read a resource now.

        :raises BmcError: the read failed.
        """
        return fresh(self._connector, self.name, uri)

    def patch(self, document: Document, body: JsonObject) -> None:
        """PATCH the resource of a document that was judged, with its ETag as If-Match.

        A BMC that has answered with success, and does not show the change yet, has accepted it only, as with HTTP 202.

        :raises BmcConflict: what is to be written changed since it was judged.
        :raises BmcError: anything else.
        """
        tag = _sendable(document.etag)
        try:
            answer = self._send(document.ref, body, tag)
            if document.etag is not None and tag is None:
                self.unconditional.append(document.ref)
        except BmcConflict as exc:
            answer = self._sent_otherwise(document, body, tag, exc)
        except HttpRefused as exc:
            if exc.status != _BAD_REQUEST or tag is None or _ENTITY_TAG.fullmatch(tag):
                raise
            # It shows what is no ETag, and cannot read it as one.
            answer = self._sent_otherwise(document, body, tag, exc)
        against = self._note(document.ref, answer)
        refused = against is not None and against.fails
        if answer.status != _ACCEPTED and not refused and not self._shows(document.ref, answer, body):
            self.accepted.append(Accepted(ref=document.ref, said=False))

    def post(self, uri: str, body: JsonObject) -> None:
        """POST an action.

        :raises BmcError: it was not accepted.
        """
        answer = self._connector.send('POST', uri, body=dict(body))
        self._note(Ref(bmc=self.name, uri=uri), answer)

    def _send(self, ref: Ref, body: JsonObject, tag: str | None) -> Answer:
        headers = {} if tag is None else {'If-Match': tag}
        return self._connector.send('PATCH', ref.uri, body=dict(body), headers=headers)

    def _sent_otherwise(
        self, document: Document, body: JsonObject, tag: str | None, refusal: BmcConflict | HttpRefused
    ) -> Answer:
        """The answer to the same write with other conditions, once a second read has shown that nothing has changed.

        :raises BmcConflict: something has. ``BmcRefused``: none of them is accepted.
        """
        again = self.fresh(document.ref.uri)
        if not _unchanged(document.body, again.body, body):
            what = f'what is to be written has changed since it was read: {refusal.what}'
            raise BmcConflict(bmc=self._connector.label, uri=document.ref.uri, what=what)
        for other in _conditions(again, tag):
            try:
                answer = self._send(document.ref, body, other)
            except (BmcConflict, HttpRefused) as exc:
                if isinstance(exc, HttpRefused) and exc.status != _BAD_REQUEST:
                    raise
                refusal = exc
            else:
                if other in (None, _ANY):
                    self.unconditional.append(document.ref)
                    what = 'refuses the ETag that it shows' if tag is not None else 'demands a condition, and shows no ETag'
                    LOG.warning(
                        'BMC %s, %s: written unconditionally: the BMC %s', self._connector.label, document.ref.uri, what
                    )
                return answer
        what = f'it refuses a write with every ETag that it shows, and one without: {refusal.what}'
        raise BmcRefused(bmc=self._connector.label, uri=document.ref.uri, what=what)

    def _shows(self, ref: Ref, answer: Answer, body: JsonObject) -> bool:
        """Whether a resource shows what was written to it: in the answer to that, else read again. Unread it shows nothing."""
        told = task.view_of(answer, self.name)
        if told is not None and _holds(told.body, body):
            return True
        try:
            return _holds(self.fresh(ref.uri).body, body)
        except BmcError as exc:
            LOG.info('%s', exc)
            return False

    def _note(self, ref: Ref, answer: Answer) -> Objection | None:
        """Keep what the BMC has accepted only, and the task for that which it names; and what it says against it."""
        against = task.said_against(self._connector, answer, self.name)
        if against is not None:
            self.objections.append(against)
        found = task.accepted(self._connector, answer, self.name) if answer.status == _ACCEPTED else None
        if answer.status == _ACCEPTED and (found is None or found.state is not TaskState.SUCCEEDED):
            self.accepted.append(Accepted(ref=ref, task=None if found is None else found.ref))
        return against


def _sendable(tag: str | None) -> str | None:
    return tag if tag is not None and _SENDABLE.fullmatch(tag) else None


def _requoted(tag: str) -> str:
    """An ETag without its quotation marks, or with them where it has none: BMCs show the one form and compare the other."""
    return tag.removeprefix('W/').strip('"') if _ENTITY_TAG.fullmatch(tag) else f'"{tag.strip(chr(34))}"'


def _conditions(again: Document, refused: str | None) -> Iterator[str | None]:
    """What a write may be sent with after its condition was refused: the ETags of a new answer, the strong forms of those that
    are weak (which match nothing by RFC 9110, section 13.1.1), both with and without quotation marks, no condition, and any
    state of the resource.
    """
    inner = again.body.get('@odata.etag')
    shown = [tag for tag in (again.etag, inner if isinstance(inner, str) else None) if tag is not None and _sendable(tag)]
    known = [tag for tag in (refused, *shown) if tag is not None]
    strong = [tag.removeprefix('W/') for tag in known if tag.startswith('W/')]
    others = [_requoted(tag) for tag in (*strong, *known)]
    yield from (tag for tag in dict.fromkeys((*shown, *strong, *others)) if tag != refused)
    if refused is not None:
        yield None
    yield _ANY


def _unchanged(before: object, after: object, body: object) -> bool:
    """What is to be written is as it was judged: the same values at every place of the body."""
    if not isinstance(body, Mapping) or not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return before == after
    return all(_unchanged(before.get(name), after.get(name), value) for name, value in body.items())


def _holds(shown: object, written: object) -> bool:
    """What is shown has every value that was written. Of an array an element that was left out (``{}``) may be anything."""
    if isinstance(written, Mapping):
        return isinstance(shown, Mapping) and all(_holds(shown.get(name), value) for name, value in written.items())
    if isinstance(written, list):
        return isinstance(shown, list) and len(shown) >= len(written) and all(map(_holds, shown, written))
    return shown == written
