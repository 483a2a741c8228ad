#include "client/commands/watch.h"

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "client/alternate_screen.h"
#include "client/http/url.h"
#include "client/render/json_text.h"
#include "client/render/number.h"
#include "client/render/text.h"
#include "client/views/views.h"

namespace laggard::client {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kRedraw{1000};  // ages go on without any step
constexpr milliseconds kFastest{100};  // between two redraws, however fast the steps are
constexpr milliseconds kRetry{1000};
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::seconds kNoticeStays{30};

/// Where a watch begins: of a run that was not there when it was asked for, no step is to be missed.
enum class From { now, first_step };

/// The event stream of one run, opened again whenever it was lost.
class LiveEvents {
 public:
  LiveEvents(const Collector& collector, const RunRef& run, From from) : collector_(collector), run_(run) {
    if (from == From::first_step) last_id_ = kBeforeAll;
  }

  /// Opens the stream unless it is open. Returns what to tell the person, "" for nothing. Throws Failure.
  std::string connect() {
    if (stream_) return "";
    const Json status = collector_.get("/api/v1/status", kPatience);
    const std::string now = text(at(status, "collector_id")) + text(at(status, "started_unix_ms"));
    const bool first = incarnation_.empty(), restarted = !first && now != incarnation_;
    // A collector that has restarted counts its events anew.
    if (restarted) last_id_.clear();
    std::string target = "/api/v1/events?run=" + percent_encoded(run_.name);
    if (!last_id_.empty()) target += "&after=" + percent_encoded(last_id_);
    stream_ = collector_.events(target);
    incarnation_ = now;
    if (first) return "";
    return restarted
               ? "the collector has restarted; connected again (laggard steps lists what came meanwhile)"
               : "connected again";
  }
  void disconnect() { stream_.reset(); }

  std::vector<ServerEvent> wait(milliseconds limit) {
    auto events = stream_->wait(limit);
    if (events.empty()) return events;
    // Those of other runs, before the first of this one.
    if (last_id_ == kBeforeAll && events.front().name == "gap") events.erase(events.begin());
    if (!events.empty()) last_id_ = events.back().id;
    return events;
  }

 private:
  static constexpr const char* kBeforeAll = "0";

  const Collector& collector_;
  const RunRef& run_;
  std::unique_ptr<EventStream> stream_;
  std::string incarnation_, last_id_;
};

void print_event(const Context& context, const RunRef& run, const ServerEvent& event) {
  if (event.name == "gap") {
    context.console.err("laggard: steps were missed here; laggard steps lists them all\n");
    return;
  }
  const Json step = parse_json(event.data);
  if (event.name != "step" || !step.is_object()) return;
  if (run.attempt && integer(at(step, "attempt")) != static_cast<std::int64_t>(*run.attempt)) return;
  context.console.out((context.format() == Format::jsonl ? json_text(step, -1) : printable(step_line(step))) +
                      '\n');
}

bool has_ended(const Json& status) { return text(at(status, "state")) == "ended"; }

struct Begin {
  Json status;
  From from = From::now;
};

// The run's first status. Whoever types a collector, an agent and a watch one after the other is faster than
// the first record.
Begin await_run(const Context& context, const Collector& collector, const RunRef& run) {
  From from = From::now;
  for (bool told = false;; told = true) {
    try {
      return {collector.get(run_target(run), kPatience), from};
    } catch (const NoAnswer& failure) {
      if (failure.code() == ExitCode::no_such_data) from = From::first_step;
      if (!told)
        context.console.err("laggard: " + printable(failure.what()) + "\nWaiting for it; Ctrl-C ends.\n");
    }
    std::this_thread::sleep_for(kRetry);
  }
}

using Print = std::function<void(const std::vector<ServerEvent>&)>;

// Hands on what comes until the run has ended, also across a collector that goes and comes back, and a run
// that is not there for a while because the collector has begun again without its database.
void watch_events(const Context& context, const Collector& collector, const RunRef& run, From from,
                  const Print& print) {
  LiveEvents events(collector, run, from);
  std::string trouble;
  for (bool ended = false;;) {
    try {
      const std::string notice = events.connect();
      if (!notice.empty()) context.console.err("laggard: " + notice + '\n');
      trouble.clear();
      const auto news = events.wait(kRedraw);
      if (!news.empty()) {
        print(news);
        ended = false;  // the job may have begun anew
        continue;
      }
      // Twice: a step may have settled just before the end.
      const bool ended_before = ended;
      ended = has_ended(collector.get(run_target(run), kPatience));
      if (ended && ended_before) return;
    } catch (const NoAnswer& failure) {
      if (trouble != failure.what())
        context.console.err("laggard: " + printable(failure.what()) + "; trying again\n");
      trouble = failure.what();
      events.disconnect();
      std::this_thread::sleep_for(kRetry);
    }
  }
}

void watch_lines(const Context& context, const Collector& collector, const RunRef& run, From from) {
  watch_events(context, collector, run, from, [&](const std::vector<ServerEvent>& events) {
    for (const ServerEvent& event : events) print_event(context, run, event);
  });
  context.console.err("laggard: run " + printable(run.name) + " has ended; laggard report " +
                      printable(run.name) + " sums it up\n");
}

// For a terminal that cannot be written over: one screen below the other, whenever there is a step.
void watch_screens(const Context& context, const Collector& collector, const RunRef& run, From from,
                   const Json& first) {
  const auto show = [&](const Json& status) {
    context.show(status_view(status, context.console.terminal().columns));
    context.console.out("\n");
  };
  const auto show_newest = [&] { show(collector.get(run_target(run), kPatience)); };
  show(first);
  if (has_ended(first)) return;
  watch_events(context, collector, run, from, [&](const std::vector<ServerEvent>&) { show_newest(); });
  show_newest();
}

/// Draws the newest status the collector gave, with a line above it.
class StatusScreen {
 public:
  StatusScreen(const Context& context, const Collector& collector, const RunRef& run, Json first)
      : context_(context), collector_(collector), run_(run), status_(std::move(first)) {}

  /// Asks for the status. Throws Failure.
  void update() { status_ = collector_.get(run_target(run_), kPatience); }

  const Json& status() const { return status_; }

  void tell(const std::string& notice) {
    notice_ = notice;
    told_ = Clock::now();
  }

  void draw(const std::string& trouble) const {
    const Terminal terminal = context_.console.terminal();
    const OutputStyle style{
        .format = Format::table, .terminal = true, .color = terminal.color, .columns = terminal.columns};
    std::string head = "laggard status " + run_.name + " at " + collector_.address() + ", Ctrl-C ends";
    if (!trouble.empty()) {
      head = trouble;
    } else if (!notice_.empty() && Clock::now() - told_ < kNoticeStays) {
      head = notice_;
    }
    const Tone tone = trouble.empty() ? Tone::dim : Tone::bad;
    std::string text;
    for (const std::string& line : wrap(printable(head), terminal.columns))
      text += toned(line, tone, terminal.color) + '\n';
    text += '\n' + write_view(status_view(status_, terminal.columns), style);
    context_.console.out(framed(text, terminal.rows));
  }

 private:
  // Overwrites line by line, since clearing the screen first would flicker.
  static std::string framed(std::string_view text, std::size_t rows) {
    std::string out = "\x1b[H";
    for (std::size_t row = 1; !text.empty(); ++row) {
      const std::size_t end = text.find('\n');
      const bool last = row == rows;
      out += last && end + 1 < text.size() ? "(the window is too low for the rest)" : text.substr(0, end);
      out += "\x1b[K";
      text.remove_prefix(last ? text.size() : end + 1);
      if (!text.empty()) out += "\r\n";
    }
    return out + "\x1b[J";
  }

  const Context& context_;
  const Collector& collector_;
  const RunRef& run_;
  Json status_;
  std::string notice_;
  Clock::time_point told_;
};

// Returns the last status.
Json watch_screen(const Context& context, const Collector& collector, const RunRef& run, Json first) {
  LiveEvents events(collector, run, From::now);
  StatusScreen screen(context, collector, run, std::move(first));
  const AlternateScreen alternate;
  for (auto contact = Clock::now(); !has_ended(screen.status());) {
    const auto drawn = Clock::now();
    try {
      if (const std::string notice = events.connect(); !notice.empty()) screen.tell(notice);
      screen.update();
      contact = Clock::now();
      screen.draw("");
      events.wait(kRedraw);
    } catch (const NoAnswer& failure) {
      events.disconnect();
      const auto since = std::chrono::duration_cast<milliseconds>(Clock::now() - contact);
      screen.draw("this is the last answer, " + age(since.count()) + " old; trying again: " + failure.what());
      std::this_thread::sleep_for(kRetry);
    }
    std::this_thread::sleep_until(drawn + kFastest);
  }
  return screen.status();
}

}  // namespace

void watch_run(const Context& context, const RunRef& run) {
  const Format format = context.format();
  const Collector collector = context.collector();
  if (format != Format::table && format != Format::jsonl) {
    throw Failure(ExitCode::usage, "--watch writes -o table or -o jsonl");
  }
  auto [first, from] = await_run(context, collector, run);
  const Terminal terminal = context.console.terminal();
  if (!terminal.present || format != Format::table) return watch_lines(context, collector, run, from);
  if (!terminal.redraws) return watch_screens(context, collector, run, from, first);
  // What the other screen showed last stays to be read.
  context.show(status_view(watch_screen(context, collector, run, std::move(first)), terminal.columns));
}

}  // namespace laggard::client
