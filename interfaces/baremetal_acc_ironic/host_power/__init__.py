# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""When the host of a node may be started, and what its power-offs and starts show."""
