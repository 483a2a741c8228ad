// What a test sees of the CUDA runtime that stands in for the real one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>

struct FakeDevice {
  // Set by the test.
  double now_ms = 0;       ///< the time that an event is recorded with
  std::uint64_t done = 0;  ///< the device has passed the first so many recordings
  std::set<std::uint64_t> done_out_of_order;
  int fails = 0;  ///< the error of whatever is created or recorded
  int query_fails = 0, capture_fails = 0;
  int current = 0;  ///< the device that the thread is on
  bool capturing = false;
  // Seen.
  int queries = 0, synchronisations = 0;
  int capture_mode = 0;  ///< cudaStreamCaptureModeGlobal
  void* last_stream = nullptr;
  std::uint64_t recordings = 0;
  std::size_t events = 0;  ///< that exist
  int last_error = 0;      ///< that a job would find
};

extern "C" FakeDevice* fake_device();
extern "C" void fake_reset();
