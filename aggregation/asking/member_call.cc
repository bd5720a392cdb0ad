#include "aggregation/asking/member_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "aggregation/asking/merge_guard.h"
#include "base/strings.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kPiece = 16U << 10;
constexpr std::size_t kMostUnpacked = 256U << 10;  // that wait for the caller
constexpr std::size_t kMostPerTurn = 1U << 20;

bool is_gzip(std::string_view content_encoding) {
  return equals_ignore_case(trim(content_encoding), "gzip");
}

}  // namespace

bool MemberCall::open(shards::ShardClient& client, net::UpstreamClass kind,
                      http::RequestHead head) {
  close();
  net::Upstream* upstream = client.upstream();
  if (upstream == nullptr || !client.admit()) {
    return false;
  }
  client_ = client.handle();
  complete_ = false;
  head.method = "GET";
  head.end_stream = true;
  head.target.insert(0, upstream->params().url.path);
  client.dress(head.headers);
  stream_ = &upstream->open(kind, head, *this);
  return true;
}

void MemberCall::close() noexcept {
  packed_.reset();
  if (stream_ != nullptr) {
    std::exchange(stream_, nullptr)->detach();
  }
}

void MemberCall::consume(std::size_t bytes) noexcept {
  if (packed_ != nullptr) {
    packed_->held -= std::min(packed_->held, bytes);
    if (!packed_->unpacking && (!packed_->waiting.empty() || packed_->may_have_more)) {
      packed_->later.start(Duration{}, [this] { tell([this] { unpack(); }); });
    }
  } else if (stream_ != nullptr && bytes > 0) {
    stream_->consume(bytes);
  }
}

template <class Run>
void MemberCall::tell(Run&& run) noexcept {
  guard_read("answer of a shard to a merged read", std::forward<Run>(run), [this] {
    close();
    listener_.on_fault();
  });
}

void MemberCall::on_head(http::ResponseHead head, bool end) noexcept {
  if (shards::ShardClient* client = *client_) {
    client->on_success();
  }
  complete_ = end;
  if (is_gzip(head.headers.get("content-encoding"))) {
    packed_ = std::make_unique<Packed>(loop_);
    head.headers.remove("content-encoding");
    head.headers.remove("content-length");
  }
  tell([&] { listener_.on_head(head); });
}

void MemberCall::on_data(std::string_view bytes, bool end) noexcept {
  complete_ = end;
  if (bytes.empty()) {
    return;
  }
  tell([&] {
    if (packed_ == nullptr) {
      listener_.on_data(bytes);
      return;
    }
    packed_->waiting += bytes;
    unpack();
  });
}

/// As much as the caller has room for, and not all of it in one turn.
void MemberCall::unpack() {
  Packed* const packed = packed_.get();  // it goes when the caller closes
  packed->unpacking = true;
  std::size_t turn = 0;
  const auto has_more = [packed] { return !packed->waiting.empty() || packed->may_have_more; };
  while (has_more() && packed->held < kMostUnpacked && turn < kMostPerTurn) {
    std::array<char, kPiece> piece;
    const auto rest = std::string_view(packed->waiting).substr(packed->read);
    const http::Gunzip::Step step = packed->gunzip.next(rest, piece);
    if (!step.good) {
      if (stream_ != nullptr) {
        std::exchange(stream_, nullptr)->detach();
      }
      finish(Errc::kProtocol);
      return;
    }
    packed->read += step.read;
    if (packed->read == packed->waiting.size()) {
      packed->waiting.clear();
      packed->read = 0;
    }
    if (stream_ != nullptr && step.read > 0) {
      stream_->consume(step.read);
    }
    packed->may_have_more = step.written == piece.size();
    packed->held += step.written;
    turn += step.written;
    if (step.written > 0) {
      listener_.on_data({piece.data(), step.written});
      if (packed_.get() != packed) {
        return;
      }
    }
  }
  packed->unpacking = false;
  if (!has_more() && packed->end) {
    const bool cut_off = *packed->end == Errc::kOk && !packed->gunzip.at_boundary();
    finish(cut_off ? Errc::kProtocol : *packed->end);
  } else if (has_more() && packed->held < kMostUnpacked) {
    packed->later.start(Duration{}, [this] { tell([this] { unpack(); }); });
  }
}

void MemberCall::finish(Errc cause) {
  packed_.reset();
  listener_.on_end(cause);
}

void MemberCall::on_close(Errc cause) noexcept {
  if (stream_ == nullptr) {
    return;
  }
  shards::ShardClient* client = *client_;
  if (client != nullptr && !complete_ && cause != Errc::kOk && cause != Errc::kCancelled) {
    client->on_failure(cause);
  }
  stream_ = nullptr;
  const Errc how = complete_ ? Errc::kOk : cause == Errc::kOk ? Errc::kClosed : cause;
  tell([&] {
    if (packed_ == nullptr) {
      listener_.on_end(how);
      return;
    }
    packed_->end = how;
    unpack();
  });
}

}  // namespace kintsugi::aggregation
