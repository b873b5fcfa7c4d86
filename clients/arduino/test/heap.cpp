#include "heap.h"

#include <stddef.h>

namespace heap {
uint64_t allocations = 0;
bool isCounting = false;
}  // namespace heap

namespace {
void count() {
  if (heap::isCounting) ++heap::allocations;
}
}  // namespace

extern "C" {
void* __real_malloc(size_t);
void* __real_calloc(size_t, size_t);
void* __real_realloc(void*, size_t);
void* __real__Znwm(size_t);
void* __real__Znam(size_t);

void* __wrap_malloc(size_t size) { return count(), __real_malloc(size); }
void* __wrap_calloc(size_t n, size_t size) { return count(), __real_calloc(n, size); }
void* __wrap_realloc(void* at, size_t size) { return count(), __real_realloc(at, size); }
void* __wrap__Znwm(size_t size) { return count(), __real__Znwm(size); }
void* __wrap__Znam(size_t size) { return count(), __real__Znam(size); }
}
