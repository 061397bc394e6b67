"""``aot tune``: which schedule and sizes are fastest on the GPU of this machine.

``tunechoice`` finds regions and ``tunecandidates`` what to try of each; ``tunebuild`` builds them into one package,
``tunerace`` times it, and ``tunedfile`` writes what ``tune`` takes to ``aot.tuned.toml``.
"""

from __future__ import annotations
