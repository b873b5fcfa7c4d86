// Counts what the library allocates. The linker puts `__wrap_malloc` and its like in place of the
// calls of everything that is linked here (--wrap); what tests allocate themselves is not counted.
#pragma once

#include <stdint.h>

namespace heap {

extern uint64_t allocations;
extern bool isCounting;

struct Counting {  // for as long as it lives
  explicit Counting(bool on) : before_(isCounting) { isCounting = on; }
  ~Counting() { isCounting = before_; }

 private:
  bool before_;
};

}  // namespace heap
