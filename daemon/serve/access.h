// Which requests need the token.
#pragma once

#include <string>
#include <string_view>

namespace laggard::serve {

/// What a request does, and so what it has to show.
enum class Level {
  open,  ///< says nothing of any run: whoever watches the process may ask
  reading,
  admin  ///< changes what is stored
};

/// How the server can be reached, and the secret it shares with those who may ask.
struct Access {
  bool loopback_only = true;  ///< it listens on a loopback address
  bool tls = false;
  std::string token;       ///< "": nobody has it, and what needs it is refused
  std::string token_file;  ///< where users of this machine find it
};

/// Throws QueryError 401 unless the Authorization field is what this level needs. Admin requests need the
/// token always: a loopback address is open to every user and every web page of the machine. Others need it
/// when the server can be reached from other machines.
void check_token(const Access& access, Level level, std::string_view authorization);

}  // namespace laggard::serve
