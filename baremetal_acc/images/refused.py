# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Errors for a catalogue, a baseline, or an image of a catalogue, that must not be used."""

from baremetal_acc.errors import ImageError, Refused
from baremetal_acc.model.image import SignedKind


class DocumentRefused(Refused):
    """A signed document can be read, and must not be used.

    :ivar path: the path of the document.
    """

    def __init__(self, *, path: str, what: str, hint: str | None = None) -> None:
        self.path = path
        super().__init__([f'{path}: {what}'], hint=hint)


class CatalogueRefused(DocumentRefused):
    """A catalogue can be read, and must not be used."""


class BaselineRefused(DocumentRefused):
    """A baseline can be read, and must not be used."""


REFUSALS: dict[SignedKind, type[DocumentRefused]] = {
    SignedKind.CATALOGUE: CatalogueRefused,
    SignedKind.BASELINE: BaselineRefused,
}
"""The error of each kind of document."""


class DeniedImageError(ImageError):
    """The catalogue denies the image, or has expired: the image must not be written any more."""


class ImageUntrusted(ImageError):
    """The image's signature is missing, or proves nothing."""
