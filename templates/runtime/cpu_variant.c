/* Which CPU code this processor can run. In: CPUID, asked once. Out: the newest of AOT_CPU_*.
 *
 * A variant is taken only where every feature of its x86-64 level is there (the psABI's lists) and the operating system keeps
 * its registers. __builtin_cpu_supports knows whole levels only in newer compilers, so the bits are read here. On other
 * machines there is one variant, which every processor runs. */
#include "aot.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum {
  V2_ECX = 1 << 0 | 1 << 9 | 1 << 13 | 1 << 19 | 1 << 20 | 1 << 23,   /* sse3 ssse3 cx16 sse4.1 sse4.2 popcnt */
  V3_ECX = 1 << 12 | 1 << 22 | 1 << 27 | 1 << 28 | 1 << 29,    /* fma movbe osxsave avx f16c */
  V3_LEAF7 = 1 << 3 | 1 << 5 | 1 << 8,                         /* bmi1 avx2 bmi2 */
  LAHF = 1 << 0, LZCNT = 1 << 5,
  XMM_YMM = 0x6, XMM_TO_ZMM = 0xe6,
};
static const unsigned V4_LEAF7 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;   /* avx512f dq cd bw vl */

typedef struct { unsigned leaf1, leaf7, extended, kept; } features;

static int all(unsigned found, unsigned wanted) { return (found & wanted) == wanted; }

static features ask(void) {
  features f = {0, 0, 0, 0};
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) f.leaf1 = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) f.leaf7 = b;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) f.extended = c;
  if (f.leaf1 & 1 << 27) {                                     /* osxsave: XCR0 tells what the system saves */
    unsigned low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    f.kept = low;
  }
  return f;
}

#ifndef AOT_CPU_NEWEST                                          /* a build that wants older code, to measure it: CFLAGS=-DAOT_CPU_NEWEST=AOT_CPU_V2 */
#define AOT_CPU_NEWEST AOT_CPU_V4
#endif

static int newest(void) {
  features f = ask();
  if (!all(f.leaf1, V2_ECX) || !all(f.extended, LAHF)) return -1;
  if (AOT_CPU_NEWEST == AOT_CPU_V2 || !all(f.leaf1, V3_ECX) || !all(f.leaf7, V3_LEAF7) || !all(f.extended, LZCNT) || !all(f.kept, XMM_YMM))
    return AOT_CPU_V2;
  return AOT_CPU_NEWEST == AOT_CPU_V4 && all(f.leaf7, V4_LEAF7) && all(f.kept, XMM_TO_ZMM) ? AOT_CPU_V4 : AOT_CPU_V3;
}

static const char *const names[AOT_CPU_VARIANTS] = { [AOT_CPU_V2] = "v2", [AOT_CPU_V3] = "v3", [AOT_CPU_V4] = "v4" };
#else
static int newest(void) { return AOT_CPU_GENERIC; }
static const char *const names[AOT_CPU_VARIANTS] = { [AOT_CPU_GENERIC] = "generic" };
#endif

enum { NOT_ASKED = -2 };

int aot_cpu_variant(void) {
  static int found = NOT_ASKED;                                /* several threads may find out at once: they find the same */
  int variant = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (variant == NOT_ASKED) __atomic_store_n(&found, variant = newest(), __ATOMIC_RELAXED);
  return variant;
}

const char *aot_cpu_variant_name(int variant) { return variant < 0 ? "none" : names[variant]; }

aot_entry aot_cpu_entry(const aot_function *function) {
  if (!function->cpu) return NULL;
  for (int variant = aot_cpu_variant(); variant >= 0; variant--)
    if (function->cpu[variant]) return function->cpu[variant];
  return NULL;
}
