// SPDX-License-Identifier: Apache-2.0
// The header of a .npy file is a Python dictionary literal; the small parser here takes exactly what numpy writes
// (three keys in any order, either quote) and nothing that would need an interpreter.
#include "client/cpp/formats/npy.h"

#include <charconv>
#include <cstring>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cpp/formats/files.h"
#include "client/cpp/formats/status_macros.h"

namespace vicinal::client {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxRank = 32;

absl::Status Bad(const std::string& message) { return absl::InvalidArgumentError(message); }

// What the header says, still in numpy's words.
struct Header {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
};

class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<Header> Parse() {
    Header header;
    if (!Take('{')) return Bad("the npy header is not a dictionary");
    while (!Take('}')) {
      CLIENT_ASSIGN_OR_RETURN(const std::string key, ParseString());
      if (!Take(':')) return Bad("the npy header lacks a ':'");
      CLIENT_RETURN_IF_ERROR(ParseValue(key, &header));
      if (Take(',')) continue;
      if (!Take('}')) return Bad("the npy header is not closed");
      break;
    }
    SkipSpace();
    if (!rest_.empty()) return Bad("the npy header has something after its dictionary");
    if (!header.descr || !header.fortran_order || !header.shape) {
      return Bad("the npy header lacks descr, fortran_order or shape");
    }
    return header;
  }

 private:
  void SkipSpace() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\n' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  bool Take(char c) {
    SkipSpace();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }

  absl::StatusOr<std::string> ParseString() {
    SkipSpace();
    const char quote = rest_.empty() ? '\0' : rest_.front();
    if (quote != '\'' && quote != '"') return Bad("the npy header lacks a string where one is expected");
    const size_t end = rest_.find(quote, 1);
    if (end == std::string_view::npos) return Bad("a string in the npy header is not closed");
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  absl::StatusOr<std::vector<int64_t>> ParseShape() {
    std::vector<int64_t> shape;
    if (!Take('(')) return Bad("the npy header's shape is not a tuple");
    while (!Take(')')) {
      SkipSpace();
      int64_t extent = 0;
      const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), extent);
      if (error != std::errc() || extent < 0)
        return Bad("the npy header's shape contains something that is not an extent");
      rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
      Take('L');  // Python 2 wrote long integers so
      shape.push_back(extent);
      if (shape.size() > kMaxRank) return Bad("the npy header's shape has more than 32 dimensions");
      if (!Take(',') && (rest_.empty() || rest_.front() != ')')) return Bad("the npy header's shape is not closed");
    }
    return shape;
  }

  absl::Status ParseValue(const std::string& key, Header* header) {
    if (key == "descr") {
      SkipSpace();
      if (!rest_.empty() && rest_.front() == '[') return Bad("structured arrays (descr is a list) are not supported");
      CLIENT_ASSIGN_OR_RETURN(header->descr, ParseString());
    } else if (key == "fortran_order") {
      if (TakeWord("True")) {
        header->fortran_order = true;
      } else if (TakeWord("False")) {
        header->fortran_order = false;
      } else {
        return Bad("the npy header's fortran_order is neither True nor False");
      }
    } else if (key == "shape") {
      CLIENT_ASSIGN_OR_RETURN(header->shape, ParseShape());
    } else {
      return Bad(absl::StrCat("the npy header has an unknown key '", key, "'"));
    }
    return absl::OkStatus();
  }

  std::string_view rest_;
};

struct TypeCode {
  const char* code;
  ElementType type;
};
constexpr TypeCode kTypes[] = {
    {"b1", ElementType::kBool},    {"i1", ElementType::kInt8},    {"u1", ElementType::kUint8},
    {"i2", ElementType::kInt16},   {"u2", ElementType::kUint16},  {"i4", ElementType::kInt32},
    {"u4", ElementType::kUint32},  {"i8", ElementType::kInt64},   {"u8", ElementType::kUint64},
    {"f2", ElementType::kFloat16}, {"f4", ElementType::kFloat32}, {"f8", ElementType::kFloat64},
};

absl::StatusOr<ElementType> TypeFromDescr(const std::string& descr) {
  if (descr.size() < 2) return Bad(absl::StrCat("elements of type '", descr, "' are not supported"));
  const std::string code = descr.substr(1);
  for (const TypeCode& known : kTypes) {
    if (code != known.code) continue;
    if (descr[0] == '>' && SizeOf(known.type) > 1) {
      return Bad(
          absl::StrCat("big-endian elements ('", descr, "') are not supported: save array.astype('<", code, "')"));
    }
    if (descr[0] == '<' || descr[0] == '|' || descr[0] == '=' || descr[0] == '>') return known.type;
  }
  return Bad(absl::StrCat(code[0] == 'O' ? "Python objects (pickles)" : absl::StrCat("elements of type '", descr, "'"),
                          " are not supported; use bool, integers or floats of up to 64 bits (array.astype('<f4'))"));
}

// Column-major to row-major: walks the row-major result and keeps the source's offset up to date by its strides.
std::string FromFortranOrder(std::string_view data, const std::vector<int64_t>& shape, int64_t element) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = element;
  for (size_t d = 0; d < shape.size(); ++d) {
    strides[d] = stride;
    stride *= shape[d];
  }
  std::string out(data.size(), '\0');
  std::vector<int64_t> index(shape.size(), 0);
  int64_t source = 0;
  for (size_t at = 0; at < out.size(); at += static_cast<size_t>(element)) {
    std::memcpy(&out[at], data.data() + source, static_cast<size_t>(element));
    for (size_t d = shape.size(); d-- > 0;) {
      source += strides[d];
      if (++index[d] < shape[d]) break;
      source -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

// Splits the file into its header's text and what follows.
absl::Status SplitHeader(std::string_view bytes, std::string_view* header, std::string_view* data) {
  if (bytes.substr(0, kMagic.size()) != kMagic) return Bad("not an npy file (its first bytes differ)");
  if (bytes.size() < 10) return Bad("the npy header is cut short");
  const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(bytes[i])); };
  const size_t major = byte(6);
  if (major < 1 || major > 3) return Bad(absl::StrCat("npy format version ", major, " is not known"));
  size_t begin = 10, length = byte(8) | byte(9) << 8;
  if (major >= 2) {
    if (bytes.size() < 12) return Bad("the npy header is cut short");
    begin = 12;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (length > bytes.size() - begin) return Bad("the npy header is cut short");
  *header = bytes.substr(begin, length);
  *data = bytes.substr(begin + length);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Array> ParseNpy(std::string_view bytes) {
  std::string_view text, data;
  CLIENT_RETURN_IF_ERROR(SplitHeader(bytes, &text, &data));
  CLIENT_ASSIGN_OR_RETURN(Header header, HeaderParser(text).Parse());
  Array array;
  CLIENT_ASSIGN_OR_RETURN(array.type, TypeFromDescr(*header.descr));
  array.shape = *std::move(header.shape);
  CLIENT_ASSIGN_OR_RETURN(const int64_t size, ByteSize(array.type, array.shape));
  if (static_cast<uint64_t>(size) != data.size()) {
    return Bad(
        absl::StrCat("shape ", ShapeToString(array.shape), " needs ", size, " bytes, the file has ", data.size()));
  }
  if (*header.fortran_order && array.shape.size() > 1 && size > 0) {
    array.data = FromFortranOrder(data, array.shape, SizeOf(array.type));
  } else {
    array.data = std::string(data);
  }
  return array;
}

absl::StatusOr<Array> ReadNpy(const std::string& path) {
  CLIENT_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<Array> array = ParseNpy(bytes);
  if (!array.ok()) {
    const absl::string_view message = array.status().message();
    return FileError(path, 0, std::string_view(message.data(), message.size()));
  }
  return array;
}

std::string SerializeNpy(const Array& array) {
  std::string shape = "(";
  for (const int64_t extent : array.shape) absl::StrAppend(&shape, extent, ",");
  if (array.shape.size() > 1) shape.pop_back();
  const char order = SizeOf(array.type) == 1 ? '|' : '<';
  std::string code;
  for (const TypeCode& known : kTypes) {
    if (known.type == array.type) code = known.code;
  }
  std::string header =
      absl::StrCat("{'descr': '", std::string(1, order), code, "', 'fortran_order': False, 'shape': ", shape, "), }");
  constexpr size_t kPrefix = 10, kAlignment = 64;
  header.append(kAlignment - (kPrefix + header.size() + 1) % kAlignment, ' ');
  header.push_back('\n');
  std::string bytes(kMagic);
  bytes += {'\x01', '\x00', static_cast<char>(header.size() & 0xFF), static_cast<char>(header.size() >> 8)};
  return bytes + header + array.data;
}

absl::Status WriteNpy(const std::string& path, const Array& array) { return WriteFile(path, SerializeNpy(array)); }

}  // namespace vicinal::client
