# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does a resource still say what it said? Told by a digest of all of it, but for what changes by itself.

A digest stands for a resource that was judged: as long as it stays the same, so would the judgement. What is left out of it are
clocks, readings and states of power, by the names that the standard gives them; no lock, version or identity is called so. A
vendor's resource that changes by itself in another way costs a look, and is no alarm.
"""

import hashlib
import json
from collections.abc import Mapping

BY_ITSELF = frozenset({
    '@odata.context', '@odata.etag', 'BootProgress', 'DateTime', 'IndicatorLED', 'LastBootTimeSeconds', 'LastResetTime',
    'LastStateTime', 'LastUpdated', 'LocationIndicatorActive', 'OperatingSpeedMHz', 'PowerState', 'PoweredBy', 'Reading',
    'ReadingCelsius', 'ReadingTime', 'ReadingWatts', 'ServiceRootUptimeSeconds', 'TemperatureCelsius',
})  # fmt: skip
"""Properties that say when, how warm or whether switched on. Source: DSP8010 2025.4."""

LENGTH = 16
"""Hexadecimal digits that are kept. Nobody gains by making two answers of a BMC alike: whoever can choose what it answers need
not change it."""


def digest(body: Mapping[str, object]) -> str:
    """Tells two states of a resource apart."""
    text = json.dumps(_lasting(body), sort_keys=True, separators=(',', ':'), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def tells_as_much(other: Mapping[str, object], body: Mapping[str, object]) -> bool:
    """Another answer for a resource says all that the first one said, with the same values, and perhaps more.

    BMCs show a resource with less in it where it is read together with its collection.
    """
    return _within(_lasting(body), _lasting(other))


def _within(value: object, other: object) -> bool:
    if isinstance(value, dict) and isinstance(other, dict):
        return all(name in other and _within(item, other[name]) for name, item in value.items())
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_within, value, other))
    return type(value) is type(other) and value == other


def _lasting(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(name): _lasting(item) for name, item in value.items() if name not in BY_ITSELF}
    if isinstance(value, list | tuple):
        return [_lasting(item) for item in value]
    return value
