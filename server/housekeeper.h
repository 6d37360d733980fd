// SPDX-License-Identifier: Apache-2.0
// A thread for periodic work, such as dropping expired uploads, so that their memory is freed without any call.
#ifndef VICINAL_SERVER_HOUSEKEEPER_H_
#define VICINAL_SERVER_HOUSEKEEPER_H_

#include <chrono>
#include <functional>
#include <thread>

#include "engine/base/mutex.h"

namespace vicinal::server {

class Housekeeper {
 public:
  // Calls `chore` every `period` until destroyed.
  Housekeeper(std::chrono::milliseconds period, std::function<void()> chore);
  ~Housekeeper();

 private:
  Mutex mutex_;
  CondVar wake_;
  bool stopping_ VICINAL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace vicinal::server

#endif  // VICINAL_SERVER_HOUSEKEEPER_H_
