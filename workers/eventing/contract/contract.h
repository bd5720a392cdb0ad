#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "krm/json.h"

/// What the worker tells one dispatcher pod to do, and the file that carries it: messages, names
/// and numbers of Knative's contract for its Kafka data plane (KP-2). Source:
/// docs/spec/eventing.md. Plain values; threads: as an int.
namespace kintsugi::workers {

/// Of a whole contract: a ConfigMap holds no more [bytes].
inline constexpr std::size_t kMaxContractBytes = std::size_t{1} << 20;
/// What the scheduler gives one pod, the rest is for names and metadata [bytes].
inline constexpr std::size_t kPodContractBytes = std::size_t{900} << 10;
inline constexpr std::size_t kMaxFilterDepth = 16;  ///< all, any and not inside each other
inline constexpr std::int32_t kMaxVReplicas = 1'000;

enum class ContractFormat : std::uint8_t { kJson, kProtobuf };

/// Fields of a message that a later program has written, kept as they came and written again in
/// the same format. In the other format they are left out.
struct UnknownFields {
  krm::Json members = krm::Json::object();  ///< of JSON
  std::string wire;                         ///< of protobuf: whole fields, in the order they came
  bool operator==(const UnknownFields&) const = default;
  [[nodiscard]] bool empty() const noexcept { return members.size() == 0 && wire.empty(); }
};

using TextMap = std::map<std::string, std::string>;

// Names in comments are those of the JSON form where they differ from ours.

struct Reference {
  std::string uuid, ns, name, version, kind, group_version;  ///< namespace, groupVersion
  UnknownFields unknown;
  bool operator==(const Reference&) const = default;
};

enum class BackoffPolicy : std::uint8_t { kExponential, kLinear };

struct EgressConfig {
  std::string dead_letter, dead_letter_ca_certs, dead_letter_audience;  ///< deadLetter…
  std::uint32_t retry = 0;
  BackoffPolicy backoff_policy = BackoffPolicy::kExponential;
  std::uint64_t backoff_delay = 0;  ///< [ms]
  std::uint64_t timeout = 0;        ///< of one request [ms]; 0: the dispatcher's
  UnknownFields unknown;
  bool operator==(const EgressConfig&) const = default;
};

/// One filter of Knative's subscriptions API.
struct DialectedFilter {
  enum class Kind : std::uint8_t { kNone, kExact, kPrefix, kSuffix, kAll, kAny, kNot, kCesql };
  Kind kind = Kind::kNone;
  TextMap attributes;                    ///< exact, prefix, suffix
  std::vector<DialectedFilter> filters;  ///< all, any; of not the one
  std::string expression;                ///< cesql
  UnknownFields unknown;
  bool operator==(const DialectedFilter&) const = default;
};

enum class DeliveryOrder : std::uint8_t { kUnordered, kOrdered };
enum class KeyType : std::uint8_t { kString, kInteger, kDouble, kByteArray };

/// What becomes of an event that the destination answers with; kNone counts as kDiscard.
enum class ReplyStrategy : std::uint8_t { kNone, kUrl, kOriginalTopic, kDiscard };

struct EgressFeatureFlags {
  bool enable_rate_limiter = false, enable_ordered_executor_metrics = false;
  UnknownFields unknown;
  bool operator==(const EgressFeatureFlags&) const = default;
};

struct Egress {
  std::string consumer_group, destination, destination_ca_certs, destination_audience;
  ReplyStrategy reply_strategy = ReplyStrategy::kNone;
  std::string reply_url, reply_url_ca_certs, reply_url_audience;
  std::optional<TextMap> filter;  ///< filter.attributes
  std::vector<DialectedFilter> dialected_filter;
  std::string uid;
  std::optional<EgressConfig> egress_config;
  DeliveryOrder delivery_order = DeliveryOrder::kUnordered;
  KeyType key_type = KeyType::kString;
  std::optional<Reference> reference;
  std::int32_t vreplicas = 0;  ///< vReplicas
  std::optional<EgressFeatureFlags> feature_flags;
  std::string oidc_service_account_name;
  UnknownFields unknown;
  bool operator==(const Egress&) const = default;
};

enum class ContentMode : std::uint8_t { kBinary, kStructured };

struct Ingress {
  ContentMode content_mode = ContentMode::kBinary;
  std::string path, host, oidc_audience;
  bool enable_auto_create_event_types = false;
  UnknownFields unknown;
  bool operator==(const Ingress&) const = default;
};

enum class SecretField : std::uint8_t {
  kSaslMechanism,
  kCaCrt,
  kUserCrt,
  kUserKey,
  kUser,
  kPassword
};
struct KeyFieldReference {
  std::string secret_key;
  SecretField field = SecretField::kSaslMechanism;
  UnknownFields unknown;
  bool operator==(const KeyFieldReference&) const = default;
};
struct SecretReference {
  std::optional<Reference> reference;
  std::vector<KeyFieldReference> key_field_references;
  UnknownFields unknown;
  bool operator==(const SecretReference&) const = default;
};
enum class KafkaProtocol : std::uint8_t { kPlaintext, kSaslPlaintext, kSsl, kSaslSsl };
struct MultiSecretReference {
  KafkaProtocol protocol = KafkaProtocol::kPlaintext;
  std::vector<SecretReference> references;
  UnknownFields unknown;
  bool operator==(const MultiSecretReference&) const = default;
};

/// absentAuth | authSecret | multiAuthSecret; monostate: none of them is said, as absentAuth.
struct AbsentAuth {
  bool operator==(const AbsentAuth&) const = default;
};
using ResourceAuth = std::variant<std::monostate, AbsentAuth, Reference, MultiSecretReference>;

/// Knative's Resource; that name is an API's here (runtime/unit/unit.h).
struct ContractResource {
  std::string uid;
  std::vector<std::string> topics;
  std::string bootstrap_servers;  ///< host:port, by commas
  std::optional<Ingress> ingress;
  std::optional<EgressConfig> egress_config;  ///< of egresses that have none
  std::vector<Egress> egresses;
  ResourceAuth auth;
  std::optional<TextMap> cloud_event_overrides;  ///< cloudEventOverrides.extensions
  std::optional<Reference> reference;
  UnknownFields unknown;
  bool operator==(const ContractResource&) const = default;
};

struct Contract {
  std::uint64_t generation = 0;
  /// Of who wrote it; a dispatcher refuses a lower one than it has seen. Not one of Knative's
  /// fields: JSON `epoch`, number 1000. 0 is not written.
  std::uint64_t epoch = 0;
  std::vector<ContractResource> resources;
  std::vector<std::string> trust_bundles;  ///< PEM
  UnknownFields unknown;
  bool operator==(const Contract&) const = default;
};

/// A contract as a file. Resources, and the egresses of each, go by uid; defaults are left out;
/// members and map entries go by name, 64-bit numbers are texts in JSON, enums their names: equal
/// contracts, in whatever order, give equal bytes. Does not judge. Cost: O(n log n).
[[nodiscard]] std::string encode_contract(const Contract& contract, ContractFormat format);
/// How many bytes a resource adds to a contract, tags and commas included (5.3).
[[nodiscard]] std::size_t encoded_size(const ContractResource& resource, ContractFormat format);

/// Reads either format: what begins with `{` is JSON, which no message in protobuf does. No bytes
/// at all are the empty contract in protobuf. Numbers may be numbers or texts in JSON, and enums
/// their numbers.
/// @returns the contract, resources and egresses by uid as encode_contract() writes them, not yet
///          judged (see judge_egress).
/// @error kBadRequest            malformed; the message begins with the field, as
///                               "resources[2].egresses[0].vReplicas: …" (counted as they came)
/// @error kRequestEntityTooLarge above kMaxContractBytes
[[nodiscard]] Expected<Contract> parse_contract(std::string_view bytes,
                                                ContractFormat* format = nullptr);

/// Same content: generation and epoch may differ, and the order of resources and egresses.
[[nodiscard]] bool same_content(const Contract& a, const Contract& b);

/// Takes what `fresh` leaves unsaid from what `old` had: unknown fields of the contract, and of
/// its resources and egresses with the same uid, with those of the messages in them that both have
/// (not of filters and secret references).
void keep_unknown_fields(Contract& fresh, const Contract& old);

/// Whether a dispatcher can do what an egress says.
/// @error kInvalid       the text names the field: no topic, no group, no bootstrap servers, URLs
///                       that are not http or https, vReplicas not 1 … kMaxVReplicas
/// @error kNotAcceptable a CESQL filter (DP-6): "…cesql is not supported"
[[nodiscard]] Expected<void> judge_egress(const ContractResource& resource, const Egress& egress);

}  // namespace kintsugi::workers
