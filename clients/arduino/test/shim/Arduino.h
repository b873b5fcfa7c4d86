// What sketches and the library use of Arduino, on a machine with POSIX.
//
// Time is real by default. `shimAddMillis` lets it jump, which is how tests let weeks pass.
#pragma once

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned long millis();
unsigned long micros();
void delay(unsigned long ms);
void yield();

void shimAddMillis(uint64_t ms);
