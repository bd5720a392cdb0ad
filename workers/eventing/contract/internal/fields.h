#pragma once

#include <array>
#include <string_view>

#include "workers/eventing/contract/contract.h"

/// The fields of each message, once: number, name and place, in the order of their numbers. What
/// reads and writes the two formats goes through them as a visitor with these functions:
///   text, number, flag, choice, texts       a value; left out when it is the default
///   message, messages                       an optional message, a list of them
///   text_map, map_message                   a map; an optional message of nothing but a map
///   one_text, one_message                   a member of a oneof: written when `here`, and when it
///                                           is read, `chosen()` says so
namespace kintsugi::workers {

inline constexpr std::array<std::string_view, 2> kBackoffPolicyNames{"Exponential", "Linear"};
inline constexpr std::array<std::string_view, 2> kDeliveryOrderNames{"UNORDERED", "ORDERED"};
inline constexpr std::array<std::string_view, 4> kKeyTypeNames{"String", "Integer", "Double",
                                                               "ByteArray"};
inline constexpr std::array<std::string_view, 2> kContentModeNames{"BINARY", "STRUCTURED"};
inline constexpr std::array<std::string_view, 6> kSecretFieldNames{
    "SASL_MECHANISM", "CA_CRT", "USER_CRT", "USER_KEY", "USER", "PASSWORD"};
inline constexpr std::array<std::string_view, 4> kKafkaProtocolNames{"PLAINTEXT", "SASL_PLAINTEXT",
                                                                     "SSL", "SASL_SSL"};

/// google.protobuf.Empty in all but name.
struct EmptyMessage {
  UnknownFields unknown;
};

template <class V>
void visit_fields(V& /*v*/, EmptyMessage& /*m*/) {}

template <class V>
void visit_fields(V& v, Reference& m) {
  v.text(1, "uuid", m.uuid);
  v.text(2, "namespace", m.ns);
  v.text(3, "name", m.name);
  v.text(4, "version", m.version);
  v.text(5, "kind", m.kind);
  v.text(6, "groupVersion", m.group_version);
}

template <class V>
void visit_fields(V& v, EgressConfig& m) {
  v.text(1, "deadLetter", m.dead_letter);
  v.number(2, "retry", m.retry);
  v.choice(3, "backoffPolicy", m.backoff_policy, kBackoffPolicyNames);
  v.number(4, "backoffDelay", m.backoff_delay);
  v.number(5, "timeout", m.timeout);
  v.text(6, "deadLetterCACerts", m.dead_letter_ca_certs);
  v.text(7, "deadLetterAudience", m.dead_letter_audience);
}

/// Exact, Prefix and Suffix.
struct AttributesMessage {
  TextMap attributes;
  UnknownFields unknown;
};
template <class V>
void visit_fields(V& v, AttributesMessage& m) {
  v.text_map(1, "attributes", m.attributes);
}
/// All and Any.
struct FiltersMessage {
  std::vector<DialectedFilter> filters;
  UnknownFields unknown;
};
template <class V>
void visit_fields(V& v, FiltersMessage& m) {
  v.messages(1, "filters", m.filters);
}
struct NotMessage {
  std::optional<DialectedFilter> filter;
  UnknownFields unknown;
};
template <class V>
void visit_fields(V& v, NotMessage& m) {
  v.message(1, "filter", m.filter);
}
struct CesqlMessage {
  std::string expression;
  UnknownFields unknown;
};
template <class V>
void visit_fields(V& v, CesqlMessage& m) {
  v.text(1, "expression", m.expression);
}

template <class V>
void visit_fields(V& v, DialectedFilter& m) {
  using Kind = DialectedFilter::Kind;
  struct Place {
    std::uint32_t number;
    std::string_view name;
    Kind kind;
  };
  for (const Place& place : {Place{1, "exact", Kind::kExact}, Place{2, "prefix", Kind::kPrefix},
                             Place{3, "suffix", Kind::kSuffix}}) {
    AttributesMessage inner{m.kind == place.kind ? m.attributes : TextMap(), {}};
    v.one_message(place.number, place.name, inner, m.kind == place.kind, [&] {
      m.kind = place.kind;
      m.attributes = inner.attributes;
    });
  }
  for (const Place& place : {Place{4, "all", Kind::kAll}, Place{5, "any", Kind::kAny}}) {
    FiltersMessage inner;
    if (m.kind == place.kind) {
      inner.filters = m.filters;
    }
    v.one_message(place.number, place.name, inner, m.kind == place.kind, [&] {
      m.kind = place.kind;
      m.filters = std::move(inner.filters);
    });
  }
  NotMessage negated;
  if (m.kind == Kind::kNot && !m.filters.empty()) {
    negated.filter = m.filters.front();
  }
  v.one_message(6, "not", negated, m.kind == Kind::kNot, [&] {
    m.kind = Kind::kNot;
    m.filters.clear();
    if (negated.filter) {
      m.filters.push_back(std::move(*negated.filter));
    }
  });
  CesqlMessage cesql{m.expression, {}};
  v.one_message(7, "cesql", cesql, m.kind == Kind::kCesql, [&] {
    m.kind = Kind::kCesql;
    m.expression = cesql.expression;
  });
}

template <class V>
void visit_fields(V& v, EgressFeatureFlags& m) {
  v.flag(1, "enableRateLimiter", m.enable_rate_limiter);
  v.flag(2, "enableOrderedExecutorMetrics", m.enable_ordered_executor_metrics);
}

template <class V>
void visit_fields(V& v, Egress& m) {
  EmptyMessage empty;
  const auto reply = [&](ReplyStrategy to) { return [&m, to] { m.reply_strategy = to; }; };
  v.text(1, "consumerGroup", m.consumer_group);
  v.text(2, "destination", m.destination);
  v.one_text(3, "replyUrl", m.reply_url, m.reply_strategy == ReplyStrategy::kUrl,
             reply(ReplyStrategy::kUrl));
  v.one_message(4, "replyToOriginalTopic", empty, m.reply_strategy == ReplyStrategy::kOriginalTopic,
                reply(ReplyStrategy::kOriginalTopic));
  v.map_message(5, "filter", "attributes", m.filter);
  v.text(6, "uid", m.uid);
  v.message(7, "egressConfig", m.egress_config);
  v.choice(8, "deliveryOrder", m.delivery_order, kDeliveryOrderNames);
  v.one_message(9, "discardReply", empty, m.reply_strategy == ReplyStrategy::kDiscard,
                reply(ReplyStrategy::kDiscard));
  v.choice(10, "keyType", m.key_type, kKeyTypeNames);
  v.message(11, "reference", m.reference);
  v.messages(12, "dialectedFilter", m.dialected_filter);
  v.number(13, "vReplicas", m.vreplicas);
  v.message(14, "featureFlags", m.feature_flags);
  v.text(15, "destinationCACerts", m.destination_ca_certs);
  v.text(16, "replyUrlCACerts", m.reply_url_ca_certs);
  v.text(17, "destinationAudience", m.destination_audience);
  v.text(18, "replyUrlAudience", m.reply_url_audience);
  v.text(19, "oidcServiceAccountName", m.oidc_service_account_name);
}

template <class V>
void visit_fields(V& v, Ingress& m) {
  v.choice(1, "contentMode", m.content_mode, kContentModeNames);
  v.text(2, "path", m.path);
  v.text(3, "host", m.host);
  v.flag(4, "enableAutoCreateEventTypes", m.enable_auto_create_event_types);
  v.text(5, "oidcAudience", m.oidc_audience);
}

template <class V>
void visit_fields(V& v, KeyFieldReference& m) {
  v.text(2, "secretKey", m.secret_key);
  v.choice(3, "field", m.field, kSecretFieldNames);
}

template <class V>
void visit_fields(V& v, SecretReference& m) {
  v.message(1, "reference", m.reference);
  v.messages(2, "keyFieldReferences", m.key_field_references);
}

template <class V>
void visit_fields(V& v, MultiSecretReference& m) {
  v.choice(1, "protocol", m.protocol, kKafkaProtocolNames);
  v.messages(2, "references", m.references);
}

template <class V>
void visit_fields(V& v, ContractResource& m) {
  v.text(1, "uid", m.uid);
  v.texts(2, "topics", m.topics);
  v.text(3, "bootstrapServers", m.bootstrap_servers);
  v.message(4, "ingress", m.ingress);
  v.message(5, "egressConfig", m.egress_config);
  v.messages(6, "egresses", m.egresses);
  EmptyMessage empty;
  v.one_message(7, "absentAuth", empty, std::holds_alternative<AbsentAuth>(m.auth),
                [&] { m.auth = AbsentAuth(); });
  const auto* const one = std::get_if<Reference>(&m.auth);
  Reference secret = one == nullptr ? Reference() : *one;
  v.one_message(8, "authSecret", secret, one != nullptr, [&] { m.auth = secret; });
  const auto* const several = std::get_if<MultiSecretReference>(&m.auth);
  MultiSecretReference secrets = several == nullptr ? MultiSecretReference() : *several;
  v.one_message(9, "multiAuthSecret", secrets, several != nullptr, [&] { m.auth = secrets; });
  v.map_message(10, "cloudEventOverrides", "extensions", m.cloud_event_overrides);
  v.message(11, "reference", m.reference);
}

template <class V>
void visit_fields(V& v, Contract& m) {
  v.number(1, "generation", m.generation);
  v.messages(2, "resources", m.resources);
  v.texts(3, "trustBundles", m.trust_bundles);
  v.number(1'000, "epoch", m.epoch);
}

}  // namespace kintsugi::workers
