#pragma once

// Its checks of argument types are an extension of C.
#define LIBRDKAFKA_TYPECHECKS 0
#include <librdkafka/rdkafka.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

/// librdkafka's handles with owners, and its settings.
namespace kintsugi::workers {

/// Settings of a client, which log by ours.
class KafkaSettings {
 public:
  KafkaSettings();
  ~KafkaSettings();
  KafkaSettings(const KafkaSettings&) = delete;
  KafkaSettings& operator=(const KafkaSettings&) = delete;
  void set(std::initializer_list<std::pair<const char*, std::string>> settings);
  [[nodiscard]] rd_kafka_conf_t* get() noexcept { return conf_; }
  /// @error kConfig with the library's text
  [[nodiscard]] Expected<rd_kafka_t*> make(rd_kafka_type_t type);

 private:
  rd_kafka_conf_t* conf_;
  std::string wrong_;
};

/// Ends a client on a thread: it joins the library's.
/// @param used  what the library's threads use until then
void end_kafka_client(rd_kafka_t* client, bool is_consumer, std::shared_ptr<void> used = nullptr);

[[nodiscard]] std::string kafka_text(rd_kafka_resp_err_t code);

}  // namespace kintsugi::workers
