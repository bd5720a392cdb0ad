#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/member_call.h"
#include "aggregation/asking/shard_question.h"
#include "aggregation/bytes/list_reader.h"
#include "aggregation/bytes/watch_coding.h"

namespace kintsugi::aggregation {

/// Which list of the objects that a question is about.
struct ListQuery {
  std::string query = {};  ///< "" or "&a=b&…": of every page, besides what the question passes on
  std::string first = {};  ///< more of the first one
  std::string path = {};   ///< "": the question's
  bool probe = false;      ///< the first page alone, of one object, as JSON; the others say nothing
};

/// One shard's whole list, page by page, at one revision: what streams, indexes and moves need that
/// a watch does not tell. Threads: its loop.
class ShardPages final : private MemberCall::Listener {
 public:
  enum class End : std::uint8_t {
    kDone,     ///< everything came; revision()
    kRefused,  ///< an answer other than 200: answer(), body()
    kBroken,   ///< connection lost, or it cannot be understood, or is of another coding
  };
  /// None of these may destroy the pages; all may close() them.
  class Listener {
   public:
    virtual void on_item(std::string_view item, const ListEnvelope& envelope) = 0;
    /// What came in this turn is through; credit is owed for it.
    virtual void on_bytes(std::size_t count) = 0;
    /// Once, last; kBroken once more when it throws.
    virtual void on_pages_end(End end) = 0;

   protected:
    ~Listener() = default;
  };

  /// @param question  outlives this; its coding is decided by the answer if it is not yet, but not
  /// by that to a probe
  ShardPages(Asking& shared, Listener& listener, topology::ShardId shard, ShardQuestion& question,
             ListQuery query);
  /// False: the shard is down, nothing comes.
  [[nodiscard]] bool start();
  /// Nothing comes any more.
  void close() noexcept { call_.close(); }
  void consume(std::size_t bytes) noexcept { call_.consume(bytes); }

  [[nodiscard]] const http::ResponseHead& answer() const noexcept { return answer_; }
  [[nodiscard]] const std::string& body() const noexcept { return body_; }
  [[nodiscard]] const ListEnvelope& envelope() const noexcept { return reader_.envelope(); }
  /// 0: the list has none.
  [[nodiscard]] std::uint64_t revision() const noexcept;
  [[nodiscard]] std::size_t items() const noexcept { return items_; }

 private:
  void on_head(const http::ResponseHead& head) override;
  void on_data(std::string_view bytes) override;
  void on_end(Errc cause) override;
  void on_fault() override { listener_.on_pages_end(End::kBroken); }
  [[nodiscard]] bool ask(const std::string& token);

  Asking& shared_;
  Listener& listener_;
  topology::ShardId shard_;
  ShardQuestion& question_;
  const ListQuery query_;
  MemberCall call_;
  ListReader reader_;
  http::ResponseHead answer_;
  std::string body_;  // of a refusal
  std::size_t items_ = 0;
  bool good_ = false;  // the page has come with 200 and in the right coding
  bool broken_ = false;
};

}  // namespace kintsugi::aggregation
