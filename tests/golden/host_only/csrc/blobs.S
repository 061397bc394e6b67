/* Made by aot 0.1.0. The GPU code: one fatbin per source, once, read-only. */
        .section .note.GNU-stack,"",%progbits
