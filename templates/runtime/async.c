/* The async runtime that MLIR's async dialect calls, without threads: a coroutine runs where it is started, on the caller's
 * thread, until it waits for something that is not there yet; whoever provides that resumes it.
 *
 * All objects of a call are in its frame's list, so that one ended by an error leaves none. */
#include "rt.h"
#include <stdio.h>
#include <stdlib.h>

typedef void (*resume_function)(void *);
typedef struct waiter { struct waiter *next; void *coroutine; resume_function resume; } waiter;

typedef struct object {                                        /* a token, a value or a group */
  struct object *next, **link;                                 /* the frame's list */
  int64_t references;
  int ready, error;
  int64_t pending, added;                                      /* groups: members that are not ready, members so far */
  struct member *member_of;                                    /* groups that count this one */
  waiter *waiters;
  void *storage;
} object;

typedef struct member { struct member *next; object *group; } member;

static object *make(const char *caller, int64_t references) {
  aot_frame *frame = aot_frame_here(caller);
  object *made = calloc(1, sizeof *made);
  if (!made) aot_fail(AOT_E_NO_MEMORY, "no host memory for an async value");
  made->references = references;
  made->next = frame->async;
  made->link = (object **)(void *)&frame->async;
  if (made->next) made->next->link = &made->next;
  frame->async = made;
  return made;
}

static void destroy(object *one) {
  *one->link = one->next;
  if (one->next) one->next->link = one->link;
  for (waiter *next, *w = one->waiters; w; w = next) { next = w->next; free(w); }
  for (member *next, *m = one->member_of; m; m = next) { next = m->next; free(m); }
  free(one->storage);
  free(one);
}

static void drop(object *one, int64_t count) {
  one->references -= count;
  if (one->references <= 0) destroy(one);
}

void aot_async_sweep(aot_frame *frame) {
  while (frame->async) destroy(frame->async);
}

/* A resumed coroutine may drop the last reference to what it waited for, or end the call: what is still to be done stays with the
 * object, and the object stays until it is done. */
static void wake(object *one) {
  one->ready = 1;
  one->references++;
  while (one->waiters) {
    waiter *first = one->waiters, now = *first;
    one->waiters = first->next;
    free(first);
    now.resume(now.coroutine);
  }
  drop(one, 1);
}

static void member_ready(object *group, int error) {
  group->error |= error;
  if (--group->pending == 0) wake(group);
}

static void provide(object *one, int error) {
  if (one->ready) aot_fail(AOT_E_INTERNAL, "an async value was set twice");
  one->error = error;
  one->references++;
  wake(one);
  while (one->member_of) {
    member *first = one->member_of;
    object *group = first->group;
    one->member_of = first->next;
    free(first);
    member_ready(group, error);
    drop(group, 1);
  }
  drop(one, 2);                                                /* ours, and the one that creation gave to whoever sets it */
}

static void await(const object *one) {
  if (!one->ready)
    aot_fail(AOT_E_INTERNAL, "host code waits for an async value that nothing will provide: async.execute runs on the caller's thread");
}

static void await_and_resume(object *one, void *coroutine, resume_function resume) {
  if (one->ready) { resume(coroutine); return; }
  waiter *made = malloc(sizeof *made);
  if (!made) aot_fail(AOT_E_NO_MEMORY, "no host memory for an async wait");
  *made = (waiter){ NULL, coroutine, resume };
  waiter **end = &one->waiters;
  while (*end) end = &(*end)->next;
  *end = made;
}

/* ------------------------------------------------------------------ upstream's names */

void mlirAsyncRuntimeAddRef(void *one, int64_t count) { ((object *)one)->references += count; }
void mlirAsyncRuntimeDropRef(void *one, int64_t count) { drop(one, count); }

/* Two references: the creator's, and the one that setting it gives back. */
void *mlirAsyncRuntimeCreateToken(void) { return make("mlirAsyncRuntimeCreateToken", 2); }

void *mlirAsyncRuntimeCreateValue(int64_t bytes) {
  object *made = make("mlirAsyncRuntimeCreateValue", 2);
  if (posix_memalign(&made->storage, 64, bytes > 0 ? (size_t)bytes : 1)) {
    made->storage = NULL;
    aot_fail(AOT_E_NO_MEMORY, "no host memory for an async value of %lld bytes", (long long)bytes);
  }
  return made;
}

void *mlirAsyncRuntimeCreateGroup(int64_t size) {
  object *made = make("mlirAsyncRuntimeCreateGroup", 1);
  made->pending = size;
  made->ready = size <= 0;
  return made;
}

int64_t mlirAsyncRuntimeAddTokenToGroup(void *token, void *to) {
  object *one = token, *group = to;
  int64_t place = group->added++;
  if (one->ready) {
    member_ready(group, one->error);
    return place;
  }
  member *made = malloc(sizeof *made);
  if (!made) aot_fail(AOT_E_NO_MEMORY, "no host memory for an async group");
  *made = (member){ one->member_of, group };
  one->member_of = made;
  group->references++;
  return place;
}

void mlirAsyncRuntimeEmplaceToken(void *token) { provide(token, 0); }
void mlirAsyncRuntimeEmplaceValue(void *value) { provide(value, 0); }
void mlirAsyncRuntimeSetTokenError(void *token) { provide(token, 1); }
void mlirAsyncRuntimeSetValueError(void *value) { provide(value, 1); }
_Bool mlirAsyncRuntimeIsTokenError(void *token) { return ((object *)token)->error != 0; }
_Bool mlirAsyncRuntimeIsValueError(void *value) { return ((object *)value)->error != 0; }
_Bool mlirAsyncRuntimeIsGroupError(void *group) { return ((object *)group)->error != 0; }
void mlirAsyncRuntimeAwaitToken(void *token) { await(token); }
void mlirAsyncRuntimeAwaitValue(void *value) { await(value); }
void mlirAsyncRuntimeAwaitAllInGroup(void *group) { await(group); }
void *mlirAsyncRuntimeGetValueStorage(void *value) { return ((object *)value)->storage; }
void mlirAsyncRuntimeExecute(void *coroutine, resume_function resume) { resume(coroutine); }

void mlirAsyncRuntimeAwaitTokenAndExecute(void *token, void *coroutine, resume_function resume) {
  await_and_resume(token, coroutine, resume);
}
void mlirAsyncRuntimeAwaitValueAndExecute(void *value, void *coroutine, resume_function resume) {
  await_and_resume(value, coroutine, resume);
}
void mlirAsyncRuntimeAwaitAllInGroupAndExecute(void *group, void *coroutine, resume_function resume) {
  await_and_resume(group, coroutine, resume);
}

int64_t mlirAsyncRuntimeGetNumWorkerThreads(void) { return 1; }
int64_t mlirAsyncRuntimGetNumWorkerThreads(void) { return 1; } /* as some releases of MLIR spell it */
void mlirAsyncRuntimePrintCurrentThreadId(void) {
  aot_frame_here("mlirAsyncRuntimePrintCurrentThreadId")->printed = 1;
  printf("Current thread id: %p\n", (void *)aot_current());
}
