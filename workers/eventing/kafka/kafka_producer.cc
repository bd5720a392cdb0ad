#include "workers/eventing/kafka/kafka_producer.h"

#include <utility>

#include "base/alive.h"
#include "workers/eventing/kafka/internal/library.h"

namespace kintsugi::workers {

struct KafkaProducer::Library {
  explicit Library(KafkaProducer& of) : owner(of) {}
  ~Library() {
    if (client != nullptr) {
      rd_kafka_queue_cb_event_enable(queue, nullptr, nullptr);
      rd_kafka_queue_destroy(queue);
      (void)rd_kafka_purge(client, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
      end_kafka_client(client, false);
    }
  }
  /// Within look(), and of the thread that ends the client.
  static void on_report(rd_kafka_t* /*client*/, const rd_kafka_message_t* message, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    if (!self.owner.loop_.in_loop_thread()) {
      return;
    }
    const auto number = reinterpret_cast<std::uintptr_t>(message->_private);
    const auto at = self.owner.waiting_.find(number);
    if (at != self.owner.waiting_.end()) {
      const Done done = std::move(at->second);
      self.owner.waiting_.erase(at);
      done(message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? "" : kafka_text(message->err));
    }
  }
  static void on_something(rd_kafka_t* /*client*/, void* opaque) {
    auto& self = *static_cast<Library*>(opaque);
    self.owner.loop_.post(self.look);
  }
  KafkaProducer& owner;
  rd_kafka_t* client = nullptr;
  rd_kafka_queue_t* queue = nullptr;
  std::function<void()> look;
  Alive alive;
};

KafkaProducer::KafkaProducer(net::Loop& loop, std::string bootstrap_servers, std::string client_id)
    : loop_(loop),
      bootstrap_servers_(std::move(bootstrap_servers)),
      client_id_(std::move(client_id)),
      library_(std::make_unique<Library>(*this)) {}

KafkaProducer::~KafkaProducer() = default;

Expected<void> KafkaProducer::start() {
  KafkaSettings settings;
  settings.set({{"bootstrap.servers", bootstrap_servers_},
                {"client.id", client_id_},
                {"enable.idempotence", "true"},
                {"message.timeout.ms", "30000"},
                {"message.max.bytes", "20971520"},
                {"linger.ms", "5"},
                {"queue.buffering.max.messages", "10000"},
                {"reconnect.backoff.max.ms", "2000"}});
  rd_kafka_conf_set_opaque(settings.get(), library_.get());
  rd_kafka_conf_set_dr_msg_cb(settings.get(), Library::on_report);
  auto client = settings.make(RD_KAFKA_PRODUCER);
  if (!client) {
    return fail(std::move(client.error()));
  }
  library_->client = *client;
  library_->queue = rd_kafka_queue_get_main(*client);
  library_->look = library_->alive.guard([this] { look(); });
  rd_kafka_queue_cb_event_enable(library_->queue, Library::on_something, library_.get());
  return {};
}

void KafkaProducer::look() { (void)rd_kafka_poll(library_->client, 0); }

std::uint64_t KafkaProducer::produce(const std::string& topic, const CloudEvent& event, Done done) {
  const std::uint64_t number = ++last_;
  const std::string* const key = event.find("partitionkey");
  rd_kafka_headers_t* const headers = rd_kafka_headers_new(event.attributes.size() + 1);
  for (const auto& [name, value] : record_headers(event)) {
    (void)rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                              static_cast<ssize_t>(value.size()));
  }
  const char* const data = event.data.data();
  const std::size_t size = event.data.size();
  const char* const key_data = key == nullptr ? nullptr : key->data();
  const std::size_t key_size = key == nullptr ? 0 : key->size();
  void* const as_opaque = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));  // NOLINT
  const rd_kafka_resp_err_t code = rd_kafka_producev(
      library_->client, RD_KAFKA_V_TOPIC(topic.c_str()), RD_KAFKA_V_VALUE(data, size),
      RD_KAFKA_V_KEY(key_data, key_size), RD_KAFKA_V_HEADERS(headers),
      RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(as_opaque), RD_KAFKA_V_END);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR) {
    waiting_[number] = std::move(done);
    return number;
  }
  rd_kafka_headers_destroy(headers);
  waiting_[number] = std::move(done);
  loop_.post(library_->alive.guard([this, number, why = kafka_text(code)] {
    const auto at = waiting_.find(number);
    if (at != waiting_.end()) {
      const Done failed = std::move(at->second);
      waiting_.erase(at);
      failed(why);
    }
  }));
  return number;
}

}  // namespace kintsugi::workers
