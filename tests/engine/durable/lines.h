// SPDX-License-Identifier: Apache-2.0
// A log that keeps its lines.
#ifndef VICINAL_TESTS_ENGINE_DURABLE_LINES_H_
#define VICINAL_TESTS_ENGINE_DURABLE_LINES_H_

#include <string>
#include <string_view>
#include <thread>

#include "engine/base/log.h"
#include "engine/base/mutex.h"

namespace vicinal::testing {

// Thread-safe.
class Lines final : public Logger {
 public:
  void Log(LogLevel, std::string_view message, const LogFields& fields) override {
    MutexLock lock(&mutex_);
    all_ += message;
    for (const auto& [name, value] : fields) all_ += "; " + name + " " + value;
    all_ += "\n";
  }
  // "message; field value; field value\n" for each.
  std::string all() const {
    MutexLock lock(&mutex_);
    return all_;
  }
  // Returns once `text` stands beyond the first `known` bytes of all().
  void Await(std::string_view text, size_t known) const {
    while (all().find(text, known) == std::string::npos) std::this_thread::yield();
  }

 private:
  mutable Mutex mutex_;
  std::string all_ VICINAL_GUARDED_BY(mutex_);
};

}  // namespace vicinal::testing

#endif  // VICINAL_TESTS_ENGINE_DURABLE_LINES_H_
