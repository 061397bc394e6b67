/* Opening libcuda: dlopen at the first use, one table of entry points, cuInit; and the words for its errors.
 *
 *   aot_driver(message, size) -> 0 and a filled `aot_cu`, or AOT_E_NO_DRIVER / AOT_E_FORKED / a CUresult with text. */
#define _GNU_SOURCE
#include "rt.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

aot_driver_table aot_cu;

static const struct { const char *name; size_t offset; int since, required; } entries[] = {
#define ENTRY(name, since, required, parameters) { #name, offsetof(aot_driver_table, name), since, required },
  AOT_DRIVER_ENTRIES(ENTRY)
#undef ENTRY
};
enum { NENTRIES = sizeof entries / sizeof entries[0] };

enum { CLOSED, OPENING, OPEN, FORKED };
static int state = CLOSED;                                     /* published with release, read with acquire */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* A CUDA context does not survive fork: the driver hangs or fails in odd ways when the child uses the parent's. FORKED is looked
 * at before any lock is taken. Where nothing had been opened, the lock may still be held by a thread that the child does not have. */
static void in_child(void) {
  static const pthread_mutex_t unlocked = PTHREAD_MUTEX_INITIALIZER;
  opening = unlocked;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != CLOSED) __atomic_store_n(&state, FORKED, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

static int fill_table(void *library, char *message, size_t size) {
  for (size_t i = 0; i < NENTRIES; i++) {
    void *entry = dlsym(library, entries[i].name);
    if (!entry && entries[i].required) {
      snprintf(message, size, "the NVIDIA driver's libcuda.so.1 has no %s (CUDA %d.%d and later have it): update the driver",
               entries[i].name, entries[i].since / 1000, entries[i].since % 1000 / 10);
      return AOT_E_NO_DRIVER;
    }
    memcpy((char *)&aot_cu + entries[i].offset, &entry, sizeof entry);
  }
  return 0;
}

static int open_library(char *message, size_t size) {
  static void *library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_LOCAL | RTLD_NOW);
  if (!library) {
    const char *why = dlerror();
    snprintf(message, size, "no NVIDIA driver on this machine: %s", why ? why : "libcuda.so.1 cannot be opened");
    return AOT_E_NO_DRIVER;
  }
  int code = fill_table(library, message, size);
  if (code) return code;
  code = aot_cu.cuInit(0);
  if (code == CUDA_ERROR_NOT_INITIALIZED) {                    /* what a child gets whose parent used CUDA elsewhere */
    snprintf(message, size, "cuInit failed: CUDA_ERROR_NOT_INITIALIZED (3); was CUDA used before this process was forked? "
                            "Start it with the multiprocessing method 'spawn' or 'forkserver'");
    return AOT_E_FORKED;
  }
  return code ? aot_explain(message, size, code, "cuInit") : 0;
}

static int forked(char *message, size_t size) {
  snprintf(message, size, "CUDA was used before this process was forked and cannot be used in the child; "
                          "start it with the multiprocessing method 'spawn' or 'forkserver'");
  return AOT_E_FORKED;
}

int aot_driver(char *message, size_t size) {
  int now = __atomic_load_n(&state, __ATOMIC_ACQUIRE);
  if (AOT_LIKELY(now == OPEN)) return 0;
  if (now == FORKED) return forked(message, size);
  pthread_mutex_lock(&opening);
  int code = 0;
  if (__atomic_load_n(&state, __ATOMIC_ACQUIRE) != OPEN) {
    __atomic_store_n(&state, OPENING, __ATOMIC_RELEASE);
    code = open_library(message, size);
    __atomic_store_n(&state, code ? CLOSED : OPEN, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&opening);
  return code;
}

AOT_HOT int aot_driver_state(void) {
  if (AOT_LIKELY(__atomic_load_n(&state, __ATOMIC_ACQUIRE) == OPEN)) return 0;
  return aot_driver(aot_error_buffer(), AOT_MESSAGE_BYTES);
}

int aot_driver_version(void) {
  int version = 0;
  return aot_cu.cuDriverGetVersion && aot_cu.cuDriverGetVersion(&version) == 0 ? version : 0;
}

int aot_driver_lacks(const char *entry, char *message, size_t size) {
  int since = 0, version = aot_driver_version();
  for (size_t i = 0; i < NENTRIES; i++)
    if (!strcmp(entries[i].name, entry)) since = entries[i].since;
  snprintf(message, size, "%s needs an NVIDIA driver for CUDA %d.%d or later; this one supports CUDA %d.%d", entry,
           since / 1000, since % 1000 / 10, version / 1000, version % 1000 / 10);
  return AOT_E_UNSUPPORTED;
}

static const char *own_name(int code) {
  static const struct { int code; const char *name; } names[] = {
    { AOT_E_ASSERT, "AOT_ASSERTION" }, { AOT_E_SIZE, "AOT_SIZE" }, { AOT_E_LIMIT, "AOT_LIMIT" }, { AOT_E_INTERNAL, "AOT_INTERNAL" },
    { AOT_E_PYTHON, "AOT_PYTHON" }, { AOT_E_NO_DRIVER, "AOT_NO_DRIVER" }, { AOT_E_NO_MEMORY, "AOT_NO_MEMORY" },
    { AOT_E_FORKED, "AOT_FORKED" }, { AOT_E_CAPTURE, "AOT_CAPTURE" }, { AOT_E_UNSUPPORTED, "AOT_UNSUPPORTED" },
  };
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (names[i].code == code) return names[i].name;
  return "AOT_UNKNOWN";
}

const char *aot_error_name(int code) {
  const char *name = NULL;
  if (code < 0) return own_name(code);
  if (!aot_cu.cuGetErrorName || aot_cu.cuGetErrorName(code, &name) || !name) return "CUDA_ERROR_UNKNOWN";
  return name;
}

/* Errors after which every call in the context fails: the process has to be restarted to use the GPU again. */
static int ends_context(int code) {
  static const short lost[] = { CUDA_ERROR_ECC_UNCORRECTABLE, CUDA_ERROR_NVLINK_UNCORRECTABLE, CUDA_ERROR_ILLEGAL_ADDRESS,
    CUDA_ERROR_LAUNCH_TIMEOUT, CUDA_ERROR_ASSERT, CUDA_ERROR_HARDWARE_STACK_ERROR, CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUDA_ERROR_MISALIGNED_ADDRESS, CUDA_ERROR_INVALID_ADDRESS_SPACE, CUDA_ERROR_INVALID_PC, CUDA_ERROR_LAUNCH_FAILED };
  for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
    if (lost[i] == code) return 1;
  return 0;
}

int aot_explain(char *message, size_t size, int code, const char *operation) {
  const char *text = NULL;
  if (!aot_cu.cuGetErrorString || aot_cu.cuGetErrorString(code, &text)) text = NULL;
  const char *cause = code == CUDA_ERROR_ASSERT ? "an assertion in a kernel failed (its text is on stdout or stderr)" : text;
  snprintf(message, size, "%s failed: %s (%d)%s%s%s", operation, aot_error_name(code), code, cause ? ", " : "", cause ? cause : "",
           ends_context(code) ? "; the CUDA context of this process is lost: an earlier kernel may be the cause, and the process "
                                "has to be restarted to use this GPU again" : "");
  return code;
}
