# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Count the keys that have signed a document. Signatures that one private key suffices to make count once.

Whoever holds the key of a CA can issue any number of certificates. So all signers below a CA count as one key, and so do
signers below two CAs if one key is in the chains of both.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from baremetal_acc.images.trust.keys import Untrusted

_MOST_NAMES = 16
"""Most names that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidSignature:
    """A signature that is valid.

    :ivar keys: SHA-256 of each public key whose private key suffices to make such a signature: the key of the signer, and those
        of the CAs up to the trust root.
    :ivar root: SHA-256 of the public key of the trust root.
    :ivar signer: who signed, for messages.
    """

    keys: frozenset[str]
    root: str
    signer: str


class TooFewSigners(Untrusted):
    """Fewer different keys than required have signed.

    :ivar signed: who signed.
    :ivar required: how many keys must have signed.
    :ivar absent: the trust roots that no signature leads to.
    """

    def __init__(self, *, signed: tuple[str, ...], required: int, absent: tuple[str, ...], reasons: tuple[str, ...]) -> None:
        self.signed, self.required, self.absent = signed, required, absent
        missing = required - len(signed)
        verb = 'has' if len(signed) == 1 else 'have'
        parts = [f'{len(signed)} of {required} required keys {verb} signed{_listed(signed)}; {missing} missing']
        if absent:
            parts.append(f'trusted keys without a valid signature{_listed(absent)}')
        super().__init__('; '.join((*parts, *reasons)))


def _listed(names: tuple[str, ...]) -> str:
    if not names:
        return ''
    more = f' and {len(names) - _MOST_NAMES} more' if len(names) > _MOST_NAMES else ''
    return f' ({", ".join(names[:_MOST_NAMES])}{more})'


def independent(signatures: Iterable[ValidSignature]) -> tuple[ValidSignature, ...]:
    """Return a largest set of these signatures of which no two have a key in common, in their order.

    To make all of them, at least as many private keys are needed. A signature file has at most 16 signatures, so that all sets
    can be tried.
    """
    found = tuple(dict.fromkeys(signatures))
    best: tuple[ValidSignature, ...] = ()

    def extend(start: int, chosen: tuple[ValidSignature, ...], taken: frozenset[str]) -> None:
        nonlocal best
        if len(chosen) > len(best):
            best = chosen
        for n in range(start, len(found)):
            if len(chosen) + len(found) - n <= len(best):
                return
            if taken.isdisjoint(found[n].keys):
                extend(n + 1, (*chosen, found[n]), taken | found[n].keys)

    extend(0, (), frozenset())
    return best
