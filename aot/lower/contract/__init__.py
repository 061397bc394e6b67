"""Products of matrices, and attention, from tensor level: found, brought into one form, and given to a kernel.

In: functions after buffers are settled (``dispatch``). Out: the same with ``gpu.launch`` in place of what a kernel
covers.

What is a product     ``contraction``, ``matching``, ``unfused``, ``windows`` (convolutions); ``forming`` makes a
                      ``problem`` of it, with ``extents`` and an ``epilogue``
Which kernel          ``choice``, ``kinds``, ``tensorcores``, ``wgmmafit``, ``wgmmachoice``, ``asked`` (``aot.toml``)
Sums in parts         ``splitting``
Factors copied first  ``packing``, ``turning``, ``unaligned``
One row, few rows     ``matvec``; ``wgmmaflow`` where there are many columns
Ordinary units, f64   ``registertile`` with ``numbercopies``; ``ffma`` with ``ffmacode``, ``dmma``
``mma.sync``          ``mmasync``, ``operand``
``wgmma``             ``wgmma``, ``wgmmatile``, ``wgmmacopies``, ``wgmmasums``, ``wgmmaswapped``;
                      stores: ``wgmmawriter``, ``wgmmastore``, ``wgmmarows``
Attention             ``attention``, ``attentionchain``, ``attentionpick``, ``scaled``, ``causal``, ``onlinesoftmax``
  on Hopper           ``flash``, ``flashpick``, ``flashjob``, ``flashconsumer``
  by ``mma.sync``     ``mmaflash``, ``flashwarp``, ``flashcopies``
  few queries         ``decode``, ``hopperdecode``, ``decodemerge``, ``decodeparts``
What kernels share    ``tiles`` (a launch of tiles), ``words``, ``instructions``, ``hopper``, ``boxes``, ``registers``,
                      ``sharedarray``, ``sharednumbers``
"""

from __future__ import annotations
