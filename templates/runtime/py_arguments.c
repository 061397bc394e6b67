/* All arguments of a call, in one pass. In: bound objects. Out: descriptors and numbers in the workspace, the device, the stream.
 *
 * Arrays whose __dlpack__ has to be called wait until the stream is known, since that is an argument of it. */
#include "py.h"

static int same_device(aot_call *call, uint32_t index, const aot_view *view) {
  if (view->device < 0 || view->device == call->device || call->place == AOT_PLACE_CPU)
    return 0;
  if (call->device < 0) {
    call->device = view->device;
    call->device_argument = (int32_t)index;
    return 0;
  }
  const aot_value *other = &call->callable->args[call->device_argument];
  return aot_wrong(call, index, PyExc_ValueError, " on device %d like argument %d '%s', got an array on device %d", call->device,
                   call->device_argument + 1, other->name, view->device);
}

static int is_pointer(const aot_value *value) { return value->kind == AOT_SCALAR && value->dl_code == AOT_DL_PTR; }

/* A bare pointer says nothing about what it points to: only place, device and writability can be checked. */
static int take_pointer(aot_call *call, uint32_t index, const aot_view *view, int64_t *slot) {
  if (view->device_type != DL_CUDA && view->device_type != DL_CUDA_MANAGED)
    return aot_wrong(call, index, PyExc_TypeError, " on a GPU, got an array in host memory");
  if (view->readonly && call->callable->args[index].role != AOT_IN)
    return aot_wrong(call, index, PyExc_ValueError, ", got a read-only array: the kernel may write it");
  slot[0] = (int64_t)view->address;
  return same_device(call, index, view);
}

static int take(aot_call *call, uint32_t index, const aot_kind *kind, aot_view *view, int64_t *slot) {
  const aot_value *value = &call->callable->args[index];
  if (view->holder)
    call->holders[call->nholders++] = view->holder;
  if (is_pointer(value) ? take_pointer(call, index, view, slot)
                        : aot_place_take(call, index, view) || aot_check_array(call, index, view) || same_device(call, index, view))
    return -1;
  int lazy = view->exchange ? aot_is_lazy(call->args[index], kind, view->dtype) : 0;
  if (lazy > 0)
    aot_wrong(call, index, PyExc_ValueError,
              ", got a tensor that is conjugated or negated only when read: pass x.resolve_conj().resolve_neg()");
  if (!is_pointer(value)) {
    aot_fill_descriptor(value, view, slot);
    aot_reach(value, slot, &call->spans[2 * index], &call->spans[2 * index + 1]);
  }
  return lazy ? -1 : 0;
}

/* What a protocol or a framework says about an array does not say which argument it is. */
static int name_argument(const aot_call *call, uint32_t index) {
  aot_fault fault;
  if (!aot_fault_take(call->args[index], &fault))
    return -1;
  aot_wrong(call, index, fault.exception, ", got %U", fault.words);
  return aot_fault_raised(&fault);
}

static void note_first(aot_call *call, uint32_t index, const aot_kind *kind) {
  if (call->first < 0) {
    call->first = (int32_t)index;
    call->first_object = call->args[index];
    call->first_kind = *kind;
  }
}

static int read_quick(aot_call *call, uint32_t index, int64_t *slot) {
  const aot_value *value = &call->callable->args[index];
  PyObject *object = call->args[index];
  if (value->kind == AOT_SCALAR && !is_pointer(value))
    return aot_number_read(call, index, slot);
  const aot_kind *found = aot_kind_of(object);
  if (!found)
    return -1;
  const aot_kind kind = *found;                                /* frameworks may run Python code, which may ask for other kinds */
  aot_view view;
  int status = aot_view_fast(object, &kind, &view);
  if (status > 0) {
    note_first(call, index, &kind);
    return take(call, index, &kind, &view, slot);
  }
  call->slots[index] = NULL;
  call->pending++;
  return status < 0 ? name_argument(call, index) : 0;
}

/* Kernels take addresses: for a pointer always, for an array where its shape is fixed by the kernel. */
static int read_address(aot_call *call, uint32_t index, int64_t *slot) {
  const aot_value *value = &call->callable->args[index];
  uint64_t address;
  int status = aot_address_read(call, index, &address);
  if (status <= 0)
    return status;
  if (is_pointer(value)) {
    slot[0] = (int64_t)address;
    return 1;
  }
  for (int i = 0; i < value->rank; i++)
    if (value->shape[i] == AOT_DYNAMIC || (value->strides && value->strides[i] == AOT_DYNAMIC))
      return aot_wrong(call, index, PyExc_TypeError, ", got an address: only an array tells its shape");
  aot_view view = {.address = address, .shape = value->shape, .strides = value->strides, .rank = value->rank};
  aot_fill_descriptor(value, &view, slot);
  return 1;
}

static const char *what_is_needed(const aot_callable *callable) {
  if (callable->function && callable->function->cpu)
    return callable->function->entry ? "an array is needed, on a GPU (with DLPack or __cuda_array_interface__) or in host memory (numpy, DLPack)"
                                     : "an array in host memory is needed (numpy, DLPack)";
  return "an array on a GPU is needed (with DLPack or __cuda_array_interface__)";
}

static int read_slow(aot_call *call, uint32_t index, int64_t *slot) {
  PyObject *object = call->args[index];
  if (call->callable->kernel) {
    int status = read_address(call, index, slot);
    if (status)
      return status < 0 ? -1 : 0;
  }
  const aot_kind *found = aot_kind_of(object);
  if (!found)
    return -1;
  const aot_kind kind = *found;
  aot_view view;
  int status = aot_view_slow(object, &kind, call, &view);
  if (status > 0)
    return take(call, index, &kind, &view, slot);
  if (status < 0)
    return name_argument(call, index);
  PyObject *type = aot_type_name(object);
  if (type)
    aot_wrong(call, index, PyExc_TypeError, ", got %U: %s", type, what_is_needed(call->callable));
  Py_XDECREF(type);
  return -1;
}

/* The first array decides about streams and results even when it has to wait. */
static int find_first(aot_call *call) {
  for (uint32_t i = 0; i < call->callable->nargs && (call->first < 0 || (int32_t)i < call->first); i++) {
    if (call->slots[i] || (call->callable->kernel && (call->args[i] == Py_None || PyLong_Check(call->args[i]))))
      continue;
    const aot_kind *kind = aot_kind_of(call->args[i]);
    if (!kind)
      return -1;
    call->first = -1;
    note_first(call, i, kind);
  }
  return 0;
}

/* Where the arrays that wait lie decides about the stream: the first of them is asked, where no other array has told. */
static int find_place(aot_call *call) {
  if (call->place != AOT_PLACE_UNKNOWN || !call->callable->function || !aot_cpu_entry(call->callable->function))
    return 0;
  int place = aot_place_ask(call->first_object);
  if (place < 0)
    return name_argument(call, (uint32_t)call->first);
  if (place == AOT_PLACE_CPU) {
    call->place = AOT_PLACE_CPU;
    call->place_argument = call->first;
  }
  return 0;
}

static int read_pending(aot_call *call) {
  int64_t *word = call->words;
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    if (!call->slots[i]) {
      call->slots[i] = word;
      if (read_slow(call, i, word))
        return -1;
    }
    word += call->callable->plain[i].words;
  }
  return 0;
}

int aot_read_arguments(aot_call *call) {
  int64_t *word = call->words;
  aot_plain_begin(call);
  for (uint32_t i = 0; i < call->callable->nargs; i++) {
    call->slots[i] = word;
    int taken = call->callable->plain[i].possible ? aot_plain_take(call, i, word) : 0;
    if (taken < 0 || (!taken && read_quick(call, i, word)))
      return -1;
    word += call->callable->plain[i].words;
  }
  if (call->pending && (find_first(call) || find_place(call)))
    return -1;
  if ((call->first_object || !call->callable->function || call->callable->function->entry) && aot_place_settle(call))
    return -1;
  return call->pending ? read_pending(call) : 0;
}

/* Giving a tensor back may run Python code, which must not see the call's own exception. */
void aot_drop_holders(aot_call *call) {
  PyObject *type, *value, *trace;
  if (!call->nholders)
    return;
  PyErr_Fetch(&type, &value, &trace);
  for (uint32_t i = 0; i < call->nholders; i++)
    Py_DECREF(call->holders[i]);
  call->nholders = 0;
  PyErr_Restore(type, value, trace);
}
