// SPDX-License-Identifier: Apache-2.0
// The order in which waiting requests are served: start-time fair queueing on three levels. Interactive and batch
// requests share the device 16 to 1, the principals within each equally, and the pairs of a graph and a model within a
// principal equally; within a pair the earliest deadline is first, then the oldest request. What nobody else wants,
// anyone gets.
//
// Every member of a level has a virtual time at which its next work begins. The member with the smallest is served, and
// its time grows by what the work costs: at first by the prediction, then, by Settle, to what it did cost. A member
// that comes back after a pause begins at the level's present, so no one saves up time; a member that took more than
// its share is behind until the others have caught up.
//
// A ride, a request that shares the run of another principal, is served out of turn. Its principal pays what it adds to
// the run. In one run the rides of a principal cost at most half of what the leading principal pays, and where more
// pairs of it wait, their pair's part of that: so each run brings its own turn nearer, whatever rides meanwhile. No
// ride puts a principal further behind the leading one than the run took, nor a pair behind its principal's other
// pairs.
#ifndef VICINAL_ENGINE_EXECUTE_FAIR_QUEUE_H_
#define VICINAL_ENGINE_EXECUTE_FAIR_QUEUE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/clock.h"
#include "engine/execute/queued_request.h"
#include "engine/execute/run_times.h"

namespace vicinal {

// Thread-compatible: the caller locks. Push and Pop cost a few look-ups, and a comparison for each member that waits.
class FairQueue {
 public:
  // A request that waits.
  struct Entry {
    QueuedRequest request;
    RunKind kind = 0;
    double predicted = 0.0;  // seconds that it adds to a run, as a mean over runs; 0: unknown
    double leading = 0.0;    // that it takes where its turn has come; 0: unknown
    double joining = 0.0;    // that it adds to a run of another one; 0: unknown
  };
  using Pair = std::pair<GraphVersion, ModelVersion>;
  // Whose time a served request uses, for Settle.
  struct Ticket {
    Requester requester;
    Pair pair;
    double charged = 0.0;  // seconds
    bool rides = false;    // on a run of another principal
  };
  struct Served {
    Entry entry;
    Ticket ticket;
  };

  void Push(Entry entry);
  // The next request. REQUIRES: size() > 0. Every ticket must be settled.
  Served Pop();
  // The requests for the pair of that ticket, with its priority, for which `accept`, called with each in turn, is true:
  // first the principal's own, then rides of others, the one whose turn is nearest first.
  std::vector<Served> TakeCompany(const Ticket& ticket, const std::function<bool(const Entry& entry)>& accept);
  // The first interactive request, in the order of Pop, for which `accept` is true; of each pair only the next one is
  // considered. nullopt: there is none.
  std::optional<Served> PopInteractive(const std::function<bool(const Entry& entry)>& accept);
  // Whether PopInteractive would return one.
  bool HasInteractive(const std::function<bool(const Entry& entry)>& accept) const;
  // The work of that ticket has ended and cost so many seconds, in a run of `run` seconds.
  void Settle(const Ticket& ticket, double seconds, double run);

  int64_t size() const { return size_; }
  double seconds() const;                                  // predicted, of all requests that wait
  int64_t waiting_of(const std::string& principal) const;  // its requests, of both priorities
  // About how many seconds of the requests that wait would be served before `request`, if it came now.
  double SecondsBefore(const QueuedRequest& request) const;
  // Calls `visit` with each request that waits, oldest first.
  void ForEach(const std::function<void(const Entry& entry)>& visit) const;

 private:
  // Earliest deadline first, then the oldest.
  using Place = std::pair<MonotonicTime, uint64_t>;

  // A member of a level.
  struct Member {
    double weight = 1.0;   // its part of its level, relative to the others'
    double begins = 0.0;   // virtual time of its next work
    double seconds = 0.0;  // predicted, of its requests that wait
    int64_t waiting = 0;
    int64_t running = 0;  // tickets that are not settled
    uint64_t oldest = 0;  // of equal members, the one whose first request came first is served

    void Add(double predicted, uint64_t number, double now);
    void Take(double predicted, double charge);  // the charge is in virtual time
    bool Before(const Member& other) const;
  };
  struct Flow : Member {
    std::map<Place, Entry> entries;
  };
  struct Client : Member {
    double now = 0.0;  // virtual time of its flows
    std::map<Pair, Flow> flows;
  };
  struct Lane : Member {
    double now = 0.0;  // virtual time of its clients
    std::map<std::string, Client> clients;
  };

  static Place PlaceOf(const QueuedRequest& request, uint64_t number);
  // The one to be served next. REQUIRES: one waits.
  template <class Members>
  static typename Members::mapped_type& NextOf(Members* members);
  template <class Members>
  static int64_t WaitingIn(const Members& members);
  // How much of what the leader of a run pays the rides of that client for one pair may cost.
  static double RidePart(const Client& client);
  // Until when rides move that flow at most: to the least of its client's other flows that wait.
  static double RideLimit(const Client& client, const Flow& flow);
  // The seconds before work of `member` (of `members`, or not known to them: null) that has `before` seconds of the
  // member's own before it: those, and what the others get until the member has had them.
  template <class Members>
  static double SecondsBefore(const Members& members, const typename Members::mapped_type* member, double now,
                              double before);

  Served Remove(Lane* lane, Client* client, Flow* flow, std::map<Place, Entry>::iterator entry, double charge,
                bool rides);
  // Where a level has many members, forgets those without work whose debts are paid at the time `now`.
  template <class Members>
  static void Forget(Members* members, double now);
  // Forgets idle members. Once nothing waits or runs, all debts end.
  void Prune();

  std::map<Priority, Lane> lanes_;
  double now_ = 0.0;  // virtual time of the lanes
  int64_t size_ = 0;
  int64_t running_ = 0;
  uint64_t arrivals_ = 0;
};

}  // namespace vicinal

#endif  // VICINAL_ENGINE_EXECUTE_FAIR_QUEUE_H_
