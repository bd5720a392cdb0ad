#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "aggregation/asking/asking.h"
#include "aggregation/asking/member_call.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/list_reader.h"
#include "aggregation/list/list_plan.h"
#include "net/loop.h"

namespace kintsugi::aggregation {

enum class ListFormat : std::uint8_t { kJson, kProtobuf };

/// One shard's share of a merged list: a request, and its answer as far as it came. What that means
/// for the list is the owner's business, who also keeps the notes here. Threads: its loop.
class ListPart final : private MemberCall::Listener {
 public:
  /// None of these may destroy the part.
  class Owner {
   public:
    /// The status line and fields.
    virtual void on_part_head(ListPart& part) = 0;
    /// More of the body, or its end.
    virtual void on_part_moved(ListPart& part) = 0;
    /// It has not answered in time.
    virtual void on_part_late(ListPart& part) = 0;
    /// What one of these did has thrown: the list ends with 500.
    virtual void on_part_fault() = 0;

   protected:
    ~Owner() = default;
  };

  ListPart(Asking& shared, Owner& owner, Member m)
      : member(std::move(m)),
        shared_(shared),
        owner_(owner),
        call_(shared.loop, *this),
        timer_(shared.loop),
        reader_(shared.params.max_event) {}
  ListPart(const ListPart&) = delete;
  ListPart& operator=(const ListPart&) = delete;

  /// Asks anew. @param head  its target is the path with step.query. @param columns  find out the
  /// columns of a Table before the list is read. @return false: the shard is away (cause())
  [[nodiscard]] bool ask(const MergeRoute& route, http::RequestHead head, bool columns);
  /// Calls `then` after a while in which nothing comes.
  void rest(Duration wait, std::function<void()> then);
  /// Nothing comes any more. What came stays.
  void close() noexcept;
  /// As if it had never answered.
  void forget() noexcept;
  /// Takes apart what has come, items one by one.
  [[nodiscard]] ListSplitter::Fault read(const std::function<void(std::string_view item)>& take);

  /// A request is out that shall give items or a revision.
  [[nodiscard]] bool asked() const noexcept {
    return step.kind == ListStep::Kind::kRead || step.kind == ListStep::Kind::kPin;
  }
  [[nodiscard]] bool answered() const noexcept { return headed_ && head_.status == 200; }
  [[nodiscard]] bool headed() const noexcept { return headed_; }
  [[nodiscard]] bool ended() const noexcept { return ended_; }
  /// kOk: the body is complete.
  [[nodiscard]] Errc end_cause() const noexcept { return end_cause_; }
  [[nodiscard]] const http::ResponseHead& head() const noexcept { return head_; }
  /// Received and not read; the whole body of an answer other than 200.
  [[nodiscard]] const std::string& waiting() const noexcept { return waiting_; }
  /// The whole list has been read.
  [[nodiscard]] bool complete() const noexcept;
  /// What is known by now.
  [[nodiscard]] const ListEnvelope& envelope() const noexcept { return reader_.envelope(); }
  [[nodiscard]] ListFormat format() const noexcept { return format_; }
  /// kind and columns of a Table are known, or will not be before it is read.
  [[nodiscard]] bool columns_known() const noexcept { return !peeks_; }
  [[nodiscard]] const ListEnvelope& columns() const noexcept { return seen_; }
  /// Why it could not be asked.
  [[nodiscard]] const std::string& cause() const noexcept { return cause_; }
  /// Label of kintsugi_shard_failures_total for it.
  [[nodiscard]] std::string_view reason() const noexcept {
    return cause_ == kTooLargeVersions ? "sequence" : "connect";
  }

  /// @{ Notes of the owner.
  Member member;
  ListStep step;
  bool finished = false;    ///< nothing of it is awaited
  bool has_items = false;   ///< kPin: there is something to read later
  bool absent = false;      ///< it does not serve the resource
  bool missing = false;     ///< the list goes on without it
  bool rested = false;      ///< it was busy once
  bool retyped = false;     ///< it was asked for another media type
  unsigned repeats = 0;     ///< how often its request was lost and sent again
  std::uint64_t items = 0;  /// of the answer that is being read; @}

 private:
  void on_head(const http::ResponseHead& head) override;
  void on_data(std::string_view bytes) override;
  void on_end(Errc cause) override;
  void on_fault() override { owner_.on_part_fault(); }
  void peek(std::string_view bytes);

  Asking& shared_;
  Owner& owner_;
  MemberCall call_;
  net::Timer timer_;
  ListReader reader_;
  ListSplitter peek_{0};
  ListEnvelope seen_;
  http::ResponseHead head_;
  std::string waiting_, cause_;
  ListFormat format_ = ListFormat::kJson;
  bool headed_ = false, ended_ = false, peeks_ = false;
  Errc end_cause_ = Errc::kOk;
};

/// The logical cluster of an object; "": nobody can tell. @param item  an object or a row of a
/// Table
[[nodiscard]] std::string cluster_of(std::string_view item, ListFormat format);
/// The logical cluster of an object if it is one of those that exist on every shard (AGG-1501); "":
/// it is not. @param item  an object or a row of a Table
[[nodiscard]] std::string system_cluster_of(std::string_view item, ListFormat format);
/// Whether rows under both definitions fit together: names and types (T08). Raw JSON.
[[nodiscard]] bool same_columns(std::string_view a, std::string_view b);

}  // namespace kintsugi::aggregation
