// Why a request has no answer.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace laggard::serve {

/// Becomes the error answer of docs/api.md. The message says what is wrong and where, in words that are right
/// for whoever asked; the advice is for those who speak HTTP, since a command line has another one.
class QueryError : public std::runtime_error {
 public:
  QueryError(int status, std::string code, const std::string& message, std::string advice = "")
      : std::runtime_error(message), status_(status), code_(std::move(code)), advice_(std::move(advice)) {}
  int status() const { return status_; }
  const std::string& code() const { return code_; }
  const std::string& advice() const { return advice_; }

 private:
  int status_;
  std::string code_, advice_;
};

}  // namespace laggard::serve
