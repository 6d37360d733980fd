// SPDX-License-Identifier: Apache-2.0
#include "server/handlers/fit_reply.h"

#include <google/protobuf/message_lite.h>

#include <string>

namespace vicinal::server {
namespace {

// Upper bound of the bytes of the counts of items left out: three fields, each a tag and a varint.
constexpr int64_t kCounts = int64_t{3} * 11;
// Minimum bytes of an item besides its own, in the message that holds it: tag and length.
constexpr int64_t kFraming = 2;

// Bytes to be dropped.
int64_t ExcessOf(const google::protobuf::MessageLite& reply, int64_t max_bytes) {
  const auto bytes = static_cast<int64_t>(reply.ByteSizeLong());
  return bytes <= max_bytes ? 0 : bytes + kCounts - max_bytes;
}

int64_t BytesOf(const google::protobuf::MessageLite& item) {
  return static_cast<int64_t>(item.ByteSizeLong()) + kFraming;
}
int64_t BytesOf(const std::string& item) { return static_cast<int64_t>(item.size()) + kFraming; }

// How many items from `begin` on must be dropped; subtracts their bytes from `excess`.
template <class Iterator>
int CountToDrop(Iterator begin, Iterator end, int64_t* excess) {
  int count = 0;
  for (; begin != end && *excess > 0; ++begin, ++count) *excess -= BytesOf(*begin);
  return count;
}

// Drops items from the end; returns how many.
template <class Items>
int DropLast(int64_t* excess, Items* items) {
  const int count = CountToDrop(items->rbegin(), items->rend(), excess);
  items->DeleteSubrange(items->size() - count, count);
  return count;
}

template <class Response>
void FitRecords(int64_t max_bytes, Response* reply) {
  int64_t excess = ExcessOf(*reply, max_bytes);
  auto* const records = reply->mutable_records();
  const int count = CountToDrop(records->begin(), records->end(), &excess);
  records->DeleteSubrange(0, count);
  reply->set_records_left_out(count);
}

// Drops the tuning records of the last steps; returns how many.
int DropTuning(int64_t* excess, v1::ExplainResponse* reply) {
  int count = 0;
  for (int i = reply->steps_size() - 1; i >= 0 && *excess > 0; --i) {
    v1::PlanStep* const step = reply->mutable_steps(i);
    if (!step->has_tuning()) continue;
    *excess -= BytesOf(step->tuning());
    step->clear_tuning();
    ++count;
  }
  return count;
}

}  // namespace

void FitReply(int64_t max_bytes, v1::TuneGraphResponse* reply) { FitRecords(max_bytes, reply); }

void FitReply(int64_t max_bytes, v1::GetTuningResponse* reply) { FitRecords(max_bytes, reply); }

void FitReply(int64_t max_bytes, v1::ExplainResponse* reply) {
  int64_t excess = ExcessOf(*reply, max_bytes);
  reply->set_tuning_left_out(DropTuning(&excess, reply));
  reply->set_decisions_left_out(DropLast(&excess, reply->mutable_decisions()));
  reply->set_steps_left_out(DropLast(&excess, reply->mutable_steps()));
}

void FitReply(int64_t max_bytes, v1::Model* reply) {
  int64_t excess = ExcessOf(*reply, max_bytes);
  reply->set_layers_left_out(DropLast(&excess, reply->mutable_layers()));
}

}  // namespace vicinal::server
