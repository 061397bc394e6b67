/* The runtime of tests/cpucall.py: what CPU code calls.
 *
 * aot_rt_parallel is unkind: it splits the iterations into uneven parts, runs them last part first and on four threads, and
 * memory is filled with 0xCD, aligned for one element only, and ends in a guard. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RESULTS = 32, MAX_RANK = 16, MAX_LIVE = 4096, GUARD = 64, SKEW = 16 };
typedef struct { void *alloc, *aligned; int64_t offset, size, stride; } bytes;
typedef struct { char *memory; int64_t size; } block;

static jmp_buf unwind;
static char error_text[256];
static block live[MAX_LIVE];
static int nlive, nextents, inside;
static int64_t extents[MAX_RANK];
int cpucall_threads = 4, cpucall_split = 1;
int64_t cpucall_regions;
static int allocations;

struct result { char *memory; int64_t bytes, rank, extents[MAX_RANK]; };
struct result cpucall_results[MAX_RESULTS];

static _Noreturn void fail(const char *text, int64_t number) {
  if (inside) { fprintf(stderr, "cpucall: %s in a parallel body\n", text); abort(); }
  snprintf(error_text, sizeof error_text, "%s %lld", text, (long long)number);
  longjmp(unwind, 1);
}

static char *take(int64_t size) {
  if (size < 0) fail("negative size", size);
  if (size > (int64_t)1 << 34) fail("out of memory", size);
  char *memory = malloc(size + GUARD + SKEW);
  if (!memory) fail("out of memory", size);
  memory += SKEW;
  if (size < 1 << 24) memset(memory, 0xCD, size);
  memset(memory + size, 0xAB, GUARD);
  return memory;
}

static void check_guard(block each) {
  for (int i = 0; i < GUARD; i++)
    if ((unsigned char)each.memory[each.size + i] != 0xAB) { fprintf(stderr, "cpucall: write past a block\n"); abort(); }
}

void *_mlir_memref_to_llvm_alloc(size_t size) {
  if (nlive == MAX_LIVE) fail("too many live blocks", nlive);
  char *memory = take((int64_t)size);
  allocations++;
  live[nlive++] = (block){memory, (int64_t)size};
  return memory;
}

void *_mlir_memref_to_llvm_aligned_alloc(size_t alignment, size_t size) {
  (void)alignment;
  return _mlir_memref_to_llvm_alloc(size);
}

void _mlir_memref_to_llvm_free(void *address) {
  if (inside) fail("free", 0);
  for (int i = 0; i < nlive; i++)
    if (live[i].memory == address) {
      check_guard(live[i]);
      free(live[i].memory - SKEW);
      live[i] = live[--nlive];
      return;
    }
  fprintf(stderr, "cpucall: free of memory that is not an own block\n");
  abort();
}

void aot_rt_result_extent(int64_t k, int64_t axis, int64_t extent) {
  (void)k;
  extents[axis] = extent;
  nextents = (int)axis + 1;
}

void _mlir_ciface_aot_rt_result(bytes *out, int64_t k, int64_t size) {
  struct result *r = &cpucall_results[k];
  r->memory = take(size);
  r->bytes = size;
  r->rank = nextents;
  memcpy(r->extents, extents, sizeof extents);
  nextents = 0;
  *out = (bytes){r->memory, r->memory, 0, size, 1};
}

void aot_rt_assert(_Bool ok, int32_t message) {
  if (!ok) fail("assertion", message);
}

_Noreturn void aot_rt_refuse(int32_t message, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e) {
  if (inside) { fprintf(stderr, "cpucall: refused in a parallel body\n"); abort(); }
  snprintf(error_text, sizeof error_text, "refused %d %lld %lld %lld %lld %lld", message, (long long)a, (long long)b, (long long)c,
           (long long)d, (long long)e);
  longjmp(unwind, 1);
}

typedef void (*body_type)(int64_t, int64_t, void *);
typedef struct { body_type body; void *context; int64_t begin, end; } part;
static void *run(void *argument) {
  part *each = argument;
  each->body(each->begin, each->end, each->context);
  return NULL;
}

void aot_rt_parallel(body_type body, void *context, int64_t count, int64_t grain) {
  if (inside || grain < 1) { fprintf(stderr, "cpucall: nested, or grain %lld\n", (long long)grain); abort(); }
  cpucall_regions++;
  if (count <= 0) return;
  inside = 1;
  int64_t pieces = cpucall_threads < count ? cpucall_threads : count;
  if (pieces == 1 || (!cpucall_split && count <= grain)) {
    body(0, count, context);
  } else {
    pthread_t threads[64];
    part parts[64];
    for (int64_t i = pieces - 1; i >= 0; i--) {
      int64_t begin = cpucall_split ? i * i * count / (pieces * pieces) : i * count / pieces;
      int64_t end = cpucall_split ? (i + 1) * (i + 1) * count / (pieces * pieces) : (i + 1) * count / pieces;
      parts[i] = (part){body, context, begin, end};
      if (i) pthread_create(&threads[i], NULL, run, &parts[i]);
    }
    run(&parts[0]);
    for (int64_t i = 1; i < pieces; i++) pthread_join(threads[i], NULL);
  }
  inside = 0;
}

const char *cpucall_call(void (*entry)(void **), void **slots) {
  memset(cpucall_results, 0, sizeof cpucall_results);
  error_text[0] = 0;
  nlive = nextents = inside = allocations = 0;
  cpucall_regions = 0;
  if (!setjmp(unwind)) entry(slots);
  for (int i = 0; i < MAX_RESULTS; i++)
    if (cpucall_results[i].memory) check_guard((block){cpucall_results[i].memory, cpucall_results[i].bytes});
  for (int i = 0; i < nlive; i++) check_guard(live[i]);
  return error_text[0] ? error_text : NULL;
}

int cpucall_allocations(void) { return allocations; }

/* Gives all memory back, and says how many blocks the call left behind. */
int cpucall_sweep(void) {
  int left = nlive;
  for (int i = 0; i < nlive; i++) free(live[i].memory - SKEW);
  for (int i = 0; i < MAX_RESULTS; i++)
    if (cpucall_results[i].memory) free(cpucall_results[i].memory - SKEW);
  memset(cpucall_results, 0, sizeof cpucall_results);
  nlive = 0;
  return left;
}
