/* Streams and events of upstream's host code (mgpuStream*, mgpuEvent*), by what the function needs (aot_function.flags):
 *
 *   default         every stream is the caller's and events are nothing: program order is execution order
 *   AOT_HOST_SYNC   the same, and gpu.wait really waits
 *   AOT_FORK        a stream per token chain, taken from a pool, after what is on the caller's stream when the chain starts;
 *                   the caller's stream comes after the chain when it is waited for, and at the end of the call
 *   AOT_SERIAL      async.execute: as default. MLIR 22 drops its event records and hands over handles that nobody set,
 *                   so no event may ever reach the driver */
#include "rt.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct chain {                                         /* a pooled stream with the event that orders it */
  struct chain *next;
  uint64_t context_id;
  CUstream stream;
  CUevent event;
  void *caller;                                                /* stream of the call that has it, or had it last */
  int open;                                                    /* work on it that the caller's stream does not follow yet */
} chain;

typedef struct owned_event { struct owned_event *next; CUevent handle; } owned_event;

static chain *idle_chains;
static pthread_mutex_t pooling = PTHREAD_MUTEX_INITIALIZER;

static int forks(const aot_frame *frame) { return (frame->function->flags & (AOT_FORK | AOT_SERIAL)) == AOT_FORK; }

/* `first` is enqueued before everything that comes on `then` from now on. */
static int order(aot_frame *frame, CUevent event, CUstream first, CUstream then) {
  int code = aot_record_driver(frame, aot_cu.cuEventRecord(event, first), "cuEventRecord");
  return code ? code : aot_record_driver(frame, aot_cu.cuStreamWaitEvent(then, event, 0), "cuStreamWaitEvent");
}

/* A call that was captured leaves its streams part of that graph until the capture ends: further calls of the same capture may have
 * them, work of others on them would break it. */
static int may_take(const chain *one, const aot_frame *frame) {
  int status = CU_CAPTURE_NONE;
  if (one->context_id != frame->context_id || aot_cu.cuStreamIsCapturing(one->stream, &status)) return 0;
  return status == CU_CAPTURE_NONE || (status == CU_CAPTURE_ACTIVE && one->caller == frame->stream);
}

static chain *take_chain(const aot_frame *frame) {
  pthread_mutex_lock(&pooling);
  chain **at = &idle_chains;
  while (*at && !may_take(*at, frame)) at = &(*at)->next;
  chain *taken = *at;
  if (taken) *at = taken->next;
  pthread_mutex_unlock(&pooling);
  return taken;
}

static void put_idle(chain *one) {
  pthread_mutex_lock(&pooling);
  one->next = idle_chains;
  idle_chains = one;
  pthread_mutex_unlock(&pooling);
}

static int make_chain(aot_frame *frame, chain **out) {
  chain *made = calloc(1, sizeof *made);
  if (!made) return aot_record(frame, AOT_E_NO_MEMORY, "no host memory for a stream");
  made->context_id = frame->context_id;
  int code = aot_record_driver(frame, aot_cu.cuStreamCreate(&made->stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  if (!code) {
    code = aot_record_driver(frame, aot_cu.cuEventCreate(&made->event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
    if (code) aot_cu.cuStreamDestroy_v2(made->stream);
  }
  if (code) free(made);
  else *out = made;
  return code;
}

static int start_chain(aot_frame *frame, chain **out) {
  void **more = realloc(frame->forks, (frame->nforks + 1) * sizeof *more);
  if (!more) return aot_record(frame, AOT_E_NO_MEMORY, "no host memory for the call's streams");
  frame->forks = more;
  *out = take_chain(frame);
  int code = *out ? 0 : make_chain(frame, out);
  if (code) return code;
  (*out)->caller = frame->stream;
  (*out)->open = 1;
  frame->worked = 1;
  frame->forks[frame->nforks++] = *out;
  return order(frame, (*out)->event, (CUstream)frame->stream, (*out)->stream);
}

static chain *chain_of(const aot_frame *frame, const void *stream) {
  for (uint32_t i = 0; i < frame->nforks; i++)
    if (((chain *)frame->forks[i])->stream == stream) return frame->forks[i];
  return NULL;
}

void aot_chains_join(aot_frame *frame) {
  for (uint32_t i = 0; i < frame->nforks; i++) {
    chain *one = frame->forks[i];
    if (one->open) order(frame, one->event, one->stream, (CUstream)frame->stream);
    one->open = 0;
  }
}

int aot_chains_after_caller(aot_frame *frame) {
  int code = 0;
  for (uint32_t i = 0; !code && i < frame->nforks; i++) {
    chain *one = frame->forks[i];
    code = order(frame, one->event, (CUstream)frame->stream, one->stream);
  }
  return code;
}

void aot_chains_release(aot_frame *frame) {
  for (uint32_t i = 0; i < frame->nforks; i++) put_idle(frame->forks[i]);
  free(frame->forks);
  frame->forks = NULL;
  frame->nforks = 0;
  for (owned_event *next, *one = frame->events; one; one = next) {
    next = one->next;
    aot_record_driver(frame, aot_cu.cuEventDestroy_v2(one->handle), "cuEventDestroy");   /* the driver waits for pending work */
    free(one);
  }
  frame->events = NULL;
}

/* ------------------------------------------------------------------ streams */

void *mgpuStreamCreate(void) {
  aot_frame *frame = aot_frame_here("mgpuStreamCreate");
  chain *made = NULL;
  if (!forks(frame)) return frame->stream;
  must(frame, start_chain(frame, &made));
  return made->stream;
}

/* The stream stays with the call: events recorded on it may still be waited for. */
void mgpuStreamDestroy(void *stream) { (void)stream; }

void mgpuStreamSynchronize(void *stream) {
  aot_frame *frame = aot_frame_here("mgpuStreamSynchronize");
  chain *one = chain_of(frame, stream);
  if (one) {
    must(frame, order(frame, one->event, one->stream, (CUstream)frame->stream));
    one->open = 0;
  }
  if (frame->function->flags & AOT_HOST_SYNC) must(frame, aot_wait_stream(frame, aot_stream_or(frame, stream), "it has a gpu.wait"));
}

/* ------------------------------------------------------------------ events: driver events in forked functions only */

static owned_event **find_event(aot_frame *frame, const void *event) {
  owned_event **at = (owned_event **)(void *)&frame->events;
  while (*at && (*at)->handle != event) at = &(*at)->next;
  return at;
}

static CUevent known_event(aot_frame *frame, const void *event) {
  owned_event *one = *find_event(frame, event);
  if (!one) aot_fail(AOT_E_INTERNAL, "%s uses an event that it did not create (%p)", frame->function->name, event);
  return one->handle;
}

void *mgpuEventCreate(void) {
  aot_frame *frame = aot_frame_here("mgpuEventCreate");
  if (!forks(frame)) return NULL;
  owned_event *made = calloc(1, sizeof *made);
  if (!made) aot_fail(AOT_E_NO_MEMORY, "no host memory for an event");
  int code = aot_record_driver(frame, aot_cu.cuEventCreate(&made->handle, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (code) {
    free(made);
    aot_unwind(frame);
  }
  made->next = frame->events;
  frame->events = made;
  return made->handle;
}

void mgpuEventDestroy(void *event) {
  aot_frame *frame = aot_frame_here("mgpuEventDestroy");
  if (!forks(frame)) return;
  CUevent handle = known_event(frame, event);
  owned_event **at = find_event(frame, event), *gone = *at;
  *at = gone->next;
  free(gone);
  must(frame, aot_record_driver(frame, aot_cu.cuEventDestroy_v2(handle), "cuEventDestroy"));
}

void mgpuEventRecord(void *event, void *stream) {
  aot_frame *frame = aot_frame_here("mgpuEventRecord");
  if (!forks(frame)) return;
  must(frame, aot_record_driver(frame, aot_cu.cuEventRecord(known_event(frame, event), aot_stream_or(frame, stream)), "cuEventRecord"));
}

void mgpuStreamWaitEvent(void *stream, void *event) {
  aot_frame *frame = aot_frame_here("mgpuStreamWaitEvent");
  if (!forks(frame)) return;
  chain *one = chain_of(frame, stream);
  if (one) one->open = 1;
  must(frame, aot_record_driver(frame, aot_cu.cuStreamWaitEvent(aot_stream_or(frame, stream), known_event(frame, event), 0),
                                "cuStreamWaitEvent"));
}

void mgpuEventSynchronize(void *event) {
  aot_frame *frame = aot_frame_here("mgpuEventSynchronize");
  if (!(frame->function->flags & AOT_HOST_SYNC)) {             /* the host needs nothing: later work has to come after it */
    if (forks(frame))
      must(frame, aot_record_driver(frame, aot_cu.cuStreamWaitEvent((CUstream)frame->stream, known_event(frame, event), 0),
                                    "cuStreamWaitEvent"));
    return;
  }
  if (!forks(frame)) { must(frame, aot_wait(frame, "it waits for an event")); return; }
  must(frame, aot_record_driver(frame, aot_cu.cuEventSynchronize(known_event(frame, event)), "cuEventSynchronize"));
}
