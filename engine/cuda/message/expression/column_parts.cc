// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/message/expression/column_parts.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace vicinal::cuda {
namespace {

constexpr int64_t kWideColumns = 64;
constexpr int64_t kNarrowColumns = 8;  // that each part may gather again: a sector
constexpr int64_t kLeastColumns = 32;
// Of the L2, in percent: the rest is for targets, results and edges, which pass through it.
constexpr int64_t kCacheShare = 75;

// What the edges of a program read of the rows of sources and of features.
class Gathers {
 public:
  explicit Gathers(const FusedProgram& program) : program_(program) {}

  bool stores_products() const {
    for (size_t n = 0; n < program_.instructions.size(); ++n) {
      if (!program_.instructions[n].nested && program_.program.instructions[n].op == TileOp::kLinear) return true;
    }
    return false;
  }
  // Columns that values in registers read: whole, for each part.
  int64_t whole() const {
    Operands operands;
    for (size_t n = 0; n < program_.instructions.size(); ++n) {
      if (!program_.instructions[n].nested) AddOf(static_cast<int32_t>(n), &operands);
    }
    return ColumnsOf(operands, 1);
  }
  // Columns of sources that messages read column by column: of a part, its own.
  int64_t by_column() const {
    int64_t columns = 0;
    for (size_t r = 0; r < program_.messages.size(); ++r) {
      Operands operands;
      if (program_.messages[r] >= 0) AddOf(program_.messages[r], &operands);
      std::erase_if(operands, [](const Operand& operand) { return std::get<0>(operand) != TilePlace::kSource; });
      columns = std::max(columns, ColumnsOf(operands, program_.program.results[r].width));
    }
    return columns;
  }

 private:
  using Operand = std::tuple<TilePlace, int32_t, int32_t, int32_t>;  // place, matrix, first, width
  using Operands = std::set<Operand>;

  static int64_t ColumnsOf(const Operands& operands, int32_t least) {
    int64_t columns = 0;
    for (const auto& [place, matrix, first, width] : operands) columns += width >= least ? width : 0;
    return columns;
  }

  void AddOf(int32_t n, Operands* operands) const {
    const FusedInstruction& fused = program_.instructions[n];
    Add(program_.program.instructions[n].a, fused.a, operands);
    Add(program_.program.instructions[n].b, fused.b, operands);
  }
  void Add(const TileOperand& operand, int32_t nested, Operands* operands) const {
    if (nested >= 0) return AddOf(nested, operands);
    if (operand.place != TilePlace::kSource && operand.place != TilePlace::kFeatures) return;
    operands->emplace(operand.place, operand.matrix, operand.first, operand.width);
  }

  const FusedProgram& program_;
};

}  // namespace

int32_t ColumnsInCache(const FusedProgram& program, int64_t sources, const GpuLimits& limits) {
  const int64_t widest = program.program.shape.widest;
  const Gathers gathers(program);
  const int64_t gathered = gathers.by_column();
  if (!program.program.shape.over_edges || gathered < kWideColumns) return 0;
  if (gathers.stores_products() || gathers.whole() > kNarrowColumns) return 0;
  const int64_t cache = limits.l2_bytes / 100 * kCacheShare, bytes = sources * gathered * int64_t{sizeof(float)};
  if (bytes <= cache) return 0;
  int64_t columns = kLeastColumns;
  while (2 * columns < widest && bytes / widest * (2 * columns) <= cache) columns *= 2;
  return static_cast<int32_t>(columns);
}

}  // namespace vicinal::cuda
