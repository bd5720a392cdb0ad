#include "aggregation/bytes/list_text.h"

#include <algorithm>
#include <utility>

#include "aggregation/bytes/proto_build.h"
#include "krm/json.h"
#include "krm/protobuf_wire.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kPiece = 64U << 10;
constexpr std::uint32_t kItems = 2;

std::string kind_text(const ListEnvelope& envelope) {
  return "\"kind\":" + krm::Json(envelope.kind).dump() +
         ",\"apiVersion\":" + krm::Json(envelope.api_version).dump();
}

}  // namespace

void JsonListText::open(const ListEnvelope& envelope) {
  if (std::exchange(opened_, true)) {
    return;
  }
  out_ += '{';
  if (!envelope.kind.empty() && !envelope.api_version.empty()) {
    kind_written_ = true;
    out_ += kind_text(envelope) + ',';
  }
  if (envelope.kind == "Table") {
    out_ += "\"columnDefinitions\":";
    out_ += envelope.columns.empty() ? std::string_view("[]") : std::string_view(envelope.columns);
    out_ += ",\"rows\":[";
  } else {
    out_ += "\"items\":[";
  }
}

void JsonListText::add(std::string_view item) {
  if (std::exchange(has_items_, true)) {
    out_ += ',';
  }
  out_ += item;
}

void JsonListText::close(const ListEnvelope& envelope, const ListEnd& end) {
  open(envelope);
  out_ += ']';
  if (!kind_written_) {
    out_ += ',' + kind_text(envelope);
  }
  krm::Json metadata = krm::Json::object({{"resourceVersion", krm::Json(end.cursor)}});
  if (!end.continue_token.empty()) {
    metadata["continue"] = krm::Json(end.continue_token);
  }
  std::string text = metadata.dump();
  if (!end.shard_info.empty()) {
    text.insert(text.size() - 1, ",\"shardInfo\":" + end.shard_info);
  }
  out_ += ",\"metadata\":" + text + "}\n";
}

void ProtoSpool::add(std::string_view item, std::string_view suffix) {
  const std::size_t size = item.size() + suffix.size();
  if (pieces_.empty() || pieces_.back().size() + size > kPiece) {
    pieces_.emplace_back();
  }
  std::string& piece = pieces_.back();
  const std::size_t before = piece.size();
  krm::put_varint(piece, kItems << 3 | 2U);
  krm::put_varint(piece, size);
  piece += item;
  piece += suffix;
  size_ += piece.size() - before;
}

void ProtoSpool::close(const ListEnvelope& envelope, const ListEnd& end) {
  const std::string meta = proto_list_meta(end.cursor, end.continue_token, end.shard_info);
  pieces_.push_front(proto_envelope_head(envelope.api_version, envelope.kind, meta.size() + size_) +
                     meta);
  pieces_.emplace_back(kProtoEnvelopeTail);
}

std::string ProtoSpool::take_piece() {
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  size_ -= std::min(size_, piece.size());
  return piece;
}

}  // namespace kintsugi::aggregation
