/* The runtime of tests/cpurun.py: what compiled tensor-level host code calls, with memory of the CPU.
 *
 * "Device memory" is one mapping that cannot be accessed except between cpurun_enter and cpurun_leave, which
 * stand around every kernel: host code that touches it dies. Fresh memory is filled with 0xCD, so that a read of what
 * nobody wrote shows. Each block ends in a guard. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_RESULTS = 32, MAX_RANK = 16, MAX_LIVE = 4096, GUARD = 64 };
typedef struct { void *alloc, *aligned; int64_t offset, size, stride; } bytes;
typedef struct { char *memory; int64_t size; } block;

static jmp_buf unwind;
static char error_text[256];
static block live[MAX_LIVE];
static int nlive;
static int64_t allocations, frees, loads;
static int64_t extents[MAX_RANK];
static int64_t nextents;

struct result { char *memory; int64_t bytes, rank, extents[MAX_RANK]; };
struct result cpurun_results[MAX_RESULTS];

static char *arena;
static int64_t arena_used;
enum { ARENA = 1 << 30 };

void cpurun_enter(void) { if (arena) mprotect(arena, ARENA, PROT_READ | PROT_WRITE); }
void cpurun_leave(void) { if (arena) mprotect(arena, ARENA, PROT_NONE); }

static _Noreturn void fail(const char *text, int64_t number) {
  snprintf(error_text, sizeof error_text, "%s %lld", text, (long long)number);
  longjmp(unwind, 1);
}

static char *take(int64_t size) {
  if (size < 0) fail("negative size", size);
  if (!arena) arena = mmap(NULL, ARENA, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  int64_t whole = (size + GUARD + 255) / 256 * 256;
  if (size > ARENA || arena_used + whole > ARENA) fail("out of memory", size);
  char *memory = arena + arena_used;
  arena_used += whole;
  cpurun_enter();
  memset(memory, 0xCD, size);
  memset(memory + size, 0xAB, GUARD);
  cpurun_leave();
  return memory;
}

/* Device memory of an argument; not counted as the call's own. */
void *cpurun_take(int64_t size) { return take(size); }

static void check_guard(const char *memory, int64_t size) {
  for (int i = 0; i < GUARD; i++)
    if ((unsigned char)memory[size + i] != 0xAB) { fprintf(stderr, "cpurun: write past a block\n"); abort(); }
}

void _mlir_ciface_aot_rt_alloc(bytes *out, int64_t size) {
  char *memory = take(size);
  if (nlive == MAX_LIVE) fail("too many live blocks", nlive);
  live[nlive++] = (block){memory, size};
  allocations++;
  *out = (bytes){memory, memory, 0, size, 1};
}

void aot_rt_free(int64_t address) {
  for (int i = 0; i < nlive; i++)
    if ((int64_t)live[i].memory == address) {
      cpurun_enter();
      check_guard(live[i].memory, live[i].size);
      memset(live[i].memory, 0xDD, live[i].size);
      cpurun_leave();
      live[i] = live[--nlive];
      frees++;
      return;
    }
  fprintf(stderr, "cpurun: free of memory that is not an own block\n");
  abort();
}

void aot_rt_result_extent(int64_t k, int64_t axis, int64_t extent) {
  (void)k;
  extents[axis] = extent;
  nextents = axis + 1;
}

void _mlir_ciface_aot_rt_result(bytes *out, int64_t k, int64_t size) {
  struct result *r = &cpurun_results[k];
  r->memory = take(size);
  r->bytes = size;
  r->rank = nextents;
  memcpy(r->extents, extents, sizeof extents);
  nextents = 0;
  *out = (bytes){r->memory, r->memory, 0, size, 1};
}

#define LOAD(bits)                                   \
  int##bits##_t aot_rt_load_i##bits(int64_t address) { \
    loads++;                                         \
    cpurun_enter();                                  \
    int##bits##_t value = *(int##bits##_t *)address; \
    cpurun_leave();                                  \
    return value;                                    \
  }
LOAD(8)
LOAD(16)
LOAD(32)
LOAD(64)

/* As on the smallest of the GPUs. */
int64_t aot_rt_shared_limit(void) { return 99 * 1024; }
int64_t aot_rt_multiprocessors(void) { return 4; }

/* The one need that the image serves, besides none: a test sets it to have such kernels run. */
int32_t cpurun_serves;
int32_t aot_rt_serves(int32_t needs) { return needs == cpurun_serves; }

void aot_rt_assert(_Bool ok, int32_t message) {
  if (!ok) fail("assertion", message);
}

_Noreturn void aot_rt_refuse(int32_t message, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  snprintf(error_text, sizeof error_text, "refused %d %lld %lld %lld %lld %lld", message, (long long)a, (long long)b, (long long)c,
           (long long)d, (long long)e);
  longjmp(unwind, 1);
}

/* libgcc 12 has no conversion to bf16; it travels in the register of a _Float16. */
_Float16 __truncsfbf2(float value) {
  uint32_t bits;
  uint16_t half;
  _Float16 out;
  memcpy(&bits, &value, 4);
  half = value != value ? 0x7fc0 : (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  memcpy(&out, &half, 2);
  return out;
}

/* Arguments are in device memory already; afterwards everything may be read. */
const char *cpurun_call(void (*entry)(void **), void **slots) {
  memset(cpurun_results, 0, sizeof cpurun_results);
  error_text[0] = 0;
  nlive = 0;
  nextents = 0;
  allocations = frees = loads = 0;
  cpurun_leave();
  if (!setjmp(unwind)) entry(slots);
  cpurun_enter();
  for (int i = 0; i < MAX_RESULTS; i++)
    if (cpurun_results[i].memory) check_guard(cpurun_results[i].memory, cpurun_results[i].bytes);
  for (int i = 0; i < nlive; i++) check_guard(live[i].memory, live[i].size);
  return error_text[0] ? error_text : NULL;
}

/* Forgets all memory, and says how many blocks the call left behind. */
int cpurun_sweep(void) {
  int left = nlive;
  nlive = 0;
  arena_used = 0;
  return left;
}

int64_t cpurun_allocations(void) { return allocations; }
int64_t cpurun_loads(void) { return loads; }
