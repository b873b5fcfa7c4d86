#include "verdict.h"

#include <string.h>

namespace penstock_lib {

namespace {

// Words, each behind the number of its verdict and ending with a zero byte; a table of pointers
// would be larger than they are.
static_assert(static_cast<int>(Verdict::SignAgain) == 1 && static_cast<int>(Verdict::Lost) == 2 &&
                  static_cast<int>(Verdict::Notice) == 3 &&
                  static_cast<int>(Verdict::Farewell) == 4 &&
                  static_cast<int>(Verdict::LoginFailed) == 5 &&
                  static_cast<int>(Verdict::TakenOver) == 6,
              "the numbers below");

// By the beginnings of texts.
const char kTexts[] =
    "6Another connection uses\0"
    "4Another node\0"
    "5Login \0"
    "4No quorum\0"
    "6Not authorized: this client id\0"
    "1Signature \0"
    "4The broker\0"
    "3The right to\0"
    "4Too few nodes\0"
    "1Too many signed\0";

// By code; others are answers, or notices if they answer nothing: behind a farewell the broker
// closes the connection anyway.
const char kCodes[] =
    "6foreign_client_id\0"
    "5login_failed\0"
    "5login_required\0"
    "2retention\0"
    "1signature_stale\0"
    "1signatures_busy\0"
    "6taken_over\0";

__attribute__((noinline)) Verdict found(const char* words, Span said, bool isWhole,
                                        Verdict otherwise) {
  for (const char* at = words; *at;) {
    const char number = *at++;
    const size_t size = strlen(at);
    if (said.size >= size && (!isWhole || said.size == size) && !memcmp(said.data, at, size)) {
      return static_cast<Verdict>(number - '0');
    }
    at += size + 1;
  }
  return otherwise;
}

}  // namespace

Verdict verdictOfText(Span text) {
  if (text.size && text.data[0] >= '0' && text.data[0] <= '9') return Verdict::Lost;
  return found(kTexts, text, false, Verdict::Answer);
}

Verdict verdictOfCode(Span code, bool isAnswer) {
  return found(kCodes, code, true, isAnswer ? Verdict::Answer : Verdict::Notice);
}

uint32_t leadingNumber(Span text) {
  uint32_t number = 0;
  for (size_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; ++i) {
    number = number * 10 + static_cast<uint32_t>(text.data[i] - '0');
  }
  return number;
}

}  // namespace penstock_lib
