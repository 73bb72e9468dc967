# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What speaks against an image for a component of HPM.1? Asking changes nothing.

Part of it the image says alone (:func:`opened`): nobody has to be asked, and no machine has to be there. The rest is between
the image and the controller that is to get it (:func:`judge`).
"""

import io
from dataclasses import dataclass

from baremetal_acc.bmc.ipmi import device, hpm, hpm_image
from baremetal_acc.bmc.ipmi.wire import Raw
from baremetal_acc.decide.images import same_version
from baremetal_acc.errors import BmcUnsupported, ImageError
from baremetal_acc.model.image import Image, Upload
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """An image, the part of it for a component, and that component of a controller."""

    image: hpm_image.Image
    part: hpm_image.Upload
    target: hpm.Capabilities
    component: hpm.Component
    can: hpm.Properties


def read(upload: Upload, name: str) -> hpm_image.Image:
    """The bytes that were checked, as an image of HPM.1.

    :param name: what to call it, for messages.
    :raises ImageError: they are none, or have changed.
    """
    if upload.size_bytes > hpm_image.MOST_BYTES:
        raise ImageError(image=name, what=f'has {upload.size_bytes} bytes, and at most {hpm_image.MOST_BYTES} are taken')
    stream = upload.open()  # as long as somebody has the image, or its firmware
    if stream.seek(0, io.SEEK_END) != upload.size_bytes:
        raise ImageError(image=name, what=f'has another size than the {upload.size_bytes} bytes that were checked')
    return hpm_image.parse(hpm_image.Streamed(stream, upload.size_bytes, name), name)


def begins_as_one(upload: Upload) -> bool:
    """Its first bytes are those of an HPM.1 image, whatever the rest is."""
    with upload.open() as stream:
        return stream.read(len(hpm_image.SIGNATURE)) == hpm_image.SIGNATURE


def opened(image: Image, upload: Upload) -> hpm_image.Image:
    """An image of the catalogue that is whole, and brings what the catalogue says to one component.

    A controller shows the version that the image says, so that the catalogue's is compared with that.

    :raises ImageError: it is not, or does not.
    """
    found = read(upload, image.name)
    brings = frozenset(one.component for one in found.uploads)
    if len(brings) > 1:
        what = f'brings firmware for component {hpm_image.listed(brings)}, and over IPMI one is written at a time'
        raise ImageError(image=image.name, what=what, hint='ask its maker for an image of each')
    version = found.uploads[0].version
    if version is not None and not same_version(version.text, image.version):
        what = f'is version {version.text} by its header, as a controller shows it then, and the catalogue says {image.version}'
        hint = f'write {version.text} into the catalogue, and into the rules that ask for it; or it is another image'
        raise ImageError(image=image.name, what=what, hint=hint)
    return found


def judge(raw: Raw, ref: Ref, number: int, image: Image, content: hpm_image.Image) -> None:
    """See that an image can be written to a component, and that the catalogue says what brings it in force there.

    :param raw: to its controller; an operator may ask.
    :param content: of the image, as of :func:`opened`.
    :raises BmcUnsupported: it cannot, or does not.
    :raises BmcError: a command was refused, or not answered.
    """
    found = fitting(raw, ref, number, content)
    if found.can.cold_reset and image.reset is ResetKind.NONE:
        what = (
            f'what component {number} gets runs only after a payload cold reset, and apply.reset of image {image.name} is none'
        )
        hint = 'write apply = { reset = "system-reset" } into its table of the catalogue'
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what=what, hint=hint)


def fitting(raw: Raw, ref: Ref, number: int, content: hpm_image.Image) -> Fitting:
    """See that an image is for a component. Whether its controller takes one now is not asked.

    :raises BmcUnsupported: it is not.
    """

    def unfit(what: str, hint: str | None = None) -> BmcUnsupported:
        return BmcUnsupported(bmc=raw.label, uri=ref.uri, what=what, hint=hint)

    brings = frozenset(one.component for one in content.uploads)
    if brings != {number}:
        listed = hpm_image.listed(brings)
        raise unfit(f'image {content.name} brings firmware for component {listed}, and it is to be written to {number} alone')
    target = hpm.capabilities(raw)
    if target is None:
        raise unfit('it does not speak HPM.1 any more')
    differs = hpm_image.fits(content, hpm_image.device(device.identify(raw), target.components))
    if differs:
        raise unfit('; '.join(differs), 'the fits of the image in the catalogue may be too wide')
    seen = hpm.component(raw, number) if number in target.components else None
    if seen is None:
        raise unfit(f'it has no component {number}')
    if seen.properties is None:
        raise unfit(f'what component {number} can could not be read: {"; ".join(seen.unread)}')
    return Fitting(image=content, part=content.uploads[0], target=target, component=seen, can=seen.properties)
