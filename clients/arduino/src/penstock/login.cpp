// Users: the name and the secret go before all else, on each connection.
#include <string.h>

#include "core.h"

namespace penstock_lib {

void Core::setUser(const char* user, const char* secret) {
  user_ = user;
  secret_ = secret;
  describeLogin_ = describeLogin;
}

void Core::describeLogin(const Core& core, Described& frame) {
  const size_t user = strlen(core.user_), secret = strlen(core.secret_);
  frame.add(core.user_, user);
  frame.add(core.secret_, secret);
  frame.finish(kAuth, sequenceOf(kAuth, 0), user, secret);
}

}  // namespace penstock_lib
