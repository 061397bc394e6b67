"""What a build tells people while it runs, and what it gives back at its end.

``buildnotes`` puts facts of a source into words, ``report`` says in which stage a build is, ``terminal`` draws it, and
``buildresult`` is the value at the end, for programs and as a table.
"""

from __future__ import annotations
