"""Products of matrices, and attention, from tensor level: found, brought into one form, and given to a kernel.

In: functions after buffers are settled (``dispatch``). Out: the same with ``gpu.launch`` in place of what a kernel
covers.

``dispatch``    contractions on buffers, one after the other
``products``    what is a product; the Problem that all kernels take
``attention``   two products with a softmax between them: what they are, and their kernels
``choice``      which units compute a problem; ``productwishes``: what ``aot.toml`` says of it
``wgmma``       kernels on Hopper's tensor cores
``mma``         kernels on tensor cores by ``mma.sync``
``simt``        kernels on ordinary units, and for one row
``packing``     factors that asynchronous copies cannot read are copied first, some through ``turning``, bytes through
                ``turnedbytes``
``codegen``     what kernels are written with
"""

from __future__ import annotations
