#include "workers/messaging/amqp/internal/sasl_client.h"

#include <algorithm>
#include <utility>

#include "krm/json.h"
#include "workers/messaging/amqp/internal/amqp_codec.h"

namespace kintsugi::workers {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kHeader = "AMQP\x03\x01\x00\x00"sv;
constexpr std::uint64_t kMechanismsFrame = 0x40, kChallenge = 0x42, kOutcome = 0x44;
constexpr char kInit = 0x41, kResponse = 0x43;
constexpr unsigned kMostChallenges = 3;

std::string_view name_of(SaslClient::Mechanism mechanism) noexcept {
  switch (mechanism) {
    case SaslClient::Mechanism::kExternal:
      return "EXTERNAL";
    case SaslClient::Mechanism::kPlain:
      return "PLAIN";
    case SaslClient::Mechanism::kAnonymous:
      break;
  }
  return "ANONYMOUS";
}

/// A frame of the layer: its head, and a described list that end_frame() ends.
std::size_t begin_frame(std::string& out, char what) {
  out += "\x00\x00\x00\x00\x02\x01\x00\x00\x00\x53"sv;
  out += what;
  return begin_amqp(out, '\xd0');
}
void end_frame(std::string& out, std::size_t from, std::size_t begun, std::uint32_t count) {
  end_amqp(out, begun, count);
  const std::size_t size = out.size() - from;
  for (unsigned i = 0; i < 4; ++i) {
    out[from + i] = static_cast<char>(size >> (24 - 8 * i));
  }
}

}  // namespace

SaslClient::SaslClient(Mechanism mechanism, std::string user, Secret password, std::string hostname,
                       std::string& out)
    : mechanism_(mechanism),
      user_(std::move(user)),
      hostname_(std::move(hostname)),
      password_(std::move(password)) {
  out += kHeader;
}

void SaslClient::fail(std::string why, bool refused) {
  state_ = State::kFailed;
  fault_ = std::move(why);
  refused_ = refused;
}

void SaslClient::on_header(std::string_view header) {
  if (header == kHeader) {
    state_ = State::kMechanisms;
  } else {
    fail(header.starts_with("AMQP") ? "the peer has no SASL" : "the peer does not speak AMQP");
  }
}

void SaslClient::on_frame(std::string_view body, std::string& out) {
  std::uint64_t what = 0;
  AmqpReader reader(body);
  if (!reader.read_descriptor(what)) {
    fail("malformed frame of SASL");
    return;
  }
  const std::string_view arguments = reader.rest();
  if (what == kMechanismsFrame && state_ == State::kMechanisms) {
    on_mechanisms(arguments, out);
  } else if (what == kOutcome && state_ == State::kOutcome) {
    on_outcome(arguments);
  } else if (what == kChallenge && state_ == State::kOutcome && challenges_++ < kMostChallenges) {
    const std::size_t from = out.size();
    const std::size_t list = begin_frame(out, kResponse);
    append_amqp_binary(out, {});
    end_frame(out, from, list, 1);
  } else {
    fail("unexpected frame of SASL");
  }
}

void SaslClient::on_mechanisms(std::string_view arguments, std::string& out) {
  krm::Json list;
  if (!AmqpReader(arguments).read(list) || list.size() == 0) {
    fail("malformed frame of SASL");
    return;
  }
  const krm::Json& offered = list.items().front();
  const std::string_view ours = name_of(mechanism_);
  const bool found =
      offered.is_string()
          ? offered.as_string() == ours
          : std::any_of(offered.items().begin(), offered.items().end(),
                        [&](const krm::Json& each) { return each.as_string() == ours; });
  if (!found) {
    fail("the peer does not offer SASL " + std::string(ours), true);
    return;
  }
  const std::size_t from = out.size();
  const std::size_t init = begin_frame(out, kInit);
  append_amqp_symbol(out, ours);
  if (mechanism_ == Mechanism::kPlain) {
    std::string response = '\0' + user_ + '\0';
    response += password_.view();
    append_amqp_binary(out, response);
    wipe(response);
  } else {
    append_amqp_binary(out, mechanism_ == Mechanism::kAnonymous ? "anonymous"sv : ""sv);
  }
  append_amqp(out, std::string_view(hostname_));
  end_frame(out, from, init, 3);
  state_ = State::kOutcome;
}

void SaslClient::on_outcome(std::string_view arguments) {
  krm::Json list;
  if (!AmqpReader(arguments).read(list) || list.size() == 0) {
    fail("malformed frame of SASL");
    return;
  }
  const std::int64_t code = list.items().front().as_integer(-1);
  if (code == 0) {
    state_ = State::kDone;
    password_ = {};
  } else {
    fail("SASL " + std::string(name_of(mechanism_)) + " failed with code " + std::to_string(code),
         code == 1);
  }
}

}  // namespace kintsugi::workers
