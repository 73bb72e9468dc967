# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The steps of the firmware interface: what each does, its arguments, and the jobs that it begins."""
