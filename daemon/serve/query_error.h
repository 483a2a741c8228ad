// Why a request has no answer.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace laggard::serve {

/// Becomes the error answer of docs/api.md. The message is for a person: what, where, what to do.
class QueryError : public std::runtime_error {
 public:
  QueryError(int status, std::string code, const std::string& message)
      : std::runtime_error(message), status_(status), code_(std::move(code)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }

 private:
  int status_;
  std::string code_;
};

}  // namespace laggard::serve
