"""From a package's tree to what is installed: wheels, and static libraries for C.

In: a FileSet. Out: a file.

A wheel                   ``packing`` takes the one that is there, has it renewed (``renewal``) or built (``wheel``)
All packages share        ``runtimeobjects``, compiled as ``runtimeunits``
The form of the file      ``wheelfile``, ``rawzip``
A library for C           ``clibrary``
"""

from __future__ import annotations
