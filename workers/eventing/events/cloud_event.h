#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/headers.h"
#include "workers/eventing/contract/contract.h"

/// Events between records of Kafka and requests of HTTP. No I/O; threads: as an int.
/// Source: docs/spec/eventing.md, DP-3, DP-7.
namespace kintsugi::workers {

/// Shape: `attributes` are specversion, id, source, type and whatever else there is, without
/// datacontenttype, by names of lower-case letters and digits, as UTF-8.
struct CloudEvent {
  TextMap attributes;
  std::string content_type;  ///< datacontenttype; "": none
  std::string data;
  bool operator==(const CloudEvent&) const = default;
  /// datacontenttype is one, too. nullptr: the event has none of that name.
  [[nodiscard]] const std::string* find(const std::string& name) const;
};

/// A record as Kafka has it: a key, a value and values of headers may be null.
struct KafkaRecord {
  std::string topic;
  std::int32_t partition = 0;
  std::int64_t offset = 0;
  std::int64_t timestamp = -1;  ///< [ms since 1970]; negative: none
  std::optional<std::string> key, value;
  std::vector<std::pair<std::string, std::optional<std::string>>> headers;
};

/// The event that a record is: in binary mode (headers `ce_…`), in structured mode (content type
/// application/cloudevents+json), else one of ours around its bytes: type
/// `dev.knative.kafka.event`, source `/apis/v1/namespaces/<ns>/kafkasources/<name>#<topic>` of the
/// reference, id `partition:<p>/offset:<o>`, the key as extension `key` by the egress' key type,
/// headers as extensions `kafkaheader<name>`. Headers that are no UTF-8, or whose names can be no
/// attribute's, are left out; a null value is an event without data; a structured record that
/// cannot be read is wrapped as it is. Overrides of the resource win over everything.
[[nodiscard]] CloudEvent event_of(KafkaRecord record, const ContractResource& resource,
                                  const Egress& egress);

/// In binary mode: `ce-<name>` with percent-encoded values, content-type, and content-length where
/// there is no data.
[[nodiscard]] http::HeaderList request_headers(const CloudEvent& event);

/// The event that an answer carries, in binary or structured mode; nullopt: it carries none.
[[nodiscard]] std::optional<CloudEvent> event_of_answer(const http::HeaderList& headers,
                                                        std::string body);

/// Headers of a record in binary mode; its value is the data.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> record_headers(
    const CloudEvent& event);

/// What an event tells of its failure when it goes to the dead letter sink: extensions
/// knativeerrordest, knativeerrorcode (0: no answer came) and knativeerrordata.
void add_failure(CloudEvent& event, std::string_view destination, int status,
                 std::string_view body);

/// Whether an egress wants an event: dialected filters when there are some, all of which must pass,
/// else `filter`, else all events. In `filter` and exact ones "" is any value. Filters that
/// judge_egress() refuses pass nothing.
[[nodiscard]] bool passes_filters(const Egress& egress, const CloudEvent& event);

}  // namespace kintsugi::workers
