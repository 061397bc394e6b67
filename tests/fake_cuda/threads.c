/* The thread pool of CPU code under load: a program that says what went wrong, and ends with 0 when nothing did.
 *
 *   threads            loops of many sizes, nested ones, from several threads at once, in forked children
 *   threads alone      the same without children, which ThreadSanitizer does not know
 *   threads count      how many threads took part in one long loop */
#define _GNU_SOURCE
#include "aot.h"
#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 5000, ROUNDS = 300, CALLERS = 4 };
#define CHECK(ok, ...) do { if (!(ok)) { fprintf(stderr, __VA_ARGS__); fputc('\n', stderr); _exit(1); } } while (0)

typedef struct { int64_t count, grain; unsigned char seen[MOST]; } cover;

static void mark(int64_t begin, int64_t end, void *context) {
  cover *c = context;
  CHECK(begin < end && end <= c->count, "part %lld to %lld of %lld", (long long)begin, (long long)end, (long long)c->count);
  CHECK(begin % c->grain == 0, "a part begins at %lld, grain %lld", (long long)begin, (long long)c->grain);
  CHECK(end == c->count || end % c->grain == 0, "a part ends at %lld, grain %lld", (long long)end, (long long)c->grain);
  for (int64_t i = begin; i < end; i++) c->seen[i]++;
}

static void check_cover(int64_t count, int64_t grain) {
  cover c = { .count = count, .grain = grain };
  aot_rt_parallel(mark, &c, count, grain);
  for (int64_t i = 0; i < MOST; i++)
    CHECK(c.seen[i] == (i < count), "%lld of %lld was run %d times", (long long)i, (long long)count, c.seen[i]);
}

static void nested(int64_t begin, int64_t end, void *context) {
  int64_t *sums = context;
  for (int64_t i = begin; i < end; i++) {
    check_cover(i % 100, 1 + i % 7);
    sums[i]++;
  }
}

static void *caller(void *seed) {
  unsigned state = (unsigned)(uintptr_t)seed;
  for (int i = 0; i < ROUNDS; i++) check_cover(rand_r(&state) % MOST, 1 + rand_r(&state) % 200);
  return NULL;
}

static void several_callers(void) {
  pthread_t threads[CALLERS];
  for (uintptr_t i = 0; i < CALLERS; i++) CHECK(!pthread_create(&threads[i], NULL, caller, (void *)(i + 1)), "no thread");
  for (int i = 0; i < CALLERS; i++) pthread_join(threads[i], NULL);
}

/* While other threads are in the middle of loops: what they hold must not hold the child up. */
static void children(void) {
  pthread_t busy;
  CHECK(!pthread_create(&busy, NULL, caller, (void *)7), "no thread");
  for (int i = 0; i < 5; i++) {
    pid_t child = fork();
    if (!child) {
      alarm(60);
      for (int k = 0; k < 20; k++) check_cover(MOST, 16);
      _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && !status, "a child ended with %d", status);
  }
  pthread_join(busy, NULL);
}

static void directed(int64_t begin, int64_t end, void *context) {
  for (int64_t i = begin; i < end; i++) ((int *)context)[i] = fegetround();
}

static void rounding(void) {
  static int found[MOST];
  fesetround(FE_UPWARD);
  aot_rt_parallel(directed, found, MOST, 1);
  fesetround(FE_TONEAREST);
  for (int i = 0; i < MOST; i++) CHECK(found[i] == FE_UPWARD, "element %d was rounded in another way", i);
}

static void signalled(int64_t begin, int64_t end, void *context) {
  (void)begin, (void)end;
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  CHECK(pthread_equal(pthread_self(), *(pthread_t *)context) || sigismember(&mask, SIGINT), "a helper takes signals");
}

static void slow(int64_t begin, int64_t end, void *context) {
  static _Thread_local int counted;
  (void)begin, (void)end;
  if (!counted) __atomic_fetch_add((int *)context, 1, __ATOMIC_RELAXED);
  counted = 1;
  usleep(20000);
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "count")) {
    int threads = 0;
    aot_rt_parallel(slow, &threads, 64, 1);
    printf("%d %d\n", aot_cpu_threads(), threads);
    return 0;
  }
  static const int64_t sizes[] = { 0, 1, 2, 3, 7, 64, 1023, 1024, 1025, MOST };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int64_t grain = 1; grain < 3000; grain = 3 * grain + 1) check_cover(sizes[i], grain);
  check_cover(-5, 1);
  pthread_t self = pthread_self();
  aot_rt_parallel(signalled, &self, 64, 1);
  static int64_t sums[MOST];
  aot_rt_parallel(nested, sums, 500, 1);
  for (int i = 0; i < 500; i++) CHECK(sums[i] == 1, "nested loops: %d", i);
  several_callers();
  rounding();
  if (argc < 2) children();
  for (int i = 0; i < 20; i++) {
    usleep(2000);                                              /* helpers are asleep, or about to be */
    check_cover(MOST, 8);
  }
  return 0;
}
