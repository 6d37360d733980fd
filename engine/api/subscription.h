// SPDX-License-Identifier: Apache-2.0
// A subscription to changes of a resource.
#ifndef VICINAL_ENGINE_API_SUBSCRIPTION_H_
#define VICINAL_ENGINE_API_SUBSCRIPTION_H_

namespace vicinal {

// Lasts as long as this object. The destructor waits for a callback that is running, so it must not run inside that
// callback. After it no callback begins.
class Subscription {
 public:
  Subscription() = default;
  Subscription(const Subscription&) = delete;
  Subscription& operator=(const Subscription&) = delete;
  virtual ~Subscription() = default;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_API_SUBSCRIPTION_H_
