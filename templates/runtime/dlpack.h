/* What we need of DLPack 1.3: tensors, managed tensors (versioned and old), and the C exchange API that array types offer.
 * Own declarations of a published interface: only names, layouts and values are fixed. */
#ifndef AOT_DLPACK_H
#define AOT_DLPACK_H
#include <stdint.h>

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };
enum { DL_READ_ONLY = 1, DL_COPIED = 2 };                      /* bits of dl_managed.flags */
enum { DL_MAJOR = 1, DL_MINOR = 1 };                           /* the newest version whose managed tensors we know */

typedef struct { int32_t type, id; } dl_device;
typedef struct { uint8_t code, bits; uint16_t lanes; } dl_dtype;
typedef struct { uint32_t major, minor; } dl_version;

typedef struct {
  void *data;
  dl_device device;
  int32_t rank;
  dl_dtype dtype;
  int64_t *shape, *strides;                                    /* elements; strides NULL: row-major */
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {                                    /* capsule "dltensor_versioned" */
  dl_version version;
  void *context;
  void (*deleter)(struct dl_managed *self);
  uint64_t flags;
  dl_tensor tensor;
} dl_managed;

typedef struct dl_managed_old {                                /* capsule "dltensor" */
  dl_tensor tensor;
  void *context;
  void (*deleter)(struct dl_managed_old *self);
} dl_managed_old;

typedef struct dl_exchange_header { dl_version version; struct dl_exchange_header *previous; } dl_exchange_header;

typedef struct dl_exchange {                                   /* capsule "dlpack_exchange_api"; all return 0, or -1 with an error set */
  dl_exchange_header header;
  int (*allocate)(dl_tensor *prototype, dl_managed **out, void *context, void (*set_error)(void *context, const char *kind, const char *message));
  int (*managed_from_object)(void *object, dl_managed **out);
  int (*object_from_managed)(dl_managed *tensor, void **out);  /* takes the tensor over */
  int (*tensor_from_object)(void *object, dl_tensor *out);     /* borrowed; may be NULL */
  int (*current_stream)(int32_t device_type, int32_t device, void **out);
} dl_exchange;

#endif
