# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Push a firmware image to HttpPushUri: set HttpPushUriTargets and HttpPushUriOptions, POST the bytes, restore the settings.

These settings are shared by all clients of the BMC. They are reserved by their Busy flags where the service allows that, set,
read back before any byte of the image is sent, and restored once the upload was answered or has failed: otherwise the next push
of another client would go to our targets. A setting that another client has changed meanwhile is left as it is. If the process
is killed in between, the settings stay as we set them.

Source: DSP8010 2025.4, UpdateService v1_17_0: HttpPushUri, HttpPushUriTargets, HttpPushUriTargetsBusy, HttpPushUriOptions,
HttpPushUriOptionsBusy (deprecated since v1_15). The order is that of fwupd, plugins/redfish/fu-redfish-legacy-device.c.
"""

import logging
import time
from collections.abc import Mapping
from typing import Any

from baremetal_acc import wait
from baremetal_acc.bmc.driver import Document, JsonObject
from baremetal_acc.bmc.redfish import task
from baremetal_acc.bmc.redfish.client import Connector
from baremetal_acc.bmc.redfish.extended_info import short
from baremetal_acc.bmc.redfish.parse import ResourceView
from baremetal_acc.bmc.redfish.redfish_answer import RedfishAnswer
from baremetal_acc.bmc.redfish.update_parameters import FORCE, ON_START, apply_time, refuses_force, targets
from baremetal_acc.bmc.redfish.upload_body import Octets
from baremetal_acc.bmc.redfish.writer import RedfishWriter
from baremetal_acc.errors import BmcAnswerInvalid, BmcBusy, BmcConflict, BmcError, BmcRefused, BmcUnreachable
from baremetal_acc.model.image import Upload
from baremetal_acc.model.ref import Ref
from baremetal_acc.model.uri import normal

LOG = logging.getLogger(__name__)

PUSH_URI = 'HttpPushUri'

TARGETS = 'HttpPushUriTargets'

OPTIONS = 'HttpPushUriOptions'

APPLY_TIME = ('HttpPushUriApplyTime', 'ApplyTime')
"""Path of the apply time in HttpPushUriOptions."""

RESERVED = {TARGETS: 'HttpPushUriTargetsBusy', OPTIONS: 'HttpPushUriOptionsBusy'}
"""The flag of each setting that tells whether a client has reserved it."""

SETTLES = 15.0
"""Seconds for a service to show what was set: some apply a change after they have answered the PATCH."""

BEGINS = 30.0
"""Seconds for a task to begin before the targets are restored, as it may read them only then."""

BEAT = 1.0
"""Seconds between two reads."""

ATTEMPTS = 5
"""Attempts to restore the settings."""

Place = tuple[str, ...]


def names_targets(view: ResourceView) -> bool:
    """Whether the service takes targets for an image that is pushed to HttpPushUri."""
    return TARGETS in view.body and isinstance(view.body[TARGETS], list | None)


def forces(view: ResourceView) -> bool:
    """Whether it takes ForceUpdate for such an image."""
    options = view.body.get(OPTIONS)
    return isinstance(options, Mapping) and FORCE in options


def asked_time(view: ResourceView) -> str | None:
    """The OperationApplyTime that is set for such an image; None if the service offers none.

    :raises BmcUnsupported: only maintenance windows are offered.
    """
    place = view.part(OPTIONS, APPLY_TIME[0])
    if place is None or not place.has(APPLY_TIME[1]):
        return None
    return apply_time(view, place.body.get(f'{APPLY_TIME[1]}@Redfish.AllowableValues'))


def push(connector: Connector, view: ResourceView, uri: str, target: Ref, upload: Upload) -> RedfishAnswer:
    """Send an image, once, with the settings that it needs; restore the settings afterwards.

    :param view: the UpdateService as it is now. ``uri``: its HttpPushUri, on this BMC.
    :returns: the BMC's answer to the POST of the image.
    :raises BmcBusy: another client has reserved the settings, or changes them; nothing was sent. ``BmcUnreachable``: the
        connection broke; its ``sent`` tells whether the image may have arrived. ``BmcRefused``: a setting, or the image, was
        refused.
    """
    settings = _Settings(connector, view.ref)
    try:
        settings.take(target, upload)
        with upload.open() as file:
            body = Octets(upload, file)
            try:
                answer = connector.send('POST', uri, stream=body, headers={'Content-Type': body.content_type})
            except BmcUnreachable as exc:
                exc.cut = not body.is_sent
                raise
        if asked_time(view) != ON_START:
            _wait_for_begin(connector, answer, view.ref)
        return answer
    finally:
        settings.restore()


def _wait_for_begin(connector: Connector, answer: RedfishAnswer, service: Ref) -> None:
    """Wait up to BEGINS seconds for the task to begin, as it may read its targets only then."""
    found = task.accepted(connector, answer, service.bmc)
    until = time.monotonic() + BEGINS
    while found is not None and found.unbegun and not found.awaits_restart and time.monotonic() < until:
        wait.sleep(BEAT)
        try:
            found = task.read(connector, found.ref)
        except BmcError as exc:
            LOG.info('%s', exc)
            return


class _Settings:
    """The HttpPushUri settings of an update service while we use them."""

    def __init__(self, connector: Connector, service: Ref) -> None:
        self._connector = connector
        self._service = service
        self._writer = RedfishWriter(connector, service.bmc, session='')
        self._before: dict[Place, Any] = {}
        self._ours: dict[Place, Any] = {}

    def take(self, target: Ref, upload: Upload) -> None:
        """Reserve the settings, and set them as the upload needs them.

        :raises BmcError: that failed; only settings may have been changed. Call :meth:`restore` in any case.
        """
        try:
            document = self._writer.fresh(self._service.uri)
            wanted = _wanted(ResourceView.of(document, []), target, upload)
            self._refuse_reserved(document, wanted)
            flags = [RESERVED[name] for name in RESERVED if any(place[0] == name for place in wanted)]
            mine: dict[Place, Any] = {(flag,): True for flag in flags if document.body.get(flag) is False}
            document = self._set(document, mine)
            self._set_options(document, wanted, upload)
        except BmcConflict as exc:
            what = f'another client is changing the settings for pushed images: {exc.what}'
            raise BmcBusy(bmc=self._connector.label, uri=self._service.uri, what=what) from exc
        except BmcUnreachable as exc:
            # No part of the image was sent, whatever happened to the settings.
            raise BmcUnreachable(bmc=exc.bmc, uri=exc.uri, what=exc.what, hint=exc.hint, sent=False) from exc
        except (BmcAnswerInvalid, BmcRefused) as exc:
            what = f'no image was sent, because its targets and options could not be set: {exc.what}'
            raise BmcRefused(bmc=self._connector.label, uri=self._service.uri, what=what) from exc

    def _set_options(self, document: Document, wanted: dict[Place, Any], upload: Upload) -> None:
        """Set targets and options; without ForceUpdate if only that is refused."""
        try:
            self._set(document, wanted)
        except BmcRefused as exc:
            if not upload.forced or not refuses_force(exc):
                raise
            LOG.warning('%s: ForceUpdate is not accepted, so the image is sent without it: %s', self._connector.label, exc.what)
            forced = (OPTIONS, FORCE)
            self._ours.pop(forced, None)
            self._before.pop(forced, None)
            self._set(self._writer.fresh(self._service.uri), {p: v for p, v in wanted.items() if p != forced})

    def _refuse_reserved(self, document: Document, wanted: dict[Place, Any]) -> None:
        """Check that no other client has reserved the settings that are needed.

        :raises BmcBusy: one has.
        """
        for setting, flag in RESERVED.items():
            if document.body.get(flag) is True and any(place[0] == setting for place in wanted):
                raise BmcBusy(bmc=self._connector.label, uri=document.ref.uri, what=reserved(flag))

    def _set(self, document: Document, wanted: dict[Place, Any]) -> Document:
        """Set the values that differ, and read them back.

        :returns: the service as it is then.
        :raises BmcRefused: it does not show what was set.
        """
        changes = {place: value for place, value in wanted.items() if not _same(_at(document.body, place), value)}
        if not changes:
            return document
        for place, value in changes.items():
            self._before.setdefault(place, _at(document.body, place))
            self._ours[place] = value
        told = _told(changes, self._before)
        LOG.info('%s, %s: settings for pushed images changed: %s', self._connector.label, document.ref.uri, told)
        try:
            self._writer.patch(document, _body(changes))
        except (BmcBusy, BmcConflict, BmcRefused):
            # Our reservation was refused: if the flag is set now, another client has set it.
            for flag in RESERVED.values():
                if (flag,) in changes:
                    self._before.pop((flag,))
            raise
        return self._settled(wanted)

    def _settled(self, wanted: dict[Place, Any]) -> Document:
        """The service once it shows what was set.

        :raises BmcRefused: it does not within SETTLES seconds.
        """
        until = time.monotonic() + SETTLES
        while True:
            document = self._writer.fresh(self._service.uri)
            other = [place for place, value in wanted.items() if not _same(_at(document.body, place), value)]
            if not other:
                return document
            if time.monotonic() >= until:
                shown = '; '.join(f'{"/".join(p)} is {short(str(_at(document.body, p))[:200])}' for p in other)
                what = f'the settings were accepted, but other values are read back: {shown}'
                raise BmcRefused(bmc=self._connector.label, uri=self._service.uri, what=what)
            wait.sleep(BEAT)

    def restore(self) -> None:
        """Restore the settings. Never raises: what could not be restored is logged as an error, with the PATCH to send."""
        left = dict(self._before)
        for attempt in range(ATTEMPTS):
            if not left:
                return
            if attempt and not self._connector.stopped:
                wait.sleep(attempt * BEAT)
            try:
                left = self._restored(left, together=attempt == 0)
            except BmcError as exc:
                LOG.info('%s', exc)
        if not left:
            return
        LOG.error(
            '%s, %s: the settings for pushed images could not be restored: PATCH this resource with %s, or the next image that '
            'any client pushes goes to the targets of this one',
            self._connector.label,
            self._service.uri,
            _body({place: _given_back(place, value) for place, value in left.items()}),
        )

    def _restored(self, left: dict[Place, Any], *, together: bool) -> dict[Place, Any]:
        """Restore the settings that still have our values.

        :param together: in one request; else one request each, so that one refusal does not affect the others.
        :returns: the settings that are still not restored.
        """
        if self._connector.stopped:
            # The run was stopped: nothing can be read any more, and only seconds are left for writes.
            body = _body({place: _given_back(place, value) for place, value in left.items()})
            self._connector.send('PATCH', self._service.uri, body=dict(body), closing=True)
            return {}
        document = self._writer.fresh(self._service.uri)
        left = self._still_ours(document, left)
        # The reservation is released last.
        ordered = sorted(left.items(), key=lambda one: one[0][0] in RESERVED.values())
        for one in [dict(ordered)] if together else [{place: value} for place, value in ordered]:
            if not one:
                continue
            try:
                self._writer.patch(document, _body({place: _given_back(place, value) for place, value in one.items()}))
            except BmcError as exc:
                LOG.warning('%s', exc)
            document = self._writer.fresh(self._service.uri)
        return self._still_ours(document, left)

    def _still_ours(self, document: Document, left: dict[Place, Any]) -> dict[Place, Any]:
        """The settings that still have our values and had others before. Any other value was set by another client."""
        return {
            place: value
            for place, value in left.items()
            if _same(_at(document.body, place), self._ours[place]) and not _same(_given_back(place, value), self._ours[place])
        }


def reserved(flag: str) -> str:
    """Why nothing is pushed while a client has reserved a setting."""
    return f'another client has reserved the settings for pushed images ({flag} is true); set it to false if none is pushing'


def _wanted(view: ResourceView, target: Ref, upload: Upload) -> dict[Place, Any]:
    """The values that an upload needs, of the settings that the service shows."""
    found: dict[Place, Any] = {}
    if names_targets(view):
        found[(TARGETS,)] = list(targets(target, upload))
    when = asked_time(view)
    if when is not None:
        found[(OPTIONS, *APPLY_TIME)] = when
    # A ForceUpdate left there by another client would force our image.
    if forces(view) and (upload.forced or _at(view.body, (OPTIONS, FORCE)) is True):
        found[(OPTIONS, FORCE)] = upload.forced
    return found


def _at(body: object, place: Place) -> Any:
    """The value at a path in a body; None if there is none."""
    for name in place:
        body = body.get(name) if isinstance(body, Mapping) else None
    return body


def _same(shown: Any, value: Any) -> bool:
    """Whether a setting has the value that was set. Targets are compared in normal form and in any order."""
    if isinstance(value, list):
        return isinstance(shown, list) and sorted(map(_plain, shown)) == sorted(map(_plain, value))
    return type(shown) is type(value) and bool(shown == value)


def _plain(uri: object) -> str:
    return normal(uri) if isinstance(uri, str) else repr(uri)


def _given_back(place: Place, value: Any) -> Any:
    """The value to write to restore a setting. For null, its meaning is written, as few services accept null."""
    if value is None:
        return [] if place == (TARGETS,) else False
    return value


def _body(settings: Mapping[Place, Any]) -> JsonObject:
    """The body of a PATCH of these settings."""
    body: dict[str, Any] = {}
    for place, value in settings.items():
        inner = body
        for name in place[:-1]:
            inner = inner.setdefault(name, {})
        inner[place[-1]] = value
    return body


def _told(changes: Mapping[Place, Any], before: Mapping[Place, Any]) -> str:
    """Settings with their previous values, for the log."""
    return '; '.join(f'{"/".join(p)} {v!r} (was {short(str(before[p])[:200])})' for p, v in changes.items())


__all__ = ['PUSH_URI', 'asked_time', 'forces', 'names_targets', 'push', 'reserved']
