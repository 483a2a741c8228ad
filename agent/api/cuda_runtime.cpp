#include "agent/api/cuda_runtime.h"

#include <dlfcn.h>

#include <array>
#include <fstream>
#include <string>

namespace laggard::agent {
namespace {

// As CUDA 10 to 13 call it.
constexpr std::array kNames{"libcudart.so.13",   "libcudart.so.12",   "libcudart.so.11.0",
                            "libcudart.so.10.2", "libcudart.so.10.1", "libcudart.so"};

// The one that the process has loaded, whatever its wheel calls it (libcudart-9335f6a2.so.11.0).
std::string loaded_runtime() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find('/'), name = line.rfind('/');
    if (path != std::string::npos && line.compare(name, 10, "/libcudart") == 0) return line.substr(path);
  }
  return "";
}

void* find_library(const std::string& library) {
  if (library != "auto") return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (const std::string loaded = loaded_runtime(); !loaded.empty())
    if (void* found = ::dlopen(loaded.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD); found != nullptr)
      return found;
  for (const char* name : kNames)
    if (void* found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL); found != nullptr) return found;
  return nullptr;
}

template <typename Function>
bool find(void* library, const char* name, Function** out) {
  *out = reinterpret_cast<Function*>(::dlsym(library, name));
  return *out != nullptr;
}

}  // namespace

std::optional<CudaRuntime> CudaRuntime::open(const std::string& library) {
  void* found = find_library(library);
  if (found == nullptr) return std::nullopt;
  CudaRuntime out;
  const bool whole = find(found, "cudaEventCreateWithFlags", &out.event_create) &&
                     find(found, "cudaEventDestroy", &out.event_destroy) &&
                     find(found, "cudaEventRecord", &out.event_record) &&
                     find(found, "cudaEventQuery", &out.event_query) &&
                     find(found, "cudaEventElapsedTime", &out.event_elapsed) &&
                     find(found, "cudaStreamIsCapturing", &out.stream_is_capturing) &&
                     find(found, "cudaThreadExchangeStreamCaptureMode", &out.exchange_capture_mode) &&
                     find(found, "cudaGetLastError", &out.last_error);
  if (whole) return out;
  ::dlclose(found);
  return std::nullopt;
}

}  // namespace laggard::agent
