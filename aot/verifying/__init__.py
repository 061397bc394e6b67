"""Running a built package for real: what ``aot verify``, ``aot bench`` and ``aot demo`` have in common.

In: a wheel or an importable package. Out: values and times of its functions, from a process of their own, since a
wrong kernel may take its process along.

``signature``  what can be called, read from the manifest       ``dims``     which extents must agree
``values``     random arguments                                 ``shapes``   the shapes to try
``place``      arrays of the CPU and of the GPU                 ``compare``  got against expected
``reference``  what is expected, from a user's file             ``checks``   all of it for one function
``job``        what a child process is told and answers         ``child``    the process itself
"""

from __future__ import annotations
