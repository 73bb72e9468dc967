# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Out-of-band management of accelerators in bare-metal machines."""
