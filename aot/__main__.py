"""``python -m aot``: the command line."""

from __future__ import annotations

from aot.cli import main

if __name__ == "__main__":
    main()
