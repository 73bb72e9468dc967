# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Reader and writer that lock mechanisms use over IPMI: resources of the last inspection by URI, and the firmware firewall."""

import logging
import secrets
from collections.abc import Iterable, Mapping

from baremetal_acc.bmc.driver import Accepted, BmcAddress, Document, JsonObject
from baremetal_acc.bmc.ipmi import resource
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.firmware_firewall import apply, masks
from baremetal_acc.bmc.ipmi.session_renewal import RmcpSessions
from baremetal_acc.errors import BmcRefusalReason, BmcRefused, BmcUnreachable
from baremetal_acc.model.inventory import Objection
from baremetal_acc.model.lock import LockState
from baremetal_acc.model.ref import BmcName, Ref

LOG = logging.getLogger(__name__)

_MOST_NAMED = 6
"""Maximum number of commands that a reason names."""


class IpmiReader:
    """Resources that one inspection has read. It sends no commands: nothing else can be read over IPMI by URI."""

    def __init__(self, address: BmcAddress, session: str, documents: Mapping[str, JsonObject]) -> None:
        self.name: BmcName = address.name
        self.session = session
        self._label = address.label
        self._documents = documents

    def get(self, uri: str) -> Document:
        """The resource, as the inspection has read it.

        :raises BmcRefused: the inspection has not read it.
        """
        found = self.peek(uri)
        if found is None:
            raise no_such(self._label, uri)
        return found

    def collection(self, uri: str) -> Document:
        """IPMI has no collections.

        :raises BmcRefused: always.
        """
        raise no_such(self._label, uri)

    def peek(self, uri: str) -> Document | None:
        """The resource, if the inspection has read it, else None."""
        body = self._documents.get(uri)
        return None if body is None else Document(ref=Ref(bmc=self.name, uri=uri), body=body)


class IpmiWriter:
    """Writes the firmware firewall of the system interface, the only resource that can be set, in an administrator's session.

    PATCH the document of :data:`~baremetal_acc.bmc.ipmi.resource.FIREWALL` with ``{'Closed': true, 'Before': [...]}`` to lock,
    or with ``{'Open': [...]}`` to unlock. Both lists hold undo records
    (:func:`baremetal_acc.bmc.ipmi.firmware_firewall.apply.encode_undo`).
    """

    def __init__(self, address: BmcAddress, raw: RmcpSessions) -> None:
        self.name: BmcName = address.name
        self.session = f'{address.name}-{secrets.token_hex(6)}'
        self.accepted: list[Accepted] = []
        self.unconditional: list[Ref] = []
        self.objections: list[Objection] = []
        self._label = address.label
        self._raw = raw

    def fresh(self, uri: str) -> Document:
        """Read the firewall now.

        :raises BmcRefused: the BMC has no firewall, or the URI is another one.
        :raises BmcError: it could not be read.
        """
        if resource.place(uri) != resource.FIREWALL:
            raise no_such(self._label, uri)
        with self._raw as raw:
            return Document(ref=Ref(bmc=self.name, uri=uri), body=observed_firewall(raw, uri))

    def patch(self, document: Document, body: JsonObject) -> None:
        """Lock the firewall (disable commands for the host), or unlock it (enable those that we have disabled).

        :raises BmcRefused: a write failed, or the mask that was read back differs; the previous mask is then written back, and
            the message says if that failed. Or a command that we disabled before is enabled and can no longer be disabled: all
            others are disabled then.
        :raises BmcUnreachable: a write, or the read after it, was not answered.
        :raises StateError: an undo record cannot be parsed. When locking, what can be disabled is disabled all the same.
        :raises BmcError: the BMC has no firewall, or it could not be read.
        """
        uri = document.ref.uri
        if resource.place(uri) != resource.FIREWALL:
            raise no_such(self._label, uri)
        closes = body.get('Closed') is True
        undo: apply.Undo = {} if closes else _record(body.get('Open', ()))
        with self._raw as raw:
            found = masks.observe(raw)
            if found is None:
                raise no_such(self._label, uri)
            writes = apply.plan(found) if closes else apply.plan_release(found, undo)
            trouble = masks.perform(raw, writes)
        if trouble is not None:
            more = '' if trouble.repaired else '; the change could not be undone'
            error = BmcUnreachable if trouble.silent else BmcRefused
            raise error(bmc=self._label, uri=uri, what=trouble.says + more)
        if closes and (again := apply.reopened(found, _record(body.get('Before', ())))):
            what = (
                f'commands that we disabled are enabled again and can no longer be disabled: {", ".join(again[:_MOST_NAMED])}'
            )
            raise BmcRefused(
                bmc=self._label,
                uri=uri,
                what=what,
                hint='have the firmware of the BMC checked; unlocking deletes the record of these commands',
            )
        LOG.info('%s: masks of the firmware firewall written: %d', self._label, len(writes))

    def post(self, uri: str, body: JsonObject) -> None:
        """:raises BmcRefused: always."""
        raise no_such(self._label, uri)


def _record(records: Iterable[str]) -> apply.Undo:
    undo: apply.Undo = {}
    for record in records:
        undo = apply.both(undo, apply.parse_undo(record))
    return undo


def observed_firewall(raw: Raw, uri: str) -> JsonObject:
    """Read the firmware firewall and judge its state.

    :raises BmcError: the BMC has none, or it could not be read.
    """
    verdict = apply.judge(masks.observe(raw))
    if verdict.state is LockState.UNSUPPORTED:
        raise no_such(raw.label, uri)
    return resource.of_firewall(verdict)


def no_such(label: str, uri: str) -> BmcRefused:
    """The error for a URI that cannot be read or written."""
    what = 'no such resource: this BMC is accessed over IPMI'
    return BmcRefused(bmc=label, uri=uri, what=what, reason=BmcRefusalReason.NOT_FOUND)
