// Stands in for CUDA's runtime, with a device that does what a test tells it. A stream's clock is the test's.
#include "tests/support/fake_cudart.h"

#include <cstdint>
#include <map>
#include <memory>

namespace {

struct Event {
  double at_ms = 0;
  std::uint64_t number = 0;  // of its recording; 0: never
  int device = 0;            // that was current when it was made
};

FakeDevice g_device;
std::uint64_t g_recordings = 0;
std::map<void*, std::unique_ptr<Event>> g_events;
int g_last_error = 0;

int fail(int error) {
  g_last_error = error;
  return error;
}

bool is_done(const Event& event) {
  return event.number <= g_device.done || g_device.done_out_of_order.contains(event.number);
}

}  // namespace

extern "C" {

FakeDevice* fake_device() {
  g_device.events = g_events.size();
  g_device.recordings = g_recordings;
  g_device.last_error = g_last_error;
  return &g_device;
}

void fake_reset() {
  g_device = {};
  g_events.clear();
  g_recordings = 0;
  g_last_error = 0;
}

int cudaEventCreateWithFlags(void** event, unsigned) {
  if (g_device.fails) return fail(g_device.fails);
  auto made = std::make_unique<Event>();
  made->device = g_device.current;
  *event = made.get();
  g_events.emplace(made.get(), std::move(made));
  return 0;
}

int cudaEventDestroy(void* event) {
  g_events.erase(event);
  return 0;
}

int cudaEventRecord(void* event, void* stream) {
  if (g_device.fails) return fail(g_device.fails);
  auto& recorded = *static_cast<Event*>(event);
  if (recorded.device != g_device.current) return fail(400);  // an invalid resource handle
  g_device.last_stream = stream;
  recorded.at_ms = g_device.now_ms;
  recorded.number = ++g_recordings;
  return 0;
}

int cudaEventQuery(void* event) {
  ++g_device.queries;
  if (g_device.query_fails) return fail(g_device.query_fails);
  return is_done(*static_cast<Event*>(event)) ? 0 : fail(600);
}

int cudaEventElapsedTime(float* ms, void* begin, void* end) {
  const Event &first = *static_cast<Event*>(begin), &last = *static_cast<Event*>(end);
  if (!is_done(first) || !is_done(last)) return fail(600);
  *ms = static_cast<float>(last.at_ms - first.at_ms);
  return 0;
}

int cudaStreamIsCapturing(void*, int* status) {
  if (g_device.capture_fails) return fail(g_device.capture_fails);
  *status = g_device.capturing ? 1 : 0;
  return 0;
}

int cudaThreadExchangeStreamCaptureMode(int* mode) {
  const int before = g_device.capture_mode;
  g_device.capture_mode = *mode;
  *mode = before;
  return 0;
}

int cudaGetLastError() {
  const int error = g_last_error;
  g_last_error = 0;
  return error;
}

int cudaEventSynchronize(void*) { return ++g_device.synchronisations, 0; }
int cudaStreamSynchronize(void*) { return ++g_device.synchronisations, 0; }
int cudaDeviceSynchronize() { return ++g_device.synchronisations, 0; }

}  // extern "C"
