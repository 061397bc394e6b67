"""Tensors become buffers, and every buffer that a call makes is freed or returned.

In: linalg on tensors. Out: linalg on buffers. ``bufferize`` has the passes, with ``loopyields`` before them;
``bufferpipeline`` is the list of the steps behind them: ``expandshape``, ``constants``, ``results``, ``buffers``.
"""

from __future__ import annotations
