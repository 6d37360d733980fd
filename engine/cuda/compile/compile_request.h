// SPDX-License-Identifier: Apache-2.0
// What a server and its compiling child say to each other, over the child's standard input and output: strings with
// their lengths. Free of everything else, as the child is a program of its own.
#ifndef VICINAL_ENGINE_CUDA_COMPILE_COMPILE_REQUEST_H_
#define VICINAL_ENGINE_CUDA_COMPILE_COMPILE_REQUEST_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace vicinal::cuda {

// The first word of both messages.
inline constexpr uint32_t kCompileProtocol = 0x76636b31;

inline void AppendNumber(uint32_t number, std::string* to) {
  to->append(reinterpret_cast<const char*>(&number), sizeof number);
}
inline void AppendText(std::string_view text, std::string* to) {
  AppendNumber(static_cast<uint32_t>(text.size()), to);
  to->append(text);
}

// Reads what the functions above wrote. After the first thing that is not there, ok() is false and all is empty.
class MessageReader {
 public:
  explicit MessageReader(std::string_view message) : rest_(message) {}

  uint32_t Number() {
    uint32_t number = 0;
    if (!Has(sizeof number)) return 0;
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_.remove_prefix(sizeof number);
    return number;
  }
  std::string Text() {
    const uint32_t size = Number();
    if (!Has(size)) return {};
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return ok_ && rest_.empty(); }

 private:
  bool Has(size_t bytes) {
    ok_ = ok_ && rest_.size() >= bytes;
    return ok_;
  }

  std::string_view rest_;
  bool ok_ = true;
};

struct CompileRequest {
  int version = 0;  // of NVRTC, 1000 * major + 10 * minor; another one refuses
  std::string source;
  std::vector<std::string> options;
  std::vector<std::pair<std::string, std::string>> headers;  // name, text

  std::string Encode() const {
    std::string message;
    AppendNumber(kCompileProtocol, &message);
    AppendNumber(static_cast<uint32_t>(version), &message);
    AppendText(source, &message);
    AppendNumber(static_cast<uint32_t>(options.size()), &message);
    for (const std::string& option : options) AppendText(option, &message);
    AppendNumber(static_cast<uint32_t>(headers.size()), &message);
    for (const auto& [name, text] : headers) AppendText(name, &message), AppendText(text, &message);
    return message;
  }
  // False: `message` is no request.
  bool Decode(std::string_view message) {
    MessageReader reader(message);
    if (reader.Number() != kCompileProtocol) return false;
    version = static_cast<int>(reader.Number());
    source = reader.Text();
    for (uint32_t left = reader.Number(); left > 0 && reader.ok(); --left) options.push_back(reader.Text());
    for (uint32_t left = reader.Number(); left > 0 && reader.ok(); --left) {
      std::string name = reader.Text();
      headers.emplace_back(std::move(name), reader.Text());
    }
    return reader.at_end();
  }
};

struct CompileReply {
  std::string cubin;  // empty: failed
  std::string error;  // why

  std::string Encode() const {
    std::string message;
    AppendNumber(kCompileProtocol, &message);
    AppendText(cubin, &message);
    AppendText(error, &message);
    return message;
  }
  bool Decode(std::string_view message) {
    MessageReader reader(message);
    if (reader.Number() != kCompileProtocol) return false;
    cubin = reader.Text();
    error = reader.Text();
    return reader.at_end();
  }
};

}  // namespace vicinal::cuda

#endif  // VICINAL_ENGINE_CUDA_COMPILE_COMPILE_REQUEST_H_
