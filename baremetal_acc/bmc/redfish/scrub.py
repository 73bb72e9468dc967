# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Scrub a recorded Redfish tree: replace serial numbers, UUIDs, MACs, addresses, host and user names, and remove secrets.

There are two passes. The first learns every value that its property's name classifies (``SerialNumber``, ``HostName``). The
second replaces these values wherever they occur, also in URIs, Ids, names and longer texts, and with them whatever has a
recognisable form: UUIDs, MACs, addresses, certificates. A value is replaced by another of the same length and shape, chosen
with a secret key: equal values stay equal, different ones stay different, letter case and padding are kept, and without the key
the replacement cannot be reversed.
"""

import re
from urllib.parse import quote, unquote

from baremetal_acc.bmc.redfish.own_credentials import SECRET, Own
from baremetal_acc.bmc.redfish.scrub_patterns import (
    BARE_HEX,
    FORM_NAMES,
    FORMS_AFTER,
    FORMS_BEFORE,
    HEX_FORM,
    HEX_RUN,
    IP4,
    VERSION_FORMS,
    compile_forms,
    trie_pattern,
)
from baremetal_acc.bmc.redfish.scrub_replacements import ALPHANUMERIC, KEPT_LABELS, ReplacementTable, hex_digits, lower_case
from baremetal_acc.bmc.redfish.scrubbed_kinds import (
    CONSTANT_WORDS,
    DEEPEST,
    Json,
    ScrubbedKind,
    kind_of,
    normal,
    pair_kind,
    stays,
    walk_leaves,
)

LONGEST = 100
"""Characters of a value that is replaced everywhere. Longer values are replaced only where their property is."""

LONGEST_TEXT = 16 * 1024
"""Characters. A longer text is replaced as a whole instead of being searched; real texts are a tenth of that."""

SHORTEST_HASH = 16
"""Characters. A shorter hash, as in ETags, identifies nothing and may equal any number."""

_VERSIONS = re.compile(r'.*(version|revision|firmware|release|build)')
_ADDRESSES = re.compile(r'.*address(es)?|.*gateway|.*(ip|ipv4|ipv6)(address)?|.*subnet|.*server')

_HARDWARE = frozenset({
    'softwareid', 'vendorid', 'deviceid', 'subsystemid', 'subsystemvendorid', 'classcode', 'identificationregisters',
    'effectivefamily', 'deviceclass',
})  # fmt: skip
"""Properties that identify a product, not a single piece of hardware."""

_ORDINAL = re.compile(r'[a-z]{2,}[ _.-]?\d{1,3}', re.IGNORECASE)
_STANDARD = frozenset({'redfish', 'v1', 'odata'})


class Scrubber:
    """Replaces identifying values in the bodies of a tree. Pass all bodies to :meth:`learn` before :meth:`body` is called."""

    def __init__(self, key: bytes, own: Own | None = None) -> None:
        """Create a scrubber that has learned nothing.

        :param key: secret; the same key gives the same replacements.
        :param own: our credentials for the BMC.
        """
        self._replacements = ReplacementTable(key)
        self._own = own or Own(None, None)
        self._known: dict[str, ScrubbedKind] = {}
        self._properties: set[str] = set(_STANDARD)
        self._versions: set[str] = set()
        self._products: set[str] = set()
        self._addresses: set[str] = set()
        self._all: re.Pattern[str] | None = None
        self._forms = compile_forms((*FORMS_BEFORE, *FORMS_AFTER))
        self._remembered: dict[tuple[str, frozenset[str]], str] = {}

    # ---- first pass

    def learn(self, body: Json) -> None:
        """Learn every value of a body that its property's name classifies, and every UUID, MAC and GUID in its texts.

        :raises ValueError: the body is nested too deeply.
        """
        self._all = None
        self._remembered.clear()
        for name, kind, value in walk_leaves(body):
            plain = normal(name)
            if name[:1].isupper() or name[:1] == '@':
                self._properties.update(part for part in name.split('@') if part)
            if not isinstance(value, str):
                if kind is not None and isinstance(value, int) and not isinstance(value, bool):
                    self._note(kind, str(value))
                continue
            if len(value) > LONGEST_TEXT:
                continue
            for found in HEX_FORM.finditer(value):
                self._note_hex(found.group())
            if plain.endswith('partnumber'):
                self._products.add(value.strip())
            if _VERSIONS.fullmatch(plain):
                self._versions.update(m.group() for m in re.finditer(f'{IP4}|{BARE_HEX}', value, re.IGNORECASE))
            if _ADDRESSES.fullmatch(plain) or kind is ScrubbedKind.HOST:
                self._addresses.update(m.group() for m in re.finditer(IP4, value))
            if kind is not None:
                self._note(kind, value)

    def learn_host(self, name: str) -> None:
        """Learn a host's name or address."""
        self._all = None
        if re.fullmatch(IP4, name):
            self._addresses.add(name)
        self._note(ScrubbedKind.HOST, name)

    def _note(self, kind: ScrubbedKind, value: str) -> None:
        value = value.strip()
        if kind is ScrubbedKind.SECRET or len(value) > LONGEST or stays(kind, value):
            return
        if (kind is ScrubbedKind.HASH and len(value) < SHORTEST_HASH) or kind is ScrubbedKind.TAG:
            return
        if self._is_hex(value):
            self._note_hex(value)
            return
        self._replacements.originals.update(lower_case(t) for t in ALPHANUMERIC.findall(value))
        if self._forms.search(value):
            return
        names = [value]
        if kind is ScrubbedKind.HOST:
            labels = value.split('.')
            names += [labels[0], '.'.join(labels[1:])] if len(labels) > 1 else []
        for name in names:
            plain = lower_case(name)
            if _bounds(kind, plain) is not None and plain not in CONSTANT_WORDS | KEPT_LABELS:
                self._known.setdefault(plain, kind)

    def _note_hex(self, value: str) -> None:
        digits = hex_digits(value)
        if len(set(digits)) > 1 and len(digits) >= 12:
            self._replacements.numbers.add(digits)
            self._replacements.originals.add(digits)

    # ---- second pass

    def body(self, body: Json) -> Json:
        """Scrub a whole resource.

        :raises ValueError: it is nested too deeply.
        """
        return self._value(body, '', None, 0)

    def text(self, text: str, keep: frozenset[str] = frozenset()) -> str:
        """Scrub a text: replace everything in it that was learned or has a recognisable form.

        :param keep: names of forms that are not replaced.
        """
        if len(text) > LONGEST_TEXT:
            self._replacements.count(ScrubbedKind.SECRET, text)
            return SECRET
        known = self._remembered.get((text, keep))
        if known is None:
            known = self._text(self._own.without_secrets(text), keep)
            if len(text) < 1000:
                self._remembered[text, keep] = known
        return known

    def field(self, kind: ScrubbedKind, value: str) -> str:
        """Replace the whole value of a property whose name classifies it; leading and trailing blanks are kept."""
        bare = value.strip()
        if len(value) > LONGEST_TEXT:
            self._replacements.count(ScrubbedKind.SECRET, value)
            return SECRET
        if stays(kind, bare) or (kind is ScrubbedKind.TAG and bare in self._products):
            return self.text(value)
        if kind is ScrubbedKind.SECRET:
            self._replacements.count(kind, bare)
            return SECRET
        if self._own.without_secrets(bare) != bare:
            self._replacements.count(ScrubbedKind.SECRET, bare)
            return SECRET
        if self._is_hex(bare):
            return value.replace(bare, self._replacements.replace_hex(bare), 1)
        self._replacements.count(kind, lower_case(bare))
        made, at = [], 0
        for match in self._forms.finditer(bare):
            made += [self._replacements.replace_tokens(bare[at : match.start()], kind), self._replaced(match, frozenset())]
            at = match.end()
        return value.replace(bare, ''.join([*made, self._replacements.replace_tokens(bare[at:], kind)]), 1)

    @property
    def counts(self) -> dict[str, int]:
        """Number of different values that were replaced, by kind."""
        return self._replacements.counts

    def is_property(self, word: str) -> bool:
        """Whether a word is a property name in this tree: then replacing it everywhere would ruin the tree."""
        return word in self._properties

    def leaks(self, text: str) -> bool:
        """Whether a scrubbed text still contains one of the longer learned values."""
        return self._long.search(text) is not None

    # ---- implementation

    def _value(self, value: Json, name: str, kind: ScrubbedKind | None, depth: int) -> Json:
        if depth > DEEPEST:
            raise ValueError(f'nested more than {DEEPEST} levels deep')
        match value:
            case dict():
                pair = pair_kind(value)
                return {self._name(k): self._value(v, k, kind_of(k, v, kind, pair), depth + 1) for k, v in value.items()}
            case list():
                return [self._value(item, name, kind, depth + 1) for item in value]
            case str():
                if kind is not None:
                    return self.field(kind, value)
                plain = normal(name)
                keep = FORM_NAMES if plain in _HARDWARE else VERSION_FORMS if _VERSIONS.fullmatch(plain) else frozenset()
                return self.text(value, keep)
            case bool() | None:
                return value
            case int() if kind in (
                ScrubbedKind.SERIAL,
                ScrubbedKind.GUID,
                ScrubbedKind.UUID,
                ScrubbedKind.MAC,
                ScrubbedKind.ASSET,
                ScrubbedKind.USER,
                ScrubbedKind.HASH,
                ScrubbedKind.SECRET,
            ):
                if stays(kind, str(abs(value))) or value == 0:
                    return value
                self._replacements.count(kind, str(value))
                return 0 if kind is ScrubbedKind.SECRET else int(self._replacements.replace_tokens(str(value), kind))
            case float() if kind is ScrubbedKind.PLACE:
                self._replacements.count(kind, str(value))
                return 0.0
            case _:
                return value

    def _name(self, name: str) -> str:
        """Scrub a property's name, which may contain a value, as names of vendors' settings do."""
        return self.text(name, frozenset({'base64'}))

    def _text(self, text: str, keep: frozenset[str]) -> str:
        if '%' in text:
            plain = unquote(text)
            if plain != text:
                made = self._text(plain, keep) if '%' not in plain else self._sub(plain, keep)
                return text if made == plain else quote(made, safe="/:?#[]@!$&'()*+,;= ")
        return self._sub(text, keep)

    def _sub(self, text: str, keep: frozenset[str]) -> str:
        if self._all is None:
            self._seal()
        assert self._all is not None  # noqa: S101 - sealed above
        return self._all.sub(lambda match: self._replaced(match, keep), text)

    def _seal(self) -> None:
        """Build one pattern of everything that is replaced, so that one pass replaces each place once."""
        free = {digits for digits in self._replacements.numbers if len(digits) <= LONGEST}
        groups: dict[str, list[str]] = {'free': [], 'digits': [], 'words': [], 'hosts': []}
        properties = {name.casefold() for name in self._properties}
        for value, kind in self._known.items():
            if value in properties:
                continue
            groups['hosts' if kind is ScrubbedKind.HOST else _bounds(kind, value) or 'words'].append(value)
        parts = []
        if groups['free'] or free:
            parts.append(trie_pattern([*groups['free'], *free]))
        if groups['digits']:
            parts.append(rf'(?<!\d)(?:{trie_pattern(groups["digits"])})(?!\d)')
        if groups['words']:
            parts.append(rf'(?<![a-z0-9])(?:{trie_pattern(groups["words"])})(?![a-z0-9])')
        if groups['hosts']:
            # A host name may be followed by a domain that no property shows.
            parts.append(rf'(?<![a-z0-9])(?:{trie_pattern(groups["hosts"])})(?:\.[a-z][a-z0-9-]{{1,62}}){{0,5}}(?![a-z0-9])')
        own = self._own.pattern
        if own is not None and self.is_property(self._own.username or ''):
            own = None  # replacing it would make the tree unreadable; the code that writes the recording checks for it
        known = [('own', own)] if own is not None else []
        known += [('known', '|'.join(parts))] if parts else []
        self._all = compile_forms(
            (*FORMS_BEFORE[:2], *known[:1], *FORMS_BEFORE[2:], *known[1:], *FORMS_AFTER)
            if own
            else (*FORMS_BEFORE, *known, *FORMS_AFTER)
        )
        self._long = re.compile(trie_pattern([v for v in [*groups['free'], *free] if len(v) >= 10]) or r'(?!)', re.IGNORECASE)

    def _replaced(self, match: re.Match[str], keep: frozenset[str]) -> str:
        text, form = match.group(), match.lastgroup or ''
        if form in keep and not (form == 'hex' and hex_digits(text) in self._replacements.numbers):
            return text
        match form:
            case 'pem' | 'secret' | 'base64':
                self._replacements.count(ScrubbedKind.SECRET, text)
                return SECRET
            case 'own':
                self._replacements.count(ScrubbedKind.USER, text)
                return self._replacements.replace_tokens(text, ScrubbedKind.USER)
            case 'url':
                return self._replacements.replace_url(text)
            case 'email':
                self._replacements.count(ScrubbedKind.EMAIL, text.casefold())
                return self._replacements.replace_tokens(text, ScrubbedKind.HOST)
            case 'known':
                plain = lower_case(text)
                if plain in self._replacements.numbers:
                    return self._replacements.replace_hex(text)
                kind = self._known.get(plain, ScrubbedKind.HOST)
                self._replacements.count(kind, plain)
                return self._replacements.replace_tokens(text, kind)
            case 'ip4':
                return text if text in self._versions and text not in self._addresses else self._replacements.replace_ip4(text)
            case 'ip6':
                return self._replacements.replace_ip6(text)
            case 'hex' if text in self._versions and hex_digits(text) not in self._replacements.numbers:
                return text
            case _:
                return self._replacements.replace_hex(text)

    def _is_hex(self, text: str) -> bool:
        return bool(HEX_FORM.fullmatch(text) or HEX_RUN.fullmatch(text)) or _nibbles_of_run(text) in self._replacements.numbers


def _bounds(kind: ScrubbedKind, value: str) -> str | None:
    """Where else a learned value is replaced: ``free`` anywhere, ``digits`` not within a longer number, ``words`` as a word.

    None: nowhere else, as it is too short or too common to be told from other text.
    """
    has_digit, has_letter = any(c.isdigit() for c in value), any(c.isalpha() for c in value)
    if kind in (ScrubbedKind.HOST, ScrubbedKind.USER, ScrubbedKind.PLACE, ScrubbedKind.EMAIL) or not has_digit:
        return 'words' if len(value) >= 4 else None
    if len(value) < 5 or _ORDINAL.fullmatch(value):
        return None
    if not has_letter:
        return 'digits' if len(value) >= 6 else 'words'
    return 'free' if len(value) >= 6 else 'words'


def _nibbles_of_run(text: str) -> str | None:
    bare = text[2:] if text[:2].casefold() == '0x' else text
    return bare.lower() if re.fullmatch('[0-9A-Fa-f]{12,}', bare) else None
