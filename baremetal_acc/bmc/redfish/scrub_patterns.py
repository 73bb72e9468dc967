# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Patterns of values that identify by their form: UUIDs, MACs, addresses, certificates, tokens, long numbers."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

HEX_RUN = re.compile(r'(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,}', re.IGNORECASE)
_UUID = r'(?<![0-9a-f])[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9a-f])'
_OCTETS = r'(?<![0-9a-f])(?<![0-9a-f]{2}[:-])[0-9a-f]{2}(?:[:-][0-9a-f]{2}){5,}(?![0-9a-f])'
_QUADS = r'(?<![0-9a-f])(?<![0-9a-f]{4}:)[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![0-9a-f])'
HEX_FORM = re.compile(f'{_UUID}|{_OCTETS}|{_QUADS}', re.IGNORECASE)
IP4 = r'(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?!\d|\.\d)'
_IP6 = (
    r'(?<![0-9a-z_.])(?=[0-9a-f:]{0,40}::|(?:[0-9a-f]{1,4}:){7}[0-9a-f]|(?:[0-9a-f]{1,4}:){6}\d{1,3}\.)'
    r'(?:[0-9a-f]{0,4}:){2,7}(?:(?:\d{1,3}\.){3}\d{1,3}|[0-9a-f]{0,4})(?![\w:])'
)
BARE_HEX = r'(?<![0-9a-z])(?:0x)?(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{15,}(?![0-9a-z])'

FORMS_BEFORE: tuple[tuple[str, str], ...] = (
    ('pem', r'-----BEGIN [A-Z0-9 ]{1,40}-----[\s\S]*?(?:-----END [A-Z0-9 ]{1,40}-----|\Z)'),
    ('secret', r'(?<![\w-])(?-i:eyJ)[\w-]{8,}\.[\w-]+\.[\w-]*|\$[0-9a-z]{1,8}\$[^\s"\']{8,}'
               r'|(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w+)\s{1,9}[a-z0-9+/=]{16,}'),
    ('url', r'(?<![a-z0-9])[a-z][a-z0-9+.-]{1,20}://(?:[^\s/@"\'<>]{0,256}@)?(?:\[[0-9a-f:.]{2,60}\]|[^\s/:?#"\'<>\\]{1,255})'),
    ('email', r'(?<![\w.+-])[\w.+-]+@(?!odata\.|redfish\.|message\.)[a-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){1,9}'),
)  # fmt: skip
FORMS_AFTER: tuple[tuple[str, str], ...] = (
    ('uuid', _UUID),
    ('octets', _OCTETS),
    ('ip6', _IP6),
    ('quads', _QUADS),
    ('ip4', IP4),
    ('hex', BARE_HEX),
    ('base64', r'(?-i:(?<![A-Za-z0-9+])(?=[a-z0-9+]*[A-Z])(?=[A-Z0-9+]*[a-z])(?=(?:[A-Za-z+]*\d){4})[A-Za-z0-9+]{40,}={0,2})'),
)
"""Recognisable forms. At each place they are tried in this order, with the learned values between the two tables."""

VERSION_FORMS = frozenset({'ip4', 'ip6', 'hex', 'base64'})
"""Forms that a version may have."""

FORM_NAMES = frozenset(name for name, _ in FORMS_AFTER)


def compile_forms(groups: Iterable[tuple[str, str]]) -> re.Pattern[str]:
    return re.compile('|'.join(f'(?P<{name}>{pattern})' for name, pattern in groups), re.IGNORECASE)


def trie_pattern(values: Iterable[str]) -> str:
    """A pattern of many values that reads each character once, longer values first."""
    root: dict[str, Any] = {}
    for value in values:
        node = root
        for c in value:
            node = node.setdefault(c, {})
        node[''] = {}
    return _branches(root)


def _branches(node: Mapping[str, Any]) -> str:
    found = []
    for c, child in sorted(node.items(), reverse=True):
        if c:
            chain = re.escape(c)
            while len(child) == 1 and '' not in child:
                ((c, child),) = child.items()
                chain += re.escape(c)
            found.append(chain + _branches(child))
    if not found:
        return ''
    whole = found[0] if len(found) == 1 else '|'.join(found)
    return f'(?:{whole})?' if '' in node else f'(?:{whole})' if len(found) > 1 else whole
