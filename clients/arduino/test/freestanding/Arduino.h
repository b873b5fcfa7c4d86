// A board that offers time, and nothing else.
#pragma once

#include <stdint.h>
#include <string.h>

extern "C" {
unsigned long millis();
unsigned long micros();
}
void yield();
