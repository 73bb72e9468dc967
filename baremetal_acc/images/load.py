# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load a catalogue after its signature and its serial were checked. The bytes that were checked are the bytes that are read."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from baremetal_acc.images import catalogue, signed_document
from baremetal_acc.images.catalogue import Catalogue
from baremetal_acc.images.serials import Serials
from baremetal_acc.images.signed_document import Trusting
from baremetal_acc.model.image import SignatureDemand, SignedKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A catalogue that may be used.

    :ivar signers: who signed it, each with a key of its own; none where nobody did, or no signature was checked.
    :ivar digest: SHA-256 of its bytes.
    """

    catalogue: Catalogue
    signers: tuple[str, ...]
    digest: str


def load(
    path: Path,
    *,
    trust: Trusting | None,
    demand: SignatureDemand,
    serials: Serials | None,
    now: datetime,
    hint: str | None = None,
) -> Loaded:
    """Read a catalogue after checking its signatures and its serial.

    :param trust: the trust roots, None where there are none; then no signature is checked.
    :param serials: the database of the highest serials.
    :param hint: where the path is configured, for messages.
    :raises CatalogueRefused: the catalogue is not signed as required, or is older than one that was seen.
    :raises DocumentError: the catalogue is missing or wrong.
    """
    kind = SignedKind.CATALOGUE
    data = signed_document.read(path, hint)
    signers = signed_document.signers(kind, path, data, trust=trust, demand=demand, now=now)
    found = catalogue.read(signed_document.decoded(path, data), str(path))
    digest = signed_document.check_age(
        kind, path, data, serial=found.serial, expires=found.expires, signed=bool(signers), serials=serials
    )
    return Loaded(catalogue=found, signers=signers, digest=digest)
