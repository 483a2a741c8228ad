// Which request gets which answer, and from where. It knows no sockets.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "daemon/serve/access.h"
#include "daemon/serve/counters.h"
#include "daemon/serve/query_service.h"

namespace laggard::serve {

struct Request {
  std::string method;
  std::string target;
  std::string body;
  std::string host;  ///< header fields, "" when absent
  std::string origin;
  std::string authorization;
  std::string last_event_id;
};

struct Answer {
  unsigned status = 200;
  std::string content_type = "application/json";
  std::string body;
  std::string allow;  ///< the methods there are, of a 405
};

/// An answer from storage: it may take long.
using StoredAnswer = std::function<Answer(History&)>;
/// A stream of an attempt's records.
struct ExportAsked {
  AttemptAsked attempt;
};
/// A stream of events.
struct EventsAsked {
  std::string run;                     ///< "" for all
  std::optional<std::uint64_t> after;  ///< the last event the client has seen
};
using Reply = std::variant<Answer, StoredAnswer, ExportAsked, EventsAsked>;

/// Runs `answer` and turns what it throws into an error answer.
Answer guarded(const std::function<Answer()>& answer);

class Api {
 public:
  Api(const QueryService& service, Counters& counters, Access access)
      : service_(service), counters_(counters), access_(std::move(access)) {}

  /// Never throws, whatever the request says. Live answers are computed here; the rest is handed back.
  Reply handle(const Request& request) const;

 private:
  struct Call {
    std::vector<std::string> names;  // what stands in the place of each {} of the route
    std::map<std::string, std::string> query;
    const std::string* body;
    std::string last_event_id;
  };
  struct Route;
  static const std::vector<Route>& routes();
  /// The route of this method and path, with what stands in the place of its {}.
  struct Found {
    const Route* route = nullptr;
    std::vector<std::string> names;
    std::string allow;  ///< without a route: the methods that the path takes
  };
  static Found find(const std::string& method, const std::vector<std::string>& path);
  Reply route(const Request& request) const;

  Reply status(const Call& call) const;
  Reply runs(const Call& call) const;
  Reply run(const Call& call) const;
  Reply steps(const Call& call) const;
  Reply step(const Call& call) const;
  Reply ranks(const Call& call) const;
  Reply stages(const Call& call) const;
  Reply export_run(const Call& call) const;
  Reply report(const Call& call) const;
  Reply compare(const Call& call) const;
  Reply close(const Call& call) const;
  Reply remove(const Call& call) const;
  Reply events(const Call& call) const;
  Reply metrics(const Call& call) const;
  Reply healthy(const Call& call) const;
  Reply ready(const Call& call) const;

  const QueryService& service_;
  Counters& counters_;
  const Access access_;
};

}  // namespace laggard::serve
