#include "workers/eventing/kafka/kafka_consumer.h"

#include <array>
#include <atomic>
#include <optional>
#include <string_view>

#include "base/alive.h"
#include "workers/eventing/kafka/internal/library.h"

namespace kintsugi::workers {
namespace {

/// A client whose application does not ask for longer than max.poll.interval.ms leaves its group:
/// it is asked also when there is nothing.
constexpr Duration kLook = seconds(1);

struct ListEnd {
  void operator()(rd_kafka_topic_partition_list_t* list) const noexcept {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
using PartitionList = std::unique_ptr<rd_kafka_topic_partition_list_t, ListEnd>;

PartitionList list_of(std::size_t size) {
  return PartitionList(rd_kafka_topic_partition_list_new(static_cast<int>(size)));
}

std::vector<KafkaPartition> partitions_of(const rd_kafka_topic_partition_list_t* list) {
  std::vector<KafkaPartition> out;
  for (int i = 0; list != nullptr && i < list->cnt; ++i) {
    out.emplace_back(list->elems[i].topic, list->elems[i].partition);
  }
  return out;
}

std::optional<std::string> bytes_of(const void* data, std::size_t size) {
  return data == nullptr ? std::nullopt
                         : std::optional(std::string(static_cast<const char*>(data), size));
}

KafkaRecord record_of(const rd_kafka_message_t& message) {
  KafkaRecord out;
  out.topic = rd_kafka_topic_name(message.rkt);
  out.partition = message.partition;
  out.offset = message.offset;
  rd_kafka_timestamp_type_t kind = RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
  out.timestamp = rd_kafka_message_timestamp(&message, &kind);
  out.key = bytes_of(message.key, message.key_len);
  out.value = bytes_of(message.payload, message.len);
  rd_kafka_headers_t* headers = nullptr;
  if (rd_kafka_message_headers(&message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
    const char* name = nullptr;
    const void* value = nullptr;
    std::size_t size = 0;
    for (std::size_t i = 0;
         rd_kafka_header_get_all(headers, i, &name, &value, &size) == RD_KAFKA_RESP_ERR_NO_ERROR;
         ++i) {
      out.headers.emplace_back(name, bytes_of(value, size));
    }
  }
  return out;
}

std::string milliseconds_text(Duration time) {
  return std::to_string(std::chrono::duration_cast<milliseconds>(time).count());
}

/// Whether the client is between the JoinGroup that it sent and the answer to its SyncGroup, as its
/// threads see it.
using Joining = std::atomic<bool>;
constexpr std::int16_t kJoinGroup = 11, kSyncGroup = 14;  // of Kafka's protocol

rd_kafka_resp_err_t on_request_sent(rd_kafka_t* /*client*/, int /*socket*/, const char* /*broker*/,
                                    std::int32_t /*broker_id*/, std::int16_t key,
                                    std::int16_t /*version*/, std::int32_t /*correlation*/,
                                    std::size_t /*size*/, void* opaque) {
  if (key == kJoinGroup) {
    static_cast<Joining*>(opaque)->store(true);
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t on_response_received(rd_kafka_t* /*client*/, int /*socket*/,
                                         const char* /*broker*/, std::int32_t /*broker_id*/,
                                         std::int16_t key, std::int16_t /*version*/,
                                         std::int32_t /*correlation*/, std::size_t /*size*/,
                                         std::int64_t /*rtt*/, rd_kafka_resp_err_t /*code*/,
                                         void* opaque) {
  if (key == kSyncGroup) {
    static_cast<Joining*>(opaque)->store(false);
  }
  return RD_KAFKA_RESP_ERR_NO_ERROR;
}

rd_kafka_resp_err_t on_new(rd_kafka_t* client, const rd_kafka_conf_t* /*settings*/, void* opaque,
                           char* /*why*/, std::size_t /*room*/) {
  const auto code =
      rd_kafka_interceptor_add_on_request_sent(client, "joining", on_request_sent, opaque);
  return code != RD_KAFKA_RESP_ERR_NO_ERROR ? code
                                            : rd_kafka_interceptor_add_on_response_received(
                                                  client, "joining", on_response_received, opaque);
}

}  // namespace

struct KafkaConsumer::Library {
  explicit Library(KafkaConsumer& of) : owner(of) {}
  ~Library() {
    if (client == nullptr) {
      return;
    }
    for (rd_kafka_queue_t* const one : {queue, last_words}) {
      if (one != nullptr) {
        rd_kafka_queue_cb_event_enable(one, nullptr, nullptr);
        rd_kafka_queue_destroy(one);
      }
    }
    end_kafka_client(client, true, joining);
  }

  static void on_rebalance(rd_kafka_t* client, rd_kafka_resp_err_t code,
                           rd_kafka_topic_partition_list_t* list, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    if (self.ending) {  // nobody looks at it any more
      self.unassign(list);
      return;
    }
    if (code == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
      self.complain(rd_kafka_incremental_assign(client, list));
      self.owner.callbacks_.on_assigned(partitions_of(list));
    } else if (code == RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
      self.revoked.reset(rd_kafka_topic_partition_list_copy(list));
      self.owner.callbacks_.on_revoked(partitions_of(list), rd_kafka_assignment_lost(client) != 0);
    } else {
      self.owner.callbacks_.on_error(kafka_text(code), false);
      self.unassign(list);
    }
  }
  /// @param code  no error also where some partitions of the list, which has offsets, were refused
  static void on_commit(rd_kafka_t* /*client*/, rd_kafka_resp_err_t code,
                        rd_kafka_topic_partition_list_t* list, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    if (code == RD_KAFKA_RESP_ERR__NO_OFFSET || self.ending) {
      return;
    }
    KafkaOffsets taken;
    for (int i = 0; list != nullptr && i < list->cnt; ++i) {
      const rd_kafka_topic_partition_t& one = list->elems[i];
      if (code == RD_KAFKA_RESP_ERR_NO_ERROR && one.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        taken.emplace_back(KafkaPartition(one.topic, one.partition), one.offset);
      } else if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
        self.owner.callbacks_.on_error("commit: " + kafka_text(one.err), false);
      }
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR) {
      self.owner.callbacks_.on_error("commit: " + kafka_text(code), false);
    }
    const bool all = list == nullptr || taken.size() == static_cast<std::size_t>(list->cnt);
    self.owner.callbacks_.on_committed(taken, all && code == RD_KAFKA_RESP_ERR_NO_ERROR);
  }
  static void on_error(rd_kafka_t* client, int code, const char* reason, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    if (self.ending) {
      return;
    }
    std::array<char, 512> why{};
    const bool fatal =
        code == RD_KAFKA_RESP_ERR__FATAL &&
        rd_kafka_fatal_error(client, why.data(), why.size()) != RD_KAFKA_RESP_ERR_NO_ERROR;
    self.owner.callbacks_.on_error(fatal ? why.data() : reason, fatal);
  }
  /// Of a thread of the library.
  static void on_something(rd_kafka_t* /*client*/, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    self.owner.loop_.post(self.look);
  }

  void complain(rd_kafka_error_t* error) {
    if (error != nullptr) {
      owner.callbacks_.on_error(rd_kafka_error_string(error), false);
      rd_kafka_error_destroy(error);
    }
  }
  void unassign(const rd_kafka_topic_partition_list_t* list) {
    const std::string_view protocol = rd_kafka_rebalance_protocol(client);
    if (protocol == "COOPERATIVE") {
      if (rd_kafka_error_t* const error = rd_kafka_incremental_unassign(client, list)) {
        rd_kafka_error_destroy(error);  // they are gone already
      }
    } else {
      (void)rd_kafka_assign(client, nullptr);
    }
  }

  KafkaConsumer& owner;
  rd_kafka_t* client = nullptr;
  rd_kafka_queue_t* queue = nullptr;
  rd_kafka_queue_t* last_words = nullptr;  // of a consumer that closes
  PartitionList revoked;
  std::function<void()> look;  // guarded
  std::shared_ptr<Joining> joining = std::make_shared<Joining>(false);
  bool ending = false;
  Alive alive;
};

KafkaConsumer::KafkaConsumer(net::Loop& loop, KafkaConsumerParams params, Callbacks callbacks)
    : loop_(loop),
      params_(std::move(params)),
      callbacks_(std::move(callbacks)),
      library_(std::make_unique<Library>(*this)),
      timer_(loop) {}

KafkaConsumer::~KafkaConsumer() { library_->ending = true; }

Expected<void> KafkaConsumer::start() {
  KafkaSettings settings;
  settings.set({{"bootstrap.servers", params_.bootstrap_servers},
                {"group.id", params_.group},
                {"client.id", params_.client_id},
                {"partition.assignment.strategy", "cooperative-sticky"},
                {"enable.auto.commit", "false"},
                {"enable.auto.offset.store", "false"},
                {"auto.offset.reset", "earliest"},
                {"session.timeout.ms", milliseconds_text(params_.session_timeout)},
                {"heartbeat.interval.ms", milliseconds_text(params_.session_timeout / 4)},
                {"topic.metadata.refresh.interval.ms", "10000"},
                {"reconnect.backoff.max.ms", "2000"},
                {"fetch.error.backoff.ms", "200"},
                {"queued.min.messages", "200"},
                {"queued.max.messages.kbytes", "16384"}});
  rd_kafka_conf_set_opaque(settings.get(), library_.get());
  (void)rd_kafka_conf_interceptor_add_on_new(settings.get(), "joining", on_new,
                                             library_->joining.get());
  rd_kafka_conf_set_rebalance_cb(settings.get(), Library::on_rebalance);
  rd_kafka_conf_set_offset_commit_cb(settings.get(), Library::on_commit);
  rd_kafka_conf_set_error_cb(settings.get(), Library::on_error);
  auto client = settings.make(RD_KAFKA_CONSUMER);
  if (!client) {
    return fail(std::move(client.error()));
  }
  library_->client = *client;
  (void)rd_kafka_poll_set_consumer(*client);
  library_->queue = rd_kafka_queue_get_consumer(*client);
  library_->look = library_->alive.guard([this] { look(); });
  rd_kafka_queue_cb_event_enable(library_->queue, Library::on_something, library_.get());
  const PartitionList topics = list_of(params_.topics.size());
  for (const std::string& topic : params_.topics) {
    rd_kafka_topic_partition_list_add(topics.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
  }
  if (const auto code = rd_kafka_subscribe(*client, topics.get());
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return fail(Errc::kConfig, kafka_text(code));
  }
  look_later();
  return {};
}

bool KafkaConsumer::is_member() const {
  if (library_->client == nullptr || closed_) {
    return false;
  }
  char* const id = rd_kafka_memberid(library_->client);
  const bool out = id != nullptr && *id != '\0';
  rd_kafka_mem_free(library_->client, id);
  return out;
}

bool KafkaConsumer::is_joining() const noexcept { return library_->joining->load(); }

bool KafkaConsumer::look_once() {
  std::vector<KafkaRecord> records;
  bool more = true;
  while (records.size() < params_.batch) {
    rd_kafka_message_t* const message = rd_kafka_consumer_poll(library_->client, 0);
    if (message == nullptr) {
      more = false;
      break;
    }
    if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      records.push_back(record_of(*message));
    } else if (message->err != RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      callbacks_.on_error(rd_kafka_message_errstr(message), false);
    }
    rd_kafka_message_destroy(message);
  }
  if (!records.empty()) {
    callbacks_.on_records(std::move(records));
  }
  return more;
}

void KafkaConsumer::look() {
  if (closed_) {
    return;
  }
  const bool more = look_once();  // of one that closes, by way of `last_words`
  if (closing_ && rd_kafka_consumer_closed(library_->client) != 0) {
    closed_ = true;
    timer_.cancel();
    loop_.post(library_->alive.guard([this] { callbacks_.on_closed(); }));
    return;
  }
  if (more) {
    loop_.post(library_->look);
  }
  look_later();
}

void KafkaConsumer::look_later() {
  timer_.start(closing_ ? milliseconds(50) : kLook, [this] { look(); });
}

void KafkaConsumer::commit(const KafkaOffsets& offsets) {
  const PartitionList list = list_of(offsets.size());
  for (const auto& [partition, offset] : offsets) {
    rd_kafka_topic_partition_list_add(list.get(), partition.first.c_str(), partition.second)
        ->offset = offset;
  }
  if (const auto code = rd_kafka_commit(library_->client, list.get(), 1);
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    callbacks_.on_error("commit: " + kafka_text(code), false);
    callbacks_.on_committed({}, false);
  }
}

void KafkaConsumer::pause(const KafkaPartition& partition) {
  const PartitionList list = list_of(1);
  rd_kafka_topic_partition_list_add(list.get(), partition.first.c_str(), partition.second);
  (void)rd_kafka_pause_partitions(library_->client, list.get());
}

void KafkaConsumer::resume(const KafkaPartition& partition) {
  const PartitionList list = list_of(1);
  rd_kafka_topic_partition_list_add(list.get(), partition.first.c_str(), partition.second);
  (void)rd_kafka_resume_partitions(library_->client, list.get());
}

void KafkaConsumer::release() {
  if (const PartitionList list = std::move(library_->revoked)) {
    library_->unassign(list.get());
  }
}

void KafkaConsumer::close() {
  if (closing_) {
    return;
  }
  closing_ = true;
  if (library_->client == nullptr) {
    closed_ = true;
    loop_.post(library_->alive.guard([this] { callbacks_.on_closed(); }));
    return;
  }
  library_->last_words = rd_kafka_queue_new(library_->client);
  rd_kafka_queue_cb_event_enable(library_->last_words, Library::on_something, library_.get());
  if (rd_kafka_error_t* const error =
          rd_kafka_consumer_close_queue(library_->client, library_->last_words)) {
    rd_kafka_error_destroy(error);
  }
  look_later();
}

}  // namespace kintsugi::workers
