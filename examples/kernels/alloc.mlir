// Device memory taken and given back by launch-level code: stream ordered, from the package's own pool.

// Synchronous form.
func.func @sync() {
  %buffer = gpu.alloc () : memref<200x100x600xf32>
  gpu.dealloc %buffer : memref<200x100x600xf32>
  return
}

// The same with async tokens, each operation waiting for the one before.
func.func @with_tokens() {
  %start = gpu.wait async
  %buffer, %allocated = gpu.alloc async [%start] () : memref<10xf32>
  %freed = gpu.dealloc async [%allocated] %buffer : memref<10xf32>
  gpu.wait [%freed]
  return
}
