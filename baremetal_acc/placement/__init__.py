# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Client of placement's API: publish, withdraw and reshape the resource providers of a node's accelerators."""
