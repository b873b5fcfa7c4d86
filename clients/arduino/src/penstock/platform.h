// What boards have in different ways: the time of day and random bytes.
#pragma once

#include "bytes.h"

namespace penstock_lib {

// Milliseconds since 1970; 0 while the clock has not been set.
uint64_t wallClock();

// Fills the memory with unpredictable bytes; false where the board has no source of them.
bool trueRandom(uint8_t* to, size_t size);

}  // namespace penstock_lib
