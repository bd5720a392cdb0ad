#include "aggregation/bytes/watch_text.h"

#include "krm/annotations.h"
#include "krm/json.h"
#include "krm/status.h"

namespace kintsugi::aggregation {

std::string bookmark_event(const StreamKind& kind, std::string_view cursor, bool initial_end,
                           std::string_view columns) {
  std::string metadata = "{\"resourceVersion\":\"" + std::string(cursor) + '"';
  if (initial_end) {
    metadata.append(",\"annotations\":{\"")
        .append(krm::kInitialEventsEndAnnotation)
        .append("\":\"true\"}");
  }
  metadata += '}';
  std::string out = "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":" + krm::Json(kind.kind).dump() +
                    ",\"apiVersion\":" + krm::Json(kind.api_version).dump() + ",\"metadata\":";
  if (!kind.is_table()) {
    return out + metadata + "}}\n";
  }
  out += "{\"resourceVersion\":\"" + std::string(cursor) + "\"},\"columnDefinitions\":";
  out += columns.empty() ? std::string_view("null") : columns;
  out += ",\"rows\":[{\"cells\":[],\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":";
  out += krm::Json(kind.api_version).dump() + ",\"metadata\":" + metadata + "}}]}}\n";
  return out;
}

std::string error_event(const Error& error) {
  return "{\"type\":\"ERROR\",\"object\":" + krm::to_status(error).dump() + "}\n";
}

std::string without_columns(std::string_view event, std::string_view columns) {
  const auto at = static_cast<std::size_t>(columns.data() - event.data());
  std::string out(event.substr(0, at));
  out += "null";
  out += event.substr(at + columns.size());
  return out;
}

std::string with_columns(std::string_view event, std::string_view columns) {
  const std::string_view object = event.substr(0, event.rfind('}') + 1);
  for (MemberWalk outer(object); const auto member = outer.next();) {
    if (!key_is(member->key, "object")) {
      continue;
    }
    for (MemberWalk inner(member->value); const auto field = inner.next();) {
      if (key_is(field->key, "columnDefinitions")) {
        const auto at = static_cast<std::size_t>(field->value.data() - event.data());
        std::string out(event.substr(0, at));
        out += columns;
        out += event.substr(at + field->value.size());
        return out;
      }
    }
  }
  return std::string(event);
}

std::size_t count_columns(std::string_view columns) noexcept {
  std::size_t count = 0;
  for (std::size_t at = columns.find('{'); at != std::string_view::npos;) {
    const std::size_t end = value_end(columns, at);
    count += end == std::string_view::npos ? 0 : 1;
    at = columns.find('{', end);
  }
  return count;
}

std::string row_event(std::string_view type, std::string_view api_version, std::uint64_t revision,
                      std::string_view columns, std::string_view row) {
  std::string out =
      "{\"type\":\"" + std::string(type) + "\",\"object\":{\"kind\":\"Table\",\"apiVersion\":" +
      krm::Json(std::string(api_version)).dump() + ",\"metadata\":{\"resourceVersion\":\"" +
      std::to_string(revision) + "\"},\"columnDefinitions\":";
  out += columns.empty() ? std::string_view("null") : columns;
  out += ",\"rows\":[";
  out += row;
  return out + "]}}";
}

std::string item_event(std::string_view type, const StreamKind& kind, const ObjectFacts& facts,
                       std::string_view item) {
  if (kind.is_table()) {
    return row_event(type, kind.api_version, facts.revision, {}, item);
  }
  std::string out = "{\"type\":\"" + std::string(type) + "\",\"object\":";
  if (!facts.kind.empty()) {
    out += item;
  } else {
    out += "{\"kind\":" + krm::Json(kind.kind).dump() +
           ",\"apiVersion\":" + krm::Json(kind.api_version).dump() + ',';
    out += item.substr(1);
  }
  return out + '}';
}

std::string deleted_event(const StreamKind& kind, const ObjectFacts& facts, std::uint64_t revision,
                          std::string_view kept) {
  std::string out = "{\"kind\":";
  out += kind.is_table() ? "\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\""
                         : krm::Json(kind.kind).dump() +
                               ",\"apiVersion\":" + krm::Json(kind.api_version).dump();
  out += ",\"metadata\":{\"name\":\"" + std::string(facts.name) + '"';
  if (!facts.ns.empty()) {
    out += ",\"namespace\":\"" + std::string(facts.ns) + '"';
  }
  out += ",\"uid\":\"" + std::string(facts.uid) + "\",\"resourceVersion\":\"" +
         std::to_string(revision) + '"';
  if (!facts.cluster.empty()) {
    out.append(",\"annotations\":{\"").append(krm::kClusterAnnotation).append("\":\"");
    out.append(facts.cluster).append("\"}");
  }
  out += kept;
  out += "}}";
  if (!kind.is_table()) {
    return "{\"type\":\"DELETED\",\"object\":" + out + '}';
  }
  std::string row = "{\"cells\":[\"" + std::string(facts.name) + '"';
  for (std::size_t i = 1; i < kind.cells; ++i) {
    row += ",null";
  }
  row += "],\"object\":" + out + '}';
  return row_event("DELETED", kind.api_version, revision, {}, row);
}

std::string watch_query(const WatchStart& start, std::string_view passed_on) {
  std::string out = "?watch=true&allowWatchBookmarks=true";
  if (start.revision != 0) {
    out += "&resourceVersion=" + std::to_string(start.revision);
  } else if (start.any_state) {
    out += "&resourceVersion=0";
  }
  if (start.initial_events || start.recent) {
    out += start.recent ? "&sendInitialEvents=false" : "&sendInitialEvents=true";
    out += "&resourceVersionMatch=NotOlderThan";
  }
  out += passed_on;
  return out;
}

}  // namespace kintsugi::aggregation
