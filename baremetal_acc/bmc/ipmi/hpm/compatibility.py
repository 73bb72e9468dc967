# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check that an HPM.1 image is compatible with a component of a controller. Nothing is changed.

:func:`opened` checks what the image alone shows, without any machine. :func:`judge` compares the image with the controller that
is to get it.
"""

import io
from dataclasses import dataclass

from baremetal_acc.bmc.ipmi import device
from baremetal_acc.bmc.ipmi.command import Raw
from baremetal_acc.bmc.ipmi.hpm import commands, upgrade_target
from baremetal_acc.bmc.ipmi.hpm import image as hpm_image
from baremetal_acc.errors import BmcUnsupported, ImageError
from baremetal_acc.model.image import Image, Upload
from baremetal_acc.model.lock import ResetKind
from baremetal_acc.model.ref import Ref
from baremetal_acc.planning.image_selection import same_version


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """A compatible image, its part for a component, and that component with its controller's capabilities."""

    image: hpm_image.HpmImage
    part: hpm_image.ImageUpload
    target: commands.Capabilities
    component: commands.HpmComponent
    can: commands.Properties


def read(upload: Upload, name: str) -> hpm_image.HpmImage:
    """Parse the uploaded bytes as an HPM.1 image.

    :param name: of the image, for messages.
    :raises ImageError: it is not a valid image, is too large, or has changed since it was checked.
    """
    if upload.size_bytes > hpm_image.MOST_BYTES:
        raise ImageError(image=name, what=f'has {upload.size_bytes} bytes, but at most {hpm_image.MOST_BYTES} are supported')
    stream = upload.open()  # stays open as long as the image, or its firmware, is in use
    if stream.seek(0, io.SEEK_END) != upload.size_bytes:
        raise ImageError(image=name, what=f'no longer has the size of {upload.size_bytes} bytes that was checked')
    return hpm_image.parse(hpm_image.StreamedImage(stream, upload.size_bytes, name), name)


def begins_as_one(upload: Upload) -> bool:
    """Whether the first bytes are the signature of an HPM.1 image. The rest is not checked."""
    with upload.open() as stream:
        return stream.read(len(hpm_image.SIGNATURE)) == hpm_image.SIGNATURE


def opened(image: Image, upload: Upload) -> hpm_image.HpmImage:
    """Parse an image, and check that it is for one component and has the version of its catalogue entry.

    A controller reports the version in the image's header; the version in the catalogue is therefore compared with that.

    :raises ImageError: a check failed.
    """
    found = read(upload, image.name)
    brings = frozenset(one.component for one in found.uploads)
    if len(brings) > 1:
        what = f'contains firmware for components {hpm_image.listed(brings)}, but over IPMI an image may contain only one'
        raise ImageError(image=image.name, what=what, hint='ask the vendor for one image per component')
    version = found.uploads[0].version
    if version is not None and not same_version(version.text, image.version):
        what = (
            f'has version {version.text} in its header, which controllers report, but version {image.version} in the catalogue'
        )
        hint = f'write {version.text} into the catalogue and into the rules that require it, unless this is the wrong image'
        raise ImageError(image=image.name, what=what, hint=hint)
    return found


def judge(raw: Raw, ref: Ref, number: int, image: Image, content: hpm_image.HpmImage) -> None:
    """Check that an image can be written to a component, and that the catalogue's ``apply.reset`` activates it there.

    :param raw: to the component's controller; operator privilege is enough.
    :param content: the image, from :func:`opened`.
    :raises BmcUnsupported: a check failed.
    :raises BmcError: a command was refused, or not answered.
    """
    found = fitting(raw, ref, number, content)
    if found.can.cold_reset and image.reset is ResetKind.NONE:
        what = f'firmware of component {number} runs only after a payload cold reset, but {image.name} has apply.reset none'
        hint = 'set apply = { reset = "system-reset" } for the image in the catalogue'
        raise BmcUnsupported(bmc=raw.label, uri=ref.uri, what=what, hint=hint)


def fitting(raw: Raw, ref: Ref, number: int, content: hpm_image.HpmImage) -> Fitting:
    """Check that an image is for a component. Whether the controller takes an update now is not checked.

    :raises BmcUnsupported: the image is not for this component.
    """

    def unfit(what: str, hint: str | None = None) -> BmcUnsupported:
        return BmcUnsupported(bmc=raw.label, uri=ref.uri, what=what, hint=hint)

    brings = frozenset(one.component for one in content.uploads)
    if brings != {number}:
        components = f'component{"" if len(brings) == 1 else "s"} {hpm_image.listed(brings)}'
        raise unfit(f'image {content.name} contains firmware for {components}, but the target is component {number} alone')
    target = upgrade_target.read_capabilities(raw)
    if target is None:
        raise unfit('the controller no longer supports HPM.1')
    differs = hpm_image.fits(content, hpm_image.device(device.identify(raw), target.components))
    if differs:
        raise unfit('; '.join(differs), 'the fits of the image in the catalogue may match too many components')
    seen = upgrade_target.read_component(raw, number) if number in target.components else None
    if seen is None:
        raise unfit(f'the controller has no component {number}')
    if seen.properties is None:
        raise unfit(f'the properties of component {number} could not be read: {"; ".join(seen.unread)}')
    return Fitting(image=content, part=content.uploads[0], target=target, component=seen, can=seen.properties)
