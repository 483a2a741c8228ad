// The few functions of CUDA's runtime that time a stream, found when the program runs: nothing is linked.
#pragma once

#include <optional>
#include <string>

namespace laggard::agent {

/// As CUDA has them: each returns 0 when it did what it was asked.
struct CudaRuntime {
  using Event = void*;
  using Stream = void*;  ///< cudaStream_t; null is the default stream
  static constexpr int kSuccess = 0, kNotReady = 600;
  static constexpr int kNotCapturing = 0;
  static constexpr int kRelaxedCapture = 2;

  int (*event_create)(Event* event, unsigned flags) = nullptr;
  int (*event_destroy)(Event event) = nullptr;
  int (*event_record)(Event event, Stream stream) = nullptr;
  int (*event_query)(Event event) = nullptr;
  int (*event_elapsed)(float* ms, Event begin, Event end) = nullptr;
  int (*stream_is_capturing)(Stream stream, int* status) = nullptr;
  int (*exchange_capture_mode)(int* mode) = nullptr;
  int (*last_error)() = nullptr;

  /// From `library`, a path or name, or with "auto" one that this process has loaded already, else one that
  /// the system finds. Nothing when there is none that has them all. Touches no device.
  static std::optional<CudaRuntime> open(const std::string& library);
};

}  // namespace laggard::agent
