# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does the main job look from outside? The real services as processes, and the story told over their HTTP APIs."""
