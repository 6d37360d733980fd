// SPDX-License-Identifier: Apache-2.0
#include "engine/cuda/compile/fuse_program.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace vicinal::cuda {
namespace {

constexpr int kMostTimes = 4;        // that a nested value may be written in a source
constexpr int32_t kFewestKept = 16;  // columns: fewer are a sector or two, which the L1 cache has

struct Registers {
  int32_t first = 0, width = 0;

  bool Overlaps(const Registers& other) const {
    return first < other.first + other.width && other.first < first + width;
  }
};

// A copy of columns in memory, which costs as much to read as a register.
bool IsCopy(const TileInstruction& i) {
  return i.op == TileOp::kCopy && i.a.place != TilePlace::kRegister && i.activation.kind == ActivationKind::kNone;
}

bool ReadsTwo(TileOp op) { return (op >= TileOp::kAdd && op <= TileOp::kMax) || op == TileOp::kDot; }

// Whether column c of the result needs no other column of the result.
bool MayBeNested(const TileInstruction& i) {
  if (i.op == TileOp::kLinear) return i.a.width <= kNarrowInputs;
  return i.op != TileOp::kDot && i.op != TileOp::kSum;
}

// Whether an instruction reads each column of an operand of this width once.
bool ReadsColumnsOnce(const TileInstruction& i, int32_t width) {
  if (i.op == TileOp::kDot || i.op == TileOp::kSum) return width == i.a.width;
  return i.op != TileOp::kLinear && i.op != TileOp::kRepeat && width == i.width;
}

class Fuser {
 public:
  explicit Fuser(const TileProgram& program)
      : program_(program),
        end_(static_cast<int32_t>(program.instructions.size())),
        values_(program.instructions.size()),
        made_{program,
              std::vector<FusedInstruction>(program.instructions.size()),
              std::vector<int32_t>(program.results.size(), -1),
              {}} {}

  FusedProgram Fuse() {
    FindReaders();
    do {
      for (int32_t n = end_ - 1; n >= 0; --n) Decide(n);
    } while (StoreMore());
    for (int32_t n = 0; n < end_; ++n) {
      FusedInstruction& made = made_.instructions[n];
      made.a = NestedOnly(values_[n].a);
      made.b = NestedOnly(values_[n].b);
    }
    for (int32_t& message : made_.messages) message = NestedOnly(message);
    Renumber();
    if (program_.shape.over_edges) KeepSources();
    return std::move(made_);
  }

 private:
  struct Reader {
    int32_t instruction;  // end_ + r: result r
    bool nests_copies, nests_all;
  };
  struct Value {
    int32_t a = -1, b = -1;  // the instructions whose whole values its operands are
    std::vector<Reader> readers;
    std::vector<Registers> reads;  // where it is computed, those of nested operands included
    int32_t root = 0;              // the instruction or result where it is computed
    int times = 1;                 // how often each column is
    bool stored = false;           // it must be
  };

  int32_t NestedOnly(int32_t n) const { return n >= 0 && made_.instructions[n].nested ? n : -1; }

  void FindReaders() {
    owner_.assign(program_.shape.registers, -1);
    for (int32_t n = 0; n < end_; ++n) {
      const TileInstruction& i = program_.instructions[n];
      const bool copies = i.op != TileOp::kLinear || MayBeNested(i);  // wide products read registers
      values_[n].a = AddReader(i.a, {n, copies, ReadsColumnsOnce(i, i.a.width)});
      if (ReadsTwo(i.op)) values_[n].b = AddReader(i.b, {n, true, ReadsColumnsOnce(i, i.b.width)});
      std::fill_n(owner_.begin() + i.to, i.width, n);
    }
    for (size_t r = 0; r < program_.results.size(); ++r) {
      const TileResult& result = program_.results[r];
      made_.messages[r] =
          AddReader(Registers{result.value, result.width}, {end_ + static_cast<int32_t>(r), true, true});
      if (result.reduce != TileReduce::kSoftmax) continue;
      const int32_t scores = result.width / result.score_columns;
      AddReader(Registers{result.score, scores}, {end_ + static_cast<int32_t>(r), false, false});
    }
  }

  int32_t AddReader(const TileOperand& operand, const Reader& reader) {
    return operand.place == TilePlace::kRegister ? AddReader(Registers{operand.first, operand.width}, reader) : -1;
  }
  // Returns the instruction whose whole value that is, or -1.
  int32_t AddReader(const Registers& registers, const Reader& reader) {
    const int32_t owner = owner_[registers.first];
    const TileInstruction& i = program_.instructions[owner];
    const auto begin = owner_.begin() + registers.first, end = begin + registers.width;
    if (i.to == registers.first && i.width == registers.width && std::count(begin, end, owner) == registers.width) {
      values_[owner].readers.push_back(reader);
      return owner;
    }
    for (auto at = begin; at != end; ++at) values_[*at].stored = true;
    return -1;
  }

  // After those that read it were decided. What several nested values of one root read is computed for each; the
  // compiler finds that it is the same.
  void Decide(int32_t n) {
    const TileInstruction& i = program_.instructions[n];
    Value& value = values_[n];
    value.root = n, value.times = 0;
    bool nests = MayBeNested(i) && !value.stored && !value.readers.empty();
    for (const Reader& reader : value.readers) {
      const bool is_nested = reader.instruction < end_ && made_.instructions[reader.instruction].nested;
      const int32_t root = is_nested ? values_[reader.instruction].root : reader.instruction;
      value.times += is_nested ? values_[reader.instruction].times : 1;
      nests &= IsCopy(i) ? reader.nests_copies : reader.nests_all && (value.root == n || value.root == root);
      value.root = root;
    }
    nests &= IsCopy(i) || value.times <= kMostTimes;
    made_.instructions[n].nested = nests;
    if (!nests) value.root = n, value.times = 1;
  }

  // Finds values that cannot be nested as was decided. Returns whether there are some.
  bool StoreMore() {
    bool more = false;
    for (int32_t n = 0; n < end_; ++n) {
      FindReads(n);
      Value& value = values_[n];
      if (made_.instructions[n].nested) {
        if (!AreThereAt(value, n)) value.stored = more = true;
      } else if (program_.instructions[n].op == TileOp::kLinear && NestedOnly(value.a) >= 0) {
        values_[value.a].stored = more = true;  // a product that is not nested after all reads registers
      }
    }
    return more;
  }

  void FindReads(int32_t n) {
    const TileInstruction& i = program_.instructions[n];
    std::vector<Registers>& reads = values_[n].reads;
    reads.clear();
    const auto add = [&](const TileOperand& operand, int32_t from) {
      if (operand.place != TilePlace::kRegister) return;
      if (NestedOnly(from) < 0) {
        reads.push_back({operand.first, operand.width});
      } else {
        reads.insert(reads.end(), values_[from].reads.begin(), values_[from].reads.end());
      }
    };
    add(i.a, values_[n].a);
    if (ReadsTwo(i.op)) add(i.b, values_[n].b);
  }

  // Whether what the value of instruction `n` is computed from is still there where it is, and when that was stored.
  bool AreThereAt(const Value& value, int32_t n) const {
    const int32_t last = std::min(value.root, end_ - 1);
    for (int32_t other = n + 1; other <= last; ++other) {
      if (made_.instructions[other].nested) continue;
      const Registers written = {program_.instructions[other].to, program_.instructions[other].width};
      for (const Registers& read : value.reads) {
        if (read.Overlaps(written)) return false;
      }
    }
    return true;
  }

  void Renumber() {
    TileProgram& program = made_.program;
    std::vector<char> kept(program.shape.registers, 0);
    const auto keep = [&kept](int32_t first, int32_t width) { std::fill_n(kept.begin() + first, width, 1); };
    for (int32_t n = 0; n < end_; ++n) {
      if (!made_.instructions[n].nested) keep(program.instructions[n].to, program.instructions[n].width);
    }
    for (const TileResult& result : program.results) {
      if (result.reduce != TileReduce::kSoftmax) continue;
      const int32_t scores = result.width / result.score_columns;
      keep(result.top, scores), keep(result.share, scores);
    }
    std::vector<int32_t> number(program.shape.registers + 1, 0);
    for (int32_t r = 0; r < program.shape.registers; ++r) number[r + 1] = number[r] + kept[r];
    for (TileInstruction& i : program.instructions) {
      i.to = number[i.to];
      for (TileOperand* operand : {&i.a, &i.b}) {
        if (operand->place == TilePlace::kRegister) operand->first = number[operand->first];
      }
    }
    for (TileResult& result : program.results) {
      for (int32_t* first : {&result.value, &result.score, &result.top, &result.share}) *first = number[*first];
    }
    program.shape.registers = number[program.shape.registers];
  }

  // Columns of sources that the value or the messages `root` is computed from.
  struct Gather {
    int32_t root = 0;   // end_ + r: result r
    bool once = false;  // each column of an edge is read once
    TileOperand columns;
  };

  void FindGathers(int32_t n, int32_t root, bool once, std::vector<Gather>* gathers) const {
    const TileInstruction& i = program_.instructions[n];
    const auto add = [&](const TileOperand& operand, int32_t nested) {
      const bool still_once = once && ReadsColumnsOnce(i, operand.width);
      if (nested >= 0) return FindGathers(nested, root, still_once, gathers);
      if (operand.place != TilePlace::kSource || operand.width < kFewestKept || operand.width % 4 != 0) return;
      gathers->push_back({root, still_once, operand});
    };
    add(i.a, made_.instructions[n].a);
    if (ReadsTwo(i.op)) add(i.b, made_.instructions[n].b);
  }

  void KeepSources() {
    std::vector<Gather> gathers;
    for (int32_t n = 0; n < end_; ++n) {
      const TileOp op = program_.instructions[n].op;
      if (!made_.instructions[n].nested) FindGathers(n, n, op == TileOp::kDot || op == TileOp::kSum, &gathers);
    }
    for (size_t r = 0; r < made_.messages.size(); ++r) {
      if (made_.messages[r] >= 0) FindGathers(made_.messages[r], end_ + static_cast<int32_t>(r), false, &gathers);
    }
    int32_t columns = 0;
    for (auto first = gathers.begin(); first != gathers.end(); ++first) {
      const TileOperand& read = first->columns;
      const KeptColumns kept = {read.matrix, read.first, read.width, made_.program.shape.registers, first->root};
      const auto same = [&](const Gather& other) { return kept.AreOf(other.columns); };
      const bool known = std::any_of(gathers.begin(), first, same);
      const bool again = std::any_of(first + 1, gathers.end(),
                                     [&](const Gather& other) { return same(other) && other.root != first->root; });
      if (known || !again || !first->once || columns + kept.width > kMostKeptColumns) continue;
      columns += kept.width;
      made_.program.shape.registers += kept.width + 4;
      made_.kept.push_back(kept);
    }
  }

  const TileProgram& program_;
  const int32_t end_;
  std::vector<int32_t> owner_;  // by register: the instruction that wrote it last
  std::vector<Value> values_;   // by instruction
  FusedProgram made_;
};

}  // namespace

FusedProgram FuseProgram(const TileProgram& program) { return Fuser(program).Fuse(); }

}  // namespace vicinal::cuda
