#include "workers/eventing/kafka/delete_group.h"

#include <array>
#include <atomic>
#include <memory>
#include <string_view>

#include "workers/eventing/kafka/internal/library.h"

namespace kintsugi::workers {
namespace {

using Result = KafkaGroupDeletion::Result;

/// What the library's log says of the first broker's answer to ApiVersions: the one place where it
/// shows that.
struct Offers {
  std::atomic<bool> told{false}, delete_groups{false};
};

void read_offers(const rd_kafka_t* client, int, const char*, const char* text) {
  auto* const offers = client == nullptr ? nullptr : static_cast<Offers*>(rd_kafka_opaque(client));
  const std::string_view line(text);
  if (offers != nullptr && line.find("ApiKey ") != std::string_view::npos) {
    offers->told = true;
    if (line.find("ApiKey DeleteGroups (") != std::string_view::npos) {
      offers->delete_groups = true;
    }
  }
}

template <auto End>
struct Ends {
  template <class T>
  void operator()(T* one) const noexcept {
    End(one);
  }
};
using Client = std::unique_ptr<rd_kafka_t, Ends<rd_kafka_destroy>>;
using Queue = std::unique_ptr<rd_kafka_queue_t, Ends<rd_kafka_queue_destroy>>;
using Options = std::unique_ptr<rd_kafka_AdminOptions_t, Ends<rd_kafka_AdminOptions_destroy>>;
using Group = std::unique_ptr<rd_kafka_DeleteGroup_t, Ends<rd_kafka_DeleteGroup_destroy>>;
using Event = std::unique_ptr<rd_kafka_event_t, Ends<rd_kafka_event_destroy>>;

KafkaGroupDeletion failed(rd_kafka_resp_err_t code) { return {Result::kFailed, kafka_text(code)}; }

KafkaGroupDeletion outcome_of_event(rd_kafka_event_t* event) {
  if (event == nullptr) {
    return failed(RD_KAFKA_RESP_ERR__TIMED_OUT);
  }
  if (const auto code = rd_kafka_event_error(event); code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return failed(code);
  }
  const rd_kafka_DeleteGroups_result_t* const result = rd_kafka_event_DeleteGroups_result(event);
  std::size_t count = 0;
  const rd_kafka_group_result_t** const groups =
      result == nullptr ? nullptr : rd_kafka_DeleteGroups_result_groups(result, &count);
  if (groups == nullptr || count != 1) {
    return failed(RD_KAFKA_RESP_ERR__BAD_MSG);
  }
  const rd_kafka_error_t* const error = rd_kafka_group_result_error(groups[0]);
  const rd_kafka_resp_err_t code =
      error == nullptr ? RD_KAFKA_RESP_ERR_NO_ERROR : rd_kafka_error_code(error);
  if (code == RD_KAFKA_RESP_ERR_NO_ERROR || code == RD_KAFKA_RESP_ERR_GROUP_ID_NOT_FOUND) {
    return {Result::kDeleted, {}};
  }
  return failed(code);
}

}  // namespace

KafkaGroupDeletion delete_kafka_group(const std::string& bootstrap_servers,
                                      const std::string& group, Duration timeout) {
  const int patience =
      static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
  Offers offers;  // outlives the client
  KafkaSettings settings;
  settings.set({{"bootstrap.servers", bootstrap_servers},
                {"client.id", "kintsugi-eventing"},
                {"debug", "feature"}});
  rd_kafka_conf_set_opaque(settings.get(), &offers);
  rd_kafka_conf_set_log_cb(settings.get(), read_offers);
  auto made = settings.make(RD_KAFKA_PRODUCER);
  if (!made) {
    return {Result::kFailed, std::string(made.error().message())};
  }
  const Client client(*made);
  const rd_kafka_metadata_t* metadata = nullptr;
  if (const auto code = rd_kafka_metadata(client.get(), 0, nullptr, &metadata, patience);
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return failed(code);
  }
  rd_kafka_metadata_destroy(metadata);
  if (!offers.told) {
    return {Result::kFailed, "the broker does not say what it offers"};
  }
  if (!offers.delete_groups) {
    return {Result::kNotOffered, {}};
  }
  const Queue queue(rd_kafka_queue_new(client.get()));
  const Options options(rd_kafka_AdminOptions_new(client.get(), RD_KAFKA_ADMIN_OP_DELETEGROUPS));
  std::array<char, 256> why{};
  if (const auto code = rd_kafka_AdminOptions_set_request_timeout(options.get(), patience,
                                                                  why.data(), why.size());
      code != RD_KAFKA_RESP_ERR_NO_ERROR) {
    return {Result::kFailed, why.data()};
  }
  const Group one(rd_kafka_DeleteGroup_new(group.c_str()));
  rd_kafka_DeleteGroup_t* list[] = {one.get()};
  rd_kafka_DeleteGroups(client.get(), list, 1, options.get(), queue.get());
  const Event event(rd_kafka_queue_poll(queue.get(), patience + 1'000));
  return outcome_of_event(event.get());
}

}  // namespace kintsugi::workers
