"""What ninja runs for a source: gives its job to the foreman of this build, and ends as the job ended.

In: the path of a job's description. Out: an exit code. ninja runs it in the work folder, where the foreman listens.
A build runs this once per source, so it imports next to nothing: it starts in a tenth of the time that
a worker of its own would need for its imports.

    python -I -S aot/engine/ninjaclient.py jobs/softmax.json
"""

from __future__ import annotations

# The whole of `socket` takes as long to import as Python takes to start.
import _socket
import sys

ADDRESS = ".foreman"
"""Socket in the work folder; relative, since addresses may have 107 bytes only."""


def main() -> int:
    """The exit code of the job."""
    try:
        with_foreman = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        with_foreman.connect(ADDRESS)
        with_foreman.send(sys.argv[1].encode() + b"\n")
        answer = with_foreman.recv(1)
    except OSError as error:
        sys.stderr.write(f"no foreman answers ({error.strerror}): `aot build` runs one, ninja alone does not\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return answer[0] if answer else 1


if __name__ == "__main__":
    sys.exit(main())
