# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Errors for a catalogue, or an image of it, that must not be used."""

from baremetal_acc.errors import ImageError, Refused


class CatalogueRefused(Refused):
    """A catalogue can be read, and must not be used.

    :ivar path: the path of the catalogue.
    """

    def __init__(self, *, path: str, what: str, hint: str | None = None) -> None:
        self.path = path
        super().__init__([f'{path}: {what}'], hint=hint)


class DeniedImageError(ImageError):
    """The catalogue denies the image, or has expired: the image must not be written any more."""


class ImageUntrusted(ImageError):
    """The image's signature is missing, or proves nothing."""
