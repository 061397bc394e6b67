/* Memory of the fake: host memory that remembers what kind of device memory it plays. New memory is full of 0xCD. */
#define _GNU_SOURCE
#include "fake.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct { uintptr_t base; size_t bytes; int id, kind, device; } block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *blocks;
static int nblocks, room, last_id, bad_frees, last_pool;
static size_t used;
static _Thread_local char name_buffer[4][32];
static _Thread_local int name_turn;

static block *find(uintptr_t address) {
  for (int i = 0; i < nblocks; i++)
    if (address >= blocks[i].base && address < blocks[i].base + blocks[i].bytes) return &blocks[i];
  return NULL;
}

const char *fake_address_name(CUdeviceptr address) {
  char *name = name_buffer[name_turn++ & 3];
  pthread_mutex_lock(&lock);
  const block *one = find((uintptr_t)address);
  size_t offset = one ? (uintptr_t)address - one->base : 0;
  if (!one) snprintf(name, 32, address ? "host" : "null");
  else if (offset) snprintf(name, 32, "m%d+%zu", one->id, offset);
  else snprintf(name, 32, "m%d", one->id);
  pthread_mutex_unlock(&lock);
  return name;
}

static int keep(uintptr_t base, size_t bytes, int kind, int device) {
  if (nblocks == room) {
    int more = room ? 2 * room : 64;
    block *bigger = realloc(blocks, (size_t)more * sizeof *bigger);
    if (!bigger) return CUDA_ERROR_OUT_OF_MEMORY;
    blocks = bigger;
    room = more;
  }
  blocks[nblocks++] = (block){ base, bytes, ++last_id, kind, device };
  if (kind != FAKE_REGISTERED) used += bytes;
  return 0;
}

static int take(CUdeviceptr *address, size_t bytes, int kind) {
  void *memory = NULL;
  int code = fake_ready();
  if (code) return code;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  if (used + bytes > (size_t)fake.memory || posix_memalign(&memory, 256, bytes)) code = CUDA_ERROR_OUT_OF_MEMORY;
  if (!code) {
    memset(memory, 0xCD, bytes);
    code = keep((uintptr_t)memory, bytes, kind, fake_current()->device);
  }
  pthread_mutex_unlock(&lock);
  *address = (uintptr_t)memory;
  return code;
}

static int give_back(uintptr_t address, int kinds) {
  int code = 0;
  pthread_mutex_lock(&lock);
  block *one = find(address);
  if (!one || one->base != address || !(kinds & 1 << one->kind)) {
    bad_frees++;
    code = CUDA_ERROR_INVALID_VALUE;
  } else {
    if (one->kind != FAKE_REGISTERED) {
      used -= one->bytes;
      memset((void *)one->base, 0xDD, one->bytes);
      free((void *)one->base);
    }
    *one = blocks[--nblocks];
  }
  pthread_mutex_unlock(&lock);
  return code;
}

long fake_live(int kind) {                                     /* 0: of every kind */
  long n = 0;
  for (int i = 0; i < nblocks; i++) n += !kind || blocks[i].kind == kind;
  return n;
}

long fake_bad_frees(void) { return bad_frees; }

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
  CALL(" ");
  *total_bytes = (size_t)fake.memory;
  *free_bytes = (size_t)fake.memory - used;
  return 0;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  CALL("%zu", bytes);
  int code = fake_prohibited();
  return code ? code : take(address, bytes, FAKE_PLAIN);
}
CUresult cuMemFree_v2(CUdeviceptr address) {
  CALL("%s", fake_address_name(address));
  int code = fake_prohibited();
  return code ? code : give_back((uintptr_t)address, 1 << FAKE_PLAIN | 1 << FAKE_MANAGED | 1 << FAKE_POOLED);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t bytes, unsigned flags) {
  CALL("%zu", bytes);
  return flags == CU_MEM_ATTACH_GLOBAL ? take(address, bytes, FAKE_MANAGED) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned flags) {
  CALL("%zu", bytes);
  (void)flags;
  pthread_mutex_lock(&lock);
  int code = !bytes ? CUDA_ERROR_INVALID_VALUE : find((uintptr_t)address) ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
             : keep((uintptr_t)address, bytes, FAKE_REGISTERED, fake_current() ? fake_current()->device : 0);
  pthread_mutex_unlock(&lock);
  return code;
}

CUresult cuMemHostUnregister(void *address) {
  CALL("%s", fake_address_name((uintptr_t)address));
  return give_back((uintptr_t)address, 1 << FAKE_REGISTERED);
}

/* ------------------------------------------------------------------ pools */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props) {
  CALL("device %d", props->locationId);
  if (!fake.pools) return CUDA_ERROR_NOT_SUPPORTED;
  if (props->allocType != CU_POOL_ALLOCATION_PINNED || props->locationType != CU_POOL_LOCATION_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  *pool = calloc(1, sizeof **pool);
  **pool = (struct CUmemPoolHandle_st){ ++last_pool, props->locationId, 0 };
  return 0;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, int attribute, void *value) {
  CALL("pool%d %d", pool->id, attribute);
  if (attribute == CU_POOL_RELEASE_THRESHOLD) memcpy(&pool->threshold, value, 8);
  return 0;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t bytes) { CALL("pool%d %zu", pool->id, bytes); return 0; }

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t bytes, CUmemoryPool pool, CUstream stream) {
  CALL("%zu pool%d %s", bytes, pool->id, fake_stream_name(stream));
  if (fake_ready() || pool->device != fake_current()->device) return CUDA_ERROR_INVALID_VALUE;
  return take(address, bytes, FAKE_POOLED);
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  CALL("%s %s", fake_address_name(address), fake_stream_name(stream));
  if (!fake.pools) return CUDA_ERROR_NOT_SUPPORTED;
  return give_back((uintptr_t)address, 1 << FAKE_POOLED | 1 << FAKE_PLAIN);
}

/* ------------------------------------------------------------------ copies, done at once */

static CUresult copy(void *target, const void *source, size_t bytes) { memmove(target, source, bytes); return 0; }

CUresult cuMemcpyAsync(CUdeviceptr target, CUdeviceptr source, size_t bytes, CUstream stream) {
  CALL("%s <- %s %zu %s", fake_address_name(target), fake_address_name(source), bytes, fake_stream_name(stream));
  return copy((void *)(uintptr_t)target, (void *)(uintptr_t)source, bytes);
}

CUresult cuMemcpyDtoHAsync_v2(void *target, CUdeviceptr source, size_t bytes, CUstream stream) {
  CALL("%s %zu %s", fake_address_name(source), bytes, fake_stream_name(stream));
  pthread_mutex_lock(&lock);
  int known = find((uintptr_t)source) != NULL;
  pthread_mutex_unlock(&lock);
  return known || fake_is_constant(source) ? copy(target, (void *)(uintptr_t)source, bytes) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr target, const void *source, size_t bytes, CUstream stream) {
  CALL("%s %zu %s", fake_address_name(target), bytes, fake_stream_name(stream));
  return copy((void *)(uintptr_t)target, source, bytes);
}

#define MEMSET(name, type) \
  CUresult name(CUdeviceptr target, type value, size_t count, CUstream stream) { \
    CALL("%s %zu %s", fake_address_name(target), count, fake_stream_name(stream)); \
    for (size_t i = 0; i < count; i++) memcpy((char *)(uintptr_t)target + i * sizeof value, &value, sizeof value); \
    return 0; \
  }
MEMSET(cuMemsetD8Async, unsigned char)
MEMSET(cuMemsetD16Async, unsigned short)
MEMSET(cuMemsetD32Async, unsigned)

CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr address) {
  CALL("%s %d", fake_address_name(address), attribute);
  pthread_mutex_lock(&lock);
  const block *one = find((uintptr_t)address);
  int known = one != NULL, answer = 0;
  if (known && attribute == CU_POINTER_MEMORY_TYPE) answer = one->kind == FAKE_REGISTERED ? CU_MEMORY_HOST : CU_MEMORY_DEVICE;
  if (known && attribute == CU_POINTER_IS_MANAGED) answer = one->kind == FAKE_MANAGED;
  if (known && attribute == CU_POINTER_DEVICE_ORDINAL) answer = one->device;
  pthread_mutex_unlock(&lock);
  if (!known) return CUDA_ERROR_INVALID_VALUE;
  *(int *)value = answer;                                      /* the driver, too, writes 4 bytes for each of these */
  return 0;
}
