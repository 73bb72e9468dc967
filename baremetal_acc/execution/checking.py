# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Check the images of a job, and that the BMCs run no other update, before anything is changed."""

from collections.abc import Iterable

from baremetal_acc.errors import BmcBusy
from baremetal_acc.execution.context import Tools, image_of
from baremetal_acc.execution.observation import Bmcs
from baremetal_acc.model.action import CheckImage
from baremetal_acc.model.inventory import UpdateActivity


def check_image(action: CheckImage, tools: Tools, bmcs: Bmcs) -> None:
    """Open an image, and let the driver of each BMC check whether the BMC could write it. Nothing is changed.

    :raises ImageError: its bytes are not what the catalogue describes, or it is no image for these BMCs.
    :raises BmcUnsupported: it does not fit one of its targets. ``BmcError``: a BMC could not be asked.
    :raises AccError: the catalogue has no such image any more.
    """
    image = image_of(tools, action.image, action.content)
    upload = tools.images.open(image)
    for name in sorted({place.bmc for place in action.places}):
        bmcs[name].judge(tuple(place for place in action.places if place.bmc == name), image, upload)


def check_idle(checks: Iterable[CheckImage], bmcs: Bmcs) -> None:
    """Refuse to begin while a BMC that is to be written works on an update.

    An update that an earlier job has given up, or that somebody else has begun, would keep the job waiting with its host off.

    :raises BmcBusy: a BMC works on an update. ``BmcError``: it could not be asked.
    """
    for name in sorted({place.bmc for action in checks for place in action.places}):
        task = next((t for t in bmcs[name].active_tasks() if t.may_write), None)
        if task is not None:
            what = f'task {task.ref.uri} still runs ({task.raw}): nothing is started next to it'
            raise BmcBusy(bmc=name, what=what, hint='check what the task does; if it never ends, the BMC may need a restart')
        if bmcs[name].update_activity() is UpdateActivity.BUSY:
            raise BmcBusy(bmc=name, what='its update service reports a write in progress: nothing is started next to it')
