// SPDX-License-Identifier: Apache-2.0
// write_example DIR: a state directory with a graph, a layout, a feature set and a model whose contents
// state_reader_test.py knows.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "engine/state/crc32c.h"
#include "engine/state/posix_file_system.h"
#include "engine/state/sealed_json.h"
#include "engine/state/state_directory.h"

namespace vicinal::state {
namespace {

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

Status WriteGraph(StateDirectory& directory, const VersionId& id) {
  std::vector<int64_t> row_ptr(200001);
  std::iota(row_ptr.begin(), row_ptr.end(), int64_t{5} << 33);
  std::vector<int32_t> col(300);
  std::iota(col.begin(), col.end(), -100);
  VICINAL_ASSIGN_OR_RETURN(const auto writer, directory.BeginVersion(id));
  VICINAL_ASSIGN_OR_RETURN(auto* const file, writer->AddFile("topology", {{"row_ptr", DataType::kInt64, {200001}},
                                                                          {"none", DataType::kFloat32, {0, 4}},
                                                                          {"col", DataType::kInt32, {300}}}));
  VICINAL_RETURN_IF_ERROR(file->Append(0, BytesOf(row_ptr)));
  VICINAL_RETURN_IF_ERROR(file->Append(2, BytesOf(col)));
  VICINAL_RETURN_IF_ERROR(file->Finish());
  return writer->Publish(R"({"nodes":200000})");
}

Status WriteLayout(StateDirectory& directory, const VersionId& graph) {
  const std::string masks(300, 'm');
  VICINAL_ASSIGN_OR_RETURN(
      const auto file, directory.CreateLayoutFile(
                           graph, "tiles.vsec", {{"masks", DataType::kUint8, {300}}, {"none", DataType::kUint8, {0}}}));
  VICINAL_RETURN_IF_ERROR(file->Append(0, masks));
  VICINAL_RETURN_IF_ERROR(file->Finish());
  VICINAL_RETURN_IF_ERROR(directory.SyncLayoutFiles(graph));
  const auto layouts = {nlohmann::json{{"kernel", "partition_dual"},
                                       {"layout", "theta 80/1000"},
                                       {"file", "tiles.vsec"},
                                       {"bytes", file->summary().bytes},
                                       {"checksum", file->summary().checksum}}};
  return directory.PutDocument(graph, LayoutsDocumentName("one"),
                               internal::SealJson({{"major", kLayoutsMajor},
                                                   {"minor", 0},
                                                   {"graph", graph.name},
                                                   {"version", graph.version},
                                                   {"device", "one"},
                                                   {"layouts", layouts}}));
}

Status WriteMatrix(StateDirectory& directory, const VersionId& id) {
  std::vector<float> values(60);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 8;
  VICINAL_ASSIGN_OR_RETURN(const auto writer, directory.BeginVersion(id));
  VICINAL_ASSIGN_OR_RETURN(auto* const file, writer->AddFile("matrix", {{"x", DataType::kFloat32, {4, 15}}}));
  VICINAL_RETURN_IF_ERROR(file->Append(0, BytesOf(values)));
  VICINAL_RETURN_IF_ERROR(file->Finish());
  return writer->Publish("{}");
}

Status WriteAll(const std::string& path) {
  VICINAL_ASSIGN_OR_RETURN(const auto files, PosixFileSystem::Open(path, PosixFileSystem::Root::kCreate));
  VICINAL_ASSIGN_OR_RETURN(const auto directory, StateDirectory::Open(files.get(), {}));
  const std::string name = std::string(250, 'g') + "/\xC3\xA9";
  const VersionId graph = {Store::kGraphs, name, 7, "", 0};
  VICINAL_RETURN_IF_ERROR(WriteGraph(*directory, graph));
  for (const std::string device : {"one", "two"}) {
    const std::string text = internal::SealJson({{"major", 1},
                                                 {"minor", 0},
                                                 {"graph", name},
                                                 {"version", 7},
                                                 {"device", device},
                                                 {"records", {{{"width", device == "one" ? 16 : 32}}}}});
    VICINAL_RETURN_IF_ERROR(directory->PutDocument(graph, "tuning-" + CrcText(Crc32c(device)), text));
  }
  VICINAL_RETURN_IF_ERROR(WriteLayout(*directory, graph));
  VICINAL_RETURN_IF_ERROR(WriteMatrix(*directory, {Store::kFeatures, "default", 2, name, 7}));
  VICINAL_RETURN_IF_ERROR(WriteMatrix(*directory, {Store::kEdgeFeatures, "daily", 4, name, 7}));
  return WriteMatrix(*directory, {Store::kModels, "../m", 3, "", 0});
}

}  // namespace
}  // namespace vicinal::state

int main(int argc, char** argv) {
  const auto status = argc == 2 ? vicinal::state::WriteAll(argv[1]) : absl::InvalidArgumentError("write_example DIR");
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
