# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Errors of HTTP connections: the peer broke HTTP, answered too much, or took too long."""


class TransportError(OSError):
    """The peer broke HTTP, or exceeded the limits."""


class TooLong(TransportError):
    """The answer exceeds the size limit."""


class TooSlow(TransportError):
    """The answer was not complete in time."""
