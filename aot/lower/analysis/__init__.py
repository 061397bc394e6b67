"""Questions about the IR, which change nothing.

Memory       ``views`` (of what), ``effects`` (what is done to it), ``overlap`` (with what)
Values       ``demand`` (who needs them), ``extents``, ``elements`` (their types), ``literals``, ``neutral``,
             ``factors``
Operations   ``opwalk``, ``symbols``
"""

from __future__ import annotations
