// Which source speaks on which channel of which connection, and what its messages mean. No socket.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "daemon/ingest/messages.h"
#include "daemon/keys/allow_list.h"

namespace laggard::wire {
class Batch;
class Envelope;
class Hello;
}  // namespace laggard::wire

namespace laggard::ingest {

/// A message for a peer: where to and what.
struct Outgoing {
  std::string peer;  ///< the routing id that the ROUTER assigned
  std::string bytes;
};

/// Losses and refusals at the door, for /metrics and `laggard status`.
struct Counts {
  std::uint64_t messages = 0;            ///< read from the socket
  std::uint64_t messages_malformed = 0;  ///< no message of ours, or one that contradicts itself
  std::uint64_t messages_too_large = 0;  ///< over limits::kMaxMessageBytes
  std::uint64_t hellos = 0;
  std::uint64_t hellos_refused = 0;
  std::uint64_t unknown_sessions = 0;  ///< messages on a channel without a Hello; the agent is told to say it
  std::uint64_t batches_over_credit = 0;   ///< dropped: a source may have only so much on its way
  std::uint64_t items = 0;                 ///< handed to the engine
  std::uint64_t replies_unsent = 0;        ///< the peer was gone or did not read
  std::uint64_t sessions = 0;              ///< open now
  std::uint64_t sessions_refused = 0;      ///< over limits::kMaxSessions
  std::uint64_t hellos_not_allowed = 0;    ///< of a run that the key may not deliver; also in hellos_refused
  std::uint64_t messages_not_allowed = 0;  ///< of a key that was allowed when it connected
};

/// Turns messages of peers into messages to the engine, and the engine's replies into messages to peers.
/// Nothing that comes in is trusted. Time is passed in.
class Sessions {
 public:
  explicit Sessions(std::string collector_id) : collector_id_(std::move(collector_id)) {}

  /// From now on takes messages of the keys on this list alone, and ends the sessions of others; these are
  /// told in `out`. Before the first call everybody is taken.
  void allow_only(std::shared_ptr<const keys::AllowList> list, std::vector<Outgoing>& out);
  /// Reads one message of a peer that has proved to own the key `user`. An answer that needs no engine is
  /// added to `out`.
  std::optional<Message> receive(std::string_view peer, std::string_view bytes, core::UnixMs now,
                                 std::vector<Outgoing>& out, std::string_view user = {});
  /// Where a source is connected; null when it is not.
  const std::string* peer_of(core::SourceKey source) const;
  /// What to send for a reply of the engine; nothing when its session is gone.
  std::optional<Outgoing> answer(const Reply& reply);
  /// Forgets a peer that can no longer be reached, and those not heard for long. Nobody could be heard before
  /// `listening_since`.
  void drop_peer(const std::string& peer);
  void drop_silent(core::UnixMs now, core::UnixMs listening_since);

  Counts counts() const;
  void count_unsent() { ++counts_.replies_unsent; }
  /// A message that is not even one frame.
  void count_malformed() { ++counts_.messages, ++counts_.messages_malformed; }

 private:
  struct Session {
    SessionId id = 0;
    std::string peer;
    std::uint32_t channel = 0;
    Rank rank = 0;
    core::SourceKey source = 0;  // 0 until the engine has welcomed it
    std::vector<Layout> layouts;
    core::UnixMs last_heard = 0;
    std::string user, run;            // whose key, for which run
    std::uint64_t last_seq = 0;       // handed to the engine
    std::uint64_t committed_seq = 0;  // as last told
    std::uint64_t allowed_seq = 0;    // the highest number that the credit given so far allows
    void tell(std::uint64_t committed, std::uint32_t credit);
  };
  using Key = std::pair<std::string, std::uint32_t>;

  std::optional<Message> greet(const Key& key, std::string_view user, const wire::Hello& hello,
                               core::UnixMs now, std::vector<Outgoing>& out);
  bool is_allowed(std::string_view user) const;
  /// Why a key may not deliver a run; nothing when it may.
  std::optional<std::string> forbids(std::string_view user, std::string_view run) const;
  static bool is_over_credit(Session& session, const wire::Batch& batch);
  std::optional<Message> take_batch(Session& session, const wire::Batch& batch);
  void refuse(const Key& key, std::string reason, bool hello_again, std::vector<Outgoing>& out);
  /// How many items a source may have on their way.
  std::uint32_t credit() const;
  void erase(SessionId id);
  std::nullopt_t malformed();

  const std::string collector_id_;
  std::shared_ptr<const keys::AllowList> allowed_;  // null: everybody
  std::map<SessionId, Session> sessions_;
  std::map<Key, SessionId> by_key_;
  std::unordered_map<core::SourceKey, SessionId> by_source_;
  SessionId next_ = 1;
  Counts counts_;
};

/// What is wrong with a name of a run or an id that comes from outside; nothing when it may be used: not
/// empty, UTF-8 without control characters, at most `most` bytes.
std::optional<std::string> bad_name(std::string_view name, std::size_t most);

}  // namespace laggard::ingest
