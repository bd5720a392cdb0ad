#include "workers/eventing/kafka/kafka_facts.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "workers/eventing/kafka/internal/library.h"

namespace kintsugi::workers {
namespace {

using Fault = KafkaFacts::Fault;

struct ClientEnd {
  void operator()(rd_kafka_t* client) const noexcept {
    rd_kafka_destroy_flags(client, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
};
struct TopicEnd {
  void operator()(rd_kafka_topic_t* topic) const noexcept { rd_kafka_topic_destroy(topic); }
};
struct MetadataEnd {
  void operator()(const rd_kafka_metadata_t* metadata) const noexcept {
    rd_kafka_metadata_destroy(metadata);
  }
};
struct ListEnd {
  void operator()(rd_kafka_topic_partition_list_t* list) const noexcept {
    rd_kafka_topic_partition_list_destroy(list);
  }
};
using List = std::unique_ptr<rd_kafka_topic_partition_list_t, ListEnd>;

KafkaFacts fault_of(Fault fault, std::string text) {
  KafkaFacts out;
  out.fault = fault;
  out.text = std::move(text);
  return out;
}

bool is_no_topic(rd_kafka_resp_err_t code) {
  return code == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART ||
         code == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC || code == RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION;
}

class Asking {
 public:
  Asking(rd_kafka_t* client, const KafkaQuestion& question)
      : client_(client),
        question_(question),
        timeout_(static_cast<int>(
            std::chrono::duration_cast<std::chrono::milliseconds>(question.timeout).count())) {}

  KafkaFacts run() {
    KafkaFacts out;
    const List all(rd_kafka_topic_partition_list_new(16));
    for (const std::string& topic : question_.topics) {
      if (KafkaFacts fault = count(topic, *all); fault.fault != Fault::kNone) {
        return fault;
      }
    }
    out.partitions = all->cnt;
    if (question_.begin_at_end) {
      if (KafkaFacts fault = begin(*all, out.begun); fault.fault != Fault::kNone) {
        return fault;
      }
    }
    return out;
  }

 private:
  KafkaFacts count(const std::string& name, rd_kafka_topic_partition_list_t& all) {
    const std::unique_ptr<rd_kafka_topic_t, TopicEnd> topic(
        rd_kafka_topic_new(client_, name.c_str(), nullptr));
    const rd_kafka_metadata_t* metadata = nullptr;
    const rd_kafka_resp_err_t code =
        topic == nullptr ? rd_kafka_last_error()
                         : rd_kafka_metadata(client_, 0, topic.get(), &metadata, timeout_);
    const std::unique_ptr<const rd_kafka_metadata_t, MetadataEnd> held(metadata);
    if (is_no_topic(code)) {
      return fault_of(Fault::kTopicMissing, name + ": " + kafka_text(code));
    }
    if (code != RD_KAFKA_RESP_ERR_NO_ERROR || metadata->topic_cnt != 1) {
      return fault_of(Fault::kUnreachable, kafka_text(code));
    }
    const rd_kafka_metadata_topic& found = metadata->topics[0];
    if (is_no_topic(found.err)) {
      return fault_of(Fault::kTopicMissing, name + ": " + kafka_text(found.err));
    }
    if (found.err != RD_KAFKA_RESP_ERR_NO_ERROR || found.partition_cnt == 0) {
      return fault_of(Fault::kUnreachable, name + ": " + kafka_text(found.err));
    }
    for (int i = 0; i < found.partition_cnt; ++i) {
      rd_kafka_topic_partition_list_add(&all, name.c_str(), found.partitions[i].id);
    }
    return {};
  }

  KafkaFacts begin(rd_kafka_topic_partition_list_t& all, std::int64_t& begun) {
    const auto fault = [](rd_kafka_resp_err_t code) {
      return fault_of(Fault::kOffsets, kafka_text(code));
    };
    if (const auto code = rd_kafka_committed(client_, &all, timeout_);
        code != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return fault(code);
    }
    const List next(rd_kafka_topic_partition_list_new(16));
    for (int i = 0; i < all.cnt; ++i) {
      const rd_kafka_topic_partition_t& one = all.elems[i];
      if (one.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return fault(one.err);
      }
      if (one.offset >= 0) {
        continue;
      }
      std::int64_t low = 0, high = 0;
      if (const auto code = rd_kafka_query_watermark_offsets(client_, one.topic, one.partition,
                                                             &low, &high, timeout_);
          code != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return fault(code);
      }
      rd_kafka_topic_partition_list_add(next.get(), one.topic, one.partition)->offset = high;
    }
    if (next->cnt == 0) {
      return {};
    }
    if (const auto code = rd_kafka_commit(client_, next.get(), 0);
        code != RD_KAFKA_RESP_ERR_NO_ERROR) {
      return fault(code);
    }
    for (int i = 0; i < next->cnt; ++i) {
      if (next->elems[i].err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        return fault(next->elems[i].err);
      }
    }
    begun = next->cnt;
    return {};
  }

  rd_kafka_t* client_;
  const KafkaQuestion& question_;
  const int timeout_;
};

}  // namespace

KafkaFacts ask_kafka(const KafkaQuestion& question) {
  KafkaSettings settings;
  settings.set({{"bootstrap.servers", question.bootstrap_servers},
                {"group.id", question.group},
                {"client.id", "kintsugi-eventing"},
                {"enable.auto.commit", "false"},
                {"allow.auto.create.topics", "false"}});
  auto client = settings.make(RD_KAFKA_CONSUMER);
  if (!client) {
    return fault_of(Fault::kUnreachable, std::string(client.error().message()));
  }
  const std::unique_ptr<rd_kafka_t, ClientEnd> held(*client);
  return Asking(held.get(), question).run();
}

}  // namespace kintsugi::workers
