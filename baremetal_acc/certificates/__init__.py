# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The hand-over certificate of a node: its statement, its signatures, and the folder that keeps it."""
