// wgmma exists on sm_90a only.
gpu.module @m {
  gpu.func @fence(%out: memref<1xf32>) kernel {
    nvvm.wgmma.fence.aligned
    nvvm.wgmma.commit.group.sync.aligned
    nvvm.wgmma.wait.group.sync.aligned 0
    %c0 = arith.constant 0 : index
    %v = arith.constant 1.0 : f32
    memref.store %v, %out[%c0] : memref<1xf32>
    gpu.return
  }
}
