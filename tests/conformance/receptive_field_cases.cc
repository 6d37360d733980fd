// SPDX-License-Identifier: Apache-2.0
// Receptive fields on the device: what sends and gathers their inputs, then whole plans, whose answers for some nodes
// have the bits of the full graph's. The graph has a hub, whose row is cut in the full graph and not in a field.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "engine/execute/run_for_nodes.h"
#include "tests/conformance/cases.h"
#include "tests/conformance/graphs.h"
#include "tests/engine/plan/receptive_field/receptive_field_models.h"

namespace vicinal::conformance {
namespace {

// Pieces that end and begin anywhere in the pinned memory, none, empty ones and larger ones than it.
void SendCases(Machine& machine, Report& report) {
  if (!report.IsMine()) return;
  for (const std::vector<size_t>& sizes : std::vector<std::vector<size_t>>{
           {}, {0}, {1}, {64, 65, 0, 3}, {(1 << 20) - 64, 64, 7}, {100, (3 << 20) + 5, 9, 1 << 20}}) {
    std::vector<std::vector<char>> sent;
    std::vector<HostPiece> pieces;
    size_t room = 0;
    for (const size_t bytes : sizes) {
      sent.emplace_back(bytes);
      for (size_t i = 0; i < bytes; ++i) sent.back()[i] = static_cast<char>((i + bytes) * 2654435761u >> 13);
      pieces.push_back({sent.back().data(), bytes});
      room += pieces.back().room();
    }
    const DeviceArray<char> there(*machine.device, std::vector<char>(room, 'x'));
    MustBeOk(machine.context->SendPieces(there.data(), pieces), "send pieces");
    const std::vector<std::vector<char>> want = sent;
    for (std::vector<char>& piece : sent) std::fill(piece.begin(), piece.end(), 0);  // they may be written again
    MustBeOk(machine.context->Synchronize(), "send pieces");
    const std::vector<char> got = there.Download(*machine.device);
    bool same = true;
    size_t at = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      same = same && std::equal(want[i].begin(), want[i].end(), got.begin() + static_cast<int64_t>(at));
      at += pieces[i].room();
    }
    report.CheckTrue("field", std::to_string(sizes.size()) + " pieces", same);
  }
}

// Chosen rows of a graph, empty ones and a hub among them; columns, values, or both.
void GatherCases(Machine& machine, Report& report) {
  if (!report.IsMine()) return;
  std::vector<int64_t> degrees(500);
  for (size_t row = 0; row < degrees.size(); ++row) degrees[row] = static_cast<int64_t>(row % 5 == 0 ? 0 : row % 37);
  degrees[123] = 40'000;
  const HostGraph graph = RandomGraph("rows with a hub", 700, degrees, 91);
  const DeviceGraph on_device(*machine.device, graph);
  for (const std::vector<int64_t>& rows :
       std::vector<std::vector<int64_t>>{{}, {0}, {7}, {123}, {0, 0, 123, 5, 9, 0}, {499, 1, 1, 2, 10, 123, 3, 15}}) {
    std::vector<int64_t> ends = {0};
    std::vector<int32_t> col;
    std::vector<float> value;
    for (const int64_t row : rows) {
      const auto begin = graph.row_ptr[row], end = graph.row_ptr[row + 1];
      col.insert(col.end(), graph.col.begin() + begin, graph.col.begin() + end);
      value.insert(value.end(), graph.value.begin() + begin, graph.value.begin() + end);
      ends.push_back(static_cast<int64_t>(col.size()));
    }
    const DeviceArray<int64_t> list(*machine.device, rows), row_ptr(*machine.device, ends);
    for (const bool columns : {true, false}) {
      for (const bool values : {true, false}) {
        const DeviceArray<int32_t> got_col(*machine.device, std::vector<int32_t>(col.size(), -1));
        const DeviceArray<float> got_value(*machine.device, std::vector<float>(col.size(), -1.0f));
        const SparseRowsOut out = {static_cast<int64_t>(rows.size()), ends.back(), row_ptr.data(),
                                   columns ? got_col.data() : nullptr, values ? got_value.data() : nullptr};
        MustBeOk(machine.context->GatherSparseRows(on_device.view(values), list.data(), out), "gather sparse rows");
        const bool same = (!columns || got_col.Download(*machine.device) == col) &&
                          (!values || got_value.Download(*machine.device) == value);
        report.CheckTrue("field", std::to_string(rows.size()) + " sparse rows", same);
      }
    }
  }
}

constexpr int64_t kNodes = 6000, kCols = 24;

std::shared_ptr<const PreparedGraph> Prepare(Machine& machine, bool weighted, OrderKind order) {
  std::mt19937 random(17);
  EdgeList edges = testing::RandomEdges(kNodes, 8 * kNodes, weighted, random);
  for (int64_t e = 0; e < 3000; ++e) {
    edges.source.push_back(static_cast<NodeId>(random() % kNodes));
    edges.target.push_back(11);
    if (weighted) edges.weight.push_back(0.5f + static_cast<float>(random() % 100) / 100.0f);
  }
  PreparedGraph::Parts parts;
  parts.name = "g";
  parts.version = 1;
  parts.order = order;
  std::vector<EdgeId> sent;
  parts.csr = BuildCsrByTarget(edges, &sent);
  auto permutation = ComputeOrder(order, parts.csr);
  MustBeOk(permutation.status(), "order");
  parts.permutation = *std::move(permutation);
  if (!parts.permutation.is_identity()) parts.csr = RenumberCsr(parts.csr, parts.permutation.new_of_old(), &sent);
  parts.edge_feature_width = testing::kEdgeFeatures;
  for (const EdgeId edge : sent) {
    for (int64_t a = 0; a < testing::kEdgeFeatures; ++a) {
      parts.edge_attr.push_back(static_cast<float>((edge * 7 + a * 31) % 101) / 50.0f - 1.0f);
    }
  }
  return std::make_shared<PreparedGraph>(std::move(parts), machine.device.get());
}

// Two thirds zeros; the same numbers in either form.
std::shared_ptr<const FeatureMatrix> Upload(Machine& machine, bool sparse) {
  std::mt19937 random(23);
  HostFeatures host;
  host.sparse = sparse;
  host.rows = kNodes;
  host.cols = kCols;
  host.csr.num_rows = kNodes;
  host.csr.num_cols = kCols;
  host.csr.row_ptr = {0};
  for (int64_t row = 0; row < kNodes; ++row) {
    for (int64_t col = 0; col < kCols; ++col) {
      const float x = random() % 3 == 0 ? static_cast<float>(static_cast<int>(random() % 2000) - 1000) / 400.0f : 0.0f;
      if (!sparse) host.dense.push_back(x);
      if (!sparse || x == 0.0f) continue;
      host.csr.col.push_back(static_cast<NodeId>(col));
      host.csr.value.push_back(x);
    }
    host.csr.row_ptr.push_back(host.csr.nnz());
  }
  if (!sparse) host.csr = Csr();
  auto features = FeatureMatrix::Upload(host, *machine.device);
  MustBeOk(features.status(), "upload features");
  return *std::move(features);
}

// One plan's answers for some nodes, over the full graph and over their field.
class PlanRuns {
 public:
  PlanRuns(Machine& machine, const PlanRequest& request, const FeatureMatrix& features)
      : permutation_(request.graph->parts().permutation),
        workspace_(machine.device.get(), MemoryPurpose{&budget_, Account::kReceptiveFields, "a test"}) {
    auto plan = Plan::Build(request, machine.registry, *machine.device);
    MustBeOk(plan.status(), "build a plan");
    plan_ = *std::move(plan);
    parts_ = {machine.context.get(), &features, &workspace_, &stop_, &StatsSink::Null(), &Clock::Real()};
  }

  HostMatrix Answer(const std::vector<int64_t>& ids, ReceptiveField way) {
    const WantedRows wanted = {&ids, &permutation_, way};
    const auto computed = RunForNodes(*plan_, wanted, parts_);
    MustBeOk(computed.status(), "run for nodes");
    auto rows = GatherWanted(*computed, wanted, parts_);
    MustBeOk(rows.status(), "gather the answer");
    return {static_cast<int64_t>(ids.size()), computed->rows.cols, *std::move(rows)};
  }
  const Plan& plan() const { return *plan_; }

 private:
  const Permutation& permutation_;
  MemoryBudget budget_{0};
  ReceptiveFieldWorkspace workspace_;
  const StopCheck stop_ = [] { return OkStatus(); };
  RunParts parts_;
  std::shared_ptr<Plan> plan_;
};

PlanRequest RequestFor(Machine& machine, const testing::ReceptiveFieldModel& test, const FeatureMatrix& features,
                       OrderKind order, Storage precision) {
  testing::ModelMaker maker(kCols, 5);
  PlanRequest request;
  request.model = maker.Done(test.layers(maker));
  request.graph = Prepare(machine, test.weighted, order);
  request.features = FeatureShape::Of(features);
  request.output = request.model->FindOutput("logits")->value;
  request.precision = precision;
  return request;
}

void PlanCase(Machine& machine, Report& report, const testing::ReceptiveFieldModel& test, bool sparse, OrderKind order,
              Storage precision) {
  if (!report.IsMine()) return;
  const auto features = Upload(machine, sparse);
  const PlanRequest request = RequestFor(machine, test, *features, order, precision);
  PlanRuns runs(machine, request, *features);
  const std::string what = std::string(test.name) + (sparse ? ", sparse, " : ", dense, ") +
                           std::string(ToString(precision)) + ", order " + std::to_string(static_cast<int>(order));
  report.CheckTrue("field", what + " has fields", runs.plan().field().refusal.empty());
  std::mt19937 random(29);
  for (const size_t count : {size_t{1}, size_t{10}, size_t{300}, static_cast<size_t>(kNodes)}) {
    std::vector<int64_t> ids = {11};  // the hub
    while (ids.size() < count) ids.push_back(static_cast<int64_t>(random() % kNodes));
    // In the order of a server: replayed runs over the full graph between runs over fields.
    const HostMatrix full = runs.Answer(ids, ReceptiveField::kNever);
    report.CheckSame("field", what + ", " + std::to_string(count), runs.Answer(ids, ReceptiveField::kAlways), full);
    if (report.brief()) continue;
    report.CheckSame("field", what + ", full again", runs.Answer(ids, ReceptiveField::kNever), full);
  }
  report.CheckSame("field", what + ", isolated", runs.Answer({kNodes - 1, 3, 3}, ReceptiveField::kAlways),
                   runs.Answer({kNodes - 1, 3, 3}, ReceptiveField::kNever));
}

}  // namespace

void RunReceptiveFieldCases(Machine& machine, Report& report) {
  // Only devices with memory of their own are sent anything.
  if (machine.launches_only()) {
    SendCases(machine, report);
    GatherCases(machine, report);
  }
  for (const testing::ReceptiveFieldModel& test : testing::ReceptiveFieldModels()) {
    for (const bool sparse : {false, true}) {
      for (const OrderKind order : {OrderKind::kNone, OrderKind::kRcm}) {
        PlanCase(machine, report, test, sparse, order, Storage::kFloat32);
      }
      PlanCase(machine, report, test, sparse, OrderKind::kNone, Storage::kBfloat16);
    }
  }
}

}  // namespace vicinal::conformance
