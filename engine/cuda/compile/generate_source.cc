// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/generate_source.h"

#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace vicinal::cuda {
namespace {

// Exactly, also where it is no finite number.
std::string Float(float x) {
  uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof bits);
  return absl::StrCat("__uint_as_float(0x", absl::Hex(bits), "u)");
}

template <class E>
std::string Enum(const char* type, E value) {
  return absl::StrCat("static_cast<", type, ">(", static_cast<int>(value), ")");
}

std::string Operand(const TileOperand& operand, size_t instruction, const char* name) {
  const bool row = operand.place == TilePlace::kRow;
  return absl::StrCat("{", Enum("TilePlace", operand.place), ", ", operand.matrix, ", ", operand.first, ", ",
                      operand.width, ", ", Float(operand.number), ", ",
                      row ? absl::StrCat("params.instructions[", instruction, "].", name, ".row") : "nullptr", "}");
}

std::string Instruction(const TileInstruction& i, size_t number) {
  const std::string in_memory = absl::StrCat("params.instructions[", number, "].");
  return absl::StrCat("    Execute(params, tile, TileInstruction{", Enum("TileOp", i.op), ", ", i.width, ", ", i.to,
                      ", {", Enum("ActivationKind", i.activation.kind), ", ", Float(i.activation.slope), ", ",
                      Float(i.activation.limit), "},\n        ", Operand(i.a, number, "a"), ",\n        ",
                      Operand(i.b, number, "b"), ", ", i.op == TileOp::kLinear ? in_memory + "weight" : "nullptr", ", ",
                      i.bias != nullptr ? in_memory + "bias" : "nullptr", "});\n");
}

std::string Result(const TileResult& result) {
  return absl::StrCat("    use(TileResult{", Enum("TileReduce", result.reduce), ", ", result.value, ", ", result.width,
                      ", ", result.score, ", ", result.score_columns, ", ", result.first, ", ", result.first_total,
                      "});\n");
}

}  // namespace

std::string GenerateSource(const TileProgram& program, int tile) {
  std::string source =
      "#include \"engine/cuda/message/expression/detail/expression_blocks.cuh\"\n"
      "namespace vicinal::cuda {\n"
      "struct CompiledProgram {\n"
      "  template <int kTile>\n"
      "  __device__ static void Run(const ExpressionParams& params, const ProgramTile<kTile>& tile) {\n";
  for (size_t i = 0; i < program.instructions.size(); ++i) source += Instruction(program.instructions[i], i);
  source +=
      "  }\n"
      "  template <class Use>\n"
      "  __device__ static void ForEachResult(const ExpressionParams&, const Use& use) {\n";
  for (const TileResult& result : program.results) source += Result(result);
  absl::StrAppend(&source, "  }\n};\n}\nextern \"C\" __global__ void __launch_bounds__(vicinal::cuda::kTileThreads)\n",
                  kCompiledKernel, "(const __grid_constant__ vicinal::cuda::ExpressionParams params) {\n",
                  "  vicinal::cuda::Run", program.shape.over_edges ? "OverEdges" : "OverRows",
                  "<vicinal::cuda::CompiledProgram, ", tile, ">(params);\n}\n");
  return source;
}

}  // namespace vicinal::cuda
