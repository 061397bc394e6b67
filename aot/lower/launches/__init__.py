"""What launches of all schedules share.

In host code             ``branches``, ``nests`` (loops and sizes)
What kernels take        ``captures``, ``vectors``, ``tensormaps``, ``byvalue``
Large grids              ``grid``
How a kernel was made    ``tiling``
"""

from __future__ import annotations
