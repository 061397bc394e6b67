"""Products on Hopper's tensor cores, by ``wgmma``.

For which problems   ``wgmmafit``
Which tile           ``wgmmachoice``, ``wgmmatile``
The kernel           ``wgmma``, ``wgmmacopies``, ``wgmmasums``, ``wgmmaswapped``
Stores               ``wgmmawriter``, ``wgmmastore``, ``wgmmarows``
Few rows             ``wgmmaflow``
"""

from __future__ import annotations
