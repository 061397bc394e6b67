"""From compiled sources to the tree of a package: path -> bytes. Nothing is written here.

In: what jobs have left. Out: FileSet.

What a source contributes  ``contribution``, read by ``jobresults``
The tree                   ``package``, with ``tables`` (C), ``signatures`` (Python), ``cfunctions`` (a C header),
                           ``metadata`` (the manifest)
``--split-archs``          ``splitpackage``, ``splitfront``
Packages read again        ``openedpackage``, ``manifest``
"""

from __future__ import annotations
