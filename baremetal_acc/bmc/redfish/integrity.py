# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read SPDM measurements: ask the ComponentIntegrity resources of the accelerators to sign them over a fresh random nonce.

Nothing is verified here: transcript and certificates are passed on as the BMC returned them (:class:`SignedMeasurements`). A
root of trust that offers the action and returns no measurements, and one that could not be read, give a reading of state
``unknown``.

Seen on real BMCs: a TargetComponentURI that is the root of trust, where only ComponentsProtected names the device; an action
URI without the prefix of the schema; members that are listed and do not exist; answers by a Task whose Payload.HttpHeaders then
holds the Location of the result.

Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, SPDMGetSignedMeasurements; Certificate; DSP0266, asynchronous operations;
doc/source/reference/redfish_notes.rst, "Signed measurements".
"""

import base64
import binascii
import logging
import re
import secrets
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from baremetal_acc import wait
from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.collection_members import members
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.reader import RedfishReader
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.resource_document import fresh
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, is_not_found
from baremetal_acc.model.accelerator import Accelerator
from baremetal_acc.model.inventory import TaskState
from baremetal_acc.model.measurement import NONCE_BYTES, MeasurementReading, MeasurementState, SignedMeasurements
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.uri import Spellings, normal

LOG = logging.getLogger(__name__)

ACTION = '#ComponentIntegrity.SPDMGetSignedMeasurements'

SLOT = 0
"""The certificate slot that is requested: the one that the vendor provisions. Source: DSP0274 1.2.3, certificate slots."""

ALL = 255
"""MeasurementIndices for all measurements."""

TASK_TIMEOUT = 120.0
"""Seconds for one root of trust to sign: two seconds for each of some fifty measurement blocks over a slow bus."""

TASK_BEAT, LONGEST_BEAT = 0.2, 2.0

MAX_ENCODED = 512 * 1024
"""Characters of SignedMeasurements that are accepted."""

MAX_CHAIN = 64 * 1024
"""Characters of a certificate chain, all certificates together."""

_MOST_ISSUERS = 6

_PEM = re.compile(r'-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----')

Brought = SignedMeasurements | MeasurementReading


@dataclass(frozen=True, slots=True, kw_only=True)
class _Root:
    """One ComponentIntegrity resource, and the devices that it measures."""

    view: ResourceView
    devices: tuple[AcceleratorId, ...]


def offered(root: ResourceView) -> str | None:
    """The URI of the ComponentIntegrity collection; None if the BMC has none."""
    return root.link('ComponentIntegrity')


def measure(
    connector: Connector,
    reader: RedfishReader,
    place: str,
    accelerators: Iterable[Accelerator],
    now: datetime,
    why_not: str | None,
) -> tuple[Brought, ...]:
    """Have every ComponentIntegrity resource of these devices sign its measurements, one at a time: they share a slow bus.

    :param place: URI of the collection.
    :param why_not: do not send the action, for this reason; each root of trust that offers it gets a reading with the reason.
    :returns: signed measurements, or a reading of state ``unknown``, for each device and root of trust.
    """
    devices = tuple(a for a in accelerators if any(ref.bmc == reader.name for ref in a.refs))
    asked = _Asked(connector=connector, reader=reader, at=now)
    found: list[Brought] = []
    for one in _roots(asked, place, devices):
        if isinstance(one, _Root):
            found += _from(asked, one, why_not)
        else:
            found.append(one)
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    connector: Connector
    reader: RedfishReader
    at: datetime

    def unknown(self, accelerator: AcceleratorId, ref: Ref, integrity: str, reason: str) -> MeasurementReading:
        """A reading of state ``unknown`` for a device."""
        return MeasurementReading(
            accelerator=accelerator,
            ref=ref,
            integrity=short(integrity) or '?',
            state=MeasurementState.UNKNOWN,
            at=self.at,
            session=self.reader.session,
            reason=self.connector.redact(short(reason)),
        )


def _roots(asked: _Asked, place: str, devices: tuple[Accelerator, ...]) -> Iterator[_Root | MeasurementReading]:
    """The ComponentIntegrity resources that offer SPDMGetSignedMeasurements. One that cannot be read may be any device's."""
    reader = asked.reader
    try:
        listed = members(reader.collection(place).body)
    except BmcError as exc:
        if is_not_found(exc):
            return  # a dangling link
        where = Ref(bmc=reader.name, uri=normal(place)[:512])
        yield from (
            asked.unknown(a.id, where, 'all', f'the ComponentIntegrity resources could not be read: {exc.what}')
            for a in devices
        )
        return
    for member in listed:
        link = member.get('@odata.id')
        if not isinstance(link, str):
            continue
        try:
            view = ResourceView.of(reader.get(link), [])
        except BmcError as exc:
            if is_not_found(exc):
                continue  # listed, but 404: seen on a real BMC
            name = normal(link).rpartition('/')[2]
            where = Ref(bmc=reader.name, uri=normal(link)[:512])
            yield from (asked.unknown(a.id, where, name, f'could not be read: {exc.what}') for a in devices)
            continue
        if view.text('ComponentIntegrityType') == 'SPDM' and view.part('Actions', ACTION) is not None:
            yield _Root(view=view, devices=tuple(_of(asked, view, devices)))


def _of(asked: _Asked, view: ResourceView, devices: tuple[Accelerator, ...]) -> Iterator[AcceleratorId]:
    """The devices that a ComponentIntegrity resource measures; none for one of the baseboard."""
    named = {*_places(asked, view.links('Links', 'ComponentsProtected')), *_places(asked, _target(view))}
    spelled = Spellings(ref.uri for a in devices for ref in a.refs if ref.bmc == asked.reader.name)
    found = [a.id for a in devices if any(_within(uri, a, asked.reader, spelled) for uri in named)]
    if not found:
        for uri in _places(asked, _target(view)):
            try:
                component = ResourceView.of(asked.reader.get(uri), [])
            except BmcError as exc:
                LOG.info('%s', exc)
                continue
            beyond = (*component.links('Links', 'ComponentsProtected'), *component.oem_links('ComponentsProtected'))
            there = set(_places(asked, beyond))
            found += [a.id for a in devices if any(_within(uri, a, asked.reader, spelled) for uri in there)]
    yield from found


def _target(view: ResourceView) -> tuple[str, ...]:
    uri = view.body.get('TargetComponentURI')
    return (uri.partition('#')[0],) if isinstance(uri, str) and uri else ()


def _places(asked: _Asked, uris: Iterable[str]) -> Iterator[str]:
    for uri in uris:
        try:
            yield asked.reader.place(uri)
        except BmcAnswerInvalid:
            continue  # it leads off the BMC


def _within(uri: str, accelerator: Accelerator, reader: RedfishReader, spelled: Spellings) -> bool:
    """Whether a URI is a resource of a device, or below one, in any letter case."""
    mine = {ref.uri for ref in accelerator.refs if ref.bmc == reader.name}
    while uri:
        if spelled.of(uri) in mine:
            return True
        uri = uri.rpartition('/')[0]
    return False


# ------------------------------------------------------------------------------------------------------------ one root of trust


def _from(asked: _Asked, root: _Root, why_not: str | None) -> Iterator[Brought]:
    """Measurements of one root of trust, for each device that it measures."""
    if not root.devices:
        return
    view = root.view
    if why_not is None and view.boolean('ComponentIntegrityEnabled') is not True:
        why_not = 'signing is supported, but not enabled (ComponentIntegrityEnabled)'
    if why_not is None and asked.reader.left() <= 0:
        why_not = 'not requested: the time for the inspection is used up'
    nonce = secrets.token_bytes(NONCE_BYTES)
    try:
        if why_not is None:
            body = _signed(asked, view, nonce)
            transcript = _decoded(asked, view, body)
            chain = _chain(asked, view, body)
    except BmcError as exc:
        why_not = f'signed measurements were requested, but not received: {exc.what}'
    for device in root.devices:
        if why_not is not None:
            yield asked.unknown(device, view.ref, view.id, why_not)
            continue
        yield SignedMeasurements(
            accelerator=device,
            ref=view.ref,
            integrity=short(view.id) or '?',
            nonce=nonce,
            slot=SLOT,
            transcript=transcript,
            certificates=chain,
            version=body.literal('Version'),
            hashing=body.text('HashingAlgorithm'),
            signing=body.text('SigningAlgorithm'),
            at=asked.at,
            session=asked.reader.session,
        )


def _signed(asked: _Asked, view: ResourceView, nonce: bytes) -> ResourceView:
    """Send the action and return its result.

    :raises BmcError: there is none.
    """
    connector = asked.connector
    target = view.text('Actions', ACTION, 'target')
    if target is None:
        raise BmcAnswerInvalid(bmc=connector.label, uri=view.ref.uri, what='the action SPDMGetSignedMeasurements has no target')
    question = {'Nonce': nonce.hex(), 'SlotId': SLOT, 'MeasurementIndices': [ALL]}
    answer = connector.send('POST', target, body=question)
    body = _result(asked, answer)
    if body is not None:
        return body
    accepted = task.accepted(connector, answer, asked.reader.name)
    if accepted is None:
        raise BmcAnswerInvalid(
            bmc=connector.label, uri=view.ref.uri, what='the answer contains neither measurements nor a task'
        )
    return _ended(asked, accepted.ref)


def _ended(asked: _Asked, place: Ref) -> ResourceView:
    """Wait for a task and return its result.

    :raises BmcError: the task fails, or takes too long.
    """
    connector = asked.connector
    until = time.monotonic() + min(TASK_TIMEOUT, max(0.0, asked.reader.left()))
    beat = TASK_BEAT
    while True:
        answer = connector.read(place.uri)
        body = _result(asked, answer)
        if body is not None:
            return body
        view = task.view_of(answer, place.bmc)
        if view is not None and view.has('TaskState'):
            seen = task.reading(view)
            if seen.state is TaskState.SUCCEEDED:
                return _fetched(asked, view)
            if seen.state is not TaskState.ACTIVE:
                what = f'the task ended with {seen.raw}: {seen.message or "no reason is reported"}'
                raise BmcAnswerInvalid(bmc=connector.label, uri=place.uri, what=short(what))
        elif answer.status != 202:
            raise BmcAnswerInvalid(bmc=connector.label, uri=place.uri, what='the task ended without measurements')
        if time.monotonic() >= until:
            raise BmcAnswerInvalid(bmc=connector.label, uri=place.uri, what='the task did not end in time')
        wait.sleep(beat)
        beat = min(LONGEST_BEAT, 2 * beat)


def _fetched(asked: _Asked, done: ResourceView) -> ResourceView:
    """Read the result of a successful task at the Location in its Payload.HttpHeaders.

    :raises BmcError: there are no measurements.
    """
    headers = done.part('Payload')
    listed = headers.body.get('HttpHeaders') if headers is not None else None
    for header in listed[:50] if isinstance(listed, list) else ():
        name, _, value = header.partition(':') if isinstance(header, str) else ('', '', '')
        if name.strip().casefold() == 'location':
            body = _result(asked, asked.connector.read(value.strip()))
            if body is not None:
                return body
    raise BmcAnswerInvalid(
        bmc=asked.connector.label, uri=done.ref.uri, what='the task succeeded, but points to no measurements'
    )


def _result(asked: _Asked, answer: RedfishAnswer) -> ResourceView | None:
    """The body of an answer if it is the action's response, else None."""
    view = task.view_of(answer, asked.reader.name) if answer.status == 200 else None
    return view if view is not None and view.has('SignedMeasurements') else None


def _decoded(asked: _Asked, view: ResourceView, body: ResourceView) -> bytes:
    """Decode SignedMeasurements.

    :raises BmcAnswerInvalid: it is not Base64, or too long.
    """
    encoded = body.body.get('SignedMeasurements')
    try:
        if isinstance(encoded, str) and len(encoded) <= MAX_ENCODED:
            return base64.b64decode(''.join(encoded.split()), validate=True)
    except (ValueError, binascii.Error):
        pass
    raise BmcAnswerInvalid(bmc=asked.connector.label, uri=view.ref.uri, what='SignedMeasurements is not Base64')


def _chain(asked: _Asked, view: ResourceView, body: ResourceView) -> str:
    """The certificates of the signer in PEM: those that the answer links to, else those of the ComponentIntegrity resource.

    A BMC that returns single certificates links each to that of its issuer. An empty chain is left to the verifier.

    :raises BmcError: a certificate could not be read.
    """
    link = body.link('Certificate') or view.link(
        'SPDM', 'IdentityAuthentication', 'ResponderAuthentication', 'ComponentCertificate'
    )
    text = ''
    seen: set[str] = set()
    while link is not None and normal(link) not in seen and len(seen) < _MOST_ISSUERS:
        seen.add(normal(link))
        certificate = ResourceView.of(fresh(asked.connector, asked.reader.name, link), [])
        found = certificate.body.get('CertificateString')
        if isinstance(found, str):
            text += found[:MAX_CHAIN] + '\n'
        if len(text) > MAX_CHAIN:
            raise BmcAnswerInvalid(
                bmc=asked.connector.label, uri=view.ref.uri, what=f'the certificate chain is longer than {MAX_CHAIN} characters'
            )
        link = certificate.link('Links', 'Issuer')
    if _repeats_secrets(asked.connector, text):
        raise BmcAnswerInvalid(bmc=asked.connector.label, uri=view.ref.uri, what='the certificates contain our credentials')
    return text


def _repeats_secrets(connector: Connector, text: str) -> bool:
    """Whether a certificate contains our credentials.

    The names in a certificate are shown and stored, and its maker may have put into them what the BMC was sent at login.
    """
    shown = [text]
    for block in _PEM.findall(text):
        try:
            data = binascii.a2b_base64(block)
        except ValueError:
            continue  # the verifier refuses it
        # A name may have any of these encodings; UTF-16 may begin at an odd byte.
        shown += [data.decode('latin-1'), data.decode('utf-8', 'ignore')]
        shown += [data[at:].decode('utf-16-be', 'ignore') for at in (0, 1)]
    return any(connector.redact(one) != one for one in shown)
