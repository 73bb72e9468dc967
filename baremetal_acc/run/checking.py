# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Is an image what the catalogue describes, and can it be written where it is to go?"""

from baremetal_acc.model.job import CheckImage
from baremetal_acc.run.looking import Bmcs
from baremetal_acc.run.tools import Tools, image_of


def check_image(action: CheckImage, tools: Tools, bmcs: Bmcs) -> None:
    """Open an image, and let the BMCs judge it that do so. Nothing is changed.

    :raises ImageError: its bytes are not what the catalogue describes, or no image for these BMCs.
    :raises BmcUnsupported: it is not for one of its places. ``BmcError``: a BMC could not be asked.
    :raises AccError: the catalogue has no such image any more.
    """
    image = image_of(tools, action.image, action.content)
    upload = tools.images.open(image)
    for name in sorted({place.bmc for place in action.places}):
        bmcs[name].judge(tuple(place for place in action.places if place.bmc == name), image, upload)
