# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Digest of a BMC resource without its volatile properties, to detect whether the resource has changed since it was judged.

The digest leaves out clocks, sensor readings and power states, by the property names of the Redfish schemas; no lock, version
or identity has one of these names. As long as the digest is the same, the judgement holds. A vendor's resource that changes by
itself under other names costs another inspection, but raises no alarm.
"""

import hashlib
import json
from collections.abc import Mapping

BY_ITSELF = frozenset({
    '@odata.context', '@odata.etag', 'BootProgress', 'DateTime', 'IndicatorLED', 'LastBootTimeSeconds', 'LastResetTime',
    'LastStateTime', 'LastUpdated', 'LocationIndicatorActive', 'OperatingSpeedMHz', 'PowerState', 'PoweredBy', 'Reading',
    'ReadingCelsius', 'ReadingTime', 'ReadingWatts', 'ServiceRootUptimeSeconds', 'TemperatureCelsius',
})  # fmt: skip
"""Properties that hold a time, a reading, a power state or an indicator, and so change by themselves.
Source: DSP8010 2025.4.
"""

LENGTH = 16
"""Hexadecimal digits that are kept. A forged collision gains nothing: whoever controls what a BMC answers
need not change it.
"""


def digest(body: Mapping[str, object]) -> str:
    """The digest of a resource's body without its volatile properties."""
    text = json.dumps(_lasting(body), sort_keys=True, separators=(',', ':'), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


def tells_as_much(other: Mapping[str, object], body: Mapping[str, object]) -> bool:
    """Whether another answer for a resource holds all properties of the first one with the same values, and perhaps more.

    BMCs show fewer properties of a resource where it is read together with its collection.
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
