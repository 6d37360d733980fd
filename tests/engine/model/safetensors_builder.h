// SPDX-License-Identifier: Apache-2.0
// Makes safetensors files for tests, good and bad: header and data are put together by hand, so that the reader is not
// tested against itself.
#ifndef VICINAL_TESTS_ENGINE_MODEL_SAFETENSORS_BUILDER_H_
#define VICINAL_TESTS_ENGINE_MODEL_SAFETENSORS_BUILDER_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace vicinal::testing {

// Length, header, data: whatever they are.
inline std::string SafetensorsFile(uint64_t length, std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  file.append(header);
  file.append(data);
  return file;
}
inline std::string SafetensorsFile(std::string_view header, std::string_view data) {
  return SafetensorsFile(header.size(), header, data);
}

class SafetensorsBuilder {
 public:
  SafetensorsBuilder& Add(const std::string& name, const std::vector<int64_t>& shape,
                          const std::vector<float>& values) {
    std::string bytes(values.size() * sizeof(float), '\0');
    if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return AddBytes(name, "F32", shape, bytes);
  }

  // `first`, `first` + `step`, ...
  SafetensorsBuilder& AddRamp(const std::string& name, const std::vector<int64_t>& shape, float first = -0.5f,
                              float step = 0.125f) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    std::vector<float> values(count);
    for (int64_t i = 0; i < count; ++i) values[i] = first + step * static_cast<float>(i % 11);
    return Add(name, shape, values);
  }

  SafetensorsBuilder& AddBytes(const std::string& name, const std::string& dtype, const std::vector<int64_t>& shape,
                               std::string_view bytes) {
    std::string dims;
    for (int64_t extent : shape) dims += (dims.empty() ? "" : ",") + std::to_string(extent);
    if (!header_.empty()) header_ += ",";
    header_ += "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + dims + "],\"data_offsets\":[" +
               std::to_string(data_.size()) + "," + std::to_string(data_.size() + bytes.size()) + "]}";
    data_.append(bytes);
    return *this;
  }

  std::string Build() const { return SafetensorsFile("{" + header_ + "}", data_); }

 private:
  std::string header_;
  std::string data_;
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_MODEL_SAFETENSORS_BUILDER_H_
