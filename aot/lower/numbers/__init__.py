"""Numbers that targets do not compute with by themselves, and how exactly they are computed.

Small types          ``smallfloat``, ``bytestorage``, ``minifloat``, ``codes``
How exactly          ``precision`` (tf32), ``numerics`` with ``widetensor`` (accumulation in f32)
Powers               ``powers``, ``integerpowers``
Updates              ``atomics``
Odd conversions      ``roundings``, ``scaledfloats``
"""

from __future__ import annotations
