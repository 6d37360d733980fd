// SPDX-License-Identifier: Apache-2.0
// The order metis: parts that keep planted communities together, a clear word where METIS is missing, and signals that
// come while METIS runs: delivered afterwards, to the handler that was there, and never by METIS's own.
#include <gtest/gtest.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "engine/base/error.h"
#include "engine/reorder/order.h"
#include "engine/reorder/signals_blocked.h"
#include "tests/engine/graph/graph_testing.h"
#include "tests/engine/reorder/reorder_testing.h"
#include "tests/support/generators.h"

namespace vicinal {
namespace {

using testing::ExpectPermutation;
using testing::PlantedGraph;

std::atomic<int> terminations{0};
void CountTermination(int) { ++terminations; }

// Takes SIGTERM with a handler of ours; afterwards the handler before has it again.
class CountingSigterm {
 public:
  CountingSigterm() {
    terminations = 0;
    struct sigaction action = {};
    action.sa_handler = CountTermination;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, &before_);
  }
  ~CountingSigterm() { sigaction(SIGTERM, &before_, nullptr); }

 private:
  struct sigaction before_;
};

void ExpectOurHandler() {
  struct sigaction now;
  sigaction(SIGTERM, nullptr, &now);
  EXPECT_EQ(now.sa_handler, CountTermination);
  EXPECT_EQ(now.sa_flags & SA_RESTART, SA_RESTART);
  EXPECT_EQ(now.sa_flags & static_cast<int>(SA_RESETHAND), 0);
}

TEST(SignalsBlocked, DeliversAfterwards) {
  const CountingSigterm counting;
  {
    const internal::SignalsBlocked blocked;
    std::signal(SIGTERM, SIG_IGN);  // what a library might do
    std::signal(SIGTERM, CountTermination);
    raise(SIGTERM);
    EXPECT_EQ(terminations, 0);
  }
  EXPECT_EQ(terminations, 1);
  ExpectOurHandler();
}

class MetisOrder : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!IsAvailable(OrderKind::kMetis)) GTEST_SKIP() << "this build has no METIS";
  }
};

TEST(MetisMissing, IsRefusedWithWhatToDo) {
  if (IsAvailable(OrderKind::kMetis)) GTEST_SKIP() << "this build has METIS";
  const Status refused = ComputeOrder(OrderKind::kMetis, BuildCsrByTarget(GridGraph(3))).status();
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(DetailOf(refused)->reason, "METIS_MISSING");
  EXPECT_NE(refused.message().find("libmetis-dev"), absl::string_view::npos);
}

TEST_F(MetisOrder, KeepsPlantedBlocksTogether) {
  const int64_t blocks = 10, size = kBlockNodes;
  const EdgeList planted = PlantedGraph(blocks, size, 6, 1, 3);
  const EdgeList shuffled = ShuffleIds(planted, 4);
  const Permutation permutation = ComputeOrder(OrderKind::kMetis, BuildCsrByTarget(shuffled)).value();
  ExpectPermutation(permutation, planted.num_nodes);
  // 6/7 of the edges stay inside a block, and a tenth of the others by chance; METIS balances parts to 3 %.
  int64_t near = 0;
  for (int64_t e = 0; e < shuffled.num_edges(); ++e) {
    near += std::abs(permutation.ToNew(shuffled.source[e]) - permutation.ToNew(shuffled.target[e])) < size * 11 / 10;
  }
  EXPECT_GT(static_cast<double>(near) / static_cast<double>(shuffled.num_edges()), 0.85);
}

// Parts lie one after the other: few edges cross a border, though most nodes have neighbours far away.
TEST_F(MetisOrder, TellsTheBordersOfItsParts) {
  const int64_t blocks = 4, size = kBlockNodes;
  const Csr csr = BuildCsrByTarget(ShuffleIds(PlantedGraph(blocks, size, 6, 1, 3), 4));
  OrderComputer computer(csr);
  const Permutation permutation = computer.Compute(OrderKind::kMetis).value();
  const std::vector<int64_t> borders = computer.TakeMetisBorders();
  ASSERT_EQ(borders.size(), static_cast<size_t>(blocks + 1));
  EXPECT_EQ(borders.front(), 0);
  EXPECT_EQ(borders.back(), csr.num_rows);
  EXPECT_TRUE(std::is_sorted(borders.begin(), borders.end()));
  const auto part_of = [&](NodeId v) {
    return std::upper_bound(borders.begin(), borders.end(), permutation.ToNew(v)) - borders.begin();
  };
  int64_t inside = 0;
  for (NodeId row = 0; row < csr.num_rows; ++row) {
    for (EdgeId e = csr.row_ptr[row]; e < csr.row_ptr[row + 1]; ++e) inside += part_of(csr.col[e]) == part_of(row);
  }
  EXPECT_GT(static_cast<double>(inside) / static_cast<double>(csr.nnz()), 0.85);
  EXPECT_TRUE(computer.TakeMetisBorders().empty()) << "given away";
}

TEST_F(MetisOrder, OfOneBlockIsRcm) {
  const Csr csr = BuildCsrByTarget(ShuffleIds(GridGraph(50), 2));
  EXPECT_EQ(ComputeOrder(OrderKind::kMetis, csr)->new_of_old(), ComputeOrder(OrderKind::kRcm, csr)->new_of_old());
}

TEST_F(MetisOrder, RepeatsItself) {
  const Csr csr = BuildCsrByTarget(RmatGraph(14, 60000, 3));
  EXPECT_EQ(ComputeOrder(OrderKind::kMetis, csr)->new_of_old(), ComputeOrder(OrderKind::kMetis, csr)->new_of_old());
}

TEST_F(MetisOrder, SignalsThatComeMeanwhileAreNotLost) {
  const Csr csr = BuildCsrByTarget(UniformGraph(10000, 50000, 1));
  const CountingSigterm counting;
  // Sends SIGTERM to this thread all the while. Blocks it itself, as all other threads of a server do.
  const pthread_t main_thread = pthread_self();
  std::atomic<bool> running{true};
  std::atomic<int> sent{0};
  std::thread sender;
  {
    const internal::SignalsBlocked inherited;
    sender = std::thread([&] {
      while (running) {
        if (pthread_kill(main_thread, SIGTERM) == 0) ++sent;
        std::this_thread::yield();
      }
    });
    while (sent == 0) std::this_thread::yield();
  }
  EXPECT_TRUE(ComputeOrder(OrderKind::kMetis, csr).ok());
  running = false;
  sender.join();
  EXPECT_GE(terminations, 1);
  ExpectOurHandler();
  // A further one still reaches it: nothing was left blocked.
  const int before = terminations;
  raise(SIGTERM);
  EXPECT_EQ(terminations, before + 1);
}

TEST_F(MetisOrder, SeveralThreadsTakeTurns) {
  const Csr csr = BuildCsrByTarget(UniformGraph(12000, 60000, 1));
  const std::vector<NodeId> expected = ComputeOrder(OrderKind::kMetis, csr)->new_of_old();
  std::vector<std::vector<NodeId>> found(4);
  std::vector<std::thread> threads;
  for (auto& result : found) {
    threads.emplace_back([&] { result = ComputeOrder(OrderKind::kMetis, csr)->new_of_old(); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : found) EXPECT_EQ(result, expected);
}

}  // namespace
}  // namespace vicinal
