"""Attention: scores, softmax and weighted sum as one kernel.

Where it is       ``attentionchain``, ``divided``
Which kernel      ``attention`` (branches), ``attentionpick``
Which keys count  ``causal``, ``placesums``, ``sight``
What they share   ``scaled``, ``onlinesoftmax``
On Hopper         ``flash``, ``flashpick``, ``flashjob``, ``flashconsumer``
By ``mma.sync``   ``mmaflash``, ``flashwarp``, ``flashcopies``
Few queries       ``decode``, ``hopperdecode``, ``decodemerge``, ``decodeparts``
"""

from __future__ import annotations
