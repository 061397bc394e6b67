/* Blocks of threads that wait for each other, on one CPU: each thread is a fiber.
 *
 * cpurun_launch runs a kernel for every block. A barrier, and each exchange of values between threads, suspends a fiber
 * until all others of its block have come to the same point; a fiber that waits at another one is an error. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { MAX_THREADS = 1024, STACK = 64 * 1024, WARP = 32, SHARED = 256 * 1024 };
typedef void kernel(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
typedef struct { void *alloc, *aligned; int64_t offset, size, stride; } bytes;

static ucontext_t scheduler, fibers[MAX_THREADS];
static char *stacks;
static int done[MAX_THREADS], waits[MAX_THREADS];
static int64_t posted[MAX_THREADS], current, threads;
static kernel *running;
static int64_t ids[3], sizes[3];
static _Alignas(16) char shared[SHARED];
static int64_t shared_size;

static void thread_main(void) {
  int64_t me = current;
  running(ids[0], ids[1], ids[2], me % sizes[0], me / sizes[0] % sizes[1], me / (sizes[0] * sizes[1]));
  done[me] = 1;
  swapcontext(&fibers[me], &scheduler);
}

static void wait_at(int kind) {
  int64_t me = current;
  waits[me] = kind;
  swapcontext(&fibers[me], &scheduler);
  current = me;
}

void cpurun_barrier(void) { wait_at(1); }

/* The value that the thread whose number differs by an exclusive or has posted. */
int64_t cpurun_exchange(int64_t value, int32_t mask) {
  int64_t me = current;
  posted[me] = value;
  wait_at(2);
  int64_t other = (me / WARP) * WARP + ((me % WARP) ^ mask);
  int64_t got = other < threads ? posted[other] : -1;
  wait_at(3);
  return got;
}

void _mlir_ciface_cpurun_shared(bytes *out) { *out = (bytes){shared, shared, 0, shared_size, 1}; }

static void run_block(int backwards) {
  for (int64_t t = 0; t < threads; t++) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks + t * STACK;
    fibers[t].uc_stack.ss_size = STACK;
    makecontext(&fibers[t], thread_main, 0);
    done[t] = waits[t] = 0;
  }
  memset(shared, 0xCD, shared_size < SHARED ? shared_size : SHARED);
  for (int64_t left = threads; left;) {
    int kind = -1;
    for (int64_t n = 0; n < threads; n++) {
      int64_t t = backwards ? threads - 1 - n : n;
      if (done[t]) continue;
      current = t;
      swapcontext(&scheduler, &fibers[t]);
      if (done[t]) left--;
      int now = done[t] ? 0 : waits[t];
      if (kind < 0) kind = now;
      if (kind != now) { fprintf(stderr, "cpurun: threads of a block wait at different points\n"); abort(); }
    }
  }
}

void cpurun_launch(kernel *function, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz,
                   int64_t dynamic, int32_t backwards) {
  if (!stacks) stacks = malloc((size_t)MAX_THREADS * STACK);
  threads = bx * by * bz;
  if (threads > MAX_THREADS || dynamic > SHARED) { fprintf(stderr, "cpurun: a block that no GPU has\n"); abort(); }
  running = function;
  shared_size = dynamic;
  sizes[0] = bx, sizes[1] = by, sizes[2] = bz;
  for (int64_t n = 0; n < gx * gy * gz; n++) {
    int64_t b = backwards ? gx * gy * gz - 1 - n : n;
    ids[0] = b % gx, ids[1] = b / gx % gy, ids[2] = b / (gx * gy);
    run_block(backwards);
  }
}
