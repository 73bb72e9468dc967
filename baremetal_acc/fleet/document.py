# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How do demands look to a tool? The same by HTTP and on the command line."""

from collections.abc import Iterable
from typing import Any

from baremetal_acc.decide.progress import Told

FORMAT = 1


def body_of(told: Iterable[Told], refused: int) -> dict[str, Any]:
    """A document of demands.

    :param refused: how many were not taken because there were too many.
    """
    return {'format': FORMAT, 'demands': [_one(t) for t in told], 'refused': refused}


def _one(told: Told) -> dict[str, Any]:
    one = told.demand
    return {
        'id': one.id,
        'function': one.function,
        'resource_class': one.resource_class,
        'project': told.asker,
        'source': told.source,
        'told': one.at.isoformat(),
        'state': str(told.progress),
        'since': told.since.isoformat(),
        'took_seconds': None if told.took is None else round(told.took.total_seconds(), 1),
        'provider': told.provider,
    }
