# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image of a catalogue with bytes that are what it says."""

import hashlib

from baremetal_acc.model.image import Digest, DigestAlgorithm
from tests.unit.planning import values as v

DATA = bytes(range(256)) * 9000
"""More than two chunks of reading."""


def image(source: object, algorithm: DigestAlgorithm = DigestAlgorithm.SHA256, data: bytes = DATA):
    """The image that these bytes are, wherever they come from."""
    digest = Digest(algorithm=algorithm, value=hashlib.new(algorithm, data).hexdigest())
    return v.image(source=str(source), size_bytes=len(data), digest=digest)
