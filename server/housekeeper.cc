// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeper.h"

#include <utility>

namespace vicinal::server {

Housekeeper::Housekeeper(std::chrono::milliseconds period, std::function<void()> chore)
    : thread_([this, period, chore = std::move(chore)] {
        while (true) {
          const auto next = std::chrono::steady_clock::now() + period;
          {
            MutexLock lock(&mutex_);
            while (!stopping_ && wake_.WaitUntil(&mutex_, next)) {
            }
            if (stopping_) return;
          }
          chore();
        }
      }) {}

Housekeeper::~Housekeeper() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  thread_.join();
}

}  // namespace vicinal::server
