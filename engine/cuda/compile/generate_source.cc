// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/generate_source.h"

#include <cstdint>
#include <cstring>
#include <vector>

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

std::string ActivationText(const Activation& activation) {
  return absl::StrCat("Activation{", Enum("ActivationKind", activation.kind), ", ", Float(activation.slope), ", ",
                      Float(activation.limit), "}");
}

class Source {
 public:
  explicit Source(const FusedProgram& fused) : fused_(fused), is_kept_(fused.kept.size(), false) {}

  std::string Text(int tile, bool in_shared, int part_columns) {
    std::string text =
        "#include \"engine/cuda/message/expression/detail/expression_blocks.cuh\"\n"
        "namespace vicinal::cuda {\n"
        "template <bool kInPacks>\n"
        "struct CompiledProgram {\n";
    absl::StrAppend(&text, "  static constexpr bool kRegistersInShared = ", in_shared ? "true" : "false", ";\n");
    absl::StrAppend(&text, "  static constexpr int kPartColumns = ", part_columns, ";\n");
    text +=
        "  template <int kTile>\n"
        "  __device__ static void Run(const ExpressionParams& params, const ProgramTile<kTile>& tile) {\n";
    text += Instructions();
    for (size_t n = 0; n < fused_.instructions.size(); ++n) {
      if (!fused_.instructions[n].nested) text += Stored(static_cast<int32_t>(n));
    }
    text +=
        "  }\n"
        "  template <int kTile, class Use>\n"
        "  __device__ static void ForEachResult(const ExpressionParams& params, const ProgramTile<kTile>& tile, const "
        "Use& use) {\n";
    text += Instructions();
    for (size_t r = 0; r < fused_.messages.size(); ++r) text += Result(r);
    absl::StrAppend(&text, "  }\n};\n}\nextern \"C\" __global__ void __launch_bounds__(vicinal::cuda::kTileThreads, ",
                    BlocksPerMultiprocessor(), ") ", kCompiledKernel,
                    "(const __grid_constant__ vicinal::cuda::ExpressionParams params) {\n");
    const char* const over = fused_.program.shape.over_edges ? "OverEdges" : "OverRows";
    const auto run = [&](const char* in_packs) {
      return absl::StrCat("vicinal::cuda::Run", over, "<vicinal::cuda::CompiledProgram<", in_packs, ">, ", tile,
                          ">(params);\n");
    };
    // Each alignment takes the compiler several seconds. Two conditions, as with the second one's code behind a return
    // both are slower: GATv2 774 us in place of 602 (H200, NVRTC 13.0, 4 million edges).
    if (reads_packs_) {
      absl::StrAppend(&text, "  if (params.in_packs) ", run("true"), "  if (!params.in_packs) ", run("false"), "}\n");
    } else {
      absl::StrAppend(&text, "  ", run("false"), "}\n");
    }
    return text;
  }

 private:
  const TileInstruction& At(int32_t n) const { return fused_.program.instructions[n]; }

  // Products hold blocks of edges and columns in registers, other values few numbers.
  int BlocksPerMultiprocessor() const {
    for (size_t n = 0; n < fused_.instructions.size(); ++n) {
      if (At(static_cast<int32_t>(n)).op == TileOp::kLinear && !fused_.instructions[n].nested) return 4;
    }
    return 8;
  }

  // Each instruction as a constant, but for the addresses of its parameters.
  std::string Instructions() const {
    std::string text;
    for (size_t n = 0; n < fused_.instructions.size(); ++n) {
      const TileInstruction& i = At(static_cast<int32_t>(n));
      const std::string in_memory = absl::StrCat("params.instructions[", n, "].");
      absl::StrAppend(&text, "    const TileInstruction i", n, " = {", Enum("TileOp", i.op), ", ", i.width, ", ", i.to,
                      ", ", ActivationText(i.activation), ",\n        ", Operand(i.a, n, "a"), ", ",
                      Operand(i.b, n, "b"), ", ", i.op == TileOp::kLinear ? in_memory + "weight" : "nullptr", ", ",
                      i.bias != nullptr ? in_memory + "bias" : "nullptr", "};\n");
    }
    return text;
  }

  // The value of an operand of instruction `n`, where it stands or as it is computed for `root`, an instruction or,
  // after these, a result.
  std::string Value(int32_t n, const char* name, int32_t nested, int32_t root) {
    if (nested >= 0) return Nested(nested, root);
    const TileOperand& operand = *name == 'a' ? At(n).a : At(n).b;
    reads_packs_ |= columns_ > 1 && MayBeAligned(operand);
    const std::string of_instruction = absl::StrCat("i", n, ".", name);
    const std::string leaf =
        absl::StrCat("Leaf<", Enum("TilePlace", operand.place), ", ", operand.matrix, ", ", operand.first, ", ",
                     operand.width, ", kInPacks>(params, tile, ", of_instruction, ".row, ", of_instruction, ".number)");
    const size_t at = KeptAs(operand);
    if (at == fused_.kept.size()) return leaf;
    const KeptColumns& kept = fused_.kept[at];
    if (root != kept.keeper) return absl::StrCat("KeptRows<kTile, ", kept.width, ">{tile, ", kept.to, "}");
    if (is_kept_[at]) return leaf;  // the compiler finds that it is the same
    is_kept_[at] = true;
    return absl::StrCat("Keeping<", kept.width, ">(tile, ", kept.to, ", ", leaf, ")");
  }

  // Whether kernels for aligned rows read adjacent columns of it at once (LeafValue::kAligned).
  static bool MayBeAligned(const TileOperand& operand) {
    const bool of_rows =
        operand.place == TilePlace::kSource || operand.place == TilePlace::kTarget || operand.place == TilePlace::kRow;
    return of_rows && operand.width > 1 && operand.first % 4 == 0;
  }

  // The place among the kept columns, or their number.
  size_t KeptAs(const TileOperand& operand) const {
    size_t at = 0;
    for (; at < fused_.kept.size(); ++at) {
      if (fused_.kept[at].AreOf(operand)) break;
    }
    return at;
  }

  std::string Nested(int32_t n, int32_t root) {
    const TileInstruction& i = At(n);
    const std::string a = Value(n, "a", fused_.instructions[n].a, root);
    const std::string activation = absl::StrCat("i", n, ".activation");
    if (IsPlainCopy(i)) return a;
    switch (i.op) {
      case TileOp::kRepeat:
        return absl::StrCat("Repeating(", a, ", ", i.width / i.a.width, ", ", activation, ")");
      case TileOp::kLinear:
        return absl::StrCat("Multiplying<", i.a.width, ">(", a, ", i", n, ", ", activation, ")");
      default:
        return absl::StrCat("Combining<", Enum("TileOp", i.op), ">(", a, ", ",
                            Value(n, "b", fused_.instructions[n].b, root), ", ", activation, ")");
    }
  }

  static bool IsPlainCopy(const TileInstruction& i) {
    return i.op == TileOp::kCopy && i.activation.kind == ActivationKind::kNone && i.a.width == i.width;
  }

  std::string Stored(int32_t n) {
    const TileInstruction& i = At(n);
    const std::string to = absl::StrCat("(tile, ", i.to, ", ", i.width, ", ");
    const int32_t count = i.a.width / i.width;
    const bool sums_columns = i.op == TileOp::kDot || i.op == TileOp::kSum;
    columns_ = sums_columns && count % 4 == 0 ? 4 : 1;
    const auto sums = [&](const std::string& terms) {
      return absl::StrCat("    StoreSums<", columns_, ">", to, count, ", i", n, ".activation, ", terms,
                          ");\n    __syncwarp();\n");
    };
    const std::string a = Value(n, "a", fused_.instructions[n].a, n);
    switch (i.op) {
      case TileOp::kLinear:
        return absl::StrCat("    Multiply(tile, i", n, ");\n");
      case TileOp::kDot:
        return sums(absl::StrCat("DotTerms{", a, ", ", Value(n, "b", fused_.instructions[n].b, n), "}"));
      case TileOp::kSum:
        return sums(absl::StrCat("SumTerms{", a, "}"));
      default:
        return absl::StrCat("    StoreValue", to, Nested(n, n), ");\n    __syncwarp();\n");
    }
  }

  // So many that a warp takes a row, if it is wide enough.
  static int ColumnsOfThread(int32_t width) { return width >= 128 ? 4 : width >= 64 ? 2 : 1; }

  std::string Result(size_t r) {
    const TileResult& result = fused_.program.results[r];
    const int32_t nested = fused_.messages[r], root = static_cast<int32_t>(fused_.instructions.size() + r);
    const bool shares = result.reduce == TileReduce::kSoftmax;
    const bool packs = nested >= 0 && result.width % 4 == 0 && (!shares || result.score_columns % 4 == 0);
    columns_ = packs ? ColumnsOfThread(result.width) : 1;
    return absl::StrCat(
        "    use(TileResult{", Enum("TileReduce", result.reduce), ", ", result.value, ", ", result.width, ", ",
        result.score, ", ", result.top, ", ", result.share, ", ", result.score_columns, ", ", result.first, ", ",
        result.first_total, "}, ",
        nested >= 0 ? Nested(nested, root) : absl::StrCat("RegisterValue<kTile>{tile, ", result.value, "}"),
        ", ColumnCount<", columns_, ">());\n");
  }

  const FusedProgram& fused_;
  std::vector<bool> is_kept_;  // the text has where the columns are kept
  int columns_ = 1;            // that the value being written gives at once
  bool reads_packs_ = false;   // some value so far reads columns that are aligned if rows are
};

}  // namespace

std::string GenerateSource(const FusedProgram& program, int tile, bool in_shared, int part_columns) {
  return Source(program).Text(tile, in_shared, part_columns);
}

}  // namespace vicinal::cuda
