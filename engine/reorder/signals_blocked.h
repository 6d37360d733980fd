// SPDX-License-Identifier: Apache-2.0
// Keeps signals from the calling thread, and their handlers from a library that takes them. Private to this folder.
#ifndef VICINAL_ENGINE_REORDER_SIGNALS_BLOCKED_H_
#define VICINAL_ENGINE_REORDER_SIGNALS_BLOCKED_H_

#include <csignal>
#include <initializer_list>

namespace vicinal::internal {

// While it lives, no signal runs a handler in this thread but SIGABRT and those that faults of this thread raise; one
// that came meanwhile is delivered afterwards. METIS replaces the handlers of SIGTERM and SIGABRT while it runs, jumps
// out of its own code when they are called, and puts them back by signal(), which forgets their flags; so what was
// there before is kept here and put back. SIGABRT stays open, as it is how METIS tells itself that memory ran out.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigaction(SIGTERM, nullptr, &on_term_);
    sigaction(SIGABRT, nullptr, &on_abort_);
    sigset_t all;
    sigfillset(&all);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigdelset(&all, signal);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() {
    sigaction(SIGTERM, &on_term_, nullptr);
    sigaction(SIGABRT, &on_abort_, nullptr);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
  struct sigaction on_term_, on_abort_;
};

}  // namespace vicinal::internal

#endif  // VICINAL_ENGINE_REORDER_SIGNALS_BLOCKED_H_
