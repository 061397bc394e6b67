/* Made by aot 0.1.0. What Python calls at import; csrc/runtime/py_module.c is the module. */
extern void *aot_py_module(void);
extern void *PyInit__my_kernels(void);
__attribute__((visibility("default"))) void *PyInit__my_kernels(void) { return aot_py_module(); }
