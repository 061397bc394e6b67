/* The part of XLA's C ABI for foreign functions (API version 0.x) that a handler needs, in declarations of our own. Sizes travel in
 * the structs, and fields are only added at their ends. */
#ifndef AOT_FFI_XLA_H
#define AOT_FFI_XLA_H
#include <stddef.h>
#include <stdint.h>

typedef struct xla_extension { size_t size; int type; struct xla_extension *next; } xla_extension;
typedef struct { size_t size; xla_extension *extensions; int major, minor; } xla_version;
typedef struct { size_t size; xla_version version; uint32_t traits; int64_t state_type; } xla_metadata;
typedef struct { xla_extension base; xla_metadata *metadata; } xla_metadata_extension;
typedef struct { size_t size; xla_extension *extensions; int dtype; void *data; int64_t rank, *dims; } xla_buffer;
typedef struct { size_t size; xla_extension *extensions; int64_t count; int *types; void **values; } xla_values;
typedef struct { const char *text; size_t length; } xla_span;
typedef struct { int dtype; void *value; } xla_scalar;
typedef struct { size_t size; xla_extension *extensions; int64_t count; int *types; xla_span **names; void **values; } xla_attributes;
typedef struct { size_t size; xla_extension *extensions; const char *message; int code; } xla_error_arguments;
typedef struct { size_t size; xla_extension *extensions; void *context, *stream; } xla_stream_arguments;

typedef struct {
  size_t size;
  xla_extension *extensions;
  xla_version version;
  const void *internal;
  void *(*error_create)(xla_error_arguments *);
  void *error_message, *error_destroy, *handler_register;
  void *(*stream_get)(xla_stream_arguments *);                 /* an error, or NULL */
} xla_api;

typedef struct {
  size_t size;
  xla_extension *extensions;
  const xla_api *api;
  void *context;
  int stage;
  xla_values args, results;
  xla_attributes attributes;
} xla_frame;

enum { XLA_METADATA = 1 };                                      /* xla_extension.type */
enum { XLA_EXECUTE = 3 };                                       /* xla_frame.stage */
enum { XLA_BUFFER = 1, XLA_SCALAR = 3 };                        /* types of arguments; of attributes */
enum { XLA_S64 = 5, XLA_F64 = 12 };                             /* element types that attributes have */
enum { XLA_INVALID_ARGUMENT = 3, XLA_INTERNAL = 13 };           /* codes of errors */

#endif
