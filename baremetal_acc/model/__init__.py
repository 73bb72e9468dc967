# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What things are: frozen nouns of accelerators, firmware, locks, inventories, plans and jobs.

Standard library only. The modules are the names; import from them.
"""
