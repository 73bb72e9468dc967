# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Read the messages in the body of a Redfish answer: whatever shape it has, a short text comes out and nothing raises.

Source: DSP0266, section "Error responses"; DSP8010 2025.4, Message v1.
"""

import base64
import html
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

LONGEST = 300
"""Characters of a BMC's own text that we repeat."""

INFO = '@Message.ExtendedInfo'

NO_SESSION_FREE = frozenset({'SessionLimitExceeded', 'CreateLimitReachedForResource', 'RAC0218'})
"""Names of the messages to a login that finds all sessions in use.

Source: DSP8011 (Base registry), SessionLimitExceeded and CreateLimitReachedForResource; Dell's registry of messages, RAC0218.
"""

NO_SESSION_WORDS = re.compile(
    r'(?=.*\bsessions?\b)(?=.*\b(?:limit|maximum|too many|no (?:free|more|available)|exceed\w*|exhaust\w*|all .*in use)\b)',
    re.IGNORECASE | re.DOTALL,
)
"""Words by which a refused login means the same, where its message has another name: makers have names of their own."""

_NAME = re.compile(r'[A-Za-z][A-Za-z0-9_]{0,63}')

_PART = 5
"""Characters in a row that a text and a password have in common by chance only."""

_SECRET_PLACE = re.compile(r'/[A-Za-z0-9_-]{43}(?=/)')
"""Where an image is served (:mod:`~baremetal_acc.bmc.redfish.serve`): a BMC that could not fetch it repeats the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a BMC said.

    :ivar text: one line, printable, at most 300 characters; empty when it said nothing.
    :ivar ids: the names at the end of all MessageIds: ``ServiceTemporarilyUnavailable``.
    :ivar critical: one of the messages has the severity Critical.
    """

    text: str
    ids: frozenset[str]
    critical: bool = False


def said(body: object, redact: Callable[[str], str] = str) -> Said:
    """The messages of a parsed body: of an error, of a success with annotations, or of anything else.

    :param redact: takes our secrets out of a text. It comes before texts are cut: the first half of a password is one, too.
    """
    texts: list[str] = []
    ids: set[str] = set()
    critical = False
    for info in _infos(body):
        if isinstance(info, str):
            texts.append(info)
            continue
        critical |= 'Critical' in (info.get('MessageSeverity'), info.get('Severity'))
        message_id = info.get('MessageId')
        if isinstance(message_id, str) and message_id:
            ids.add(message_id.rsplit('.', 1)[-1])
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
    return Said(text=short(redact('; '.join(dict.fromkeys(t.strip() for t in texts)))), ids=frozenset(ids), critical=critical)


def said_to_login(body: object, username: str | None, password: str | None) -> Said:
    """The messages of a refused login, with the names of their MessageIds; nothing that may repeat the password in any form.

    A BMC may put what it was sent into its message, encoded in a way of its own. A text that shares five characters in a row
    with the password is left out; what a registry calls the message is not.
    """

    def discreet(text: str) -> str:
        return '' if _repeats(text, username, password) else text

    words = said(body, discreet)  # before it is cut: the first half of a password is one, too
    names = sorted(i for i in words.ids if _NAME.fullmatch(i) and (i in NO_SESSION_FREE or discreet(i)))
    return Said(text=short(': '.join(filter(None, (', '.join(names), words.text)))), ids=words.ids)


def _repeats(text: str, username: str | None, password: str | None) -> bool:
    """The text holds the password, or a part of it, in a form that is known."""
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
    """One printable line of a BMC's text, at most 300 characters, without the secret addresses of images."""
    if not isinstance(text, str):
        return ''
    line = ' '.join(''.join(c if c.isprintable() else ' ' for c in text[: 4 * LONGEST]).split())
    line = _SECRET_PLACE.sub('/***', line)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + '…'


def _infos(body: object, depth: int = 0) -> Iterator[Any]:
    """Every ExtendedInfo entry at the top, in ``error``, and at single properties (``Name@Message.ExtendedInfo``)."""
    if not isinstance(body, dict) or depth > 2:
        return
    for key, value in body.items():
        if isinstance(key, str) and key.endswith(INFO):
            entries = value if isinstance(value, list) else [value]
            yield from (entry for entry in entries[:20] if isinstance(entry, dict | str))
    yield from _infos(body.get('error'), depth + 1)
