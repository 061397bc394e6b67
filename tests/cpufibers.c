/* Blocks of threads that wait for each other, on one CPU: each thread is a fiber.
 *
 * cpurun_launch runs a kernel for every block. A barrier, and each exchange of values between threads, suspends a fiber
 * until all others of its block have come to the same point; a fiber that waits at another one is an error. Blocks of a
 * cluster run together. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { MAX_THREADS = 1024, MAX_CLUSTER = 16, FIBERS = 16 * MAX_THREADS };
enum { STACK = 64 * 1024, WARP = 32, SHARED = 256 * 1024, GUARD = 4096 };
typedef void kernel(int64_t, int64_t, int64_t, int64_t, int64_t, int64_t);
typedef struct { void *alloc, *aligned; int64_t offset, size, stride; } bytes;

static ucontext_t scheduler, fibers[FIBERS];
static char *stacks;
static int done[FIBERS], waits[FIBERS];
static int64_t posted[FIBERS], current, threads, of_block;
static kernel *running;
static int64_t ids[3], sizes[3];
static char *shared; /* where 32 bits hold an address, as on a GPU */
static int64_t shared_size;
static int32_t early;

static void thread_main(void) {
  int64_t me = current, block = me / of_block, thread = me % of_block;
  running(ids[0] + block, ids[1], ids[2], thread % sizes[0], thread / sizes[0] % sizes[1], thread / (sizes[0] * sizes[1]));
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

/* Asynchronous copies: they happen as late as they may, or at once. */
typedef struct { char *target; const char *source; int32_t size, whole, group; } copy;
enum { MAX_COPIES = 256 };
static copy copies[FIBERS][MAX_COPIES];
static int32_t waiting[FIBERS], groups[FIBERS];

static void do_copy(const copy *c) {
  memcpy(c->target, c->source, c->size);
  memset(c->target + c->size, 0, c->whole - c->size);
}

void cpurun_copy(int64_t target, int64_t source, int32_t size, int32_t whole) {
  copy c = { (char *)target, (const char *)source, size, whole, groups[current] };
  if (target % whole || source % whole || size < 0 || size > whole) { fprintf(stderr, "cpurun: a copy that no GPU does\n"); abort(); }
  if (early) { do_copy(&c); return; }
  if (waiting[current] == MAX_COPIES) { fprintf(stderr, "cpurun: too many copies under way\n"); abort(); }
  copies[current][waiting[current]++] = c;
}

void cpurun_commit(void) { groups[current]++; }

void cpurun_wait(int32_t pending) {
  int32_t left = 0;
  for (int32_t n = 0; n < waiting[current]; n++) {
    copy c = copies[current][n];
    if (c.group < groups[current] - pending) do_copy(&c);
    else copies[current][left++] = c;
  }
  waiting[current] = left;
}

/* Warps that work together: lanes post words, and each computes its own results when all have come. */
enum { POSTED = 10, REGISTERS = 8 };
static int32_t words[2][FIBERS][POSTED], registers[FIBERS][REGISTERS], turns[FIBERS];

static const int32_t (*gather(const int32_t *mine, int count, int kind))[POSTED] {
  int half = turns[current]++ & 1; /* who is ahead posts into the other half */
  memcpy(words[half][current], mine, count * sizeof *mine);
  wait_at(kind);
  return words[half] + current / WARP * WARP;
}

int32_t cpurun_register(int32_t number) { return registers[current][number]; }

void cpurun_ldmatrix(int32_t address, int32_t turned) {
  if (address % 16) { fprintf(stderr, "cpurun: a row of ldmatrix that is not aligned\n"); abort(); }
  const int32_t(*lanes)[POSTED] = gather(&address, 1, 4);
  int row = current % WARP / 4, pair = current % WARP % 4;
  for (int n = 0; n < 4; n++) {
    uint16_t both[2];
    for (int e = 0; e < 2; e++) {
      int line = turned ? 2 * pair + e : row, place = turned ? row : 2 * pair + e;
      both[e] = ((uint16_t *)(intptr_t)lanes[8 * n + line][0])[place];
    }
    memcpy(&registers[current][n], both, 4);
  }
}

enum { F16, BF16, S8, U8, TF32, E4M3, E5M2 };

/* A float of one byte, with so many bits of fraction. */
static double small(uint8_t code, int fraction) {
  int bias = (1 << (6 - fraction)) - 1, exponent = (code & 127) >> fraction, last = fraction == 2 ? 31 : 16;
  double number = code & ((1 << fraction) - 1), one = 1 << fraction;
  if (fraction == 2 && exponent == last) number = number ? NAN : INFINITY;
  else if (fraction == 3 && (code & 127) == 127) number = NAN;
  else number = ldexp(exponent ? 1 + number / one : number / one, (exponent ? exponent : 1) - bias);
  return code & 128 ? -number : number;
}

static double element(const int32_t *word, int kind, int place) {
  const char *bytes = (const char *)word;
  uint16_t half;
  float f;
  switch (kind) {
    case F16: { _Float16 h; memcpy(&h, bytes + 2 * place, 2); return h; }
    case BF16: { memcpy(&half, bytes + 2 * place, 2); uint32_t w = (uint32_t)half << 16; memcpy(&f, &w, 4); return f; }
    case TF32: { uint32_t w = *(uint32_t *)word & 0xFFFFE000u; memcpy(&f, &w, 4); return f; }
    case E4M3: return small(bytes[place], 3);
    case E5M2: return small(bytes[place], 2);
    default: return kind == S8 ? ((int8_t *)bytes)[place] : ((uint8_t *)bytes)[place];
  }
}

/* 16 rows of 32 bytes times 8 columns of 32 bytes, for the thread's two neighbouring columns of two rows. */
void cpurun_mma(int32_t kind, int32_t other, int32_t a0, int32_t a1, int32_t a2, int32_t a3, int32_t b0, int32_t b1,
                int32_t c0, int32_t c1, int32_t c2, int32_t c3) {
  int32_t mine[10] = { a0, a1, a2, a3, b0, b1, c0, c1, c2, c3 };
  const int32_t(*lanes)[POSTED] = gather(mine, 10, 5);
  int lane = current % WARP, each = kind == TF32 ? 1 : kind < S8 ? 2 : 4;
  for (int n = 0; n < 4; n++) {
    double total = 0;
    for (int word = 0; word < 8; word++) /* of a row; four lanes hold the words, two registers each half */
      for (int e = 0; e < each; e++)
        total += element(&lanes[lane / 4 * 4 + word % 4][n / 2 + word / 4 * 2], kind, e) *
                 element(&lanes[(lane % 4 * 2 + n % 2) * 4 + word % 4][4 + word / 4], other, e);
    float sum;
    memcpy(&sum, &mine[6 + n], 4);
    sum += (float)total;
    int32_t whole = mine[6 + n] + (int32_t)total;
    memcpy(&registers[current][n], kind == S8 || kind == U8 ? (void *)&whole : (void *)&sum, 4);
  }
}

/* 8 or 16 rows times 8 columns in f64: of 4 steps a lane has a number of either (of 16 rows two of the left one, 8 below
 * each other), and two neighbouring columns of each row of sums. Called for one number of each 4 steps after the other. */
void cpurun_mma_double(int32_t rows, double a0, double a1, double b, double c0, double c1, double c2, double c3) {
  double mine[3] = { a0, a1, b }, sums[4] = { c0, c1, c2, c3 };
  const int32_t(*lanes)[POSTED] = gather((int32_t *)mine, 6, 6);
  int lane = current % WARP;
  for (int n = 0; n < rows / 4; n++)
    for (int k = 0; k < 4; k++) {
      double left, right;
      memcpy(&left, lanes[lane / 4 * 4 + k] + n / 2 * 2, 8);
      memcpy(&right, lanes[(lane % 4 * 2 + n % 2) * 4 + k] + 4, 8);
      sums[n] = fma(left, right, sums[n]);
    }
  memcpy(registers[current], sums, 8 * (rows / 4));
}

static char *shared_of(int64_t block) { return shared + block * SHARED; }

void _mlir_ciface_cpurun_shared(bytes *out) {
  char *mine = shared_of(current / of_block);
  *out = (bytes){mine, mine, 0, shared_size, 1};
}

/* The same place in the shared memory of another block of the cluster. */
void *cpurun_remote(char *place, int32_t block) { return shared_of(block) + (place - shared_of(current / of_block)); }

/* Words that blocks of a cluster write to each other, counted by a number in the shared memory of the one that gets them. */
void cpurun_make_counter(int64_t counter) { *(int64_t *)counter = 0; }

void cpurun_expect(int64_t counter, int32_t size) { *(int64_t *)counter += size; }

void cpurun_send(int64_t word, int32_t place, int32_t counter, int32_t block, int32_t size) {
  if (block < 0 || block >= threads / of_block || place % size) { fprintf(stderr, "cpurun: a word that no GPU sends\n"); abort(); }
  memcpy(cpurun_remote((char *)(intptr_t)place, block), &word, size);
  *(int64_t *)cpurun_remote((char *)(intptr_t)counter, block) -= size;
}

void cpurun_await(int32_t counter) {
  wait_at(7);
  if (*(int64_t *)(intptr_t)counter) { fprintf(stderr, "cpurun: words are missing, or there are too many\n"); abort(); }
}

void cpurun_prefetch(int64_t address, int32_t size) {
  if (address % 16 || size % 16 || size < 0) { fprintf(stderr, "cpurun: a prefetch that no GPU does\n"); abort(); }
}

/* Nothing is written behind the shared memory that a launch asks for. */
static void guard_shared(int64_t block, int is_over) {
  int64_t size = SHARED - shared_size < GUARD ? SHARED - shared_size : GUARD;
  unsigned char *behind = (unsigned char *)shared_of(block) + shared_size;
  if (!is_over) memset(behind, 0xAB, size);
  for (int64_t i = 0; i < size; i++)
    if (behind[i] != 0xAB) { fprintf(stderr, "cpurun: write past shared memory\n"); abort(); }
}

static void run_block(int backwards) {
  for (int64_t t = 0; t < threads; t++) {
    getcontext(&fibers[t]);
    fibers[t].uc_stack.ss_sp = stacks + t * STACK;
    fibers[t].uc_stack.ss_size = STACK;
    makecontext(&fibers[t], thread_main, 0);
    done[t] = waits[t] = waiting[t] = groups[t] = turns[t] = 0;
  }
  for (int64_t n = 0; n < threads / of_block; n++) memset(shared_of(n), 0xCD, shared_size), guard_shared(n, 0);
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
  for (int64_t n = 0; n < threads / of_block; n++) guard_shared(n, 1);
}

void cpurun_launch(kernel *function, int64_t gx, int64_t gy, int64_t gz, int64_t bx, int64_t by, int64_t bz,
                   int64_t dynamic, int32_t backwards, int32_t cluster) {
  if (!stacks) stacks = malloc((size_t)FIBERS * STACK);
  /* For this launch alone: each program has a library of its own, and there is 1 GiB for all of them. */
  shared = mmap(NULL, MAX_CLUSTER * SHARED, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
  if (shared == MAP_FAILED) { fprintf(stderr, "cpurun: no memory below 2 GiB\n"); abort(); }
  early = backwards;
  of_block = bx * by * bz;
  threads = of_block * cluster;
  if (of_block > MAX_THREADS || cluster > MAX_CLUSTER || threads > FIBERS || gx % cluster || dynamic > SHARED) {
    fprintf(stderr, "cpurun: a launch that no GPU has\n");
    abort();
  }
  running = function;
  shared_size = dynamic;
  sizes[0] = bx, sizes[1] = by, sizes[2] = bz;
  for (int64_t n = 0; n < gx * gy * gz; n += cluster) {
    int64_t b = backwards ? gx * gy * gz - cluster - n : n;
    ids[0] = b % gx, ids[1] = b / gx % gy, ids[2] = b / (gx * gy);
    run_block(backwards);
  }
  munmap(shared, MAX_CLUSTER * SHARED);
}
