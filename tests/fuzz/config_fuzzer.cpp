// The collector's configuration file: read, or refused with an Error.
#include "daemon/app/config.h"
#include "daemon/base/error.h"
#include "tests/fuzz/fuzzer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    laggard::app::Config config;
    laggard::app::apply_toml(laggard::fuzz::text_of(data, size), "laggardd.toml", config);
  } catch (const laggard::Error&) {
  }
  return 0;
}
