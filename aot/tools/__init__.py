"""The programs that a build uses: where they are, and which they are.

``toolchain`` finds LLVM's and CUDA's, ``ccompiler`` and ``freethreaded`` what links an extension. ``toolid`` is the
identity of what compiles sources, ``packid`` of what makes wheels: caches go by them.
"""

from __future__ import annotations
