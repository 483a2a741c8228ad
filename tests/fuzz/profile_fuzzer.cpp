// A job profile as TOML: read, or refused with an Error.
#include "daemon/base/error.h"
#include "daemon/base/profile.h"
#include "tests/fuzz/fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    (void)laggard::parse_profile(laggard::fuzz::text_of(data, size), "profile.toml");
  } catch (const laggard::Error&) {
  }
  return 0;
}
