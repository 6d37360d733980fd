// SPDX-License-Identifier: Apache-2.0
// Layouts beside a graph version: what comes back has equal bits, and what cannot be used is made again. A layout never
// keeps a graph from being loaded.
#include "engine/durable/layout_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/durable/graph_codec.h"
#include "tests/engine/durable/durable_testing.h"
#include "tests/engine/durable/lines.h"
#include "tests/engine/tune/record_testing.h"
#include "tests/split_mix.h"

namespace vicinal::durable {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Lines;
using ::testing::Not;
using ::testing::SizeIs;

const state::VersionId kId = {state::Store::kGraphs, "g", 7, "", 0};
const std::string kList = "graphs/g/7/documents/" + state::LayoutsDocumentName("processor") + ".json";
constexpr char kFiles[] = "graphs/g/7/layouts/";

// The sums of the columns of each row, times a factor that its name says.
struct SumsLayout : AdjacencyLayout {
  Buffer sums;
  int64_t factor = 1;

  int64_t size_bytes() const override { return static_cast<int64_t>(sums.bytes()); }
  std::vector<int64_t> values() const {
    return {sums.as<int64_t>(), sums.as<int64_t>() + sums.bytes() / sizeof(int64_t)};
  }
};

class SumsKernel final : public testing::OrderedAggregate, public LayoutCodec {
 public:
  explicit SumsKernel(int64_t version) : OrderedAggregate("sums", {"standard", 1, true}), version_(version) {}

  StatusOr<AdjacencyLayoutRef> Make(std::string_view name, LayoutSource& source) const {
    const CsrView& rows = source.adjacency();
    std::vector<int64_t> sums(static_cast<size_t>(rows.rows), 0);
    const int64_t factor = name.back() - '0';
    for (int64_t row = 0; row < rows.rows; ++row) {
      for (int64_t e = rows.row_ptr[row]; e < rows.row_ptr[row + 1]; ++e) sums[row] += factor * rows.col[e];
    }
    return Send(sums, factor, source.device());
  }
  int64_t layout_version() const override { return version_; }
  FlatLayout Flatten(const AdjacencyLayout& layout) const override {
    const auto& sums = static_cast<const SumsLayout&>(layout);
    return {{{"sums", sums.sums.data(), sums.size_bytes()}, {"none", nullptr, 0}}, {{"factor", sums.factor}}};
  }
  StatusOr<AdjacencyLayoutRef> Unflatten(std::string_view name, const LayoutInput& input,
                                         LayoutSource& source) const override {
    std::vector<int64_t> sums;
    VICINAL_RETURN_IF_ERROR(input.Fill("sums", source.adjacency().rows, &sums));
    VICINAL_ASSIGN_OR_RETURN(const int64_t factor, input.Number("factor"));
    if (factor != name.back() - '0') return input.Bad("it has another factor");
    return Send(sums, factor, source.device());
  }

 private:
  static StatusOr<AdjacencyLayoutRef> Send(const std::vector<int64_t>& sums, int64_t factor, Device& device) {
    auto layout = std::make_shared<SumsLayout>();
    layout->factor = factor;
    VICINAL_ASSIGN_OR_RETURN(layout->sums, device.Allocate(sums.size() * sizeof(int64_t)));
    VICINAL_RETURN_IF_ERROR(device.CopyFromHost(layout->sums.data(), sums.data(), layout->sums.bytes()));
    return AdjacencyLayoutRef(std::move(layout));
  }

  const int64_t version_;
};

class LayoutKeeperTest : public ::testing::Test {
 protected:
  LayoutKeeperTest() : whole_(MakePrepared(DirectedGraph(), OrderKind::kNone, *device_)) {
    sums_ = MakeRegistry(1, &registry_);
  }

  static const SumsKernel* MakeRegistry(int64_t version, KernelRegistry* registry) {
    auto kernel = std::make_unique<SumsKernel>(version);
    const SumsKernel* const raw = kernel.get();
    registry->aggregate.Add(std::move(kernel));
    return raw;
  }
  // The same graph as after another start: without layouts.
  std::shared_ptr<const PreparedGraph> Graph() const {
    return std::make_shared<const PreparedGraph>(whole_->parts(), device_.get());
  }
  LayoutKeeper::Parts Parts(state::StateDirectory* directory) {
    LayoutKeeper::Parts parts;
    parts.directory = directory;
    parts.registry = &registry_;
    parts.device = device_.get();
    parts.device_kind = "processor";
    parts.budget = &budget_;
    parts.logger = &lines_;
    parts.min_make_seconds = 0.0;
    parts.pays = [](const StoredLayout&) { return true; };
    return parts;
  }
  static Status Publish(const PreparedGraph& graph, state::StateDirectory& directory) {
    VICINAL_ASSIGN_OR_RETURN(const auto writer, directory.BeginVersion(kId));
    return WriteGraph(graph, *writer, {});
  }
  // The contents of the layout; `made` counts how often it had to be made.
  std::vector<int64_t> Sums(const PreparedGraph& graph, std::string_view name, int* made = nullptr,
                            const AdjacencySpec& spec = {}) const {
    const LayoutMaker make = [&](LayoutSource& source) {
      if (made != nullptr) ++*made;
      return sums_->Make(name, source);
    };
    const auto layout = graph.Layout(spec, "sums", name, make);
    EXPECT_TRUE(layout.ok()) << layout.status();
    return static_cast<const SumsLayout&>(**layout).values();
  }
  // Publishes a graph with two layouts, which are stored.
  void StoreTwo(state::FileSystem* files) {
    const auto directory = OpenState(files);
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory).ok());
    first_ = Sums(*graph, "times 1");
    looped_ = Sums(*graph, "times 3", nullptr, {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone});
    LayoutKeeper keeper(Parts(directory.get()));
    const Status kept = keeper.Keep(*graph, {});
    ASSERT_TRUE(kept.ok()) << kept;
  }
  // A new start on these files: how many of the two had to be made again. Their bits are equal in any case.
  int MadeAgain(state::FileSystem* files) {
    const auto directory = OpenState(files);
    LayoutKeeper keeper(Parts(directory.get()));
    const auto graph = Graph();
    keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
    int made = 0;
    EXPECT_EQ(Sums(*graph, "times 1", &made), first_);
    EXPECT_EQ(Sums(*graph, "times 3", &made, {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone}), looped_);
    return made;
  }
  static std::vector<std::string> LayoutFiles(const state::SimulatedFileSystem& files) {
    std::vector<std::string> found;
    for (const std::string& file : files.AllFiles()) {
      if (file.starts_with(kFiles)) found.push_back(file);
    }
    return found;
  }

  const std::unique_ptr<Device> device_ = MakeCpuDevice(1);
  const std::shared_ptr<const PreparedGraph> whole_;
  KernelRegistry registry_;
  const SumsKernel* sums_ = nullptr;
  MemoryBudget budget_{int64_t{1} << 30};
  Lines lines_;
  state::SimulatedFileSystem files_;
  std::vector<int64_t> first_, looped_;
};

TEST_F(LayoutKeeperTest, StoredLayoutsComeBackWithEqualBits) {
  StoreTwo(&files_);
  EXPECT_THAT(LayoutFiles(files_), SizeIs(2));
  EXPECT_EQ(MadeAgain(&files_), 0);
}

TEST_F(LayoutKeeperTest, WhatDoesNotPayIsDeletedAndNotTriedAgain) {
  const auto directory = OpenState(&files_);
  const auto graph = Graph();
  ASSERT_TRUE(Publish(*graph, *directory).ok());
  Sums(*graph, "times 1");
  int asked = 0;
  LayoutKeeper::Parts parts = Parts(directory.get());
  parts.pays = [&](const StoredLayout& layout) {
    EXPECT_GT(layout.read_seconds, 0.0);
    EXPECT_GT(layout.make_seconds, 0.0);
    ++asked;
    return false;
  };
  LayoutKeeper keeper(parts);
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  EXPECT_EQ(asked, 1);
  EXPECT_THAT(LayoutFiles(files_), IsEmpty());
  EXPECT_THAT(files_.AllFiles(), Not(Contains(kList)));
}

TEST_F(LayoutKeeperTest, WhatIsMadeAtOnceIsNotTried) {
  const auto directory = OpenState(&files_);
  const auto graph = Graph();
  ASSERT_TRUE(Publish(*graph, *directory).ok());
  Sums(*graph, "times 1");
  LayoutKeeper::Parts parts = Parts(directory.get());
  parts.min_make_seconds = 3600.0;
  LayoutKeeper keeper(parts);
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  EXPECT_THAT(LayoutFiles(files_), IsEmpty());
}

TEST_F(LayoutKeeperTest, TheyLeaveSpaceOnTheDisk) {
  const auto directory = OpenState(&files_);
  const auto graph = Graph();
  ASSERT_TRUE(Publish(*graph, *directory).ok());
  Sums(*graph, "times 1");
  LayoutKeeper keeper(Parts(directory.get()));
  files_.set_free_bytes(int64_t{1} << 30);
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  EXPECT_THAT(LayoutFiles(files_), IsEmpty());
  files_.set_free_bytes(int64_t{2} << 30);
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  EXPECT_THAT(LayoutFiles(files_), SizeIs(1));
}

TEST_F(LayoutKeeperTest, DamageOfAnyByteIsNoticedAndCostsLayoutsAlone) {
  StoreTwo(&files_);
  testing::SplitMix64 random(1);
  std::vector<std::string> files = LayoutFiles(files_);
  files.push_back(kList);
  for (const std::string& file : files) {
    const std::string whole = files_.Read(file);
    int64_t tried = 0;
    for (size_t at = 0; at < whole.size() && !HasFailure(); ++at) {
      // Between header, contents and checksums are holes, which nothing reads.
      if (whole[at] == 0 || (at > 400 && at % 37 != 0)) continue;
      SCOPED_TRACE(file + ", byte " + std::to_string(at));
      const auto copy = files_.CutPower(random);
      copy->XorByte(file, static_cast<int64_t>(at), 0x10);
      EXPECT_EQ(MadeAgain(copy.get()), file == kList ? 2 : 1);
      const auto next = copy->NextProcess();
      EXPECT_EQ(MadeAgain(next.get()), file == kList ? 2 : 1);
      ++tried;
    }
    EXPECT_GT(tried, 50) << file;
  }
}

TEST_F(LayoutKeeperTest, FilesThatAreCutMissingOrExchangedCostLayoutsAlone) {
  StoreTwo(&files_);
  const std::vector<std::string> files = LayoutFiles(files_);
  testing::SplitMix64 random(2);
  const auto cut = files_.CutPower(random);
  cut->Overwrite(files[0], files_.Read(files[0]).substr(0, 1000));
  EXPECT_EQ(MadeAgain(cut.get()), 1);
  const auto missing = files_.CutPower(random);
  ASSERT_TRUE(missing->Unlink(files[1]).ok());
  EXPECT_EQ(MadeAgain(missing.get()), 1);
  const auto exchanged = files_.CutPower(random);
  exchanged->Overwrite(files[0], files_.Read(files[1]));
  exchanged->Overwrite(files[1], files_.Read(files[0]));
  EXPECT_EQ(MadeAgain(exchanged.get()), 2);
}

TEST_F(LayoutKeeperTest, WhatThisBuildDoesNotMakeIsTakenFromTheList) {
  StoreTwo(&files_);
  for (const int64_t version : {0, 2}) {  // 0: no such kernel
    testing::SplitMix64 random(3);
    const auto files = files_.CutPower(random);
    const auto directory = OpenState(files.get());
    KernelRegistry other;
    if (version != 0) MakeRegistry(version, &other);
    LayoutKeeper::Parts parts = Parts(directory.get());
    parts.registry = &other;
    LayoutKeeper keeper(parts);
    const auto graph = Graph();
    keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
    EXPECT_THAT(graph->Layouts(), IsEmpty());
    EXPECT_THAT(files->AllFiles(), Not(Contains(kList)));
    ASSERT_TRUE(directory->Sweep(std::chrono::seconds(-1)).ok());
    EXPECT_THAT(LayoutFiles(*files), IsEmpty());
  }
}

TEST_F(LayoutKeeperTest, SweepsDeleteWhatNoListNames) {
  StoreTwo(&files_);
  const auto directory = OpenState(&files_);
  const auto begun = directory->CreateLayoutFile(kId, "left_by_a_crash.vsec", {});
  ASSERT_TRUE(begun.ok() && (*begun)->Finish().ok());
  EXPECT_THAT(LayoutFiles(files_), SizeIs(3));
  ASSERT_TRUE(directory->Sweep(std::chrono::seconds(-1)).ok());
  EXPECT_THAT(LayoutFiles(files_), SizeIs(2));
  ASSERT_TRUE(directory->Remove(kId, state::StateDirectory::Data::kDelete).ok());
  EXPECT_THAT(LayoutFiles(files_), IsEmpty()) << "they go with the version";
}

TEST_F(LayoutKeeperTest, ReplicasUseThemAndWriteNothing) {
  StoreTwo(&files_);
  testing::SplitMix64 random(4);
  const auto files = files_.CutPower(random);
  files->XorByte(LayoutFiles(files_)[0], 20, 1);
  state::StateDirectory::Options options;
  options.read_only = true;
  const auto directory = state::StateDirectory::Open(files.get(), options);
  ASSERT_TRUE(directory.ok());
  LayoutKeeper::Parts parts = Parts(directory->get());
  parts.read_only = true;
  LayoutKeeper keeper(parts);
  const auto graph = Graph();
  const int64_t before = files->operations();
  keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
  EXPECT_THAT(graph->Layouts(), SizeIs(1));
  EXPECT_EQ(files->operations(), before);
}

TEST_F(LayoutKeeperTest, TheBudgetCountsThem) {
  StoreTwo(&files_);
  const auto directory = OpenState(&files_);
  LayoutKeeper keeper(Parts(directory.get()));
  const auto graph = Graph();
  auto memory = budget_.Reserve(Account::kGraphs, graph->size_bytes(), "graph");
  ASSERT_TRUE(memory.ok());
  graph->AddReservation(*std::move(memory));
  keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
  EXPECT_THAT(graph->Layouts(), SizeIs(2));
  EXPECT_EQ(budget_.Snapshot().total(), graph->size_bytes());
}

TEST_F(LayoutKeeperTest, WhereMemoryIsShortTheyAreLeftOnDisk) {
  StoreTwo(&files_);
  const auto directory = OpenState(&files_);
  MemoryBudget small(1000);
  LayoutKeeper::Parts parts = Parts(directory.get());
  parts.budget = &small;
  LayoutKeeper keeper(parts);
  const auto graph = Graph();
  keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
  EXPECT_THAT(graph->Layouts(), IsEmpty());
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  EXPECT_EQ(MadeAgain(files_.NextProcess().get()), 0);
}

TEST_F(LayoutKeeperTest, WhatTheGraphHasDroppedIsTakenFromTheList) {
  StoreTwo(&files_);
  const auto directory = OpenState(&files_);
  LayoutKeeper keeper(Parts(directory.get()));
  const auto graph = Graph();
  keeper.Restore(*graph, keeper.Listed(*graph), true, nullptr);
  for (size_t i = 0; i < PreparedGraph::kMaxLayouts; ++i) Sums(*graph, "number " + std::to_string(i) + " times 2");
  ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
  ASSERT_TRUE(directory->Sweep(std::chrono::seconds(-1)).ok());
  EXPECT_THAT(LayoutFiles(files_), SizeIs(PreparedGraph::kMaxLayouts));
}

TEST_F(LayoutKeeperTest, AListOfAnotherGraphIsDropped) {
  StoreTwo(&files_);
  std::string list = files_.Read(kList);
  const auto parsed = ParseLayoutDocument("list", list);
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  LayoutDocument other = *parsed;
  other.version = 8;
  files_.Overwrite(kList, EncodeLayoutDocument(other));
  EXPECT_EQ(MadeAgain(&files_), 2);
  EXPECT_THAT(files_.AllFiles(), Not(Contains(kList)));
}

// Whatever is left, the graph is there, and what is listed can be used.
TEST_F(LayoutKeeperTest, PowerFailuresLeaveWholeLayoutsOrNone) {
  int64_t crashes = 0, with_layouts = 0;
  for (uint64_t seed = 1; seed <= 30 && !HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    testing::SplitMix64 random(seed);
    state::SimulatedFileSystem files;
    const auto directory = OpenState(&files);
    const auto graph = Graph();
    ASSERT_TRUE(Publish(*graph, *directory).ok());
    first_ = Sums(*graph, "times 1");
    looped_ = Sums(*graph, "times 3", nullptr, {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone});
    LayoutKeeper keeper(Parts(directory.get()));
    bool kept = false;
    const auto crash = [&] {
      ++crashes;
      const auto left = files.CutPower(random);
      const auto found = OpenState(left.get())->List();
      ASSERT_TRUE(found.ok() && found->problems.empty() && found->published.size() == 1);
      const int made = MadeAgain(left->NextProcess().get());
      EXPECT_TRUE(made == 2 || made == 0) << made;
      EXPECT_TRUE(made == 0 || !kept);
      with_layouts += made == 0 ? 1 : 0;
    };
    files.set_hook(crash);
    ASSERT_TRUE(keeper.Keep(*graph, {}).ok());
    kept = true;
    crash();
    files.set_hook({});
  }
  EXPECT_GT(crashes, 300);
  EXPECT_GE(with_layouts, 30);
}

TEST_F(LayoutKeeperTest, EveryOperationMayFailOnce) {
  int64_t failures = 0;
  for (const int error : {ENOSPC, EIO, EROFS}) {
    for (int64_t index = 0;; ++index) {
      state::SimulatedFileSystem files;
      const auto directory = OpenState(&files);
      const auto graph = Graph();
      ASSERT_TRUE(Publish(*graph, *directory).ok());
      first_ = Sums(*graph, "times 1");
      looped_ = Sums(*graph, "times 3", nullptr, {SelfLoops::kAddRemaining, 1.0f, EdgeWeighting::kNone});
      LayoutKeeper keeper(Parts(directory.get()));
      files.FailAt(index, error);
      const Status kept = keeper.Keep(*graph, {});
      if (!files.failed()) break;
      ++failures;
      EXPECT_EQ(Sums(*graph, "times 1"), first_);
      const auto next = files.NextProcess();
      const int made = MadeAgain(next.get());
      EXPECT_TRUE(made < 2 || !kept.ok());
      ASSERT_FALSE(HasFailure()) << "operation " << index << ", " << kept;
    }
  }
  EXPECT_GT(failures, 40);
}

}  // namespace
}  // namespace vicinal::durable
