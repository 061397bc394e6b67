/* Graphs of the fake: references to user objects, and nothing else. Destructors run in a thread of their own, as in the driver, and
 * a call of CUDA from one is an error. */
#define _GNU_SOURCE
#include "fake.h"
#include <pthread.h>
#include <stdlib.h>

enum { MAX_OBJECTS = 4096 };

struct CUuserObject_st { int id, references; void *data; void (*destroy)(void *data); };
struct CUgraph_st { int id, count; CUuserObject objects[MAX_OBJECTS]; };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int ngraphs, nobjects, live_objects;
static _Thread_local int in_destructor;

int fake_in_destructor(void) { return in_destructor; }
long fake_live_objects(void) { return live_objects; }

static void *destroy(void *object) {
  CUuserObject gone = object;
  in_destructor = 1;
  gone->destroy(gone->data);
  free(gone);
  return NULL;
}

static void release(CUuserObject object, int references) {
  pthread_mutex_lock(&lock);
  int last = (object->references -= references) == 0;
  live_objects -= last;
  pthread_mutex_unlock(&lock);
  pthread_t thread;
  if (last && !pthread_create(&thread, NULL, destroy, object)) pthread_join(thread, NULL);
}

CUgraph fake_graph_new(void) {
  CUgraph made = calloc(1, sizeof *made);
  made->id = __atomic_add_fetch(&ngraphs, 1, __ATOMIC_RELAXED);
  return made;
}

/* What instantiation and child graphs do: another graph has references to the same objects. */
CUgraph fake_graph_clone(CUgraph graph) {
  CUgraph made = fake_graph_new();
  pthread_mutex_lock(&lock);
  for (; made->count < graph->count; made->count++) {
    made->objects[made->count] = graph->objects[made->count];
    made->objects[made->count]->references++;
  }
  pthread_mutex_unlock(&lock);
  return made;
}

void fake_graph_destroy(CUgraph graph) {
  while (graph->count) release(graph->objects[--graph->count], 1);
  free(graph);
}

CUresult cuUserObjectCreate(CUuserObject *object, void *data, void (*destructor)(void *data), unsigned references, unsigned flags) {
  CALL("%u", references);
  if (flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) return CUDA_ERROR_INVALID_VALUE;
  *object = calloc(1, sizeof **object);
  pthread_mutex_lock(&lock);
  **object = (struct CUuserObject_st){ ++nobjects, (int)references, data, destructor };
  live_objects++;
  pthread_mutex_unlock(&lock);
  return 0;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned references) {
  CALL("o%d %u", object->id, references);
  release(object, (int)references);
  return 0;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned references, unsigned flags) {
  CALL("g%d o%d %u", graph->id, object->id, references);
  if (flags != CU_GRAPH_USER_OBJECT_MOVE || references != 1) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  int full = graph->count == MAX_OBJECTS;
  if (!full) graph->objects[graph->count++] = object;
  pthread_mutex_unlock(&lock);
  return full ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}
