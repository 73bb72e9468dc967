# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Write Redfish settings: PATCH with If-Match of the resource that was judged, and POST of actions.

Source: DSP0266, sections "ETags", "PATCH (update)" and "Asynchronous operations"; RFC 9110, sections 8.8.3 and 13.1.1.
"""

import logging
import re
from collections.abc import Iterator, Mapping

from baremetal_acc.bmc.driver import Accepted, Document, JsonObject
from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.connection_errors import HttpRefused
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.errors import BmcConflict, BmcError, BmcRefused
from baremetal_acc.model.inventory import Objection, TaskState
from baremetal_acc.model.ref import BmcName, Ref

LOG = logging.getLogger(__name__)

_ENTITY_TAG = re.compile(r'(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"')
"""A well-formed ETag. Source: RFC 9110, section 8.8.3."""

_SENDABLE = re.compile(r'[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]{0,254}[\x21-\x7e\x80-\xff])?')
"""What may be a header's value, even if it is malformed as an ETag."""

_ANY = '*'

_ACCEPTED, _BAD_REQUEST = 202, 400


class RedfishWriter:
    """Writes settings and sends actions to one BMC, each write once.

    Only a PATCH that was refused because of its If-Match, and so was not carried out, is sent again with another condition.

    :ivar accepted: writes that the BMC accepted but whose effect is not shown yet, with their tasks.
    :ivar unconditional: resources that were written without an effective If-Match.
    :ivar objections: failures and warnings in answers of success.
    """

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
        """PATCH the resource of a document that was judged, with the document's ETag as If-Match.

        A write that the BMC answered with success, but does not show when read back, is noted in ``accepted``, as after HTTP
        202.

        :raises BmcConflict: a property to be written has changed since the document was read.
        :raises BmcError: any other failure.
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
            # The BMC shows a malformed ETag, and cannot parse it in If-Match.
            answer = self._sent_otherwise(document, body, tag, exc)
        against = self._note(document.ref, answer)
        refused = against is not None and against.fails
        if answer.status != _ACCEPTED and not refused and not self._shows(document.ref, answer, body):
            self.accepted.append(Accepted(ref=document.ref, said=False))

    def post(self, uri: str, body: JsonObject) -> None:
        """POST an action.

        :raises BmcError: the BMC did not accept it.
        """
        answer = self._connector.send('POST', uri, body=dict(body))
        self._note(Ref(bmc=self.name, uri=uri), answer)

    def _send(self, ref: Ref, body: JsonObject, tag: str | None) -> RedfishAnswer:
        headers = {} if tag is None else {'If-Match': tag}
        return self._connector.send('PATCH', ref.uri, body=dict(body), headers=headers)

    def _sent_otherwise(
        self, document: Document, body: JsonObject, tag: str | None, refusal: BmcConflict | HttpRefused
    ) -> RedfishAnswer:
        """Send a refused write with other conditions, after a second read has shown that nothing to be written has changed.

        :raises BmcConflict: it has changed. ``BmcRefused``: no condition is accepted.
        """
        again = self.fresh(document.ref.uri)
        if not _unchanged(document.body, again.body, body):
            what = f'the properties to be written have changed since they were read: {refusal.what}'
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
                    what = 'refuses the ETag that it shows' if tag is not None else 'requires a condition, but shows no ETag'
                    LOG.warning(
                        'BMC %s, %s: written unconditionally: the BMC %s', self._connector.label, document.ref.uri, what
                    )
                return answer
        what = f'the BMC refuses the write with each ETag that it shows, and without one: {refusal.what}'
        raise BmcRefused(bmc=self._connector.label, uri=document.ref.uri, what=what)

    def _shows(self, ref: Ref, answer: RedfishAnswer, body: JsonObject) -> bool:
        """Whether a resource shows what was written: in the answer to the write, else in a new read. False if that fails."""
        told = task.view_of(answer, self.name)
        if told is not None and _holds(told.body, body):
            return True
        try:
            return _holds(self.fresh(ref.uri).body, body)
        except BmcError as exc:
            LOG.info('%s', exc)
            return False

    def _note(self, ref: Ref, answer: RedfishAnswer) -> Objection | None:
        """Note in ``accepted`` a write answered with 202, and in ``objections`` what the answer reports against it.

        :returns: the failure or warning in the answer.
        """
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
    """An ETag without its quotation marks, or with them if it has none: some BMCs show one form and compare the other."""
    return tag.removeprefix('W/').strip('"') if _ENTITY_TAG.fullmatch(tag) else f'"{tag.strip(chr(34))}"'


def _conditions(again: Document, refused: str | None) -> Iterator[str | None]:
    """The If-Match values to try after one was refused; None: no If-Match.

    In this order: the ETags of the new read; the strong forms of weak ETags (which match nothing by RFC 9110, section 13.1.1);
    each with or without quotation marks; no condition; ``*``.
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
    """Whether the properties to be written have the same values in both documents."""
    if not isinstance(body, Mapping) or not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return before == after
    return all(_unchanged(before.get(name), after.get(name), value) for name, value in body.items())


def _holds(shown: object, written: object) -> bool:
    """Whether every written value is shown. An array element left out of the write (``{}``) may have any value."""
    if isinstance(written, Mapping):
        return isinstance(shown, Mapping) and all(_holds(shown.get(name), value) for name, value in written.items())
    if isinstance(written, list):
        return isinstance(shown, list) and len(shown) >= len(written) and all(map(_holds, shown, written))
    return shown == written
