"""Attention: scores, softmax and weighted sum as one kernel.

Where it is       ``attentionchain``
Which kernel      ``attention`` (branches), ``attentionpick``
What they share   ``scaled``, ``causal``, ``onlinesoftmax``
On Hopper         ``flash``, ``flashpick``, ``flashjob``, ``flashconsumer``
By ``mma.sync``   ``mmaflash``, ``flashwarp``, ``flashcopies``
Few queries       ``decode``, ``hopperdecode``, ``decodemerge``, ``decodeparts``
"""

from __future__ import annotations
