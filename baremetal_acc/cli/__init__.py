# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The command line ``baremetal-acc``: cliff commands, the files that they read, and the output that they print."""
