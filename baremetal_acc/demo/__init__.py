# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The demo: real Ironic and placement as processes, emulated BMCs, and a node's life told over their HTTP APIs."""
