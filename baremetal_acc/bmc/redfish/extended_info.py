# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read Redfish messages (``@Message.ExtendedInfo``, ``error``) from an answer's body, of any shape, without ever raising.

The result is a short printable text, the MessageIds, and whether an answer of success nevertheless reports a failure.

Source: DSP0266, section "Error responses"; DSP8010 2025.4, Message v1.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from baremetal_acc.bmc.quirks import RESTART_MESSAGES, RESTART_NAMES, RESTART_WORDS
from baremetal_acc.model.inventory import Objection

LONGEST = 300
"""Characters of a BMC's text that we repeat in messages."""

INFO = '@Message.ExtendedInfo'

NO_SESSION_FREE = frozenset({'SessionLimitExceeded', 'CreateLimitReachedForResource', 'RAC0218'})
"""MessageIds in the answer to a login while all sessions are in use.

Source: DSP8011 (Base registry), SessionLimitExceeded and CreateLimitReachedForResource; Dell's registry of messages, RAC0218.
"""

NO_SESSION_WORDS = re.compile(
    r'(?=.*\bsessions?\b)(?=.*\b(?:limit|maximum|too many|no (?:free|more|available)|exceed\w*|exhaust\w*|all .*in use)\b)',
    re.IGNORECASE | re.DOTALL,
)
"""Words with the same meaning in a refused login, as vendors have MessageIds of their own."""

FAILURE_NAMES = re.compile(
    r'(?<!No)(?:Fail|Error)|Invalid|Denied|Abort|Reject|Refus|Unsupported|Mismatch|Corrupt|Incompatible|Insufficient|Conflict|'
    r'Unable|Malformed|Missing|Unknown|Unrecognized|Not(?:Supported|Allowed|Applicable|Accepted|Writable|InList|Found)'
)
"""MessageIds that mean that the request has failed, for messages whose severity does not tell.

Source: DSP8011, message registries Base and Update.
"""

FAILURE_WORDS = re.compile(
    r'\b(?:fail(?:s|ed|ure)?|errors?|invalid|reject\w*|refus\w*|denied|aborted|corrupt\w*|unsupported|mismatch\w*|incompatible|'
    r'cannot|could not|unable|not (?:supported|allowed|permitted|applicable|accepted))\b',
    re.IGNORECASE,
)
"""Words with the same meaning, for messages without severity and MessageId."""

_NO_FAILURE = re.compile(r'\b(?:no|without|0)\s+(?:errors?|failures?)\b', re.IGNORECASE)

_BAD, _GOOD = frozenset({'critical', 'error', 'fatal'}), frozenset({'ok', 'informational', 'info'})
"""Severities in lower case; some are vendors' words. Source: DSP8010 2025.4, Message v1, MessageSeverity."""

_MOST_PLACES = 500
"""Objects and arrays of a body that are searched for annotations."""

_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]{0,63}')

_PART = 5
"""Length of a run of characters from which a text is assumed to repeat a part of the password, not to share it by chance."""

_SECRET_PLACE = re.compile(r'/[A-Za-z0-9_-]{43}(?=/)')
"""The random part of an image's URL (:mod:`~baremetal_acc.bmc.redfish.image_server`), which a BMC that could not fetch it
repeats.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtendedInfo:
    """The messages of one answer.

    :ivar text: one printable line of at most 300 characters; empty if there are no messages.
    :ivar ids: the last part of each MessageId: ``ServiceTemporarilyUnavailable``.
    :ivar critical: one of the messages has severity Critical, or a vendor's word for it.
    :ivar about: MessageArgs and RelatedProperties: what the messages refer to.
    """

    text: str
    ids: frozenset[str]
    critical: bool = False
    about: frozenset[str] = frozenset()


def said(body: object, redact: Callable[[str], str] = str) -> ExtendedInfo:
    """The messages of a parsed body: of an error, of a success with annotations, or of anything else.

    :param redact: removes our secrets from a text. It is applied before texts are truncated: half a password is a secret too.
    """
    texts: list[str] = []
    ids: set[str] = set()
    about: set[str] = set()
    critical = False
    for info in _infos(body):
        if isinstance(info, str):
            texts.append(info)
            continue
        critical |= _severity(info) in _BAD
        message_id = info.get('MessageId')
        if isinstance(message_id, str) and message_id:
            ids.add(message_id.rsplit('.', 1)[-1])
        about.update(_named_by(info))
        text = info.get('Message')
        if isinstance(text, str) and text.strip():
            texts.append(text)
        elif isinstance(message_id, str) and message_id:
            texts.append(message_id)
    if not texts and isinstance(body, dict):
        error = body.get('error')
        texts = (
            [t for t in (error.get('message'), error.get('code')) if isinstance(t, str)][:1] if isinstance(error, dict) else []
        )
        if isinstance(error, str):
            texts = [error]
    elif not texts and isinstance(body, str):
        texts = [body]
    line = short(redact('; '.join(dict.fromkeys(t.strip() for t in texts))))
    return ExtendedInfo(text=line, ids=frozenset(ids), critical=critical, about=frozenset(about))


def _named_by(info: Mapping[str, object]) -> Iterator[str]:
    """What a message refers to. Source: DSP8010 2025.4, Message v1: MessageArgs and RelatedProperties."""
    for key in ('MessageArgs', 'RelatedProperties'):
        values = info.get(key)
        yield from (one[:LONGEST] for one in (values[:20] if isinstance(values, list) else ()) if isinstance(one, str))


def objection(body: object, redact: Callable[[str], str] = str) -> Objection | None:
    """A failure or warning that the body of an answer of success reports about the request; None if there is none.

    Messages may be annotations of the body or of its properties, in an error object, or in ``Messages``. Informational ones are
    left out. A message that a restart is needed is not a failure, whatever its severity.

    :param redact: removes our secrets from a text.
    """
    texts: list[str] = []
    fails = False
    for entry in _said_anywhere(body):
        name, text = _id_of(entry), entry if isinstance(entry, str) else entry.get('Message') or entry.get('message')
        words = text if isinstance(text, str) and text.strip() else _full_id_of(entry) or ''
        severity = '' if isinstance(entry, str) else _severity(entry)
        if severity in _GOOD or not words:
            continue
        failed = severity in _BAD or (_says_failure(name, words) if name or not severity else False)
        if failed or severity:
            texts.append(words)
            fails |= failed and (_says_failure(name, words) or not _asks_for_restart(name, words))
    text = short(redact('; '.join(dict.fromkeys(t.strip() for t in texts))))
    return Objection(text=text, fails=fails) if text else None


def _severity(entry: Mapping[str, object]) -> str:
    """Severity in lower case; empty if there is none."""
    found = entry.get('MessageSeverity') or entry.get('Severity')
    return found.strip().casefold() if isinstance(found, str) else ''


def _id_of(entry: object) -> str | None:
    """The last part of a message's MessageId, or of an error's code."""
    found = _full_id_of(entry)
    return None if found is None else found.rsplit('.', 1)[-1]


def _full_id_of(entry: object) -> str | None:
    found = (entry.get('MessageId') or entry.get('code')) if isinstance(entry, dict) else None
    return found if isinstance(found, str) and found else None


def _says_failure(name: str | None, text: str) -> bool:
    """Whether a message reports a failure: by its MessageId; by its words if it has none, or only ``ExtendedInfo``."""
    if name is not None and name != 'ExtendedInfo':
        return FAILURE_NAMES.search(name) is not None
    return FAILURE_WORDS.search(_NO_FAILURE.sub('', text)) is not None


def _asks_for_restart(name: str | None, text: str) -> bool:
    if name is not None and (name in RESTART_MESSAGES or RESTART_NAMES.search(name)):
        return True
    return RESTART_WORDS.search(text) is not None


def _said_anywhere(body: object) -> Iterator[Mapping[str, Any] | str]:
    """Every message in the body of an answer of success, including annotations of nested properties."""
    if not isinstance(body, dict):
        return
    error = body.get('error')
    found = [*_infos(body), *_listed(body), *(_listed(error) if isinstance(error, dict) else ())]
    inner = [value for name, value in body.items() if name not in ('error', 'Messages')]
    for _ in range(_MOST_PLACES):
        if not inner:
            break
        place = inner.pop()
        if isinstance(place, dict):
            found += _infos(place)
            inner += [value for name, value in place.items() if not str(name).endswith(INFO)]
        elif isinstance(place, list):
            inner += place[:_MOST_PLACES]
    yield from found
    if not found and isinstance(error, dict | str):
        yield error


def _listed(body: Mapping[str, Any]) -> list[Mapping[str, Any] | str]:
    entries = body.get('Messages')
    return [entry for entry in entries[:20] if isinstance(entry, dict | str)] if isinstance(entries, list) else []


def said_to_login(body: object, username: str | None, password: str | None) -> ExtendedInfo:
    """The messages and MessageIds of a refused login, without any text that may contain the password in some form.

    A BMC may repeat what it was sent, in an encoding of its own. A text that has five characters in a row in common with the
    password is left out; a MessageId of a known "no session free" message is kept.
    """

    def discreet(text: str) -> str:
        return '' if _repeats(text, username, password) else text

    words = said(body, discreet)  # applied before texts are truncated: half a password is a secret too
    names = sorted(i for i in words.ids if _NAME.fullmatch(i) and (i in NO_SESSION_FREE or discreet(i)))
    return ExtendedInfo(text=short(': '.join(filter(None, (', '.join(names), words.text)))), ids=words.ids)


def _repeats(text: str, username: str | None, password: str | None) -> bool:
    """Whether a text contains the password, or a part of it, in a known encoding."""
    if not password:
        return False
    raw, pair = password.encode(), f'{username or ""}:{password}'.encode()
    forms = [password, password[::-1], raw.hex(), quote(password, safe=''), html.escape(password), json.dumps(password)]
    forms += [base64.b64encode(each).decode() for each in (raw, pair)]
    folded = _folded(text)
    for form in map(_folded, forms):
        parts = {form[at : at + _PART] for at in range(len(form) - _PART + 1)} or {form}
        if any(part and part in folded for part in parts):
            return True
    return password in text


def _folded(text: str) -> str:
    return ''.join(c for c in text.casefold() if c.isalnum())


def short(text: object) -> str:
    """A BMC's text as one printable line of at most 300 characters, without the random part of image URLs."""
    if not isinstance(text, str):
        return ''
    line = ' '.join(''.join(c if c.isprintable() else ' ' for c in text[: 4 * LONGEST]).split())
    line = _SECRET_PLACE.sub('/***', line)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'


def _infos(body: object, depth: int = 0) -> Iterator[Any]:
    """Every ExtendedInfo entry of the body, of ``error``, and of single properties (``Name@Message.ExtendedInfo``)."""
    if not isinstance(body, dict) or depth > 2:
        return
    for key, value in body.items():
        if isinstance(key, str) and key.endswith(INFO):
            entries = value if isinstance(value, list) else [value]
            yield from (entry for entry in entries[:20] if isinstance(entry, dict | str))
    yield from _infos(body.get('error'), depth + 1)
