"""What ``aot.toml`` says: text becomes checked values here, and nowhere else.

``configfiles`` finds the files of a folder, ``config`` reads one by the keys of ``configvalues``; ``wishes`` are
schedules that a user names, and ``selection`` narrows the requested architectures for each source.
"""

from __future__ import annotations
