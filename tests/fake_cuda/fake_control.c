/* How tests see and steer the fake: settings, the log of calls, calls that fail, contexts, captures. */
#define _GNU_SOURCE
#include "fake.h"
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const fake_settings defaults = { .devices = 1, .driver = 13000, .capability = 90, .optin_shared = 232448, .pools = 1,
                                        .max_threads = 1024, .memory = 1l << 32, .registered_host = 1, .image = -1 };
fake_settings fake;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *text;
static size_t text_bytes, text_room;
static FILE *file;

enum { MAX_FAILURES = 16, MAX_COUNTED = 128 };
static struct { char function[64]; long nth; int code; } failures[MAX_FAILURES];   /* nth counts down; 0: every call */
static int nfailures;
static struct { char function[64]; long calls; } counted[MAX_COUNTED];
static int ncounted;
static long bad_calls;                                         /* from where CUDA must not be called */

static const struct { const char *key; size_t offset; } keys[] = {
#define KEY(name) { #name, offsetof(fake_settings, name) }
  KEY(devices), KEY(driver), KEY(capability), KEY(optin_shared), KEY(pools), KEY(max_threads), KEY(static_shared), KEY(memory),
  KEY(registered_host), KEY(image),
#undef KEY
};

int fake_set(const char *key, long value) {
  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
    if (!strcmp(keys[i].key, key)) {
      memcpy((char *)&fake + keys[i].offset, &value, sizeof value);
      return 0;
    }
  fprintf(stderr, "fake libcuda: no setting %s\n", key);
  return -1;
}

/* The nth call of the function from now on returns `code` (1: the next one; 0: every one). */
int fake_fail(const char *function, long nth, int code) {
  pthread_mutex_lock(&lock);
  int full = nfailures == MAX_FAILURES;
  if (!full) {
    snprintf(failures[nfailures].function, sizeof failures[0].function, "%s", function);
    failures[nfailures].nth = nth;
    failures[nfailures++].code = code;
  }
  pthread_mutex_unlock(&lock);
  return full ? -1 : 0;
}

void fake_fail_nothing(void) { nfailures = 0; }

static void append(const char *line) {
  size_t n = strlen(line);
  if (file) { fputs(line, file); fflush(file); }
  if (text_bytes + n + 1 > text_room) {
    size_t room = 2 * (text_bytes + n + 1);
    char *more = realloc(text, room);
    if (!more) return;
    text = more;
    text_room = room;
  }
  memcpy(text + text_bytes, line, n + 1);
  text_bytes += n;
}

static void count(const char *function) {
  for (int i = 0; i < ncounted; i++)
    if (!strcmp(counted[i].function, function)) { counted[i].calls++; return; }
  if (ncounted == MAX_COUNTED) return;
  snprintf(counted[ncounted].function, sizeof counted[0].function, "%s", function);
  counted[ncounted++].calls = 1;
}

static int asked_failure(const char *function) {
  for (int i = 0; i < nfailures; i++) {
    if (strcmp(failures[i].function, function)) continue;
    int code = failures[i].code;
    if (failures[i].nth == 0) return code;
    if (--failures[i].nth > 0) continue;
    failures[i] = failures[--nfailures];                       /* it was to happen once */
    return code;
  }
  return 0;
}

int fake_call(const char *function, const char *format, ...) {
  char line[512];
  int n = snprintf(line, sizeof line, "%s ", function);
  va_list arguments;
  va_start(arguments, format);
  n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, arguments);
  va_end(arguments);
  if (n > (int)sizeof line - 2) n = sizeof line - 2;
  while (n && line[n - 1] == ' ') n--;
  line[n] = 0;
  pthread_mutex_lock(&lock);
  int code = asked_failure(function);
  if (fake_in_destructor()) { code = CUDA_ERROR_NOT_PERMITTED; bad_calls++; }
  count(function);
  if (code) snprintf(line + n, sizeof line - (size_t)n - 1, " -> %d", code);
  strcat(line, "\n");
  append(line);
  pthread_mutex_unlock(&lock);
  return code;
}

long fake_bad_calls(void) { return bad_calls; }
const char *fake_log(void) { return text ? text : ""; }
void fake_clear_log(void) { text_bytes = 0; if (text) text[0] = 0; ncounted = 0; }

long fake_count(const char *function) {
  for (int i = 0; i < ncounted; i++)
    if (!strcmp(counted[i].function, function)) return counted[i].calls;
  return 0;
}

static void read_settings(const char *list) {
  char key[64];
  long value;
  int used;
  while (list && sscanf(list, "%63[^=]=%ld%n", key, &value, &used) == 2) {
    fake_set(key, value);
    list += used;
    if (*list++ != ',') break;
  }
}

static void read_failures(const char *list) {
  char function[64];
  long nth;
  int code, used;
  while (list && sscanf(list, "%63[^:]:%ld:%d%n", function, &nth, &code, &used) == 3) {
    fake_fail(function, nth, code);
    list += used;
    if (*list++ != ',') break;
  }
}

__attribute__((constructor)) static void start(void) {
  fake = defaults;
  const char *path = getenv("FAKE_CUDA_LOG");
  if (path) file = fopen(path, "a");
  read_settings(getenv("FAKE_CUDA_SET"));
  read_failures(getenv("FAKE_CUDA_FAIL"));
}
