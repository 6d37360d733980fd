// SPDX-License-Identifier: Apache-2.0
// Files of the state directory, as somebody with malice would write them: checksums are made right, so that what they
// protect is reached. Errors are DATA_LOSS, or FAILED_PRECONDITION for a newer format.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "engine/durable/graph_codec.h"
#include "engine/durable/layout_document.h"
#include "engine/durable/sections.h"
#include "engine/durable/tuning_document.h"
#include "engine/durable/version_files.h"
#include "engine/kernels/registry.h"
#include "engine/state/crc32c.h"
#include "engine/state/manifest.h"
#include "engine/state/names.h"
#include "engine/state/section_file.h"
#include "engine/state/state_directory.h"
#include "engine/tune/kept_record.h"
#include "tests/engine/state/simulated_file_system.h"
#include "tests/fuzz/target.h"

namespace vicinal::fuzz {
namespace {

constexpr int64_t kFileBytes = (int64_t{4} << 20) + 64;  // room for two sections, and a checksum table at the end
constexpr int64_t kTableBytes = 64;

void CheckStateError(const Status& status) {
  FUZZ_CHECK(absl::IsDataLoss(status) || absl::IsFailedPrecondition(status), status.ToString());
  FUZZ_CHECK(!status.message().empty(), status.ToString());
}

// Puts the right checksum where the header, as long as it says it is, has it.
void RepairHeader(std::string* header) {
  uint32_t bytes = 0;
  if (header->size() < 64) return;
  std::memcpy(&bytes, header->data() + 24, sizeof(bytes));
  if (bytes < 64 || bytes > header->size()) return;
  const uint32_t crc = state::Crc32c(std::string_view(*header).substr(0, bytes - 4));
  std::memcpy(header->data() + bytes - 4, &crc, sizeof(crc));
}

// The last 64 bytes are the end of the file, the rest its beginning; zeros between.
void SectionFile(std::string_view input) {
  const size_t end = std::min<size_t>(input.size(), kTableBytes);
  std::string header(input.substr(0, input.size() - end));
  RepairHeader(&header);
  state::SimulatedFileSystem files;
  {
    const auto file = files.Create("f");
    FUZZ_CHECK(file.ok() && (*file)->WriteAt(0, header).ok(), "write");
    FUZZ_CHECK((*file)->WriteAt(kFileBytes - end, input.substr(input.size() - end)).ok(), "write");
  }
  const auto reader = state::SectionFileReader::Open(files, "f");
  if (!reader.ok()) return CheckStateError(reader.status());
  int64_t total = 0;
  for (const state::Section& section : (*reader)->sections()) {
    FUZZ_CHECK(section.bytes >= 0 && section.offset + section.bytes <= kFileBytes, section.spec.name);
    total += section.bytes;
    const auto bytes = (*reader)->ReadBytes(section);
    if (!bytes.ok()) CheckStateError(bytes.status());
  }
  FUZZ_CHECK(total <= kFileBytes, "sections overlap");
}

// The text after the checksum, which is added.
void Manifest(std::string_view input) {
  const std::string text = "{\"crc32c\":\"" + state::CrcText(state::Crc32c(input)) + "\"," + std::string(input);
  const auto manifest = state::ParseManifest("m", text);
  if (!manifest.ok()) return CheckStateError(manifest.status());
  const auto again = state::EncodeManifest(*manifest);
  FUZZ_CHECK(again.ok(), again.status().ToString());
  const auto parsed = state::ParseManifest("m", *again);
  FUZZ_CHECK(parsed.ok() && *parsed == *manifest, *again);
  (void)state::PathOf(manifest->id);
}

const KernelRegistry& CpuKernels() {
  static const KernelRegistry* const kernels = [] {
    auto* const registry = new KernelRegistry();
    RegisterCpuKernels(*registry);
    return registry;
  }();
  return *kernels;
}

// As above. Records that this build can use are kept as they are.
void TuningDocument(std::string_view input) {
  const std::string text = "{\"crc32c\":\"" + state::CrcText(state::Crc32c(input)) + "\"," + std::string(input);
  const auto document = durable::ParseTuningDocument("d", text);
  if (!document.ok()) return CheckStateError(document.status());
  const std::string encoded = durable::EncodeTuningDocument(*document);
  const auto again = durable::ParseTuningDocument("d", encoded);
  FUZZ_CHECK(again.ok() && durable::EncodeTuningDocument(*again) == encoded, encoded);
  for (const KeptRecord& record : document->records) {
    const bool weighted = record.entry.work.key.weights == EdgeWeights::kPerEdge;
    const auto usable = Usable(CpuKernels(), DeviceKind::kCpu, {10, 10, 40, weighted, 0}, weighted, record);
    if (!usable.ok()) {
      CheckError(usable.status());
    } else if (usable->record.choice() != nullptr) {
      const KeptRecord kept = Keep(CpuKernels(), DeviceKind::kCpu, *usable);
      FUZZ_CHECK(kept.order == record.order && kept.order_version == record.order_version, encoded);
    }
  }
}

// As above.
void LayoutDocument(std::string_view input) {
  const std::string text = "{\"crc32c\":\"" + state::CrcText(state::Crc32c(input)) + "\"," + std::string(input);
  const auto document = durable::ParseLayoutDocument("d", text);
  if (!document.ok()) return CheckStateError(document.status());
  const std::string encoded = durable::EncodeLayoutDocument(*document);
  const auto again = durable::ParseLayoutDocument("d", encoded);
  FUZZ_CHECK(again.ok() && durable::EncodeLayoutDocument(*again) == encoded, encoded);
  const auto files = state::LayoutFilesIn("d", text);
  FUZZ_CHECK(files.ok() && files->size() == document->layouts.size(), "a sweep sees other files");
  for (const durable::StoredLayout& layout : document->layouts) {
    FUZZ_CHECK(state::IsDataFileName(layout.file.name) && layout.file.summary.bytes >= 0, layout.file.name);
  }
}

// Three nodes, two edges.
const PreparedGraph& TwoEdges(Device& device) {
  static const PreparedGraph* const graph = [&device] {
    PreparedGraph::Parts parts;
    parts.csr.num_rows = parts.csr.num_cols = 3;
    parts.csr.row_ptr = {0, 1, 2, 2};
    parts.csr.col = {1, 2};
    parts.permutation = Permutation::Identity(3);
    return new PreparedGraph(std::move(parts), &device);
  }();
  return *graph;
}

// Rows and columns of the section, the metadata up to a zero, and the section's numbers.
void EdgeFeatureSet(std::string_view input) {
  static Device* const device = MakeCpuDevice(1).release();
  if (input.size() < 2) return;
  const int64_t rows = static_cast<uint8_t>(input[0]) % 8, cols = static_cast<uint8_t>(input[1]) % 8;
  const std::string_view rest = input.substr(2);
  const size_t end = std::min(rest.find('\0'), rest.size());
  const std::string_view numbers = rest.substr(std::min(end + 1, rest.size()));
  std::vector<float> values(static_cast<size_t>(rows * cols));
  if (!values.empty())
    std::memcpy(values.data(), numbers.data(), std::min(numbers.size(), values.size() * sizeof(float)));
  const state::VersionId graph{state::Store::kGraphs, "g", 1, "", 0}, set{state::Store::kEdgeFeatures, "s", 2, "g", 1};
  state::SimulatedFileSystem files;
  const auto directory = state::StateDirectory::Open(&files, {});
  FUZZ_CHECK(directory.ok(), directory.status().ToString());
  const auto graph_writer = (*directory)->BeginVersion(graph);
  FUZZ_CHECK(graph_writer.ok() && (*graph_writer)->Publish("{}").ok(), "the graph");
  const auto writer = (*directory)->BeginVersion(set);
  FUZZ_CHECK(writer.ok(), writer.status().ToString());
  const Status file = durable::WriteFile(
      **writer, "features", {{{"edge_attr", DataType::kFloat32, {rows, cols}}, durable::BytesOf(values)}}, {});
  FUZZ_CHECK(file.ok(), file.ToString());
  if (!(*writer)->Publish(std::string(rest.substr(0, end))).ok()) return;  // it is no JSON object
  const auto manifest = (*directory)->GetManifest(set);
  FUZZ_CHECK(manifest.ok(), manifest.status().ToString());
  const auto bound = durable::FeatureBytesBound(*manifest, {3, 2}, *device);
  (void)durable::DescribeFeatures(*manifest, {3, 2});
  const auto read = durable::ReadEdgeFeatures(**directory, *manifest, TwoEdges(*device), *device, nullptr);
  if (!read.ok()) return CheckStateError(read.status());
  FUZZ_CHECK(bound.ok() && *bound >= read->edges->size_bytes(), "the bound is too small");
  FUZZ_CHECK(read->edges->rows() == 2 && read->edges->cols() == cols && rows == 2, "another shape");
}

}  // namespace

std::vector<Target> StateTargets() {
  return {{"section_file", "section_file", SectionFile},
          {"manifest", "manifest", Manifest},
          {"tuning_document", "tuning_document", TuningDocument},
          {"layout_document", "layout_document", LayoutDocument},
          {"edge_feature_set", "edge_feature_set", EdgeFeatureSet}};
}

}  // namespace vicinal::fuzz
