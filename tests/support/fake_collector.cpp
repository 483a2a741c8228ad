#include "tests/support/fake_collector.h"

#include <condition_variable>
#include <mutex>
#include <thread>
#include <zmq.hpp>

#include "proto/codec.h"
#include "proto/wire.pb.h"

namespace laggard::test {

std::size_t Received::updates() const {
  std::size_t out = 0;
  for (const auto& [id, source] : sources)
    for (const ReceivedSource::Item& item : source.items) out += item.kind == 'u';
  return out;
}

struct FakeCollector::Impl {
  struct Session {
    std::string source_id;
    std::vector<Layout> layouts;
  };
  using Channel = std::pair<std::string, std::uint32_t>;  // routing id and channel

  void serve();
  void on(const Channel& from, const wire::Envelope& envelope, zmq::socket_t& socket);
  void on_hello(const Channel& from, const wire::Hello& hello, wire::Envelope* answer);
  void on_batch(const Channel& from, const wire::Batch& batch, wire::Envelope* answer);
  void commit(ReceivedSource& source, Session& session, const wire::Batch& batch);
  void commit_records(ReceivedSource& source, Session& session, const wire::Batch& batch);

  mutable std::mutex mutex;
  std::condition_variable changed;
  Behaviour behaviour;
  Received received;
  std::map<Channel, Session> sessions;
  bool stopping = false;
  std::string endpoint = "tcp://127.0.0.1:*";
  std::thread thread;
};

void FakeCollector::Impl::serve() {
  zmq::context_t context{1};
  zmq::socket_t socket{context, zmq::socket_type::router};
  socket.set(zmq::sockopt::linger, 0);
  socket.bind(endpoint);
  {
    const std::lock_guard lock(mutex);
    endpoint = socket.get(zmq::sockopt::last_endpoint);
    changed.notify_all();
  }
  for (;;) {
    std::vector<zmq::pollitem_t> items{{socket.handle(), 0, ZMQ_POLLIN, 0}};
    zmq::poll(items, std::chrono::milliseconds(5));
    const std::lock_guard lock(mutex);
    if (stopping) return;
    zmq::message_t from, body;
    while (socket.recv(from, zmq::recv_flags::dontwait)) {
      (void)socket.recv(body);
      wire::Envelope envelope;
      if (!envelope.ParseFromArray(body.data(), static_cast<int>(body.size())))
        received.faults.push_back("a message that is no Envelope");
      else
        on({from.to_string(), envelope.channel()}, envelope, socket);
    }
    changed.notify_all();
  }
}

void FakeCollector::Impl::on(const Channel& from, const wire::Envelope& envelope, zmq::socket_t& socket) {
  wire::Envelope answer;
  answer.set_channel(from.second);
  if (envelope.has_hello()) {
    on_hello(from, envelope.hello(), &answer);
  } else if (!sessions.contains(from)) {
    answer.mutable_reject()->set_hello_again(true);
  } else if (envelope.has_batch()) {
    on_batch(from, envelope.batch(), &answer);
  } else if (envelope.has_bye()) {
    ReceivedSource& source = received.sources.at(sessions.at(from).source_id);
    source.said_bye = true;
    source.finished = envelope.bye().finished();
    answer.mutable_bye();
  } else if (envelope.has_heartbeat()) {
    answer.mutable_heartbeat();
  } else {
    received.faults.push_back("a message of no kind that an agent sends");
  }
  if (answer.body_case() == wire::Envelope::BODY_NOT_SET) return;
  socket.send(zmq::buffer(from.first), zmq::send_flags::sndmore);
  socket.send(zmq::buffer(answer.SerializeAsString()), zmq::send_flags::none);
}

void FakeCollector::Impl::on_hello(const Channel& from, const wire::Hello& hello, wire::Envelope* answer) {
  if (!behaviour.refuse.empty()) {
    answer->mutable_reject()->set_reason(behaviour.refuse);
    return;
  }
  ReceivedSource& source = received.sources[hello.source().id()];
  ++source.hellos;
  if (!behaviour.welcome) return;
  source.run = hello.run();
  source.rank = hello.rank();
  source.origin = hello.source().origin();
  source.resumed = hello.resumed();
  Session& session = sessions[from];
  session = {.source_id = hello.source().id(), .layouts = {}};
  for (const wire::Layout& layout : hello.layouts()) session.layouts.push_back(codec::from_wire(layout));
  wire::Welcome* welcome = answer->mutable_welcome();
  welcome->set_committed_seq(source.committed_seq);
  welcome->set_window_records(behaviour.window);
  welcome->set_collector_id(behaviour.collector_id);
}

void FakeCollector::Impl::on_batch(const Channel& from, const wire::Batch& batch, wire::Envelope* answer) {
  if (!behaviour.commit) return;
  if (behaviour.reject_hello_again > 0) {
    --behaviour.reject_hello_again;
    sessions.erase(from);
    answer->mutable_reject()->set_hello_again(true);
    return;
  }
  Session& session = sessions.at(from);
  ReceivedSource& source = received.sources.at(session.source_id);
  if (batch.first_seq() > source.committed_seq + 1)
    ++received.gaps;
  else if (batch.first_seq() <= source.committed_seq)
    received.duplicates += static_cast<std::uint64_t>(batch.has_records() ? batch.records().ranks_size() : 1);
  else
    commit(source, session, batch);
  if (!behaviour.ack) return;
  wire::Ack* ack = answer->mutable_ack();
  ack->set_committed_seq(source.committed_seq);
  ack->set_credit(behaviour.window);
  ack->set_stored(source.items.size());
}

void FakeCollector::Impl::commit(ReceivedSource& source, Session& session, const wire::Batch& batch) {
  if (batch.layouts_size() > 0 && batch.first_layout() != session.layouts.size())
    received.faults.push_back("layouts that are not numbered on");
  for (const wire::Layout& layout : batch.layouts()) session.layouts.push_back(codec::from_wire(layout));
  if (batch.has_records()) return commit_records(source, session, batch);
  source.items.push_back({batch.has_config() ? 'c' : 'e', batch.attempt(), -1, 0});
  ++source.committed_seq;
}

void FakeCollector::Impl::commit_records(ReceivedSource& source, Session& session, const wire::Batch& batch) {
  PackedRecords records;
  const auto layout_of = [&](LayoutId id) {
    return id < session.layouts.size() ? &session.layouts[id] : nullptr;
  };
  if (const auto fault = codec::from_wire(batch.records(), layout_of, &records)) {
    received.faults.push_back(*fault);
    return;
  }
  for (std::size_t i = 0; i < records.size(); ++i) {
    const RecordView record = records.view(i, session.layouts[records.layout_id(i)]);
    if (record.rank != source.rank) received.faults.push_back("a record of another rank");
    source.items.push_back({'u', batch.attempt(), record.step, record.wall_ms()});
  }
  source.committed_seq += records.size();
}

FakeCollector::FakeCollector() : impl_(std::make_unique<Impl>()) { start(); }

FakeCollector::~FakeCollector() { stop(); }

const std::string& FakeCollector::endpoint() const { return impl_->endpoint; }

void FakeCollector::behave(const Behaviour& behaviour) {
  const std::lock_guard lock(impl_->mutex);
  impl_->behaviour = behaviour;
}

void FakeCollector::stop() {
  if (!impl_->thread.joinable()) return;
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->thread.join();
  impl_->sessions.clear();
}

void FakeCollector::start(bool empty) {
  if (empty) impl_->received = {};
  impl_->stopping = false;
  impl_->thread = std::thread([this] { impl_->serve(); });
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait(lock, [this] { return impl_->endpoint.back() != '*'; });
}

bool FakeCollector::wait_for(const std::function<bool(const Received&)>& condition) {
  std::unique_lock lock(impl_->mutex);
  return impl_->changed.wait_for(lock, std::chrono::seconds(20), [&] { return condition(impl_->received); });
}

Received FakeCollector::received() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->received;
}

}  // namespace laggard::test
