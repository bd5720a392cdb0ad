#include "workers/eventing/kafka/internal/library.h"

#include <array>
#include <atomic>
#include <thread>
#include <utility>

#include "base/log.h"
#include "workers/eventing/kafka/kafka_consumer.h"

namespace kintsugi::workers {
namespace {

constexpr int kWarning = 4;  // syslog(3)

std::atomic<std::size_t>& ends() {
  static std::atomic<std::size_t> count{0};
  return count;
}

void on_log(const rd_kafka_t* client, int level, const char* facility, const char* text) {
  log(level <= kWarning ? LogLevel::kWarn : LogLevel::kDebug, "kafka",
      {{"client", client == nullptr ? "" : rd_kafka_name(client)},
       {"facility", facility},
       {"text", text}});
}

}  // namespace

KafkaSettings::KafkaSettings() : conf_(rd_kafka_conf_new()) {
  rd_kafka_conf_set_log_cb(conf_, on_log);
}

KafkaSettings::~KafkaSettings() {
  if (conf_ != nullptr) {
    rd_kafka_conf_destroy(conf_);
  }
}

void KafkaSettings::set(std::initializer_list<std::pair<const char*, std::string>> settings) {
  std::array<char, 512> why{};
  for (const auto& [name, value] : settings) {
    if (rd_kafka_conf_set(conf_, name, value.c_str(), why.data(), why.size()) != RD_KAFKA_CONF_OK &&
        wrong_.empty()) {
      wrong_ = why.data();
    }
  }
}

Expected<rd_kafka_t*> KafkaSettings::make(rd_kafka_type_t type) {
  if (!wrong_.empty()) {
    return fail(Errc::kConfig, wrong_);
  }
  std::array<char, 512> why{};
  rd_kafka_t* const client = rd_kafka_new(type, conf_, why.data(), why.size());
  if (client == nullptr) {
    return fail(Errc::kConfig, why.data());
  }
  conf_ = nullptr;  // the client's
  return client;
}

void end_kafka_client(rd_kafka_t* client, bool is_consumer, std::shared_ptr<void> used) {
  ends().fetch_add(1);
  std::thread([client, is_consumer, used = std::move(used)] {
    rd_kafka_destroy_flags(client, is_consumer ? RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE : 0);
    ends().fetch_sub(1);
  }).detach();
}

std::size_t kafka_ends_under_way() noexcept { return ends().load(); }

std::string kafka_text(rd_kafka_resp_err_t code) { return rd_kafka_err2str(code); }

std::string partition_text(const KafkaPartition& partition) {
  return partition.first + "/" + std::to_string(partition.second);
}

}  // namespace kintsugi::workers
