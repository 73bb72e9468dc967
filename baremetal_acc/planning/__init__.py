# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What ought to happen, and what is proven: pure functions from values to values. No I/O, clock, configuration or log."""
