/* Made by aot 0.1.0. The GPU code, read-only: one fatbin per source; sources with the same code share one. */
        .section .aot_blobs,"a",%progbits
        .balign 16
        .globl aot_blob_scale
        .hidden aot_blob_scale
        .type aot_blob_scale, %object
aot_blob_scale:
        .globl aot_blob_softmax
        .hidden aot_blob_softmax
        .type aot_blob_softmax, %object
aot_blob_softmax:
        .incbin "scale.fatbin"
        .size aot_blob_scale, .-aot_blob_scale
        .size aot_blob_softmax, .-aot_blob_softmax
        .section .note.GNU-stack,"",%progbits
