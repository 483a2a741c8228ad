#include "daemon/serve/access.h"

#include <openssl/crypto.h>

#include <algorithm>
#include <cctype>

#include "daemon/serve/query_error.h"

namespace laggard::serve {
namespace {

constexpr const char* kAdvice = "send it in the field Authorization, as Bearer TOKEN";

/// What stands behind "Bearer", which may be written in any case (RFC 9110); "" for any other scheme.
std::string_view bearer_token(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  const bool is_bearer = authorization.size() > kScheme.size() &&
                         std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, {},
                                            [](unsigned char c) { return std::tolower(c); });
  if (!is_bearer) return "";
  authorization.remove_prefix(kScheme.size());
  authorization.remove_prefix(std::min(authorization.find_first_not_of(' '), authorization.size()));
  return authorization;
}

/// In a time that does not tell how much of it is right.
bool is_token(std::string_view given, const std::string& token) {
  return !token.empty() && given.size() == token.size() &&
         CRYPTO_memcmp(given.data(), token.data(), token.size()) == 0;
}

}  // namespace

void check_token(const Access& access, Level level, std::string_view authorization) {
  const bool needs_token = level == Level::admin || (level == Level::reading && !access.loopback_only);
  if (!needs_token || is_token(bearer_token(authorization), access.token)) return;
  // Strangers from other machines are not told what files there are.
  const std::string where = access.loopback_only ? ", the one in " + access.token_file : "";
  if (!authorization.empty())
    throw QueryError(401, "unauthorized", "the token is not that of this collector" + where, kAdvice);
  throw QueryError(401, "unauthorized",
                   (level == Level::admin ? "to change what is stored one needs the collector's token"
                                          : "to ask from other machines one needs the collector's token") +
                       where,
                   kAdvice);
}

}  // namespace laggard::serve
