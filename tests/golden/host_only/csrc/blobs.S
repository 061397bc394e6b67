/* Made by aot 0.1.0. The GPU code, read-only: one fatbin per source; sources with the same code share one. */
        .section .note.GNU-stack,"",%progbits
