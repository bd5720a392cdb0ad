#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "aggregation/asking/read_gate.h"
#include "aggregation/asking/shard_answer.h"
#include "aggregation/bytes/list_text.h"
#include "aggregation/list/internal/list_output.h"
#include "aggregation/list/internal/list_part.h"
#include "aggregation/list/lists.h"
#include "base/memory_budget.h"
#include "serving/answer.h"

namespace kintsugi::aggregation {

/// One merged list, from its request to its end (make_merged_list). Threads: its loop.
///
/// First every shard whose answer decides on the form of the list is asked (list_run.cc). What they
/// answer is judged (list_run_answers.cc): the list is refused, goes on without one of them, or is
/// asked for again in another media type. Once all have answered in one form it is decided: items
/// go out in slot order (list_run_items.cc), and what fails then cuts the list off.
class ListRun final : public http::RequestHandler, public ListPart::Owner {
 public:
  ListRun(Lists& lists, http::RequestHead head, http::ResponseStream& stream, MergeRoute route,
          MergeQuery query, std::string accept);
  void start();

  void on_data(std::string_view bytes, bool) noexcept override { down_.consume(bytes.size()); }
  void on_drained() noexcept override;
  void on_close(Errc) noexcept override { stop(kCutOff); }

 private:
  static constexpr int kCutOff = 0;  ///< code in metrics of a list without an end
  using Causes = std::vector<std::pair<std::string, std::string>>;  // shard, cause

  // Asking.
  Expected<ListPlan> make_plan();
  /// Leaves out members that hold nothing and never did; the slots of the others.
  std::vector<std::size_t> slots_needed(const Components& read);
  [[nodiscard]] Duration time_allowed() const;
  [[nodiscard]] ListQuestion question() const;
  /// Asks every shard that the form of the answer depends on.
  void ask_all();
  /// The same again in fewer media types; "": 406. What has been read is read again, in the state
  /// that it had.
  void ask_all_as(std::string accept);
  void ask_all_unpaged();
  [[nodiscard]] bool send(ListPart& part);
  void ask(ListPart& part);

  // What the shards answer.
  void on_part_head(ListPart& part) override;
  void on_part_moved(ListPart& part) override;
  void on_part_late(ListPart& part) override;
  void on_part_fault() override;
  /// An answer other than 200.
  void judge(ListPart& part);
  /// 429: once its Retry-After is waited for, if there is time.
  void be_patient(ListPart& part);
  /// Whether the list may go on without this shard.
  [[nodiscard]] bool may_miss(const ListPart& part) const;
  void miss(ListPart& part, const std::string& cause);
  void leave_out(ListPart& part);
  /// Nothing is left to be read.
  void end_without_shards(ListPart& last);
  /// @param reason  label of kintsugi_shard_failures_total
  void lose(ListPart& part, std::string_view cause, std::string_view reason);
  /// A page may be shorter than its limit: the next one begins with this shard. False: it cannot.
  bool end_page_before(ListPart& part);
  /// The shard's own Status goes to the client.
  void pass_on(ListPart& part);
  /// A pin that the shard has forgotten. Pages may go on with what it has now (T24).
  void expire(ListPart& part);

  // When every shard has answered.
  /// Decides as soon as nothing can change the form of the answer any more.
  void settle();
  /// One media type for all (T19).
  bool same_format();
  /// Rows of one kind, with the same columns (T08).
  bool same_table();
  /// True: the revision that it is pinned at is known.
  bool read_pin(ListPart& part);
  void decide();

  // Items.
  /// Takes from the shard whose turn it is as much as the client has room for.
  void go_on();
  /// True when there is more to do now.
  bool take(ListPart& part);
  /// What is spooled fits into what the list, and its payer, may keep. Else the shards are asked
  /// for JSON, which needs no spool, or the list is refused.
  [[nodiscard]] bool spool_fits();
  /// A shard that was asked late answers in the form that was decided on.
  bool fits(ListPart& part);
  [[nodiscard]] bool rests(const ListPart& part, std::string_view item) const;
  void add_item(ListPart& part, std::string_view item);
  /// Everything in one list is of one kind. What is known of it is kept.
  bool is_of_kind(const ListEnvelope& envelope);
  bool end_part(ListPart& part);
  void flush(bool end);

  // The end.
  [[nodiscard]] std::size_t index_of(const ListPart& part) const;
  /// The cursor that the list ends with.
  [[nodiscard]] const std::string& version();
  [[nodiscard]] MergedContinue next_token(std::size_t index);
  /// "" when the list ends with this page.
  [[nodiscard]] std::string continue_text();
  void start_output(std::string_view type);
  void finish();
  void send_spooled();
  void too_late();
  /// The client must not take what it has for a list.
  void fail_with(const Error& error);
  void refuse(const Error& error);
  void stop(int code) noexcept;

  Lists& lists_;
  Asking& shared_;
  http::ResponseStream& down_;
  serving::AnswerForm form_;
  const bool may_compress_;
  http::RequestHead head_;  // what every shard is asked with
  MergeRoute route_;
  MergeQuery query_;
  std::string accept_;  // of what can be merged, what is still possible
  CursorCodec codec_;
  const TimePoint begun_at_;
  net::Timer deadline_;
  std::unique_ptr<ReadGate::Ticket> ticket_;
  ListPlan plan_;
  std::uint32_t generation_;  // that the list began under
  std::vector<Member> members_;
  std::vector<std::unique_ptr<ListPart>> parts_;
  Causes missing_;
  Warnings warnings_;
  Components components_;
  ListOutput output_;
  ListFormat format_ = ListFormat::kJson;
  JsonListText text_;
  ProtoSpool spool_;
  std::optional<MemoryBudget::Claim> spooled_;  // what the spool takes
  ListEnvelope envelope_;                       // kind, apiVersion and columns of the answer
  std::size_t current_ = 0;                     // whose items come now
  std::int64_t count_ = 0;
  int longest_wait_ = 0;  // [s] that busy shards asked for
  std::string shard_info_, member_token_;
  std::string version_;    // written, of version_of_
  Components version_of_;  // empty: of nothing
  bool decided_ = false;   // every shard has answered: the form of the answer is known
  bool closing_ = false;   // what is spooled goes out
  bool done_ = false, working_ = false;
};

}  // namespace kintsugi::aggregation
