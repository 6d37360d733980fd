// SPDX-License-Identifier: Apache-2.0
// Shares of principals that share runs: closed loops of clients on a clock that moves by what each run costs. The costs
// are the test's, and the queue learns them as from an executor.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/execute/request_queue.h"
#include "tests/engine/execute/numbered_requests.h"

namespace vicinal {
namespace {

using testing::Numbered;
using testing::NumberOf;

// Seconds of a run: `fixed` for the run, `each` for every request in it.
struct Cost {
  double fixed = 0.0;
  double each = 0.0;

  double Of(size_t requests) const { return fixed + each * static_cast<double>(requests); }
};

using Work = std::pair<std::string, int64_t>;  // a principal and a model

class Loops {
 public:
  explicit Loops(std::map<int64_t, Cost> costs) : costs_(std::move(costs)) {}

  // `count` clients of that work, which send the next request when the last one is answered.
  void Start(const Work& work, int count) {
    for (int i = 0; i < count; ++i) Send(work);
  }
  // A client that brings features of its own, so that its requests share no run.
  void StartAlone(const Work& work) { Send(work, true); }
  void Stop(const Work& work) { stopped_.push_back(work); }

  void RunFor(double seconds) {
    for (const double end = now_ + seconds; now_ < end;) RunNext();
  }

  double got(const std::string& principal) const { return Find(got_, principal); }  // seconds of runs that it led
  int64_t answers(const Work& work) const { return Find(answers_, work); }
  // The longest time from a request to its answer, that which waits now included.
  double longest(const Work& work) const {
    double longest = Find(longest_, work);
    for (const QueueSnapshot::Request& request : queue_.Snapshot().requests) {
      if (NumberOf(request.key) == work.second)
        longest = std::max(longest, SecondsBetween(request.arrival, clock_.Now()));
    }
    return longest;
  }
  double longest_run() const { return longest_run_; }
  Status CheckWithin(const Work& work, double seconds) const {
    QueuedRequest request = Request(work, false);
    request.limits.deadline = clock_.Now() + Time(seconds);
    return queue_.Check(request);
  }

 private:
  template <class Map>
  static typename Map::mapped_type Find(const Map& map, const typename Map::key_type& key) {
    const auto found = map.find(key);
    return found == map.end() ? typename Map::mapped_type() : found->second;
  }
  static Nanoseconds Time(double seconds) { return Nanoseconds(static_cast<int64_t>(seconds * 1e9)); }
  static QueuedRequest Request(const Work& work, bool alone) {
    QueuedRequest request = Numbered(work.second);
    request.requester.principal = work.first;
    request.brings_features = alone;
    return request;
  }
  void Send(const Work& work, bool alone = false) { ASSERT_TRUE(queue_.Push(Request(work, alone)).ok()); }

  void RunNext() {
    std::optional<RequestQueue::Turn> turn = queue_.Next();
    std::vector<QueuedRequest> riders;
    riders.push_back(std::move(std::get<QueuedRequest>(turn->work)));
    for (QueuedRequest& request : turn->company) riders.push_back(std::move(request));
    const double seconds = costs_.at(NumberOf(riders[0].key)).Of(riders.size());
    clock_.Advance(Time(seconds));
    now_ += seconds;
    longest_run_ = std::max(longest_run_, seconds);
    queue_.Measured(seconds, true);
    got_[riders[0].requester.principal] += seconds;
    for (const QueuedRequest& request : riders) {
      const Work work = {request.requester.principal, NumberOf(request.key)};
      longest_[work] = std::max(longest_[work], SecondsBetween(request.arrival, clock_.Now()));
      ++answers_[work];
      if (std::find(stopped_.begin(), stopped_.end(), work) == stopped_.end()) Send(work, request.brings_features);
    }
  }

  std::map<int64_t, Cost> costs_;
  FakeClock clock_;
  RequestQueue queue_{{4096, &clock_, nullptr}};
  double now_ = 0.0, longest_run_ = 0.0;
  std::map<std::string, double> got_;
  std::map<Work, int64_t> answers_;
  std::map<Work, double> longest_;
  std::vector<Work> stopped_;
};

constexpr int64_t kShared = 1, kOwn = 2, kThird = 3;
const Work kWebShared = {"web", kShared}, kWebOwn = {"web", kOwn}, kOtherShared = {"other", kShared};

struct Case {
  Cost shared;         // of runs of the shared work
  bool known = false;  // the queue has seen what one takes alone
};

class RideFairnessTest : public ::testing::TestWithParam<Case> {
 protected:
  static bool known() { return GetParam().known; }

  Loops loops_{{{kShared, GetParam().shared}, {kOwn, {0.002, 0.0}}, {kThird, {0.001, 0.0}}}};

 private:
  void SetUp() override {
    if (!known()) return;
    loops_.Stop({"first", kShared});
    loops_.Start({"first", kShared}, 1);
    loops_.RunFor(GetParam().shared.Of(1));
  }
};

// The same for all, by the request, and between.
INSTANTIATE_TEST_SUITE_P(Costs, RideFairnessTest,
                         ::testing::Values(Case{{0.010, 0.0}, true}, Case{{0.0, 0.0002}, true},
                                           Case{{0.002, 0.0001}, true}, Case{{0.010, 0.0}}));

TEST_P(RideFairnessTest, WorkOfItsOwnIsServedBesideRides) {
  loops_.Start(kOtherShared, 16);
  loops_.Start(kWebShared, 64);
  loops_.RunFor(0.5);
  loops_.Start(kWebOwn, 1);
  loops_.RunFor(1.5);
  // A run or two of each other work, then its turn; and within its share, a quarter of the time. What rides cost is
  // guessed at until it is known what a run takes alone.
  EXPECT_LT(loops_.longest(kWebOwn), (known() ? 4 : 8) * loops_.longest_run());
  EXPECT_GT(loops_.answers(kWebOwn), 50);
  EXPECT_LT(loops_.longest(kWebShared), 1.0);
  EXPECT_LT(loops_.longest(kOtherShared), 1.0);
}

TEST_P(RideFairnessTest, ADeadlineAboveTheWaitIsNotRefused) {
  loops_.Start(kOtherShared, 16);
  loops_.Start(kWebShared, 64);
  loops_.Start(kWebOwn, 1);
  loops_.RunFor(1.0);
  EXPECT_TRUE(loops_.CheckWithin(kWebOwn, loops_.longest(kWebOwn)).ok());
}

TEST_P(RideFairnessTest, RequestsThatCannotRideAreServedBesideThoseThatDo) {
  loops_.Start(kOtherShared, 16);
  loops_.Start(kWebShared, 64);
  loops_.StartAlone(kWebShared);
  loops_.RunFor(0.5);
  EXPECT_LT(loops_.longest(kWebShared), 0.5);
  loops_.Start(kWebOwn, 4);
  loops_.Start({"web", kThird}, 1);
  loops_.RunFor(1.5);
  EXPECT_LT(loops_.longest(kWebShared), 0.5);
  EXPECT_LT(loops_.longest(kWebOwn), 0.3);
  EXPECT_LT(loops_.longest({"web", kThird}), 0.3);
}

TEST_P(RideFairnessTest, WorkComesToItsTurnWhenTheRidesEnd) {
  loops_.Start(kOtherShared, 16);
  loops_.Start(kWebShared, 64);
  loops_.Start(kWebOwn, 1);
  loops_.RunFor(2.0);
  loops_.Stop(kOtherShared);
  loops_.RunFor(0.5);
  const int64_t own = loops_.answers(kWebOwn), shared = loops_.answers(kWebShared);
  loops_.RunFor(1.0);
  EXPECT_NEAR(static_cast<double>(loops_.answers(kWebOwn) - own) * 0.002, 0.5, 0.06) << "half of it";
  EXPECT_GT(loops_.answers(kWebShared), shared);
}

TEST_P(RideFairnessTest, WhoSharesNothingKeepsItsThird) {
  loops_.Start(kOtherShared, 32);
  loops_.Start(kWebShared, 64);
  loops_.Start({"alone", kOwn}, 8);
  loops_.RunFor(0.5);
  const double before = loops_.got("alone");
  loops_.RunFor(3.0);
  EXPECT_NEAR(loops_.got("alone") - before, 1.0, 0.1);
}

TEST(RideEfficiencyTest, RidesThatAddNothingAreTaken) {
  Loops loops({{kShared, {0.010, 0.0}}});
  loops.Stop({"first", kShared});
  loops.Start({"first", kShared}, 1);
  loops.RunFor(0.010);
  for (const char* principal : {"a", "b", "c"}) loops.Start({principal, kShared}, 20);
  loops.RunFor(1.0);
  EXPECT_GT(loops.answers({"a", kShared}), 20 * 95) << "one run serves all of them";
}

TEST_P(RideFairnessTest, WithoutRidesEqualSharesStayEqual) {
  loops_.Start({"a", kShared}, 40);
  loops_.Start({"b", kOwn}, 4);
  loops_.Start({"c", kThird}, 4);
  loops_.RunFor(3.0);
  for (const char* principal : {"a", "b", "c"}) EXPECT_NEAR(loops_.got(principal), 1.0, 0.05) << principal;
}

}  // namespace
}  // namespace vicinal
