#include "aggregation/asking/member_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "aggregation/asking/merge_guard.h"
#include "base/strings.h"
#include "krm/status.h"
#include "net/congestion.h"

namespace kintsugi::aggregation {
namespace {

constexpr std::size_t kPiece = 16U << 10;
constexpr std::size_t kMostUnpacked = 256U << 10;  // that wait for the caller
constexpr std::size_t kMostPerTurn = 1U << 20;

bool is_gzip(std::string_view content_encoding) {
  return equals_ignore_case(trim(content_encoding), "gzip");
}

}  // namespace

bool MemberCall::open(shards::ShardClient& client, net::UpstreamClass kind, http::RequestHead head,
                      const Turn& turn) {
  close();
  net::Upstream* upstream = client.upstream();
  if (upstream == nullptr || !client.admit()) {
    return false;
  }
  client_ = client.handle();
  complete_ = false;
  if (turn.seats != nullptr) {
    opening_ = std::make_unique<Opening>(loop_, kind);
    if (!turn.seats->sit_if_quiet(opening_->seat, turn.who.level)) {
      opening_->waits = true;
      opening_->head = std::move(head);
      const serving::FairQueues::Ask ask{.bytes = opening_->head.target.size(), .wait = turn.wait};
      opening_->waits = !turn.seats->enter(
          opening_->seat, turn.who, ask, [this](Expected<void> room) { on_turn(std::move(room)); });
      if (opening_->waits) {
        return true;
      }
      head = std::move(opening_->head);
    }
  }
  send(*upstream, kind, std::move(head));
  return true;
}

void MemberCall::send(net::Upstream& upstream, net::UpstreamClass kind, http::RequestHead head) {
  head.method = "GET";
  head.end_stream = true;
  head.target.insert(0, upstream.params().url.path);
  if (kind == net::UpstreamClass::kRead && upstream.round_trip() > net::kFar) {
    head.headers.set("accept-encoding", "gzip");  // the way costs more than packing
  }
  (*client_)->dress(head.headers);
  stream_ = &upstream.open(kind, head, *this);
}

void MemberCall::on_turn(Expected<void> room) {
  if (!room) {  // also while it is opened: then its owner is not ready to hear of it
    opening_->refusal = std::move(room).error();
    opening_->later.start(Duration{}, [this] { tell([this] { refuse(); }); });
    return;
  }
  opening_->waits = false;
  const Duration waited = loop_.now() - opening_->since;
  if (const auto steps = waited / serving::kWaitedStep; steps > 0) {
    opening_->head.headers.set(serving::kWaitedHeader,
                               std::to_string(steps * serving::kWaitedStep.count()));
  }
  shards::ShardClient* client = *client_;
  net::Upstream* upstream = client == nullptr ? nullptr : client->upstream();
  if (upstream == nullptr || !client->admit()) {
    opening_.reset();
    tell([this] { listener_.on_end(Errc::kUnreachable); });
    return;
  }
  send(*upstream, opening_->kind, std::move(opening_->head));
}

/// As a shard would.
void MemberCall::refuse() {
  const std::unique_ptr<Opening> kept = std::move(opening_);
  opening_ = std::make_unique<Opening>(loop_, kept->kind);  // it runs until its owner closes it
  opening_->waits = true;
  const Opening* const running = opening_.get();
  const auto goes_on = [this, running] { return opening_.get() == running; };
  http::ResponseHead head;
  head.status = 429;
  head.headers.add("content-type", "application/json");
  head.headers.add("retry-after", std::to_string(krm::retry_after_seconds(*kept->refusal)));
  listener_.on_head(head);
  if (goes_on()) {
    listener_.on_data(krm::to_status(*kept->refusal).dump());
  }
  if (goes_on()) {
    opening_.reset();
    listener_.on_end(Errc::kOk);
  }
}

void MemberCall::close() noexcept {
  opening_.reset();
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
  if (opening_ != nullptr) {
    opening_->seat.answered(head.status == 429);
    opening_.reset();
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
  opening_.reset();
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
