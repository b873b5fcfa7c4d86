#include "verdict.h"

#include <string.h>

namespace penstock_lib {

namespace {

struct Meaning {
  const char* word;
  Verdict verdict;
};

// By the beginnings of texts.
const Meaning kTexts[] = {
    {"Another connection uses", Verdict::TakenOver},
    {"Another node", Verdict::Farewell},
    {"Login ", Verdict::LoginFailed},
    {"No quorum", Verdict::Farewell},
    {"Not authorized: this client id", Verdict::TakenOver},
    {"Signature ", Verdict::SignAgain},
    {"The broker", Verdict::Farewell},
    {"The right to", Verdict::Notice},
    {"Too few nodes", Verdict::Farewell},
    {"Too many signed", Verdict::SignAgain},
};

// By code; others are answers, or notices if they answer nothing: behind a farewell the broker
// closes the connection anyway.
const Meaning kCodes[] = {
    {"foreign_client_id", Verdict::TakenOver},
    {"login_failed", Verdict::LoginFailed},
    {"login_required", Verdict::LoginFailed},
    {"retention", Verdict::Lost},
    {"signature_stale", Verdict::SignAgain},
    {"signatures_busy", Verdict::SignAgain},
    {"taken_over", Verdict::TakenOver},
};

}  // namespace

Verdict verdictOfText(Span text) {
  if (text.size && text.data[0] >= '0' && text.data[0] <= '9') return Verdict::Lost;
  for (const Meaning& meaning : kTexts) {
    const size_t size = strlen(meaning.word);
    if (text.size >= size && !memcmp(text.data, meaning.word, size)) return meaning.verdict;
  }
  return Verdict::Answer;
}

Verdict verdictOfCode(Span code, bool isAnswer) {
  for (const Meaning& meaning : kCodes) {
    if (code.size == strlen(meaning.word) && !memcmp(code.data, meaning.word, code.size)) {
      return meaning.verdict;
    }
  }
  return isAnswer ? Verdict::Answer : Verdict::Notice;
}

uint32_t leadingNumber(Span text) {
  uint32_t number = 0;
  for (size_t i = 0; i < text.size && text.data[i] >= '0' && text.data[i] <= '9'; ++i) {
    number = number * 10 + static_cast<uint32_t>(text.data[i] - '0');
  }
  return number;
}

}  // namespace penstock_lib
