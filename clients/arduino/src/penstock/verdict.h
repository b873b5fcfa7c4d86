// What an ERROR of the broker means.
//
// With coded errors (HELLO) its topic field has a word and its sequence says which request it
// answers. Without, its text has to do: it answers the oldest request, unless it is one of the
// few that answer none.
#pragma once

#include "bytes.h"

namespace penstock_lib {

enum class Verdict : uint8_t {
  Answer,         // the oldest request is refused, for good
  SignAgain,     // the oldest request is refused; signed anew it may be accepted
  Lost,           // notice: retention removed messages unread
  Notice,         // another notice; the connection stays open
  Farewell,       // the broker closes the connection; connect again
  LoginFailed,   // the same; the credentials are wrong
  TakenOver,     // the same; somebody else has the client id: do not connect again
};

Verdict verdictOfText(Span text);
Verdict verdictOfCode(Span code, bool isAnswer);
uint32_t leadingNumber(Span text);  // of "12 messages of 'a' were removed ..."; 0 if there is none

}  // namespace penstock_lib
