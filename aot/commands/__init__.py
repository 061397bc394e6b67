"""What the commands do: ``aot.cli`` reads their options and shows their errors.

In: options as values. Out: text, tables and files for people. Commands call ``aot.pipeline`` and built packages
(``aot.verifying``); nothing but the command line imports them.

The command line     ``clickgroup`` (all commands), ``packagecommands``, ``cachecommand``
This machine         ``doctor``
A folder to begin    ``scaffold``
What is in packages  ``inspection``
Packages are called  ``verify``, ``demo``, ``bench`` with ``chart``; ``aot tune`` is in ``aot.tuning``
"""

from __future__ import annotations
