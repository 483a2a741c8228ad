#include "agent/api/cuda_runtime.h"

#include <dlfcn.h>

#include <array>

namespace laggard::agent {
namespace {

// As CUDA 10 to 13 call it; PyTorch brings one of its own, which it has loaded when it is used.
constexpr std::array kNames{"libcudart.so.13",   "libcudart.so.12",   "libcudart.so.11.0",
                            "libcudart.so.10.2", "libcudart.so.10.1", "libcudart.so"};

void* find_library(const std::string& library) {
  if (library != "auto") return ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (const int loaded : {RTLD_NOLOAD, 0})
    for (const char* name : kNames)
      if (void* found = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | loaded); found != nullptr) return found;
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
