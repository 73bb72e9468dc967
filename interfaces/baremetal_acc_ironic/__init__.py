# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The Ironic plugin of baremetal-acc: hardware types, interfaces, steps and periodic tasks."""
