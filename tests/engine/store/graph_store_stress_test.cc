// SPDX-License-Identifier: Apache-2.0
// Threads that put, replace, delete, find, list and watch the same few names at once. What must hold at every moment: a
// handle is whole, versions of a name only rise, bytes come back to nothing, no callback after its subscription. Run
// under the thread sanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "engine/store/graph_store.h"
#include "tests/engine/store/store_testing.h"

namespace vicinal {
namespace {

using testing::MakeGraph;
using testing::MakeMatrix;

constexpr int kRounds = 2000;
constexpr int kNames = 3;

std::string NameOf(uint32_t draw) { return std::string(1, static_cast<char>('a' + draw % kNames)); }

class StoreStress : public ::testing::Test {
 protected:
  StoreStress() {
    GraphStore::Options options;
    store_ = std::make_unique<GraphStore>(options);
  }

  Reservation Reserve(int64_t bytes) { return budget_.Reserve(Account::kPreparing, bytes, "a test").value(); }

  void PutAndReplace(uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const std::string name = NameOf(random());
      const auto version = store_->BeginPrepare(name, true, 0, 10, 30);
      if (!version.ok()) continue;
      store_->SetProgress(name, *version, 0.5, "csr");
      if (random() % 4 == 0) {
        store_->FinishPrepare(name, *version, absl::InternalError("made up"), nullptr);
      } else {
        auto graph = MakeGraph(name, *version, device_.get());
        graph->AddReservation(Reserve(graph->size_bytes()));
        store_->FinishPrepare(name, *version, graph, MakeMatrix(device_.get()),
                              std::make_shared<Reservation>(Reserve(10)));
      }
    }
  }

  void PutAndDeleteFeatures(uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds; ++i) {
      const std::string name = NameOf(random());
      const auto graph = store_->Find(name, 0, "", 0);
      if (!graph.ok()) continue;
      store_
          ->PutFeatures(name, "f", graph->graph->parts().version, MakeMatrix(device_.get()), true, 0,
                        std::make_shared<Reservation>(Reserve(20)))
          .status()
          .IgnoreError();
      if (random() % 3 == 0) store_->DeleteFeatures(name, "f").IgnoreError();
    }
  }

  void Delete(uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds / 3; ++i) {
      store_->Delete(NameOf(random()), 0).IgnoreError();
      std::this_thread::yield();
    }
  }

  void FindAndList(uint32_t seed) {
    std::mt19937 random(seed);
    std::map<std::string, int64_t> newest;
    for (int i = 0; i < kRounds; ++i) {
      const std::string name = NameOf(random());
      const auto handle = store_->Find(name, 0, random() % 2 == 0 ? "default" : "", 0);
      if (handle.ok()) {
        const PreparedGraph::Parts& parts = handle->graph->parts();
        EXPECT_EQ(parts.name, name);
        EXPECT_GE(parts.version, newest[name]);
        newest[name] = parts.version;
        EXPECT_TRUE(handle->graph->Adjacency({SelfLoops::kReplace, 1.0f, EdgeWeighting::kGcnOnes}).ok());
        if (handle->features) {
          EXPECT_EQ(handle->features->matrix->rows(), handle->graph->num_nodes());
        }
      }
      store_->ForEach([](const GraphStatus& status) {
        EXPECT_EQ(status.state == GraphState::kReady, status.graph && status.stage.empty() && status.progress == 1.0);
      });
    }
  }

  void Watch(uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < kRounds / 3; ++i) {
      const std::string name = NameOf(random());
      std::atomic<int> inside = 0;
      std::atomic<bool> dropped = false;
      auto subscription = store_->Watch(name, [&] {
        EXPECT_EQ(++inside, 1);
        EXPECT_FALSE(dropped);
        store_->Get(name).status().IgnoreError();
        --inside;
      });
      std::this_thread::yield();
      subscription.reset();
      dropped = true;
    }
  }

  std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  MemoryBudget budget_{0};
  std::unique_ptr<GraphStore> store_;
};

TEST_F(StoreStress, HoldsTogether) {
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 2; ++i) {
    threads.emplace_back([this, i] { PutAndReplace(i); });
    threads.emplace_back([this, i] { PutAndDeleteFeatures(10 + i); });
    threads.emplace_back([this, i] { FindAndList(20 + i); });
    threads.emplace_back([this, i] { Watch(30 + i); });
  }
  threads.emplace_back([this] { Delete(40); });
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kNames; ++i) store_->Delete(NameOf(i), 0).IgnoreError();
  store_->ForEach([](const GraphStatus& status) { ADD_FAILURE() << status.name << " is still there"; });
  EXPECT_EQ(device_->allocated_bytes(), 0);  // all handles are gone
  EXPECT_EQ(budget_.Snapshot().total(), 0) << "something stayed reserved";
}

}  // namespace
}  // namespace vicinal
