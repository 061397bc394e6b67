/* The threads of CPU code: aot_rt_parallel shares a loop among the caller and a pool of helpers.
 *
 * The pool is made at the first loop that is worth it, has as many threads as AOT_NUM_THREADS or the affinity mask says, and is
 * never taken down: idle helpers sleep, and a process may end under them. One loop uses it at a time. A loop that finds it
 * taken (by a call of another Python thread) or that is part of another loop runs on its own thread: the processors are busy
 * anyway. A forked child has no helpers and makes its own. Helpers keep signals to the main thread, and floating point as the
 * caller has it (rounding, denormals), so that results do not depend on who computed what. */
#define _GNU_SOURCE
#include "aot.h"
#include <fenv.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { MAX_THREADS = 1024, PARTS_PER_THREAD = 4, STACK_BYTES = 8 << 20, SPIN_NANOSECONDS = 20000 };

typedef struct {                                               /* one loop; lives on its caller's stack */
  void (*body)(int64_t begin, int64_t end, void *context);
  void *context;
  int64_t count, part;
  int64_t next;                                                /* atomic: where the next part begins */
  int active;                                                  /* helpers at work; changed under the lock, read without it */
  fenv_t arithmetic;
} loop;

static struct {
  pthread_mutex_t lock;
  pthread_cond_t work, done;
  int taken;                                                   /* atomic: 1 while a loop has the pool */
  int helpers, sleeping;                                       /* threads that were started; those that wait for `work` */
  int seats;                                                   /* helpers that may still join `current` */
  unsigned turn;                                               /* atomic to read: grows with each loop */
  loop *current;
} pool = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0, 0, 0, NULL };

static _Thread_local int inside;                               /* this thread runs a part of a loop */

/* ------------------------------------------------------------------ how many */

static int from_affinity(void) {
  for (int bits = 1024; bits <= 1 << 16; bits *= 4) {          /* the kernel refuses masks that are too small for its own */
    cpu_set_t *set = CPU_ALLOC((size_t)bits);
    size_t size = CPU_ALLOC_SIZE((size_t)bits);
    if (!set) break;
    int count = sched_getaffinity(0, size, set) ? 0 : CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (count > 0) return count;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)(online < MAX_THREADS ? online : MAX_THREADS) : 1;
}

static int from_environment(void) {
  const char *text = getenv("AOT_NUM_THREADS");
  char *end = NULL;
  long number = text ? strtol(text, &end, 10) : 0;
  return text && *text && !*end && number > 0 ? (int)(number < MAX_THREADS ? number : MAX_THREADS) : 0;
}

int aot_cpu_threads(void) {
  static int known;
  int threads = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (threads) return threads;
  threads = from_environment();
  if (!threads) threads = from_affinity();
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  __atomic_store_n(&known, threads, __ATOMIC_RELAXED);
  return threads;
}

/* ------------------------------------------------------------------ waiting */

static void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* A short while without the kernel, which takes longer to wake a thread: 1 when *at is no longer `old`. */
static int changes_soon(const unsigned *at, unsigned old) {
  int64_t limit = now() + SPIN_NANOSECONDS;
  do {
    for (int i = 0; i < 32; i++) {
      if (__atomic_load_n(at, __ATOMIC_ACQUIRE) != old) return 1;
      pause_briefly();
    }
  } while (now() < limit);
  return 0;
}

static void ends_soon(const int *active) {
  int64_t limit = now() + SPIN_NANOSECONDS;
  do
    for (int i = 0; i < 32 && __atomic_load_n(active, __ATOMIC_ACQUIRE); i++) pause_briefly();
  while (__atomic_load_n(active, __ATOMIC_ACQUIRE) && now() < limit);
}

/* ------------------------------------------------------------------ work */

static void run_parts(loop *l) {
  inside = 1;
  for (;;) {
    int64_t begin = __atomic_fetch_add(&l->next, l->part, __ATOMIC_RELAXED);
    if (begin >= l->count) break;
    int64_t left = l->count - begin;
    l->body(begin, begin + (left < l->part ? left : l->part), l->context);
  }
  inside = 0;
}

static void *help(void *first_turn) {
  unsigned seen = (unsigned)(uintptr_t)first_turn;
  for (;;) {
    changes_soon(&pool.turn, seen);
    pthread_mutex_lock(&pool.lock);
    while (pool.turn == seen) {
      pool.sleeping++;
      pthread_cond_wait(&pool.work, &pool.lock);
      pool.sleeping--;
    }
    seen = pool.turn;
    loop *l = pool.seats > 0 ? pool.current : NULL;
    if (l) {
      pool.seats--;
      __atomic_store_n(&l->active, l->active + 1, __ATOMIC_RELAXED);
    }
    pthread_mutex_unlock(&pool.lock);
    if (!l) continue;
    fesetenv(&l->arithmetic);
    run_parts(l);
    pthread_mutex_lock(&pool.lock);
    __atomic_store_n(&l->active, l->active - 1, __ATOMIC_RELEASE);
    if (!l->active) pthread_cond_signal(&pool.done);           /* the loop's memory may be gone after the unlock */
    pthread_mutex_unlock(&pool.lock);
  }
  return NULL;
}

/* Called by whoever has the pool. Fewer threads than wanted is no error: the caller can do it all. */
static void start_helpers(int wanted) {
  pthread_attr_t attributes;
  sigset_t all, before;
  if (pool.helpers >= wanted || pthread_attr_init(&attributes)) return;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (pthread_t thread; pool.helpers < wanted; pool.helpers++)
    if (pthread_create(&thread, &attributes, help, (void *)(uintptr_t)pool.turn)) break;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
}

static void share(loop *l, int helpers) {
  start_helpers(helpers);
  fegetenv(&l->arithmetic);
  pthread_mutex_lock(&pool.lock);
  pool.current = l;
  pool.seats = helpers;
  __atomic_store_n(&pool.turn, pool.turn + 1, __ATOMIC_RELEASE);
  int wake = pool.sleeping < helpers ? pool.sleeping : helpers;
  if (wake == pool.sleeping) pthread_cond_broadcast(&pool.work);
  else for (int i = 0; i < wake; i++) pthread_cond_signal(&pool.work);
  pthread_mutex_unlock(&pool.lock);
  run_parts(l);
  ends_soon(&l->active);
  pthread_mutex_lock(&pool.lock);
  pool.current = NULL;                                         /* nobody joins any more */
  pool.seats = 0;
  while (l->active) pthread_cond_wait(&pool.done, &pool.lock);
  pthread_mutex_unlock(&pool.lock);
}

void aot_rt_parallel(void (*body)(int64_t begin, int64_t end, void *context), void *context, int64_t count, int64_t grain) {
  if (count <= 0) return;
  if (grain < 1) grain = 1;
  int64_t grains = (count - 1) / grain + 1, threads = aot_cpu_threads();
  if (threads > grains) threads = grains;
  if (threads < 2 || inside || __atomic_exchange_n(&pool.taken, 1, __ATOMIC_ACQUIRE)) {
    body(0, count, context);
    return;
  }
  int64_t parts = threads * PARTS_PER_THREAD;
  loop l = { .body = body, .context = context, .count = count, .part = (grains - 1) / parts + 1 };
  l.part = l.part > count / grain ? count : l.part * grain;    /* never past INT64_MAX */
  share(&l, (int)threads - 1);
  __atomic_store_n(&pool.taken, 0, __ATOMIC_RELEASE);
}

/* ------------------------------------------------------------------ fork */

/* Helpers do not exist in the child, and the lock may be held by a thread that does not either: everything begins anew. */
static void begin_anew(void) {
  static const pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  static const pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
  pool.lock = lock;
  pool.work = pool.done = condition;
  pool.taken = pool.helpers = pool.sleeping = pool.seats = 0;
  pool.current = NULL;
}

__attribute__((constructor)) static void watch_forks_of_threads(void) { pthread_atfork(NULL, NULL, begin_anew); }
