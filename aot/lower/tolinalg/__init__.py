"""What sources may be written in becomes linalg on tensors and memrefs, in forms that kernels are made of.

MLIR's own passes                ``frontend``
Operations that these lack       ``affinetensors``, ``elementwise``, ``gathers``, ``masks``, ``packs``
Slices that leave out dimensions ``unitslices``, ``unitviews``
What front ends mean             ``argmax``, ``keptdims``, ``maskedrows``, ``repeatedheads`` with ``dividedheads``,
                                 ``extractedfactors`` and ``splitloops``, ``turnedfactors``
"""

from __future__ import annotations
