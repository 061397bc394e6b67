/* Between the functions of the generated header and the runtime (c_call.c). */
#ifndef AOT_C_CALL_H
#define AOT_C_CALL_H
#include "aot.h"
#include "dlpack.h"

/* An entry per argument and per result: a dl_tensor, or the address of a number; results that are arguments are not looked at. */
int aot_c_call(const aot_function *function, const void *const *args, void *const *results, void *stream);
const char *aot_c_error(void);                                 /* of this thread's last call */
int aot_c_free(dl_tensor *array, void *stream);                /* memory that a call allocated */

#endif
